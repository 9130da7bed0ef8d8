package slurm_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

var update = flag.Bool("update", false, "write what the lab's Slurm prints to slurmtest/testdata")

// recorder is a client that keeps what it was asked and told.
type recorder struct {
	*slurm.Client
	calls []slurmtest.Call
}

func record(c *slurm.Client) *recorder {
	inner := *c
	r := &recorder{Client: &inner}
	r.Client.Run = func(ctx context.Context, cmd procgroup.Command) (procgroup.Result, error) {
		res, err := c.Run(ctx, cmd)
		r.calls = append(r.calls, slurmtest.Call{
			Program: cmd.Argv[0], Args: cmd.Argv[1:],
			Stdout: string(res.Stdout), Stderr: string(res.Stderr), Exit: res.Code,
		})
		return res, err
	}
	return r
}

// save writes the last call under a name.
func (r *recorder) save(t *testing.T, l *lab.Lab, dir, name string) {
	t.Helper()
	c := r.calls[len(r.calls)-1]
	place := regexp.MustCompile(regexp.QuoteMeta(l.Dir()) + `/shared/t-[0-9]+`)
	kernel := regexp.MustCompile(`OS=Linux [^\n]*`)
	hide := func(s string) string {
		return kernel.ReplaceAllString(place.ReplaceAllString(s, "/shared"), "OS=Linux")
	}
	c.Args = slices.Clone(c.Args)
	for i := range c.Args {
		c.Args[i] = hide(c.Args[i])
	}
	c.Stdout, c.Stderr = hide(c.Stdout), hide(c.Stderr)
	b, err := slurmtest.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCapture writes what the programs print in the states that the parsers have
// to read.
func TestCapture(t *testing.T) {
	if !*update {
		t.Skip("writes test data; run with -update on a machine with the release to capture")
	}
	l, base := onLab(t)
	r := record(base)
	ctx := t.Context()
	v, err := r.Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("slurmtest", "testdata", "slurm-"+v.Number)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	save := func(name string) {
		t.Helper()
		r.save(t, l, dir, name)
	}
	save("version")

	run := func(token string, directives ...string) string {
		t.Helper()
		sub, err := r.Submit(ctx, slurm.SubmitRequest{Script: script(t, l, token, "exec sleep 300", directives...), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return sub.JobID
	}
	// A job over three nodes with a step, and what is asked of it.
	id := run("disagg:one", `--job-name="a name|with bar"`, "--nodes=3", "--gres=gpu:8", "--exclusive", "--mem=0", "--time=8:00:00")
	await(t, r.Client, id, slurm.Running)
	save("job-running")
	step := make(chan error)
	go func() {
		_, err := base.RunStep(ctx, 20*time.Second, slurm.StepRequest{JobID: id, Nodes: l.Nodes()[:3], Argv: []string{"sleep", "10"}})
		step <- err
	}()
	eventually(t, "the step", func() bool {
		s, err := r.Steps(ctx, id)
		return err == nil && len(s) == 2
	})
	save("steps")
	if _, err := r.Allocation(ctx, id); err != nil {
		t.Fatal(err)
	}
	save("details-running")
	if err := <-step; err != nil {
		t.Fatal(err)
	}

	// Jobs that wait, each for another reason.
	run("disagg:all-nodes", "--nodes=4")
	run("disagg:too-many", "--nodes=9")
	run("disagg:held", "--nodes=1", "--hold")
	run("disagg:later", "--nodes=1", "--begin=now+1hour")
	run("disagg:busy", "--nodes=3", "--exclusive")
	time.Sleep(3 * time.Second) // the scheduler writes reasons when it passes by
	if _, err := r.Find(ctx, slurm.Mark{Token: "disagg:held"}); err != nil {
		t.Fatal(err)
	}
	save("jobs-pending")
	if _, err := r.Nodes(ctx, ""); err != nil {
		t.Fatal(err)
	}
	save("nodes-invalid-gpus")
	if _, err := r.Architectures(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	save("show-node")

	// How jobs end.
	if err := r.Cancel(ctx, id, slurm.Mark{Token: "disagg:one"}, slurm.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	save("scancel")
	l.MustRun(t, "scancel", "--state=PENDING", "--user=root")
	eventually(t, "free nodes", func() bool { return l.MustRun(t, "squeue", "--noheader") == "" })
	failing := script(t, l, "disagg:fails", "exit 3")
	failed := submit(t, r.Client, failing, "disagg:fails").JobID
	await(t, r.Client, failed, "FAILED")
	save("details-failed")
	if _, err := r.Find(ctx, slurm.Mark{Token: "disagg:fails"}); err != nil {
		t.Fatal(err)
	}
	save("jobs-ended")
	done := submit(t, r.Client, script(t, l, "disagg:done", "exit 0"), "disagg:done").JobID
	await(t, r.Client, done, slurm.Completed)
	r.Job(ctx, "999999")
	save("sacct-disabled")
	r.calls = r.calls[:len(r.calls)-1]
	save("job-invalid")

	// Refusals.
	refuse := func(name string, directives ...string) {
		t.Helper()
		_, err := r.Submit(ctx, slurm.SubmitRequest{Script: script(t, l, "disagg:refused", "exit 0", directives...), Token: "disagg:refused"})
		if err == nil {
			t.Fatalf("%v was not refused", directives)
		}
		save(name)
	}
	refuse("sbatch-unknown-node", "--nodelist=node1,node99")
	refuse("sbatch-unknown-excluded", "--exclude=node99")
	refuse("sbatch-unknown-partition", "--partition=nope")
	refuse("sbatch-too-many-gpus", "--gres=gpu:9")

	// A controller that does not answer.
	resume := pause(t, l)
	r.Job(ctx, done)
	save("squeue-timeout")
	r.LookupTime = time.Millisecond
	_, err = r.Submit(ctx, slurm.SubmitRequest{Script: failing, Token: "disagg:fails"})
	if err == nil {
		t.Fatal("a stopped controller answered")
	}
	for len(r.calls) > 0 && r.calls[len(r.calls)-1].Program != "sbatch" {
		r.calls = r.calls[:len(r.calls)-1]
	}
	save("sbatch-timeout")
	resume()
}
