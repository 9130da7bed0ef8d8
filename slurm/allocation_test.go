package slurm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	got, err := slurm.FromEnvironment([]string{
		"SLURM_JOBID=1", "SLURM_JOB_ID=812", "SLURM_JOB_NODELIST=g[9-10],rack1-n08", "SLURM_JOB_NUM_NODES=3",
		"SLURM_JOB_USER=alice", "SLURM_JOB_PARTITION=main", "SLURM_NNODES=1",
	})
	want := slurm.Allocation{JobID: "812", User: "alice", Partition: "main", Nodes: []string{"g9", "g10", "rack1-n08"}, GPUsPerNode: -1}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	if _, err := slurm.FromEnvironment([]string{"SLURM_JOB_IDX=1"}); !errors.Is(err, slurm.ErrNoAllocation) {
		t.Errorf("outside: %v", err)
	}
	for want, env := range map[string][]string{
		`read allocation: SLURM_JOB_ID: "x" is not a job id`:                                 {"SLURM_JOB_ID=x"},
		`read allocation: SLURM_JOB_NODELIST: host list "g[9-": column 2: '[' is not closed`: {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=g[9-"},
		`read allocation: SLURM_JOB_NUM_NODES is "2", but SLURM_JOB_NODELIST names 1 nodes`:  {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=g9", "SLURM_JOB_NUM_NODES=2"},
		`read allocation: SLURM_JOB_NUM_NODES is "", but SLURM_JOB_NODELIST names 0 nodes`:   {"SLURM_JOB_ID=1"},
		`read allocation: SLURM_JOB_NUM_NODES is "0", but SLURM_JOB_NODELIST names 0 nodes`:  {"SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=0"},
	} {
		if _, err := slurm.FromEnvironment(env); err == nil || err.Error() != want || errors.Is(err, slurm.ErrNoAllocation) {
			t.Errorf("%v: got %v, want %s", env, err, want)
		}
	}
}

func TestAllocationCaptured(t *testing.T) {
	t.Parallel()
	job := slurmtest.Captured(t, captured+"job-running")
	id := strings.TrimPrefix(job.Args[2], "--jobs=")
	c, _ := onFake(t, job, slurmtest.Captured(t, captured+"details-running"))
	a, err := c.Allocation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	a.TimeLeft = slurm.TimeLeft{}
	want := slurm.Allocation{JobID: id, User: "root", Partition: "main", Nodes: []string{"node1", "node2", "node3"}, GPUsPerNode: 8, MemoryMBPerNode: 1000000}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllocationTakesTheSmallestShare(t *testing.T) {
	t.Parallel()
	const uneven = "JobId=7 JobName=Nodes=x\n   Requeue=0 Restarts=0 ExitCode=0:0\n" +
		"     Nodes=g9 CPU_IDs=0-63 Mem=2000000 GRES=nvme:1,gpu:mi355x:8(IDX:0-3,4-7)\n" +
		"     Nodes=g10 CPU_IDs=0-3 Mem=4096 GRES=gpu:a:1(IDX:0),gpu:b:3(IDX:1,2-3)\n"
	c, _ := onFake(t, askJob("7", runningRow("7", "root", "x"), "", 0), askDetails("7", uneven, "", 0))
	a, err := c.Allocation(t.Context(), "7")
	if err != nil || a.GPUsPerNode != 4 || a.MemoryMBPerNode != 4096 || a.TimeLeft.Left != 26*time.Hour+3*time.Minute+4*time.Second {
		t.Errorf("got %+v, %v", a, err)
	}
	half := strings.Join(strings.Split(uneven, "\n")[:3], "\n")
	c, _ = onFake(t, askJob("7", runningRow("7", "root", "x"), "", 0), askDetails("7", half, "", 0))
	if a, err := c.Allocation(t.Context(), "7"); err != nil || a.GPUsPerNode != -1 || a.MemoryMBPerNode != 0 {
		t.Errorf("of half the nodes it claims %+v, %v", a, err)
	}
}

func TestAllocationOfWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	c, _ := onFake(t, askJob("7", row("7", "PENDING", "Priority", "root", "main", "", "2", "10:00", "", "", ""), "", 0))
	if _, err := c.Allocation(t.Context(), "7"); !errors.Is(err, slurm.ErrNoAllocation) || err.Error() != "no allocation: job 7 is PENDING: jobs of higher priority come first (Priority)" {
		t.Errorf("pending: %v", err)
	}
	c, _ = onFake(t, askJob("7", "", invalidID, 1), askAccounting("7", "", "x\n", 1))
	if _, err := c.Allocation(t.Context(), "7"); !errors.Is(err, slurm.ErrNoAllocation) || err.Error() != "no allocation: the scheduler knows no job 7" {
		t.Errorf("gone: %v", err)
	}
	c, _ = onFake(t, askJob("7", "", socketTimeout, 1))
	if _, err := c.Allocation(t.Context(), "7"); err == nil || errors.Is(err, slurm.ErrNoAllocation) {
		t.Errorf("unknown: %v", err)
	}
	c, _ = onFake(t, askJob("7", runningRow("7", "root", "x"), "", 0), askDetails("7", "", socketTimeout, 1))
	if _, err := c.Allocation(t.Context(), "7"); err == nil || errors.Is(err, slurm.ErrNoAllocation) {
		t.Errorf("no details: %v", err)
	}
}

func TestAllocationCheck(t *testing.T) {
	t.Parallel()
	left := func(d time.Duration) slurm.TimeLeft { return slurm.TimeLeft{Known: true, Left: d} }
	need := slurm.Need{Nodes: 3, GPUsPerNode: 8, Time: 90 * time.Minute}
	three := []string{"a", "b", "c"}
	tests := []struct {
		a    slurm.Allocation
		want string
	}{
		{slurm.Allocation{JobID: "812", Nodes: three[:2], GPUsPerNode: 8, TimeLeft: left(41 * time.Minute)},
			"allocation 812 has 2 nodes, 41 min left; the plan needs 3 nodes, at least 90 min; get one with salloc --nodes=3 --gres=gpu:8 --exclusive --time=90"},
		{slurm.Allocation{JobID: "812", Nodes: three[:1], GPUsPerNode: 1, TimeLeft: left(24 * time.Hour)},
			"allocation 812 has 1 node, 1 GPU a node; the plan needs 3 nodes, 8 GPUs a node; get one with salloc --nodes=3 --gres=gpu:8 --exclusive --time=90"},
		{slurm.Allocation{JobID: "812", Nodes: three, GPUsPerNode: 8, TimeLeft: left(90*time.Minute - time.Second)},
			"allocation 812 has 89 min left; the plan needs at least 90 min; get one with salloc --nodes=3 --gres=gpu:8 --exclusive --time=90"},
		{slurm.Allocation{Nodes: three, GPUsPerNode: 8, TimeLeft: left(90 * time.Minute)}, ""},
		{slurm.Allocation{Nodes: three, GPUsPerNode: -1}, ""},
		{slurm.Allocation{Nodes: three, GPUsPerNode: 8, TimeLeft: slurm.TimeLeft{Known: true, Unlimited: true}}, ""},
	}
	odd := slurm.Need{Nodes: 3, GPUsPerNode: 8, Time: 70 * time.Second}
	if err := (slurm.Allocation{JobID: "812", Nodes: three, GPUsPerNode: 8, TimeLeft: left(time.Minute)}).Check(odd); err == nil || err.Error() != "allocation 812 has 1 min left; the plan needs at least 2 min; get one with salloc --nodes=3 --gres=gpu:8 --exclusive --time=2" {
		t.Errorf("a need of 70 s: %v", err)
	}
	// A new one is asked for with the time that the run may take.
	odd.TimeLimit = 10*time.Minute + time.Second
	if err := (slurm.Allocation{JobID: "812", Nodes: three, GPUsPerNode: 0}).Check(odd); err == nil || err.Error() != "allocation 812 has 0 GPUs a node; the plan needs 8 GPUs a node; get one with salloc --nodes=3 --gres=gpu:8 --exclusive --time=11" {
		t.Errorf("no GPUs: %v", err)
	}
	for _, tt := range tests {
		err := tt.a.Check(need)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.a, got, tt.want)
		}
	}
}

func TestMemoryWarning(t *testing.T) {
	t.Parallel()
	nodes := []slurm.Node{{Name: "g8", MemoryMB: 1}, {Name: "g9", MemoryMB: 2000000}, {Name: "g10", MemoryMB: 2000000}}
	a := slurm.Allocation{JobID: "7", Nodes: []string{"g9", "g10"}, MemoryMBPerNode: 4096}
	want := `allocation 7 has 4096 MB a node, but g9 has 2000000 MB; ask for all of it with memory: "0" in the site's slurm section`
	if got := a.MemoryWarning(nodes); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, mb := range []int64{0, 1000000, 2000000} {
		a.MemoryMBPerNode = mb
		if got := a.MemoryWarning(nodes); got != "" {
			t.Errorf("%d MB: %q", mb, got)
		}
	}
}
