package slurm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func sinfo(stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{
		Program: "sinfo", Args: []string{"--Node", "--noheader", "--all", "--format=%N\x1f%T\x1f%m\x1f%c\x1f%G\x1f%R\x1f%E"},
		Stdout: stdout, Stderr: stderr, Exit: exit,
	}
}

// partlyBroken is a cluster in every state that matters.
func partlyBroken() string {
	return row("gpu-01", "idle", "2000000", "128", "gpu:mi355x:8(S:0-1)", "compute", "none") +
		row("gpu-01", "idle", "2000000", "128", "gpu:mi355x:8(S:0-1)", "debug", "none") +
		row("gpu-02", "mixed-", "2000000", "128", "gpu:8,nvme:2", "compute", "none") +
		row("gpu-03", "inval", "2000000+", "128+", "gpu:8", "compute", "gres/gpu count reported lower than configured (7 < 8)") +
		row("gpu-04", "inval", "2000000", "128", "gpu:8", "compute", "gres/gpu count reported lower than configured (7 < 8)") +
		row("gpu-05", "drained", "2000000", "128", "gpu:8", "compute", "Kill task failed | see \x1f ticket") +
		row("gpu-06", "idle*", "2000000", "128", "gpu:many", "compute", "none") +
		row("gpu-07", "down*", "2000000", "128", "(null)", "compute", "Not responding") +
		row("gpu-08", "reserved", "2000000", "128", "", "compute", "none") +
		"half a row\n"
}

func TestNodes(t *testing.T) {
	t.Parallel()
	c, _ := onFake(t, sinfo(partlyBroken(), "", 0))
	got, err := c.Nodes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, state, reason string, gpus int, partitions ...string) slurm.Node {
		return slurm.Node{Name: name, State: state, Reason: reason, MemoryMB: 2000000, CPUs: 128, GPUs: gpus, Partitions: partitions}
	}
	low := "gres/gpu count reported lower than configured (7 < 8)"
	want := []slurm.Node{
		node("gpu-01", "idle", "", 8, "compute", "debug"), node("gpu-02", "mixed", "", 8, "compute"),
		node("gpu-03", "inval", low, 8, "compute"), node("gpu-04", "inval", low, 8, "compute"),
		node("gpu-05", "drained", "Kill task failed | see \x1f ticket", 8, "compute"),
		node("gpu-06", "idle", "", -1, "compute"), node("gpu-07", "down", "Not responding", 0, "compute"),
		node("gpu-08", "reserved", "", 0, "compute"),
	}
	want[5].Silent, want[6].Silent = true, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantSummary := []string{
		"2 of 8 nodes (gpu-[03-04]): inval: " + low,
		"1 of 8 nodes (gpu-05): drained: Kill task failed | see   ticket",
		"1 of 8 nodes (gpu-06): does not answer",
		"1 of 8 nodes (gpu-07): does not answer: Not responding",
		"1 of 8 nodes (gpu-08): reserved",
	}
	if diff := cmp.Diff(wantSummary, slurm.Summary(got)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestNodesOfAPartition(t *testing.T) {
	t.Parallel()
	call := sinfo(row("a", "idle", "1", "1", "", "p", "none"), "", 0)
	call.Args[2] = "--partition=p"
	c, _ := onFake(t, call)
	if nodes, err := c.Nodes(t.Context(), "p"); err != nil || len(nodes) != 1 {
		t.Errorf("got %v, %v", nodes, err)
	}
	c, _ = onFake(t, sinfo("", "slurm_load_partitions: Socket timed out on send/recv operation\n", 0))
	if nodes, err := c.Nodes(t.Context(), ""); err == nil || nodes != nil {
		t.Errorf("a failed query gave %v", nodes)
	}
}

func TestArchitectures(t *testing.T) {
	t.Parallel()
	call := slurmtest.Captured(t, captured+"show-node")
	for partition, want := range map[string]map[string][]string{
		"":     {"x86_64": {"node1", "node2", "node3", "node4"}},
		"main": {"x86_64": {"node1", "node2", "node3", "node4"}},
		"mai":  {},
	} {
		c, _ := onFake(t, call)
		got, err := c.Architectures(t.Context(), partition)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("partition %q: error %v, (-want +got):\n%s", partition, err, diff)
		}
	}
	mixed := call
	mixed.Stdout = "NodeName=a Arch=aarch64 \n   Partitions=p,q \n   Reason=NodeName=z Arch=x86_64 [root@now]\n\n" +
		"NodeName=b CoresPerSocket=1 \n   State=DOWN\n   Partitions=q \n\nNodeName=c Arch=x86_64 \n   Partitions=q \n"
	c, _ := onFake(t, mixed)
	got, err := c.Architectures(t.Context(), "q")
	if diff := cmp.Diff(map[string][]string{"aarch64": {"a"}, "x86_64": {"c"}}, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	c, _ = onFake(t, slurmtest.Call{Program: "scontrol", Args: []string{"show", "node"}, Stderr: "slurm_load_node error: Socket timed out on send/recv operation\n", Exit: 1})
	if _, err := c.Architectures(t.Context(), ""); err == nil {
		t.Error("a failed query passed for no nodes")
	}
}
