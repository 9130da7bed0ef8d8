package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// endless is a client that goes on until it is stopped.
const endless = `client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "2", --requests, "1000000", --output, "{result_dir}/load.json"]
  concurrency: 2
`

func fault(f string) string {
	return fmt.Sprintf("env:\n  STANDIN_FAULT: {value: %q, custom: true}\n", f)
}

// start runs the binary in the background; wait for its end with the returned
// function.
func (w *world) start(args ...string) (*exec.Cmd, func() said) {
	w.t.Helper()
	cmd := w.Command(w.t.Context(), append([]string{w.bin}, args...)...)
	done := make(chan said, 1)
	go func() { done <- w.finish(cmd) }()
	return cmd, func() said {
		w.t.Helper()
		select {
		case s := <-done:
			return s
		case <-time.After(2 * time.Minute):
			w.t.Fatalf("%v does not end\n%s", args, w.evidence())
		}
		return said{}
	}
}

// find returns the node and process id of the one process of this test whose
// command line holds all words.
func (w *world) find(words ...string) (node string, pid int) {
	w.t.Helper()
	for _, n := range w.Nodes() {
		list, err := w.Strays(n)
		w.must(err)
	next:
		for _, p := range list {
			line := strings.Join(p.Argv, " ")
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue next
				}
			}
			return n, p.PID
		}
	}
	w.t.Fatalf("no process with %q on any node", words)
	return "", 0
}

func (w *world) kill(node string, pid int, signal string) {
	w.t.Helper()
	w.MustExec(w.t, node, "kill", "-"+signal, fmt.Sprint(pid))
}

// TestScancelWhileClientRuns: plain scancel gives every process TERM, then KILL.
func TestScancelWhileClientRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.disagg("submit", w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", endless)), 0)
	w.clientRuns()
	w.want(w.run("scancel", w.job()), 0)
	s := w.disagg("wait", w.newest())
	if s.code != 143 && s.code != 130 {
		t.Errorf("wait ended with %d, want 143 or 130\n%s%s", s.code, s.out, s.err)
	}
	w.clean(30 * time.Second)
	if r := w.result(w.newest()); r.Outcome != "cancelled" || len(r.Leftovers) != 0 {
		t.Errorf("outcome %s, leftovers %v; want cancelled and none\n%s", r.Outcome, r.Leftovers, w.evidence())
	}
}

// TestCancelInOrder: the tool's own cancel collects, stops and looks.
func TestCancelInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.disagg("submit", w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", endless)), 0)
	w.clientRuns()
	w.want(w.disagg("cancel", w.newest(), "--wait"), 143)
	r := w.result(w.newest())
	if r.Outcome != "cancelled" || len(r.Looked) != 2 || len(r.Leftovers) != 0 || r.Points[0].Status != "missing" {
		t.Errorf("outcome %s, looked at %v, leftovers %v, point %s", r.Outcome, r.Looked, r.Leftovers, r.Points[0].Status)
	}
	w.clean(time.Second)
}

// TestKillNine: whatever is killed without a word, nothing stays.
func TestKillNine(t *testing.T) {
	for _, c := range []struct {
		name   string
		words  func(w *world) []string
		within time.Duration
	}{
		{"controller", func(w *world) []string { return []string{"disagg controller", w.dir} }, 35 * time.Second},
		{"srun", func(w *world) []string { return []string{"srun", "--job-name=disagg-", w.dir} }, 35 * time.Second},
		{"agent", func(w *world) []string { return []string{w.dir, "disagg agent"} }, 35 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.want(w.disagg("submit", w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", endless)), 0)
			w.clientRuns()
			node, pid := w.find(c.words(w)...)
			w.kill(node, pid, "KILL")
			begun := time.Now()
			w.clean(c.within)
			t.Logf("clean %.1f s after kill -9 of the %s", time.Since(begun).Seconds(), c.name)
			s := w.disagg("wait", w.newest())
			if s.code == 0 {
				t.Errorf("wait ended with 0 after kill -9 of the %s\n%s%s", c.name, s.out, s.err)
			}
		})
	}
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
			s := w.disagg("submit", w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(4, "2")+fault(c.fault)+c.timeouts), "--wait")
			w.want(s, c.code)
			r := w.result(w.newest())
			if r.Cause == nil {
				t.Fatalf("no cause\n%s", w.evidence())
			}
			text := r.Cause.What + strings.Join(r.Cause.Log, " ")
			if r.Cause.Process != c.process || r.Cause.Node == "" || !strings.Contains(text, c.says) {
				t.Errorf("cause is %q of %q on %q, want %q in it", text, r.Cause.Process, r.Cause.Node, c.says)
			}
			t.Logf("ended after %.1f s: %s", time.Since(begun).Seconds(), r.Cause.What)
			w.clean(time.Second)
		})
	}
}

// TestRouterDiesDuringClient ends the run with the router's name.
func TestRouterDiesDuringClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.disagg("submit", w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", endless)), 0)
	w.clientRuns()
	e := w.until("the router's start", time.Second, func(e events.Event) bool {
		return e.Kind == events.ProcessStarted && e.Process == "router"
	})
	list, err := w.Processes(e.Node)
	w.must(err)
	killed := 0
	for _, p := range list {
		// The real router takes this name in place of its command line.
		if strings.HasPrefix(strings.Join(p.Argv, " "), "sglang::router") {
			w.kill(e.Node, p.PID, "KILL")
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("found no router to kill")
	}
	begun := time.Now()
	w.want(w.disagg("wait", w.newest()), 7)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the run ended %s after its router", took)
	}
	if r := w.result(w.newest()); r.Cause == nil || r.Cause.Process != "router" || r.Cause.Node != e.Node {
		t.Errorf("cause is %+v, want the router on %s", r.Cause, e.Node)
	}
	w.clean(time.Second)
}

// TestTwoRunsAndAStranger: each run touches only its own.
func TestTwoRunsAndAStranger(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	node := a.Nodes()[0]
	id, err := a.Foreign(node, "stranger", lab.ToolImage, "sleep", "600")
	a.must(err)
	t.Cleanup(func() { a.must(a.RemoveContainer(node, id)) })
	_, waitA := a.start("submit", a.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "4")), "--wait")
	_, waitB := b.start("submit", b.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "4")), "--wait")
	a.want(waitA(), 0)
	b.want(waitB(), 0)
	a.goodRun(1)
	b.goodRun(1)
	list, err := a.Containers(node)
	a.must(err)
	for _, c := range list {
		if c.ID == id && c.State == "running" {
			return
		}
	}
	t.Errorf("the stranger's container does not run any more: %v", list)
}
