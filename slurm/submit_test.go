package slurm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

var request = slurm.SubmitRequest{Script: "/shared/48213/job.slurm", Token: "disagg:tok"}

func sbatch(stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{Program: "sbatch", Args: []string{"--parsable", request.Script}, Stdout: stdout, Stderr: stderr, Exit: exit}
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	ours := runningRow("48213", "root", "disagg:tok")
	tests := map[string]struct {
		calls []slurmtest.Call
		want  slurm.Submission
	}{
		"plain": {
			calls: []slurmtest.Call{sbatch("48213\n", "", 0), askJob("48213", ours, "", 0)},
			want:  slurm.Submission{JobID: "48213"}},
		"amid the talk of plugins": {
			calls: []slurmtest.Call{sbatch("lua: job routed to qos normal\n48213\n\n", "sbatch: lua: 2 hints\n", 0), askJob("48213", ours, "", 0)},
			want:  slurm.Submission{JobID: "48213", Notes: "lua: job routed to qos normal\nsbatch: lua: 2 hints"}},
		"the check gives no answer": {
			calls: []slurmtest.Call{sbatch("48213\n", "", 0), askJob("48213", "", socketTimeout, 1)},
			want:  slurm.Submission{JobID: "48213"}},
		"the site rewrites comments": {
			calls: []slurmtest.Call{sbatch("48213\n", "", 0), askJob("48213", runningRow("48213", "root", "cost centre 7"), "", 0)},
			want:  slurm.Submission{JobID: "48213"}},
		"a plugin prints a number last": {
			calls: []slurmtest.Call{sbatch("48213\n17\n", "", 0), askJob("17", runningRow("17", "alice", ""), "", 0), askUser(ours, "", 0)},
			want:  slurm.Submission{JobID: "48213", Notes: "48213"}},
		"another cluster": {
			calls: []slurmtest.Call{sbatch("48213;mi355\n", "", 0), {
				Program: "squeue", Args: []string{"--clusters=mi355", "--noheader", "--states=all", "--jobs=48213", jobFields},
				Stdout: "CLUSTER: mi355\n" + ours}},
			want: slurm.Submission{JobID: "48213", Cluster: "mi355"}},
		"no answer, but the job is there": {
			calls: []slurmtest.Call{slurmtest.Captured(t, captured+"sbatch-timeout").At(request.Script),
				askUser(runningRow("9", "root", "disagg:other"), "", 0), askUser("", socketTimeout, 1), askUser(ours, "", 0)},
			want: slurm.Submission{JobID: "48213", Recovered: true,
				Notes: "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"}},
		"success without an id": {
			calls: []slurmtest.Call{sbatch("Submitted batch job 48213\n", "", 0), askUser(ours, "", 0)},
			want:  slurm.Submission{JobID: "48213", Recovered: true, Notes: "Submitted batch job 48213"}},
		"sbatch is killed": {
			calls: []slurmtest.Call{sbatch("", "", -1), askUser(ours, "", 0)},
			want:  slurm.Submission{JobID: "48213", Recovered: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := onFake(t, tt.calls...)
			got, err := c.Submit(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sbatch-unknown-node":      "Invalid node name specified",
		"sbatch-unknown-excluded":  "Invalid node name specified",
		"sbatch-unknown-partition": "Invalid partition name specified",
		"sbatch-too-many-gpus":     "Requested node configuration is not available",
	} {
		c, _ := onFake(t, slurmtest.Captured(t, captured+name).At(request.Script))
		sub, err := c.Submit(t.Context(), request)
		if err == nil || errors.Is(err, slurm.ErrSubmitUnknown) || sub.JobID != "" ||
			err.Error() != "submit job: sbatch: exit code 1: sbatch: error: Batch job submission failed: "+want {
			t.Errorf("%s: job %q, %v", name, sub.JobID, err)
		}
	}
	c, _ := onFake(t)
	c.Programs = map[string]string{"sbatch": "/opt/slurm/bin/sbatch"}
	if _, err := c.Submit(t.Context(), request); err == nil || !strings.Contains(err.Error(), "/opt/slurm/bin/sbatch") {
		t.Errorf("with a program in another place: %v", err)
	}
	c = &slurm.Client{User: "root", Environ: []string{"PATH=/nonexistent"}}
	if _, err := c.Submit(t.Context(), request); err == nil || errors.Is(err, slurm.ErrSubmitUnknown) || !strings.Contains(err.Error(), "program not found") {
		t.Errorf("without sbatch: %v", err)
	}
	for _, r := range []slurm.SubmitRequest{{}, {Script: "job.slurm", Token: "t"}, {Script: "/job.slurm"}} {
		if _, err := c.Submit(t.Context(), r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ = onFake(t)
	if _, err := c.Submit(ctx, request); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestSubmitUnknown(t *testing.T) {
	t.Parallel()
	anyTimes := func(c slurmtest.Call) slurmtest.Call { c.Times = -1; return c }
	late := sbatch("48213\n", "", 0)
	late.Delay = time.Minute
	tests := map[string]struct {
		calls []slurmtest.Call
		want  string
	}{
		"no answer and not in the queue": {[]slurmtest.Call{late, anyTimes(askUser(runningRow("9", "root", "disagg:tok2"), "", 0))}, "no such job"},
		"no answer and no queue":         {[]slurmtest.Call{late, anyTimes(askUser("", socketTimeout, 1))}, "Socket timed out"},
		"somebody else's id, none of ours": {[]slurmtest.Call{sbatch("17\n", "", 0), askJob("17", runningRow("17", "alice", "hers"), "", 0), askUser("", "", 0)},
			`sbatch said 17, which is another job (user alice, comment "hers")`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := onFake(t, tt.calls...)
			c.LookupTime = 600 * time.Millisecond
			if tt.calls[0].Delay > 0 {
				c.SubmitTimeout = time.Second
			}
			sub, err := c.Submit(t.Context(), request)
			if !errors.Is(err, slurm.ErrSubmitUnknown) || sub.JobID != "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("job %q, %v", sub.JobID, err)
			}
		})
	}
}

// TestSubmitIsBroughtToItsEnd cancels in the middle of a submission: the job
// that comes of it must be known to the caller.
func TestSubmitIsBroughtToItsEnd(t *testing.T) {
	t.Parallel()
	slow := sbatch("48213\n", "", 0)
	slow.Delay = time.Second
	c, _ := onFake(t, slow, askJob("48213", runningRow("48213", "root", "disagg:tok"), "", 0))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	sub, err := c.Submit(ctx, request)
	if err != nil || sub.JobID != "48213" || ctx.Err() == nil {
		t.Errorf("job %q, %v", sub.JobID, err)
	}
}

func TestSubmitInheritsAList(t *testing.T) {
	t.Parallel()
	c, f := onFake(t, sbatch("48213\n", "", 0), askJob("48213", runningRow("48213", "root", "disagg:tok"), "", 0))
	leaked := []string{
		"SLURM_CPU_BIND=quiet,mask_cpu:0xF", "SLURM_CPUS_PER_TASK=2", "SLURM_TRES_PER_TASK=cpu=4", "SBATCH_PARTITION=debug",
		"SLURM_JOB_ID=77", "SALLOC_ACCOUNT=x", "SQUEUE_FORMAT=%i", "PMI_RANK=0", "PMIX_RANK=0", "SLURMD_NODENAME=n1",
	}
	c.Environ = append(c.Environ, "LANG=C.UTF-8", "LC_TIME=C", "SLURM_CONF=/etc/slurm/slurm.conf", "LD_LIBRARY_PATH=/opt/slurm",
		"HF_TOKEN=secret", "MORI_RDMA_TC=96")
	c.Environ = append(c.Environ, leaked...)
	sub, err := c.Submit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	wantDropped := []string{"PMIX_RANK", "PMI_RANK", "SALLOC_ACCOUNT", "SBATCH_PARTITION", "SLURMD_NODENAME", "SLURM_CPUS_PER_TASK",
		"SLURM_CPU_BIND", "SLURM_JOB_ID", "SLURM_TRES_PER_TASK", "SQUEUE_FORMAT"}
	if diff := cmp.Diff(wantDropped, sub.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	names := map[string][]string{}
	for _, m := range f.Made() {
		for _, kv := range m.Environ {
			name, _, _ := strings.Cut(kv, "=")
			if name != "PWD" && name != "SHLVL" && name != "_" && name != "OLDPWD" { // the fake's shell
				names[m.Program] = append(names[m.Program], name)
			}
		}
		slices.Sort(names[m.Program])
	}
	want := map[string][]string{
		"sbatch": {"HOME", "LANG", "LC_TIME", "PATH", "SLURM_CONF"},
		// Other programs keep the user's environment, which may be what makes them run.
		"squeue": {"HF_TOKEN", "HOME", "LANG", "LC_TIME", "LD_LIBRARY_PATH", "MORI_RDMA_TC", "PATH", "SLURM_CONF"},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	c, _ := onFake(t, slurmtest.Captured(t, captured+"version"))
	if v, err := c.Version(t.Context()); err != nil || v != (slurm.Version{Name: "slurm-wlm", Number: "22.05.8"}) || !v.IsSlurm() {
		t.Errorf("got %+v, %v", v, err)
	}
	for out, isSlurm := range map[string]bool{"slurm 25.11.2\n": true, "spur 0.11.0\n": false, "slurmish 1\n": false} {
		c, _ := onFake(t, slurmtest.Call{Program: "sbatch", Args: []string{"--version"}, Stdout: out})
		if v, err := c.Version(t.Context()); err != nil || v.IsSlurm() != isSlurm {
			t.Errorf("%q: %+v, %v", out, v, err)
		}
	}
	c, _ = onFake(t, slurmtest.Call{Program: "sbatch", Args: []string{"--version"}, Stdout: "\n"})
	if _, err := c.Version(t.Context()); err == nil {
		t.Error("no version was taken for one")
	}
}
