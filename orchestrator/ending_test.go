package orchestrator

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// TestWhyTheSchedulerEndsIt: to a process every TERM looks the same; what the
// scheduler says of it decides what the cause is.
func TestWhyTheSchedulerEndsIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		view    JobView
		silent  bool
		outcome result.Outcome
		code    ExitCode
		cause   string
	}{
		{"somebody asked", JobView{State: JobRunning, Word: "COMPLETING"}, false, result.Cancelled, ExitTerminated,
			`asked to end by SIGTERM`},
		{"the time limit", JobView{State: JobRunning, Why: "it reached its time limit (TimeLimit)"}, false, result.Cancelled, ExitTerminated,
			`asked to end by SIGTERM: it reached its time limit (TimeLimit)`},
		{"a node is down", JobView{State: JobRunning, Why: "a node it needs is down (NodeDown)", NodeDown: true}, true, result.Failed, ExitWorkload,
			`the scheduler ends job 42 because of a node: a node it needs is down (NodeDown); not heard of: gpu-02; gpu-02: down: psu broken`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.slow()
				s.opt.Scheduler = fakeScheduler(func() (JobView, error) { return tc.view, nil })
				s.during(5*time.Second, func() {
					if tc.silent {
						s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventDetached, Detail: "no sign of life"})
					}
					s.signals <- syscall.SIGTERM
				})
				res := s.start()
				s.verdict(res, tc.code, tc.cause)
				if res.Outcome != tc.outcome {
					t.Errorf("outcome %s, want %s", res.Outcome, tc.outcome)
				}
			})
		})
	}
}

// TestCancelledWhileItHung: who cancels a run that waits for ever keeps what it waited
// for.
func TestCancelledWhileItHung(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{
		5 * time.Second:  "asked to end by SIGTERM",
		60 * time.Second: "asked to end by SIGTERM, while stage canary waited for a completion through router (no answer within 40s); asked directly: prefill-0 on gpu-01 → decode-0 on gpu-02: prefill: no answer within 20s; decode: no answer within 20s",
	} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.engines["prefill-0"].before = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == chatPath {
						<-r.Context().Done()
					}
					return r.URL.Path == chatPath
				}
				go func() {
					time.Sleep(after)
					s.signals <- syscall.SIGTERM
				}()
				res := s.start()
				if res.Cause == nil || res.Cause.What != want || res.Cause.Stage != "canary" {
					t.Errorf("cause %+v, want %q", res.Cause, want)
				}
			})
		})
	}
}

// TestScancelWhileContainersAreCreated: the agents are told first, and their answers
// come before their own word. That is no fault of a container.
func TestScancelWhileContainersAreCreated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		signal bool // else the agents' step alone is cancelled
		cause  string
	}{
		{"the job", true, "asked to end by SIGTERM"},
		{"the agents' step", false, "the agent on node gpu-02 was told to end by somebody else"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.c.nodes["gpu-02"].onCreate = func(*deploy.Workload) error {
					go func() {
						time.Sleep(50 * time.Millisecond)
						s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventTerminating})
						if tc.signal {
							s.signals <- syscall.SIGTERM
						}
					}()
					return &deploy.Fault{Class: deploy.ClassEnding, Msg: "create decode-0.0: this agent is ending"}
				}
				s.c.nodes["gpu-01"].onStop = func(ctx context.Context, _ string) error { pause(ctx, time.Second); return nil }
				res := s.start()
				s.verdict(res, ExitTerminated, tc.cause)
				if res.Outcome != result.Cancelled || res.Cause.Stage != "launch" {
					t.Errorf("outcome %s, cause %+v; want it cancelled in launch", res.Outcome, res.Cause)
				}
			})
		})
	}
}

// TestKillComes: when the agents are told to end too, the scheduler's KILL
// follows, and everything is written down before it, whatever does not end.
func TestKillComes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		first  bool // the agents hear of it before the controller
		within time.Duration
	}{
		{"agents first", true, 28500 * time.Millisecond},
		{"controller first", false, 28600 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.slow()
				s.plan.Budgets.Grace = 10 * s.plan.Budgets.Grace
				s.opt.Scheduler = fakeScheduler(func() (JobView, error) { return JobView{State: JobRunning}, nil })
				s.c.nodes["gpu-02"].onStop = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
				var at time.Time
				s.during(5*time.Second, func() {
					at = time.Now()
					told := func() { s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventTerminating}) }
					if tc.first {
						told()
						s.signals <- syscall.SIGTERM
						return
					}
					s.signals <- syscall.SIGTERM
					time.Sleep(100 * time.Millisecond)
					told()
				})
				res := s.start()
				if took := res.Finished.Sub(at); took > tc.within || took < 10*time.Second {
					t.Errorf("ended %s after TERM, want at most %s", took, tc.within)
				}
				if res.Outcome != result.Cancelled || len(res.Leftovers) == 0 {
					t.Errorf("outcome %s, leftovers %v", res.Outcome, res.Leftovers)
				}
				for _, id := range s.stillRunning() {
					s.c.kill(strings.Fields(id)[1])
				}
			})
		})
	}
}

// TestInterimResult: a controller that is killed while it stops a run leaves what
// it knew; one that is not leaves only the result.
func TestInterimResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		var interim *result.Result
		s.c.nodes["gpu-02"].onStop = func(ctx context.Context, _ string) error {
			pause(ctx, time.Second)
			var err error
			if interim, err = result.Read(s.dir.Join(rundir.InterimFile)); err != nil {
				t.Error(err)
			}
			return nil
		}
		s.during(5*time.Second, func() { s.c.kill("prefill-0.0") })
		res := s.start()
		s.verdict(res, ExitWorkload, "prefill-0.0 on gpu-01 was killed by SIGKILL")
		if interim == nil || !interim.Interim || interim.ExitCode != int(ExitWorkload) || interim.Cause == nil || interim.Cause.What != res.Cause.What || len(interim.Leftovers) != 2 {
			t.Errorf("while it stopped: %+v", interim)
		}
		if after, err := result.Read(s.dir.Join(rundir.InterimFile)); err != nil || after != nil {
			t.Errorf("after its end: %+v, %v", after, err)
		}
	})
}
