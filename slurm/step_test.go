package slurm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func TestStepArgs(t *testing.T) {
	t.Parallel()
	got, err := slurm.StepArgs(slurm.StepRequest{
		JobID: "812", Nodes: []string{"g9", "g10", "rack1-n08"}, Name: "disagg-agents",
		Options: map[string]string{"mem": "64G", "gres": "none", "contiguous": "", "cpu-bind": "verbose,none"},
		Argv:    []string{"/shared/a run/bin/disagg", "agent", "--run", "/shared/a run"},
	})
	want := []string{
		"--jobid=812", "--job-name=disagg-agents", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1",
		"--nodelist=g[9-10],rack1-n08", "--overlap", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--quit-on-interrupt", "--input=all", "--export=ALL",
		"--contiguous", "--cpu-bind=verbose,none", "--gres=none", "--mem=64G", "--propagate=NONE",
		"--", "/shared/a run/bin/disagg", "agent", "--run", "/shared/a run",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	for _, a := range got[:strings.Count(strings.Join(got, "\x00"), "\x00--")] {
		if !strings.HasPrefix(a, "--") || strings.ContainsAny(a, " ") {
			t.Errorf("%q is not one word with its value", a)
		}
	}
}

func TestStepArgsRefuses(t *testing.T) {
	t.Parallel()
	good := func() slurm.StepRequest {
		return slurm.StepRequest{JobID: "7", Nodes: []string{"a"}, Argv: []string{"true"}}
	}
	for want, edit := range map[string]func(*slurm.StepRequest){
		`build step: "7.0" is not a job id`:                                                       func(r *slurm.StepRequest) { r.JobID = "7.0" },
		`build step: nodes and a program are needed`:                                              func(r *slurm.StepRequest) { r.Nodes = nil },
		`build step: the srun option "nodes" is the tool's own`:                                   func(r *slurm.StepRequest) { r.Options = map[string]string{"nodes": "4"} },
		`build step: "--mem" is not the name of an srun option; write it without dashes, in full`: func(r *slurm.StepRequest) { r.Options = map[string]string{"--mem": "4"} },
		`build step: srun option mem holds a line break or NUL byte`:                              func(r *slurm.StepRequest) { r.Options = map[string]string{"mem": "4\n"} },
	} {
		r := good()
		edit(&r)
		if _, err := slurm.StepArgs(r); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestStepOptionsAreWrittenOnce: what a step sets by itself, a site cannot add
// once more, but for the defaults that it replaces.
func TestStepOptionsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	args, err := slurm.StepArgs(slurm.StepRequest{JobID: "7", Nodes: []string{"a"}, Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	replaceable := []string{"cpu-bind", "mem", "propagate"}
	for _, a := range args[:slices.Index(args, "--")] {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if err := models.CheckSrunOption(name); (err == nil) != slices.Contains(replaceable, name) {
			t.Errorf("a site adds %s: %v", name, err)
		}
	}
}

func TestStepCommandKeepsASurroundingJobOut(t *testing.T) {
	t.Parallel()
	c := &slurm.Client{Cluster: "mi355", Environ: []string{
		"PATH=/bin", "SLURM_CONF=/c", "SLURM_NTASKS=64", "SLURM_CPU_BIND=x", "HOME=/h", "MORI_RDMA_TC=96", "ROCR_VISIBLE_DEVICES=0",
	}}
	cmd, err := c.StepCommand(slurm.StepRequest{JobID: "7", Nodes: []string{"a"}, Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PATH=/bin", "SLURM_CONF=/c", "HOME=/h"}, cmd.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"srun", "--clusters=mi355", "--jobid=7"}, cmd.Argv[:3]); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	call := slurmtest.Captured(t, captured+"steps")
	c, _ := onFake(t, call)
	id := strings.TrimPrefix(call.Args[2], "--jobs=")
	steps, err := c.Steps(t.Context(), id)
	want := []slurm.Step{
		{ID: id + ".0", Name: "disagg", Nodes: []string{"node1", "node2", "node3"}},
		{ID: id + ".batch", Name: "batch", Nodes: []string{"node1"}},
	}
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	ask := func(stdout, stderr string, exit int) slurmtest.Call {
		return slurmtest.Call{Program: "squeue", Args: []string{"--noheader", "--steps", "--jobs=7", "--format=%i\x1f%N\x1f%j"}, Stdout: stdout, Stderr: stderr, Exit: exit}
	}
	c, _ = onFake(t, ask(row("17.0", "a", "x")+row("7.1", "a[1-", "x")+row("7", "a", "x")+row("7.2", "a", "x"), "", 0))
	if steps, err := c.Steps(t.Context(), "7"); err != nil || len(steps) != 1 || steps[0].ID != "7.2" {
		t.Errorf("got %v, %v", steps, err)
	}
	c, _ = onFake(t, ask("", invalidID, 1))
	if steps, err := c.Steps(t.Context(), "7"); err != nil || steps != nil {
		t.Errorf("of a job that is gone: %v, %v", steps, err)
	}
	c, _ = onFake(t, ask("", socketTimeout, 0))
	if _, err := c.Steps(t.Context(), "7"); err == nil {
		t.Error("a failed query passed for no steps")
	}
	if _, err := c.Steps(t.Context(), "7.0"); err == nil {
		t.Error("a step id passed for a job id")
	}
}
