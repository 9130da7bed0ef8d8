package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/disagg/disagg/slurm/render"
)

// renderedRun is a run directory with the script that the tool writes and a
// program in the controller's place, which notes what it sees and waits.
type renderedRun struct {
	dir   string
	token string
}

func (r renderedRun) request() slurm.SubmitRequest {
	return slurm.SubmitRequest{Script: filepath.Join(r.dir, "job.slurm"), Token: r.token}
}

func (r renderedRun) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func render1(t *testing.T, dir string, edit func(*models.SlurmJob)) renderedRun {
	t.Helper()
	r := renderedRun{dir: dir, token: "disagg:" + filepath.Base(filepath.Dir(dir))}
	for _, d := range []string{"bin", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	controller := "#!/bin/sh\n" +
		"trap 'echo TERM >&2; touch got-term; exit 7' TERM\n" +
		"printf '%s\\n' \"$@\" > argv; pwd > cwd; ulimit -c > limit\n" +
		"env -0 | tr '\\n\\0' ' \\n' | sort > environ; echo up; touch up\n" +
		"while :; do sleep 0.1; done\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "disagg"), []byte(controller), 0o755); err != nil {
		t.Fatal(err)
	}
	job := models.SlurmJob{
		JobName: "same name for all", Nodes: 2, TimeLimit: models.Duration(10 * time.Minute), SignalLead: models.Duration(time.Minute),
		GPURequest: "gres", GPUsPerNode: 8, Exclusive: true, Memory: "0",
	}
	if edit != nil {
		edit(&job)
	}
	text, err := render.Script(job, render.ScriptView{Tool: "test", RunDir: dir, PlanHash: strings.Repeat("0", 64), Token: r.token})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.request().Script, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r renderedRun) waitUp(t *testing.T) {
	t.Helper()
	eventually(t, "the controller to run", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "up"))
		return err == nil
	})
}

// TestLabRunsTheScriptAsMeant follows a job from a directory with a hostile name
// and a submission inside another job's environment to its orderly end.
func TestLabRunsTheScriptAsMeant(t *testing.T) {
	l, c := onLab(t, "SLURM_CPUS_PER_TASK=2", "SLURM_TRES_PER_TASK=cpu=4", "SLURM_CPU_BIND=quiet,mask_cpu:0xF",
		"SBATCH_PARTITION=nope", "SBATCH_EXPORT=NONE", "SLURM_JOB_ID=77", "HF_TOKEN=secret", "LANG=C.UTF-8")
	run := render1(t, filepath.Join(l.TempDir(t), "it's 50%x $(id) run"), nil)
	sub, err := c.Submit(t.Context(), run.request())
	if err != nil {
		t.Fatal(err)
	}
	if len(sub.Dropped) != 6 || sub.Recovered {
		t.Errorf("submission %+v", sub)
	}
	j := await(t, c, sub.JobID, slurm.Running)
	if !run.request().Mark().Owns("root", j) || !cmp.Equal(j.Nodes, []string{"node1", "node2"}) || j.TimeLeft.Left < 9*time.Minute || j.TimeLeft.Left > 10*time.Minute {
		t.Errorf("job %+v", j)
	}
	run.waitUp(t)
	if want := "controller\n--run\n" + run.dir + "\n--plan-hash\n" + strings.Repeat("0", 64) + "\n"; run.file(t, "argv") != want {
		t.Errorf("argv %q, want %q", run.file(t, "argv"), want)
	}
	if got := strings.TrimSpace(run.file(t, "cwd")); got != run.dir {
		t.Errorf("cwd %q, want %q", got, run.dir)
	}
	env := run.file(t, "environ")
	for _, leaked := range []string{"HF_TOKEN", "SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_CPU_BIND=", "SBATCH_"} {
		if strings.Contains(env, leaked) {
			t.Errorf("%s reached the job:\n%s", leaked, env)
		}
	}
	for _, want := range []string{"LANG=C.UTF-8\n", "HOME=/root\n", "SLURM_JOB_ID=" + sub.JobID + "\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("%s did not reach the job:\n%s", want, env)
		}
	}
	// An orderly stop goes to the controller alone and lets it end by itself.
	if err := c.Cancel(t.Context(), sub.JobID, run.request().Mark(), slurm.CancelRequest{Signal: "TERM", Batch: true}); err != nil {
		t.Fatal(err)
	}
	j = await(t, c, sub.JobID, "FAILED")
	if j.Exit == nil || *j.Exit != (slurm.ExitCode{Code: 7}) {
		t.Errorf("exit code %+v, want 7", j.Exit)
	}
	if out, errOut := run.file(t, render.OutputName), run.file(t, render.ErrorName); out != "up\n" || !strings.HasSuffix(errOut, "\nTERM\n") {
		t.Errorf("output %q, error output %q", out, errOut)
	}
}

func TestLabPlainCancelReachesTheController(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), nil)
	id := submit(t, c, run.request().Script, run.token).JobID
	run.waitUp(t)
	if err := c.Cancel(t.Context(), id, run.request().Mark(), slurm.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	await(t, c, id, slurm.Cancelled)
	if _, err := os.Stat(filepath.Join(run.dir, "got-term")); err != nil {
		t.Errorf("the controller did not get TERM: %v", err)
	}
	if err := c.Cancel(t.Context(), id, run.request().Mark(), slurm.CancelRequest{}); err != nil {
		t.Errorf("a second cancel: %v", err)
	}
}

func TestLabCancelSparesASibling(t *testing.T) {
	l, c := onLab(t)
	small := func(j *models.SlurmJob) { j.Nodes = 1 }
	a := render1(t, filepath.Join(l.TempDir(t), "run"), small)
	b := render1(t, filepath.Join(l.TempDir(t), "run"), small)
	ida := submit(t, c, a.request().Script, a.token).JobID
	idb := submit(t, c, b.request().Script, b.token).JobID
	await(t, c, ida, slurm.Running)
	await(t, c, idb, slurm.Running)
	if err := c.Cancel(t.Context(), idb, a.request().Mark(), slurm.CancelRequest{}); !errors.Is(err, slurm.ErrNotOurs) {
		t.Errorf("cancel of the sibling: %v", err)
	}
	if j, err := c.Find(t.Context(), a.request().Mark()); err != nil || j.ID != ida {
		t.Errorf("found %s, %v; want %s", j.ID, err, ida)
	}
	if err := c.Cancel(t.Context(), ida, a.request().Mark(), slurm.CancelRequest{}); err != nil {
		t.Error(err)
	}
	await(t, c, ida, slurm.Cancelled)
	if j := c.Job(t.Context(), idb); j.State != slurm.Running {
		t.Errorf("the sibling is %s", j.State)
	}
}

func TestLabRefusesRequeue(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 1 })
	id := submit(t, c, run.request().Script, run.token).JobID
	run.waitUp(t)
	if out, err := l.Run("scontrol", "requeue", id); err == nil {
		t.Errorf("requeue was accepted: %s", out)
	}
	if j := c.Job(t.Context(), id); j.State != slurm.Running {
		t.Errorf("the job is %s (%s)", j.State, j.Reason)
	}
}

// TestLabSubmissionWithoutAnAnswer stops the controller daemon while a job is
// submitted: sbatch says that it failed, and the job comes all the same.
func TestLabSubmissionWithoutAnAnswer(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 1 })
	resume := pause(t, l)
	go func() {
		time.Sleep(6 * time.Second) // longer than the lab's message timeout
		resume()
	}()
	sub, err := c.Submit(t.Context(), run.request())
	if err != nil {
		t.Fatal(err)
	}
	if !sub.Recovered {
		t.Errorf("submission %+v: the controller answered in time, so nothing was shown", sub)
	}
	run.waitUp(t)
	if n := strings.Count(l.MustRun(t, "squeue", "--noheader"), "\n"); n != 1 {
		t.Errorf("%d jobs in the queue, want one", n)
	}
	if j := c.Job(t.Context(), sub.JobID); !run.request().Mark().Owns("root", j) {
		t.Errorf("job %+v is not the run's", j)
	}
}

func TestLabUnknownIsNotGone(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 1 })
	id := submit(t, c, run.request().Script, run.token).JobID
	run.waitUp(t)
	resume := pause(t, l)
	j := c.Job(t.Context(), id)
	err := c.Cancel(t.Context(), id, run.request().Mark(), slurm.CancelRequest{})
	resume()
	if j.Presence != slurm.Unknown || j.Ended() || !strings.Contains(j.Trouble, "timed out") {
		t.Errorf("job %+v", j)
	}
	if err == nil {
		t.Error("a cancel that nobody took passed")
	}
	broken := *c
	broken.Environ = append(slices.Clone(c.Environ), "SLURM_CONF=/dev/null")
	if j := broken.Job(t.Context(), id); j.Presence != slurm.Unknown || j.Ended() {
		t.Errorf("with a broken configuration: %+v", j)
	}
	if j := await(t, c, id, slurm.Running); j.Presence != slurm.Present {
		t.Errorf("job %+v", j)
	}
	if j := c.Job(t.Context(), "999999"); j.Presence != slurm.Gone {
		t.Errorf("a job that never was: %+v", j)
	}
}

func TestLabAllocationInsideSalloc(t *testing.T) {
	l, c := onLab(t)
	out := l.MustRun(t, "salloc", "--nodes=2", "--nodelist=node3,node1", "--gres=gpu:8", "--exclusive", "--mem=0", "--time=10", "--quiet",
		"sh", "-c", "env; echo done")
	a, err := slurm.FromEnvironment(strings.Split(out, "\n"))
	if err != nil || !cmp.Equal(a.Nodes, []string{"node1", "node3"}) || a.Partition != "main" {
		t.Errorf("got %+v, %v from\n%s", a, err, out)
	}
	eventually(t, "the end of the allocation", func() bool { return c.Job(t.Context(), a.JobID).Ended() })
	if _, err := c.Allocation(t.Context(), a.JobID); !errors.Is(err, slurm.ErrNoAllocation) {
		t.Errorf("an allocation that is over: %v", err)
	}
}

func TestLabMemoryAndGPUs(t *testing.T) {
	l, c := onLab(t)
	nodes, err := c.Nodes(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for memory, want := range map[string]int64{"0": 1000000, "": 4096} {
		run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) {
			j.Memory = memory
			if memory == "" {
				j.GPURequest = "gpus-per-node"
			}
		})
		id := submit(t, c, run.request().Script, run.token).JobID
		await(t, c, id, slurm.Running)
		a, err := c.Allocation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if a.GPUsPerNode != 8 || a.MemoryMBPerNode != want || (a.MemoryWarning(nodes) == "") != (memory == "0") {
			t.Errorf("--mem=%q: %+v, warning %q", memory, a, a.MemoryWarning(nodes))
		}
		if err := a.Check(slurm.Need{Nodes: 3, GPUsPerNode: 8, Time: time.Hour}); err == nil ||
			!strings.Contains(err.Error(), " min left; the plan needs 3 nodes, at least 60 min; get one with salloc ") {
			t.Errorf("check: %v", err)
		}
		emptyQueue(t, l)
	}
}

func TestLabNodes(t *testing.T) {
	l, c := onLab(t)
	nodes, err := c.Nodes(t.Context(), "")
	if err != nil || len(nodes) != 4 || nodes[0].GPUs != 8 || nodes[0].MemoryMB != 1000000 {
		t.Fatalf("nodes %+v, %v", nodes, err)
	}
	const bad = "1 of 4 nodes (node4): inval: gres/gpu count reported lower than configured (7 < 8)"
	if got := slurm.Summary(nodes); !cmp.Equal(got, []string{bad}) {
		t.Errorf("summary %q", got)
	}
	got, err := c.Survey(t.Context(), slurm.Ask{Partition: "main", Nodes: 2, GPUsPerNode: 8,
		Requested: []string{"node2"}, Excluded: []string{"node1", "node99"}, Machine: slurm.Machine(runtime.GOARCH)})
	want := slurm.Survey{Excluded: []string{"node1"}, Warnings: []string{"excluded node node99 is not known to the cluster; left out"},
		Broken: []string{"1 of 3 nodes (node4): inval: gres/gpu count reported lower than configured (7 < 8)"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, survey (-want +got):\n%s", err, diff)
	}
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 4 })
	id := submit(t, c, run.request().Script, run.token).JobID
	var text string
	eventually(t, "a reason", func() bool {
		text = slurm.Explain(c.Job(t.Context(), id), nodes)
		return strings.Contains(text, "nodes it needs are down, drained or reserved")
	})
	if !strings.HasSuffix(text, bad) {
		t.Errorf("explained as %q", text)
	}
}

// TestLabStep starts a step the way the agents are started, from inside another
// job's environment, beside a step that holds the GPUs.
func TestLabStep(t *testing.T) {
	l, c := onLab(t, "SLURM_NTASKS=64", "SLURM_NNODES=1", "SLURM_MEM_PER_NODE=5", "SLURM_EXPORT_ENV=NONE", "HF_TOKEN=secret")
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 3 })
	id := submit(t, c, run.request().Script, run.token).JobID
	await(t, c, id, slurm.Running)
	a, err := c.Allocation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	inStep := func(argv ...string) procgroup.Command {
		t.Helper()
		cmd, err := c.StepCommand(slurm.StepRequest{JobID: id, Nodes: a.Nodes, Argv: argv})
		if err != nil {
			t.Fatal(err)
		}
		cmd.Argv = l.Command(t.Context(), cmd.Argv...).Args
		return cmd
	}
	holder, err := procgroup.Start(t.Context(), inStep("sleep", "120"))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Stop(5 * time.Second)
	eventually(t, "the holder's step", func() bool {
		steps, err := c.Steps(t.Context(), id)
		return err == nil && len(steps) == 2
	})

	var out bytes.Buffer
	cmd := inStep("sh", "-c", `read -r line; echo "$SLURM_PROCID $SLURMD_NODENAME $line $ROCR_VISIBLE_DEVICES ${HF_TOKEN-none} $SLURM_NTASKS"; cat`)
	cmd.StdinPipe, cmd.Stdout, cmd.Stderr = true, &out, os.Stderr
	p, err := procgroup.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(5 * time.Second)
	if _, err := p.Stdin.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // stdin stays open: nobody may end by itself
	select {
	case <-p.Done():
		t.Errorf("the step ended before its stdin did: %s", p.Wait())
	default:
	}
	p.Stdin.Close()
	if exit := p.Wait(); exit != (procgroup.Exit{}) {
		t.Errorf("the step ended with %s", exit)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	const rest = " hello 0,1,2,3,4,5,6,7 none 3"
	if want := []string{"0 node1" + rest, "1 node2" + rest, "2 node3" + rest}; !cmp.Equal(lines, want) {
		t.Errorf("tasks said %q, want %q", lines, want)
	}

	steps, err := c.Steps(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.Name == "disagg" {
			if err := c.CancelStep(t.Context(), s.ID); err != nil {
				t.Error(err)
			}
		}
	}
	select {
	case <-holder.Done():
	case <-time.After(30 * time.Second):
		t.Error("a cancelled step still runs")
	}
}

// TestLabStepSurvivesOneTask shows that a task which fails leaves the others.
func TestLabStepSurvivesOneTask(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 3 })
	id := submit(t, c, run.request().Script, run.token).JobID
	await(t, c, id, slurm.Running)
	marks := l.TempDir(t)
	res, err := c.RunStep(t.Context(), 30*time.Second, slurm.StepRequest{
		JobID: id, Nodes: []string{"node1", "node2", "node3"},
		Argv: []string{"sh", "-c", `[ "$SLURM_PROCID" = 1 ] && exit 3; sleep 2; touch "$1/$SLURMD_NODENAME"`, "sh", marks},
	})
	if err != nil || res.Code != 3 {
		t.Errorf("step: %s, %v", res.Describe(), err)
	}
	entries, err := os.ReadDir(marks)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d tasks came to their end, want 2 (%v)", len(entries), err)
	}
}

func TestLabProbe(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 3 })
	id := submit(t, c, run.request().Script, run.token).JobID
	await(t, c, id, slurm.Running)
	nodes := []string{"node1", "node2", "node3"}
	got, err := c.Probe(t.Context(), id, nodes, 20*time.Second)
	if diff := cmp.Diff(slurm.ProbeResult{Certain: true}, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	if err := l.SetTool("node3", "printenv", "#!/bin/sh\nexit 9\n"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.RemoveTool("node3", "printenv"); err != nil {
			t.Error(err)
		}
	}()
	got, err = c.Probe(t.Context(), id, nodes, 20*time.Second)
	if err != nil || !cmp.Equal(got.Bad, []string{"node3"}) || !strings.Contains(got.Trouble, "exit code 9") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestLabReadsHostListsAsWeDo compares both directions with Slurm's own.
func TestLabReadsHostListsAsWeDo(t *testing.T) {
	l := getLab(t)
	for _, list := range []string{
		"n1", "n[08-11]", "n[98-101]", "gpu-[01,03]", "rack[1-2]-n[08-10]", "n[1-2][3-4]", "n9,n10,n11,n08", "a,,b", "a b", "n[8,09,10]",
		"n[0001-2]", "n[1,1]", " n1 , n2 ", "n[3,2,1]", "a.b-c_d[1-3]",
	} {
		hosts, err := hostlist.Expand(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		if theirs := strings.Fields(l.MustRun(t, "scontrol", "show", "hostnames", list)); !cmp.Equal(hosts, theirs) {
			t.Errorf("%q: we read %v, Slurm %v", list, hosts, theirs)
		}
		ours := hostlist.Compress(hosts)
		if back := strings.Fields(l.MustRun(t, "scontrol", "show", "hostnames", ours)); !cmp.Equal(hosts, back) {
			t.Errorf("Slurm reads our %q as %v, want %v", ours, back, hosts)
		}
	}
	if out, err := l.Run("scontrol", "show", "hostnames", hostlist.Compress([]string{"n1-ib", "n2-ib"})); err != nil {
		t.Errorf("Slurm cannot read what we compress: %s %v", out, err)
	}
}

// TestLabSubmitEndsWithItsContext cancels at once: the job that came of it is
// known and can be cancelled.
func TestLabSubmitEndsWithItsContext(t *testing.T) {
	l, c := onLab(t)
	run := render1(t, filepath.Join(l.TempDir(t), "run"), func(j *models.SlurmJob) { j.Nodes = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	inner := c.Run
	c.Run = func(runCtx context.Context, cmd procgroup.Command) (procgroup.Result, error) {
		cancel()
		return inner(runCtx, cmd)
	}
	sub, err := c.Submit(ctx, run.request())
	if err != nil || sub.JobID == "" {
		t.Fatalf("submission %+v, %v", sub, err)
	}
	if err := c.Cancel(t.Context(), sub.JobID, run.request().Mark(), slurm.CancelRequest{}); err != nil {
		t.Error(err)
	}
	await(t, c, sub.JobID, slurm.Cancelled)
}
