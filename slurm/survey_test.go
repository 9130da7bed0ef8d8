package slurm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func sbatchVersion(stdout string, exit int) slurmtest.Call {
	return slurmtest.Call{Program: "sbatch", Args: []string{"--version"}, Stdout: stdout, Exit: exit}
}

func showNode(stdout string, exit int) slurmtest.Call {
	return slurmtest.Call{Program: "scontrol", Args: []string{"show", "node"}, Stdout: stdout, Exit: exit}
}

func machines(arch string, nodes ...string) string {
	out := ""
	for _, n := range nodes {
		out += "NodeName=" + n + " Arch=" + arch + " \n   Partitions=compute,debug \n\n"
	}
	return out
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	const (
		low  = "gres/gpu count reported lower than configured (7 < 8)"
		rest = "1 of 8 nodes (gpu-05): drained: Kill task failed | see   ticket; 1 of 8 nodes (gpu-06): does not answer; " +
			"1 of 8 nodes (gpu-07): does not answer: Not responding; 1 of 8 nodes (gpu-08): reserved"
	)
	real := sbatchVersion("slurm 22.05.8\n", 0)
	all := []string{"gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-05", "gpu-06", "gpu-07", "gpu-08"}
	same := showNode(machines("x86_64", all...), 0)
	compute := slurm.Ask{Partition: "compute", Nodes: 2, GPUsPerNode: 8, Machine: "x86_64"}
	ask := func(edit func(*slurm.Ask)) slurm.Ask {
		a := compute
		edit(&a)
		return a
	}
	for _, tt := range []struct {
		name  string
		ask   slurm.Ask
		calls []slurmtest.Call
		want  slurm.Survey
		err   string
	}{
		{"enough", compute, []slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{Broken: []string{
			"2 of 8 nodes (gpu-[03-04]): inval: " + low, "1 of 8 nodes (gpu-05): drained: Kill task failed | see   ticket",
			"1 of 8 nodes (gpu-06): does not answer", "1 of 8 nodes (gpu-07): does not answer: Not responding", "1 of 8 nodes (gpu-08): reserved",
		}}, ""},
		{"too few work", ask(func(a *slurm.Ask) { a.Nodes = 4 }), []slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{Waits: "the job needs 4 nodes, but of those that it may use only 2 can run one; it waits until that changes: 2 of 8 nodes (gpu-[03-04]): inval: " + low + "; " + rest}, ""},
		{"a reservation's nodes work for it", ask(func(a *slurm.Ask) {
			a.Nodes, a.GPUsPerNode, a.Reservation, a.Requested = 1, 0, "mine", []string{"gpu-08"}
		}),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{}, ""},
		{"fewer GPUs than asked for", ask(func(a *slurm.Ask) { a.GPUsPerNode, a.Requested = 16, []string{"gpu-01", "gpu-02"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{Waits: "the job needs 2 nodes, but of those that it may use only 0 can run one; it waits until that changes: 2 of 2 nodes (gpu-[01-02]): has 8 GPUs, asked for are 16"}, ""},
		{"more than there are", ask(func(a *slurm.Ask) { a.Partition, a.Nodes = "debug", 2 }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "the job needs 2 nodes; partition debug has gpu-01 that may be used"},
		{"a partition that is not there", ask(func(a *slurm.Ask) { a.Partition = "gpu" }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "there is no partition gpu; this cluster has compute, debug: correct slurm.partition in the site file"},
		{"the exclusions leave too few", ask(func(a *slurm.Ask) {
			a.Nodes, a.Excluded = 3, []string{"gpu-07", "gpu-02", "gpu-03", "gpu-04", "gpu-05", "gpu-06"}
			a.Reasons = map[string]string{"gpu-02": "bad fans", "gpu-03": "bad fans", "gpu-04": "bad fans", "gpu-06": "lent out"}
		}),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{},
			"the job needs 3 nodes; partition compute has gpu-[01,08] that may be used; the site excludes gpu-[02-04] (bad fans), gpu-[05,07], gpu-06 (lent out)"},
		{"exclusions in another partition take nothing", ask(func(a *slurm.Ask) { a.Partition, a.Nodes, a.Excluded = "debug", 2, []string{"gpu-02"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "the job needs 2 nodes; partition debug has gpu-01 that may be used"},
		{"the exclusions leave too few that work", ask(func(a *slurm.Ask) {
			a.Excluded, a.Reasons = []string{"gpu-02"}, map[string]string{"gpu-02": "bad fans"}
		}),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{Excluded: []string{"gpu-02"}, Waits: "the job needs 2 nodes, but of those that it may use only 1 can run one; it waits until that changes: " +
				"2 of 7 nodes (gpu-[03-04]): inval: " + low + "; " + strings.ReplaceAll(rest, "of 8", "of 7") + "; the site excludes gpu-02 (bad fans)"}, ""},
		{"excluded nodes that are not there", ask(func(a *slurm.Ask) { a.Excluded = []string{"gpu-08", "gpu-99", "gpu-03"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), same}, slurm.Survey{Excluded: []string{"gpu-08", "gpu-03"},
				Warnings: []string{"excluded node gpu-99 is not known to the cluster; left out"},
				Broken: []string{"1 of 6 nodes (gpu-04): inval: " + low, "1 of 6 nodes (gpu-05): drained: Kill task failed | see   ticket",
					"1 of 6 nodes (gpu-06): does not answer", "1 of 6 nodes (gpu-07): does not answer: Not responding"}}, ""},
		{"requested nodes that are not there", ask(func(a *slurm.Ask) { a.Requested = []string{"gpu-01", "gpu-99", "gpu-1"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "check node names: the cluster has no gpu-99, gpu-1; it has gpu-[01-08]"},
		{"requested and excluded", ask(func(a *slurm.Ask) {
			a.Requested, a.Excluded, a.Reasons = []string{"gpu-01"}, []string{"gpu-01"}, map[string]string{"gpu-01": "bad fans"}
		}),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "check node names: gpu-01 is asked for and excluded (bad fans)"},
		{"requested in another partition", ask(func(a *slurm.Ask) { a.Partition, a.Requested = "debug", []string{"gpu-02"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "check node names: gpu-02 is asked for, but is not in partition debug"},
		{"more requested than the job has", ask(func(a *slurm.Ask) { a.Requested = []string{"gpu-01", "gpu-02", "gpu-03"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0)}, slurm.Survey{}, "check node names: gpu-[01-03] names 3 nodes, the job has 2 nodes"},
		{"another architecture", ask(func(a *slurm.Ask) { a.Requested = []string{"gpu-01", "gpu-02"} }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), showNode(machines("aarch64", all...), 0)}, slurm.Survey{},
			"this program is built for x86_64, and gpu-[01-02] of partition compute would run it on aarch64; submit with a build for aarch64"},
		{"another architecture on some", ask(func(a *slurm.Ask) { a.Excluded = all[2:] }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), showNode(machines("aarch64", all[1:]...)+machines("x86_64", "gpu-01"), 0)}, slurm.Survey{},
			"this program is built for x86_64, and gpu-02 of partition compute would run it on aarch64; submit with a build for aarch64"},
		{"another architecture that it need not get", ask(func(a *slurm.Ask) { a.Nodes, a.Excluded = 1, all[2:] }),
			[]slurmtest.Call{real, sinfo(partlyBroken(), "", 0), showNode(machines("aarch64", all[1:]...)+machines("x86_64", "gpu-01"), 0)},
			slurm.Survey{Excluded: all[2:], Warnings: []string{
				"this program is built for x86_64 and does not run on gpu-02, which the job may get and whose architecture is aarch64; exclude them in the site file, or set slurm.constraint there",
			}}, ""},
		{"a scheduler that looks like Slurm, of which nothing else can be asked", compute,
			[]slurmtest.Call{sbatchVersion("spur 0.11.0\n", 0), sinfo("", "error: unknown option\n", 1)}, slurm.Survey{Warnings: []string{
				"sbatch belongs to spur 0.11.0, not to Slurm: jobs and steps may not start as they are asked for; what starts where is looked at, and --launcher ssh does without a scheduler",
				"the cluster's nodes were not looked at before the submission: list nodes: sinfo: exit code 1: error: unknown option",
			}}, ""},
		{"nothing is known", compute, []slurmtest.Call{sbatchVersion("", 1), sinfo(row("gpu-01", "idle", "1", "1", "gpu:8", "compute", "none")+
			row("gpu-02", "idle", "1", "1", "gpu:8", "compute", "none"), "", 0), showNode("", 1)}, slurm.Survey{Warnings: []string{
			"it is not known which scheduler this is: read scheduler version: sbatch: exit code 1",
			"the nodes' architecture was not looked at: read nodes' architectures: scontrol: exit code 1",
		}}, ""},
		{"names that cannot be checked", ask(func(a *slurm.Ask) { a.Excluded = []string{"gpu-01"} }),
			[]slurmtest.Call{real, sinfo("", "x\n", 1)}, slurm.Survey{}, "check node names: list nodes: sinfo: exit code 1: x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _ := onFake(t, tt.calls...)
			got, err := c.Survey(t.Context(), tt.ask)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); tt.err == "" && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSurveyWithoutSlurm(t *testing.T) {
	t.Parallel()
	c := &slurm.Client{Environ: []string{"PATH=" + t.TempDir()}}
	if _, err := c.Survey(t.Context(), slurm.Ask{Nodes: 1}); err == nil {
		t.Error("no error where there is no sbatch")
	}
}
