package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestRunInsideAllocation runs from the shell of an salloc.
func TestRunInsideAllocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "4"))
	s := w.run("salloc", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", w.bin, "run", recipe)
	w.want(s, 0)
	if !strings.Contains(s.out, "left behind: nothing") {
		t.Errorf("stdout does not say that nothing was left:\n%s", s.out)
	}
	w.goodRun(1)
}

// TestRunInAnotherAllocation names the allocation by its job id.
func TestRunInAnotherAllocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "4"))
	s := w.run("sbatch", "--parsable", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", "--output=/dev/null", "--wrap", "sleep 300")
	w.want(s, 0)
	job := strings.TrimSpace(s.out)
	t.Cleanup(func() { w.run("scancel", job) })
	w.running(job)
	w.want(w.disagg("run", recipe, "--jobid", job), 0)
	w.goodRun(1)
	if state := w.state(job); state != "RUNNING" {
		t.Errorf("the allocation is %s after the run; it is the user's and must stay", state)
	}
}

// TestAllocationTooSmall refuses before anything is started.
func TestAllocationTooSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "4"))
	s := w.run("salloc", "--nodes=1", "--gres=gpu:8", "--time=5", w.bin, "run", recipe)
	w.want(s, 5)
	if len(w.runs()) != 0 {
		t.Errorf("run directories were made: %q", w.runs())
	}
	if !strings.Contains(s.err, "1 node") {
		t.Errorf("the message does not give the numbers:\n%s", s.err)
	}
}

// state asks Slurm for a job's state.
func (w *world) state(job string) string {
	w.t.Helper()
	return strings.TrimSpace(w.run("squeue", "--noheader", "--jobs="+job, "--format=%T").out)
}

// running waits until a job runs.
func (w *world) running(job string) {
	w.t.Helper()
	for range 600 {
		if w.state(job) == "RUNNING" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("job %s does not start: %s", job, w.state(job))
}
