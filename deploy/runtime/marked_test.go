package runtime

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy/shim"
)

func TestFindAndKillMarked(t *testing.T) {
	t.Parallel()
	run := "run-" + filepath.Base(t.TempDir()) + t.Name()
	start := func(env ...string) *exec.Cmd {
		c := exec.Command("sleep", "1000")
		c.Env = env
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	a := start(shim.RunVar+"="+run, shim.WorkloadVar+"=a")
	b := start("X=1", shim.WorkloadVar+"=b", shim.RunVar+"="+run)
	start(shim.RunVar+"="+run+"x", shim.WorkloadVar+"=a")
	start("NOTE=" + shim.RunVar + "=" + run)

	found := func(workload string) map[int]string {
		out := map[int]string{}
		for _, m := range FindMarked("/", run, workload) {
			out[m.PID] = m.Workload + " " + m.Command
		}
		return out
	}
	if d := cmp.Diff(map[int]string{a.Process.Pid: "a sleep 1000", b.Process.Pid: "b sleep 1000"}, found("")); d != "" {
		t.Errorf("of the run:\n%s", d)
	}
	if d := cmp.Diff(map[int]string{b.Process.Pid: "b sleep 1000"}, found("b")); d != "" {
		t.Errorf("of one workload:\n%s", d)
	}
	left, err := killMarked(t.Context(), run, "a")
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	a.Wait()
	if a.ProcessState.Success() {
		t.Error("it was not killed")
	}
	if d := cmp.Diff(map[int]string{b.Process.Pid: "b sleep 1000"}, found("")); d != "" {
		t.Errorf("after killing one workload:\n%s", d)
	}
}

// TestKillSparesALaterProcess: a number that has gone to another process in the
// meantime is left alone.
func TestKillSparesALaterProcess(t *testing.T) {
	t.Parallel()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	Marked{PID: c.Process.Pid, start: "1"}.Kill()
	time.Sleep(20 * time.Millisecond)
	if state, _ := stateOf(filepath.Join("/proc", strconv.Itoa(c.Process.Pid))); state == "" || state == "Z" {
		t.Errorf("state = %q; it was killed", state)
	}
}

func TestNothingIsMarkedWithoutRun(t *testing.T) {
	t.Parallel()
	if got := FindMarked("/", "", ""); len(got) > 0 {
		t.Errorf("an empty run id marks %v", got)
	}
}
