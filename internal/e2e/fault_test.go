package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// TestScancelWhileClientRuns: plain scancel gives every process TERM, then KILL.
func TestScancelWhileClientRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless)), 0)
	w.ClientRuns()
	w.Want(w.Run("scancel", w.Job()), 0)
	s := w.Disagg("wait", w.Newest())
	if s.Code != 143 && s.Code != 130 {
		t.Errorf("wait ended with %d, want 143 or 130\n%s%s", s.Code, s.Out, s.Err)
	}
	w.Clean(30 * time.Second)
	if r := w.Result(); r.Outcome != "cancelled" || len(r.Leftovers) != 0 {
		t.Errorf("outcome %s, leftovers %v; want cancelled and none\n%s", r.Outcome, r.Leftovers, w.Evidence())
	}
}

// TestCancelInOrder: the tool's own cancel collects, stops and looks.
func TestCancelInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless)), 0)
	w.ClientRuns()
	w.Want(w.Disagg("cancel", w.Newest(), "--wait"), 143)
	r := w.Result()
	if r.Outcome != "cancelled" || len(r.Looked) != 2 || len(r.Leftovers) != 0 || r.Points[0].Status != "missing" {
		t.Errorf("outcome %s, looked at %v, leftovers %v, point %s", r.Outcome, r.Looked, r.Leftovers, r.Points[0].Status)
	}
	w.Clean(time.Second)
}

// TestFailures: the right code, cause and host, and a quick end.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    string
		timeouts string
		code     int
		process  string
		says     string // in the cause or its log lines
	}{
		{"crash while loading", "crash:phase=load,code=3,text=torch.OutOfMemoryError:+HIP+out+of+memory,role=decode", "", 6, "decode-0.0", "out of memory"},
		{"ends with code 0", "crash:phase=load,code=0,role=prefill", "", 6, "prefill-0.0", "code 0"},
		{"never healthy", "hang-health:role=decode", "timeouts: {worker: 6s, worker_max: 12s}", 6, "decode-0.0", "no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begun := time.Now()
			s := w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(4, "2")+world.Fault(c.fault)+c.timeouts), "--wait")
			w.Want(s, c.code)
			r := w.Result()
			if r.Cause == nil {
				t.Fatalf("no cause\n%s", w.Evidence())
			}
			text := r.Cause.What + strings.Join(r.Cause.Log, " ")
			if r.Cause.Process != c.process || r.Cause.Node == "" || !strings.Contains(text, c.says) {
				t.Errorf("cause is %q of %q on %q, want %q in it", text, r.Cause.Process, r.Cause.Node, c.says)
			}
			t.Logf("ended after %.1f s: %s", time.Since(begun).Seconds(), r.Cause.What)
			w.Clean(time.Second)
		})
	}
}

// TestRouterDiesDuringClient ends the run with the router's name.
func TestRouterDiesDuringClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless)), 0)
	w.ClientRuns()
	e := w.Until("the router's start", time.Second, func(e events.Event) bool {
		return e.Kind == events.ProcessStarted && e.Process == "router"
	})
	list, err := w.Processes(e.Node)
	w.Must(err)
	killed := 0
	for _, p := range list {
		// The real router takes this name in place of its command line.
		if strings.HasPrefix(strings.Join(p.Argv, " "), "sglang::router") {
			w.Signal(e.Node, p.PID, "KILL")
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("found no router to kill")
	}
	begun := time.Now()
	w.Want(w.Disagg("wait", w.Newest()), 7)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the run ended %s after its router", took)
	}
	if r := w.Result(); r.Cause == nil || r.Cause.Process != "router" || r.Cause.Node != e.Node {
		t.Errorf("cause is %+v, want the router on %s", r.Cause, e.Node)
	}
	w.Clean(time.Second)
}

// TestTwoRunsAndAStranger: each run touches only its own.
func TestTwoRunsAndAStranger(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	node := a.Nodes()[0]
	id, err := a.Foreign(node, "stranger", lab.ToolImage, "sleep", "600")
	a.Must(err)
	t.Cleanup(func() { a.Must(a.RemoveContainer(node, id)) })
	_, waitA := a.Start(a.Bin, "submit", a.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4")), "--wait")
	_, waitB := b.Start(b.Bin, "submit", b.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4")), "--wait")
	a.Want(waitA(), 0)
	b.Want(waitB(), 0)
	goodRun(a, 1)
	goodRun(b, 1)
	list, err := a.Containers(node)
	a.Must(err)
	for _, c := range list {
		if c.ID == id && c.State == "running" {
			return
		}
	}
	t.Errorf("the stranger's container does not run any more: %v", list)
}
