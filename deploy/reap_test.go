package deploy_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
)

// marked starts a process with the marks of a run, as another user if asked.
func marked(t *testing.T, run string, uid int) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Env = []string{shim.RunVar + "=" + run, shim.WorkloadVar + "=w"}
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// TestReap: what a dead agent left is found and taken away, and nothing else.
func TestReap(t *testing.T) {
	t.Parallel()
	b := local(t)
	b.run("w", shim.SelfProgram, "engine", "listen")
	other := setup(b.dir, nil)
	other.RunID = "cleanup-" + b.s.RunID
	reaper, err := deploy.Local(t.Context(), other, "node1", os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer reaper.Close()
	reap := func(remove bool) deploy.Remains {
		t.Helper()
		s, err := reaper.Reap(t.Context(), deploy.ReapRequest{RunID: b.s.RunID, Remove: remove})
		if err != nil || len(s.Unverified) > 0 || len(s.Runs) > 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if len(s.Runs) == 0 {
			return deploy.Remains{}
		}
		return s.Runs[0]
	}

	agent := b.conn.Info().PID
	if r := reap(true); r.Led != agent || r.Removed || len(r.Processes) != 2 {
		t.Errorf("of a run that is led by %d: %+v", agent, r)
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	goneWithin(t, "the workload", 20*time.Second, func() bool { return len(reap(false).Processes) > 0 })
	dirs := b.scratch()
	if r := reap(false); r.Led != 0 || r.Removed || len(r.Files) != 1 || len(dirs) != 2 || r.Files[0] != dirs[0] && r.Files[0] != dirs[1] {
		t.Errorf("of a run whose agent is dead: %+v; there are %q", r, dirs)
	}

	ours, anothers := marked(t, b.s.RunID, 0), marked(t, b.s.RunID+"x", 0)
	strangers := anothers
	if os.Geteuid() == 0 {
		strangers = marked(t, b.s.RunID, 65534)
	}
	if r := reap(true); !r.Removed || len(r.Stuck) > 0 || len(r.Processes) != 1 || !strings.HasSuffix(r.Processes[0], " sleep 1000") {
		t.Errorf("removed: %+v", r)
	}
	if r := reap(true); !r.Empty() {
		t.Errorf("a second time: %+v", r)
	}
	pidGone(t, ours.Process.Pid, 5*time.Second)
	if !alive(anothers.Process.Pid) || !alive(strangers.Process.Pid) {
		t.Error("a process of another run, or of another user, was killed")
	}
	if left := b.scratch(); len(left) != 1 {
		t.Errorf("scratch directories: %q, want the reaper's own", left)
	}
}

// TestTidy: an agent takes away the directories of killed ones, but not while
// anything else of their runs is there.
func TestTidy(t *testing.T) {
	t.Parallel()
	b := local(t)
	if err := syscall.Kill(b.conn.Info().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-b.conn.Done()
	there := func(name string) bool {
		other := setup(b.dir, nil)
		other.RunID = name
		c, err := deploy.Local(t.Context(), other, "node1", os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && len(b.scratch()) > 1; time.Sleep(5 * time.Millisecond) {
		}
		return len(b.scratch()) > 1
	}
	rest := marked(t, b.s.RunID, 0)
	if !there("second") {
		t.Error("the directory was removed while a process of the run lives")
	}
	_ = rest.Process.Kill()
	pidGone(t, rest.Process.Pid, 5*time.Second)
	if there("third") {
		t.Errorf("the directory is still there: %q", b.scratch())
	}
}

// TestReapEndsALostAgent: an agent that does not react any more is ended by the one
// that its controller sends after it, and only that one.
func TestReapEndsALostAgent(t *testing.T) {
	t.Parallel()
	b := local(t)
	lost := b.conn.Info().PID
	if err := syscall.Kill(lost, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(lost, syscall.SIGKILL) })
	second, err := deploy.Local(t.Context(), setup(b.dir, nil), "node1", os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	ask := deploy.ReapRequest{RunID: b.s.RunID, Remove: true, Leads: true, Lost: lost + 1}
	if _, err := second.Reap(t.Context(), ask); err != nil || !alive(lost) {
		t.Errorf("an agent of another number was taken for it: %v", err)
	}
	ask.Lost = lost
	r, err := second.Reap(t.Context(), ask)
	if err != nil || len(r.Runs) != 1 || !r.Runs[0].Removed || len(r.Runs[0].Files) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	pidGone(t, lost, 5*time.Second)
	if left := b.scratch(); len(left) != 1 {
		t.Errorf("scratch directories: %q, want the second agent's own", left)
	}
}
