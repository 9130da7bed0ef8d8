package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
)

// TestRunInsideAllocation runs from the shell of an salloc.
func TestRunInsideAllocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4"))
	s := w.Run("salloc", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", w.Bin, "run", recipe)
	w.Want(s, 0)
	if !strings.Contains(s.Out, "left behind: nothing") {
		t.Errorf("stdout does not say that nothing was left:\n%s", s.Out)
	}
	goodRun(w, 1)
}

// TestRunInAnotherAllocation names the allocation by its job id.
func TestRunInAnotherAllocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4"))
	s := w.Run("sbatch", "--parsable", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", "--output=/dev/null", "--wrap", "sleep 300")
	w.Want(s, 0)
	job := strings.TrimSpace(s.Out)
	t.Cleanup(func() { w.Run("scancel", job) })
	running(w, job)
	w.Want(w.Disagg("run", recipe, "--jobid", job), 0)
	goodRun(w, 1)
	if state := state(w, job); state != "RUNNING" {
		t.Errorf("the allocation is %s after the run; it is the user's and must stay", state)
	}
}

// TestAllocationTooSmall refuses before anything is started.
func TestAllocationTooSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4"))
	s := w.Run("salloc", "--nodes=1", "--gres=gpu:8", "--time=5", w.Bin, "run", recipe)
	w.Want(s, 5)
	if len(w.Runs()) != 0 {
		t.Errorf("run directories were made: %q", w.Runs())
	}
	if !strings.Contains(s.Err, "1 node") {
		t.Errorf("the message does not give the numbers:\n%s", s.Err)
	}
}

// state asks Slurm for a job's state.
func state(w *world.World, job string) string {
	w.T.Helper()
	return strings.TrimSpace(w.Run("squeue", "--noheader", "--jobs="+job, "--format=%T").Out)
}

// running waits until a job runs.
func running(w *world.World, job string) {
	w.T.Helper()
	for range 600 {
		if state(w, job) == "RUNNING" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.T.Fatalf("job %s does not start: %s", job, state(w, job))
}
