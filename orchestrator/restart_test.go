package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// newRestarts is a scenario of one prefill worker and two decode workers, each of
// which may be started again so many times. Its router calls a worker healthy when
// it listens.
func newRestarts(t *testing.T, times int) *scenario {
	t.Helper()
	s := newScenario(t, 1, 2)
	for i := range s.plan.Workers {
		if w := &s.plan.Workers[i]; w.Role == models.RoleDecode {
			w.Restarts = times
		}
	}
	all := s.router.members
	s.router.members = func() string {
		text := all()
		for i := range s.plan.Workers {
			if host := s.host(&s.plan.Workers[i]); !s.c.listens(host) {
				text = strings.Replace(text, `"http://`+host+`","worker_type":"decode","is_healthy":true`, `"http://`+host+`","worker_type":"decode","is_healthy":false`, 1)
			}
		}
		return text
	}
	return s
}

// listens says whether something listens at host:port.
func (c *cluster) listens(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[host] != nil
}

// lives lets a process have another program in each of its lives; the last goes on
// for further ones.
func (s *scenario) lives(id string, programs ...program) {
	var n atomic.Int64
	s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
		i := min(int(n.Add(1)), len(programs))
		return programs[i-1](ctx, p)
	}
}

// restartOf is the result's one restart.
func (s *scenario) restartOf(res result.Result) result.Restart {
	s.t.Helper()
	if len(res.Restarts) != 1 {
		s.t.Fatalf("restarts: %+v", res.Restarts)
	}
	return res.Restarts[0]
}

func TestWorkerThatDiedIsStartedAgain(t *testing.T) {
	for name, fault := range map[string]func(*scenario){
		"killed":   func(s *scenario) { s.c.kill("decode-0.0") },
		"vanished": func(s *scenario) { s.c.vanish("decode-0.0") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRestarts(t, 1)
				s.during(5*time.Second, func() { fault(s) })
				res := s.start()
				if !onlyDisturbed(res) {
					t.Fatalf("outcome %s, cause %+v, consequences %+v", res.Outcome, res.Cause, res.Consequences)
				}
				x := s.restartOf(res)
				if x.Worker != "decode-0" || x.Point != "c8" || x.Death.Process != "decode-0.0" || x.Death.Node != "gpu-02" || x.Death.Stage != "client" || x.Death.LogFile != "logs/decode-0.0.gpu-02.log" {
					t.Errorf("restart %+v", x)
				}
				if x.Seconds == nil || *x.Seconds < 3 || *x.Seconds > 6 {
					t.Errorf("it took %v s, it loads for 3", x.Seconds)
				}
				if diff := cmp.Diff([]string{"c8 disturbed", "c16 ok"}, statuses(res)); diff != "" {
					t.Errorf("points (-want +got):\n%s", diff)
				}
				if got, want := res.Points[0].Note, "its numbers hold no steady state; started again meanwhile: decode-0"; got != want || res.Points[0].Seconds != 20 || len(res.Points[0].Files) != 1 {
					t.Errorf("point %+v, want note %q", res.Points[0], want)
				}
				if !slices.ContainsFunc(res.Warnings, func(w string) bool {
					return strings.HasPrefix(w, "worker decode-0 was started again, because decode-0.0 on gpu-02 ") && strings.HasSuffix(w, "; the numbers of point c8 hold no steady state")
				}) {
					t.Errorf("warnings %q", res.Warnings)
				}
				begin, end := s.find(events.Restart, "decode-0.0"), s.find(events.Restarted, "decode-0.0")
				if begin == nil || end == nil || begin.Detail["worker"] != "decode-0" || !strings.Contains(begin.Msg, "(restart 1 of 1)") || end.Detail["seconds"] == nil {
					t.Errorf("events %+v, %+v", begin, end)
				}
				data, err := os.ReadFile(s.dir.Join("logs/decode-0.0.gpu-02.log"))
				if n := strings.Count(string(data), "ready"); err != nil || n != 2 {
					t.Errorf("the log has %d lives: %q, %v", n, data, err)
				}
				if len(res.Leftovers) > 0 || len(s.stillRunning()) > 0 {
					t.Errorf("left: %+v, %v", res.Leftovers, s.stillRunning())
				}
				s.noSecrets()
			})
		})
	}
}

// TestDeathOfAWorkerEndsTheRun is what holds where the plan allows no restart, or
// none any more.
func TestDeathOfAWorkerEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		times    int
		fault    func(*scenario)
		code     ExitCode
		cause    string
		restarts int
	}{
		{"the plan allows none", 0, func(s *scenario) { s.during(5*time.Second, func() { s.c.kill("decode-0.0") }) },
			ExitWorkload, "decode-0.0 on gpu-02 was killed by SIGKILL", 0},
		{"none is left", 1, func(s *scenario) {
			s.during(5*time.Second, func() { s.c.kill("decode-0.0"); pause(s.t.Context(), 10*time.Second); s.c.kill("decode-0.0") })
		}, ExitWorkload, "decode-0.0 on gpu-02 was killed by SIGKILL", 1},
		{"of another role", 1, func(s *scenario) { s.during(5*time.Second, func() { s.c.kill("prefill-0.0") }) },
			ExitWorkload, "prefill-0.0 on gpu-01 was killed by SIGKILL", 0},
		{"before clients run", 1, func(s *scenario) {
			s.engines["decode-0"].load = 30 * time.Second
			s.lives("decode-0.0", func(ctx context.Context, p *fakeProc) deploy.Exit {
				pause(ctx, 10*time.Second)
				return deploy.Exit{Code: 1}
			})
		}, ExitLaunch, "decode-0.0 on gpu-02 exited with code 1", 0},
		{"with its node", 1, func(s *scenario) {
			s.during(5*time.Second, func() { s.c.nodes["gpu-02"].lose(errors.New("no sign of life for 30s")) })
		}, ExitWorkload, "node gpu-02 is lost: no sign of life for 30s", 0},
		{"a deaf one", 1, func(s *scenario) {
			s.slow()
			s.during(5*time.Second, func() { s.engines["decode-0"].deaf.Store(true) })
		}, ExitWorkload, "worker decode-0 on gpu-02 is alive but deaf", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRestarts(t, tc.times)
				tc.fault(s)
				res := s.start()
				s.verdict(res, tc.code, tc.cause)
				if len(res.Restarts) != tc.restarts || len(s.stillRunning()) > 0 {
					t.Errorf("restarts %+v, left %v", res.Restarts, s.stillRunning())
				}
			})
		})
	}
}

// TestRestartThatFails: the death is the cause, and what kept the worker from
// coming back is told with it. Each step is bounded.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	const died = "decode-0.0 on gpu-02 was killed by SIGKILL"
	for _, tc := range []struct {
		name        string
		fault       func(*scenario)
		consequence string
		most        time.Duration // from the death to the end
	}{
		{"it cannot be stopped", func(s *scenario) {
			s.c.nodes["gpu-02"].onStop = func(context.Context, string) error {
				if s.find(events.Teardown, "") == nil {
					return errors.New("container 12ab is still there")
				}
				return nil
			}
		}, "decode-0.0 on gpu-02 could not be stopped: container 12ab is still there", 2 * time.Second},
		{"it cannot be created", func(s *scenario) {
			n := 0
			s.c.nodes["gpu-02"].onCreate = func(*deploy.Workload) error {
				if n++; n > 1 {
					return errors.New("no space left on device")
				}
				return nil
			}
		}, "decode-0.0 on gpu-02 could not be created: no space left on device", 2 * time.Second},
		{"it dies while it loads", func(s *scenario) {
			s.lives("decode-0.0", s.engines["decode-0"].run, func(ctx context.Context, p *fakeProc) deploy.Exit {
				p.log("loading weights")
				pause(ctx, 2*time.Second)
				p.log("torch.OutOfMemoryError: HIP out of memory")
				return deploy.Exit{Code: 3}
			})
		}, "decode-0.0 on gpu-02 exited with code 3", 5 * time.Second},
		{"it makes no progress", func(s *scenario) {
			s.lives("decode-0.0", s.engines["decode-0"].run, hangs)
		}, "worker decode-0.0 on gpu-02 made no progress for 2m", 125 * time.Second},
		{"it loads for ever", func(s *scenario) {
			s.plan.Budgets.WorkerMax = models.Duration(5 * time.Minute)
			s.lives("decode-0.0", s.engines["decode-0"].run, func(ctx context.Context, p *fakeProc) deploy.Exit {
				for pause(ctx, time.Second) {
					p.log("loading weights")
				}
				return deploy.Exit{Code: 143}
			})
		}, "step workers of the restart did not end within 5m0s: still waiting for workers: decode-0.0 on gpu-02", 305 * time.Second},
		{"the router does not use it", func(s *scenario) {
			all := s.router.members
			var down atomic.Bool
			s.router.members = func() string {
				text := all()
				if strings.Contains(text, "false") {
					down.Store(true)
				}
				if down.Load() {
					text = strings.Replace(text, `8000","worker_type":"decode","is_healthy":true`, `8000","worker_type":"decode","is_healthy":false`, 1)
				}
				return text
			}
			s.during(4*time.Second, func() { // somebody asks while it is down
				for !down.Load() && pause(s.t.Context(), 100*time.Millisecond) {
					s.router.members()
				}
			})
		}, "step router of the restart did not end within 2m0s: still waiting for the router to use decode-0 again (the router's workers are not complete: http://10.0.0.2:8000 is unhealthy)", 130 * time.Second},
		{"no token comes out", func(s *scenario) {
			e := s.engines["decode-0"]
			var again atomic.Bool
			e.before = func(w http.ResponseWriter, r *http.Request) bool {
				if again.Load() && r.Method == http.MethodPost {
					http.Error(w, "KVTransferError: no such session", http.StatusInternalServerError)
					return true
				}
				return false
			}
			s.lives("decode-0.0", e.run, func(ctx context.Context, p *fakeProc) deploy.Exit {
				again.Store(true)
				return e.run(ctx, p)
			})
		}, "step canary of the restart did not end within 2m0s: still waiting for tokens from prefill-0 on gpu-01 → decode-0 on gpu-02: decode:", 130 * time.Second},
		{"it sees another environment", func(s *scenario) {
			n := 0
			s.c.nodes["gpu-02"].receipt = func(_ string, env []deploy.ReceiptVar) []deploy.ReceiptVar {
				if n++; n > 1 {
					return env[:1]
				}
				return env
			}
		}, "the environment inside decode-0.0 on gpu-02 (scope decode) is not the planned one", 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRestarts(t, 2)
				s.slow()
				s.during(5*time.Second, func() { s.c.kill("decode-0.0") })
				tc.fault(s)
				res := s.start()
				s.verdict(res, ExitWorkload, died)
				want := "worker decode-0 could not be started again: " + tc.consequence
				if len(res.Consequences) == 0 || !strings.HasPrefix(res.Consequences[0].What, want) {
					t.Errorf("consequences %+v, want %q", res.Consequences, want)
				}
				x := s.restartOf(res)
				if x.Seconds != nil || x.Worker != "decode-0" || x.Death.What != died {
					t.Errorf("restart %+v", x)
				}
				if e := s.find(events.Teardown, ""); e == nil || e.Time.Sub(res.Cause.Time) > tc.most {
					t.Errorf("the run ended %s after the death, want at most %s", e.Time.Sub(res.Cause.Time), tc.most)
				}
				if diff := cmp.Diff([]string{"c8 missing", "c16 missing"}, statuses(res)); diff != "" {
					t.Errorf("points (-want +got):\n%s", diff)
				}
				if len(res.Leftovers) > 0 || len(s.stillRunning()) > 0 {
					t.Errorf("left: %+v, %v", res.Leftovers, s.stillRunning())
				}
			})
		})
	}
}

// hangs is a program that never listens and says nothing.
func hangs(ctx context.Context, _ *fakeProc) deploy.Exit {
	<-ctx.Done()
	return deploy.Exit{Code: 143}
}

// TestDeathIsDiagnosedByItsOwnLife: the signature of the first death is not that of
// the second.
func TestDeathIsDiagnosedByItsOwnLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		s.slow()
		run := s.engines["decode-0"].run
		s.lives("decode-0.0", func(ctx context.Context, p *fakeProc) deploy.Exit {
			ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
			defer cancel()
			run(ctx, p)
			p.log("torch.OutOfMemoryError: HIP out of memory")
			return deploy.Exit{Code: 3}
		}, func(ctx context.Context, p *fakeProc) deploy.Exit {
			ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
			defer cancel()
			run(ctx, p)
			p.log("something else")
			return deploy.Exit{Code: 4}
		})
		res := s.start()
		s.verdict(res, ExitWorkload, "decode-0.0 on gpu-02 exited with code 4")
		x := s.restartOf(res)
		if x.Death.Diagnosis == nil || !strings.HasPrefix(x.Death.Diagnosis.Signature, "oom") || res.Cause.Diagnosis != nil {
			t.Errorf("first death %+v, second %+v", x.Death.Diagnosis, res.Cause.Diagnosis)
		}
		if x.Death.Exit == nil || x.Death.Exit.Code != 3 || !slices.Contains(x.Death.Log, "torch.OutOfMemoryError: HIP out of memory") {
			t.Errorf("death %+v", x.Death)
		}
	})
}

// TestEndDuringARestart: whatever ends a run at any time ends it then, and nothing
// is left.
func TestEndDuringARestart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		end     func(*scenario)
		outcome result.Outcome
		code    ExitCode
		cause   string
	}{
		{"Ctrl-C", func(s *scenario) { s.signals <- os.Interrupt }, result.Cancelled, ExitInterrupted, "asked to end by "},
		{"scancel", func(s *scenario) { s.signals <- syscall.SIGTERM }, result.Cancelled, ExitTerminated, "asked to end by "},
		{"scancel of the step", func(s *scenario) {
			s.c.nodes["gpu-03"].report(deploy.Event{Kind: deploy.EventTerminating})
		}, result.Cancelled, ExitTerminated, "the agent on node gpu-03 was told to end by somebody else"},
		{"its node is lost", func(s *scenario) { s.c.nodes["gpu-02"].lose(errors.New("no sign of life for 30s")) },
			result.Failed, ExitWorkload, "node gpu-02 is lost: no sign of life for 30s"},
		{"another node is lost", func(s *scenario) { s.c.nodes["gpu-01"].lose(errors.New("no sign of life for 30s")) },
			result.Failed, ExitWorkload, "node gpu-01 is lost: no sign of life for 30s"},
		{"the router dies", func(s *scenario) { s.c.kill("router") }, result.Failed, ExitWorkload, "router on gpu-01 was killed by SIGKILL"},
		{"prefill dies", func(s *scenario) { s.c.kill("prefill-0.0") }, result.Failed, ExitWorkload, "prefill-0.0 on gpu-01 was killed by SIGKILL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRestarts(t, 1)
				s.slow()
				s.lives("decode-0.0", s.engines["decode-0"].run, hangs)
				s.during(5*time.Second, func() {
					s.c.kill("decode-0.0")
					pause(s.t.Context(), 10*time.Second)
					tc.end(s)
				})
				res := s.start()
				if res.Outcome != tc.outcome || res.ExitCode != int(tc.code) || res.Cause == nil || !strings.HasPrefix(res.Cause.What, tc.cause) {
					t.Errorf("%s, exit code %d, cause %+v", res.Outcome, res.ExitCode, res.Cause)
				}
				if x := s.restartOf(res); x.Seconds != nil || x.Point != "c8" {
					t.Errorf("restart %+v", x)
				}
				s.took(res, 15*time.Second, 35*time.Second)
				if !strings.Contains(tc.name, "is lost") && (len(res.Leftovers) > 0 || len(s.stillRunning()) > 0) {
					t.Errorf("left: %+v, %v", res.Leftovers, s.stillRunning())
				}
			})
		})
	}
}

// TestTwoWorkersDie: at once, and one while the other comes back.
func TestTwoWorkersDie(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]time.Duration{"at once": 0, "one after the other": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRestarts(t, 1)
				s.during(5*time.Second, func() {
					s.c.kill("decode-0.0")
					pause(s.t.Context(), between)
					s.c.kill("decode-1.0")
				})
				res := s.start()
				if !onlyDisturbed(res) {
					t.Fatalf("cause %+v, consequences %+v", res.Cause, res.Consequences)
				}
				var got []string
				for _, x := range res.Restarts {
					got = append(got, fmt.Sprint(x.Worker, " ", x.Point, " ", x.Seconds != nil))
				}
				slices.Sort(got)
				if diff := cmp.Diff([]string{"decode-0 c8 true", "decode-1 c8 true"}, got); diff != "" || res.Points[0].Status != result.PointDisturbed {
					t.Errorf("point %+v, restarts (-want +got):\n%s", res.Points[0], diff)
				}
				if len(s.stillRunning()) > 0 {
					t.Errorf("left: %v", s.stillRunning())
				}
			})
		})
	}
}

// TestWorkerOverTwoNodes: all its ranks are stopped and started again, and the rank
// that was killed is named, not the one that left for want of it.
func TestWorkerOverTwoNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		w := &s.plan.Workers[1]
		rank := w.Ranks[0]
		rank.ID, rank.Node, rank.Ports = "decode-0.1", 2, nil
		w.Ranks = append(w.Ranks, rank)
		s.plan.Workers = s.plan.Workers[:2]
		s.router.pairs = s.router.pairs[:1]
		var started atomic.Int64
		s.c.programs["decode-0.1"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			started.Add(1)
			return hangs(ctx, p)
		}
		run := s.engines["decode-0"].run
		s.lives("decode-0.0", func(ctx context.Context, p *fakeProc) deploy.Exit {
			ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
			defer cancel()
			run(ctx, p)
			return deploy.Exit{Code: 1}
		}, run)
		killed := false
		s.c.nodes["gpu-03"].onStop = func(context.Context, string) error {
			if !killed { // it was before it was asked to stop, and the news comes late
				killed = true
				s.c.kill("decode-0.1")
				pause(s.t.Context(), 200*time.Millisecond)
			}
			return nil
		}
		res := s.start()
		if !onlyDisturbed(res) {
			t.Fatalf("cause %+v, consequences %+v", res.Cause, res.Consequences)
		}
		if x := s.restartOf(res); x.Death.What != "decode-0.1 on gpu-03 was killed by SIGKILL" {
			t.Errorf("death %+v", x.Death)
		}
		if started.Load() != 2 {
			t.Errorf("rank 1 was started %d times", started.Load())
		}
	})
}

// TestLongRestartIsNeitherDeafNorIncomplete: what is known to be gone is not missed.
func TestLongRestartIsNeitherDeafNorIncomplete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		for _, pt := range s.plan.Client.Points {
			s.c.programs[pt.ID] = s.loaded(client(10*time.Minute, goodResult))
		}
		s.during(5*time.Second, func() {
			s.engines["decode-0"].load = 5 * time.Minute
			s.c.kill("decode-0.0")
		})
		res := s.start()
		if !onlyDisturbed(res) || *s.restartOf(res).Seconds < 300 {
			t.Fatalf("cause %+v", res.Cause)
		}
		for _, w := range res.Warnings {
			if strings.Contains(w, "deaf") || strings.Contains(w, "router does not use") {
				t.Errorf("warning %q", w)
			}
		}
	})
}

// TestClientEndsDuringARestart: its end is heard of, and its point ends with it.
func TestClientEndsDuringARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		s.during(15*time.Second, func() {
			s.engines["decode-0"].load = time.Minute
			s.c.kill("decode-0.0")
		})
		res := s.start()
		if diff := cmp.Diff([]string{"c8 disturbed", "c16 ok"}, statuses(res)); diff != "" || !onlyDisturbed(res) {
			t.Fatalf("cause %+v, points (-want +got):\n%s", res.Cause, diff)
		}
		if res.Points[0].Seconds != 20 {
			t.Errorf("the point took %v s, want 20", res.Points[0].Seconds)
		}
	})
}

// TestDeathBetweenPoints disturbs no point.
func TestDeathBetweenPoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		s.c.programs["client.c8"] = s.loaded(func(ctx context.Context, p *fakeProc) deploy.Exit {
			exit := client(20*time.Second, goodResult)(ctx, p)
			file := filepath.Join(p.w.Argv[len(p.w.Argv)-1], "out.json")
			if err := os.Rename(file, p.w.LogPath+".late"); err != nil {
				return deploy.Exit{Code: 1}
			}
			go func() { // a file server that shows it late
				pause(s.t.Context(), time.Second)
				s.c.kill("decode-0.0")
				pause(s.t.Context(), time.Second)
				_ = os.Rename(p.w.LogPath+".late", file)
			}()
			return exit
		})
		res := s.start()
		if diff := cmp.Diff([]string{"c8 ok", "c16 ok"}, statuses(res)); diff != "" || res.Outcome != result.OK {
			t.Fatalf("cause %+v, points (-want +got):\n%s", res.Cause, diff)
		}
		if x := s.restartOf(res); x.Point != "" || x.Seconds == nil {
			t.Errorf("restart %+v", x)
		}
	})
}

// TestRestartsAreCountedForEachWorker: two for one, none of them taken from another.
func TestRestartsAreCountedForEachWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 2)
		for _, pt := range s.plan.Client.Points {
			s.c.programs[pt.ID] = s.loaded(client(time.Minute, goodResult))
		}
		s.during(5*time.Second, func() {
			for _, id := range []string{"decode-0.0", "decode-1.0", "decode-0.0"} {
				s.c.kill(id)
				pause(s.t.Context(), 15*time.Second)
			}
		})
		res := s.start()
		want := []result.Restart{{Worker: "decode-0", Point: "c8"}, {Worker: "decode-1", Point: "c8"}, {Worker: "decode-0", Point: "c8"}}
		if diff := cmp.Diff(want, res.Restarts, cmpopts.IgnoreFields(result.Restart{}, "Death", "Seconds")); diff != "" || !onlyDisturbed(res) {
			t.Errorf("cause %+v, restarts (-want +got):\n%s", res.Cause, diff)
		}
		if want := "its numbers hold no steady state; started again meanwhile: decode-0, decode-1, decode-0"; res.Points[0].Note != want {
			t.Errorf("note %q", res.Points[0].Note)
		}
	})
}

// onlyDisturbed says that nothing was wrong with a run but that a worker was started
// again while its first point was measured.
func onlyDisturbed(res result.Result) bool {
	return res.ExitCode == int(ExitCollect) && len(res.Consequences) == 0 && res.Cause != nil &&
		res.Cause.What == "a worker was started again while points were measured, whose numbers hold no steady state: c8 (of 2 points)"
}

// TestStallClockOfANewLife: what a worker did not do before it was started again is
// not held against it.
func TestStallClockOfANewLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRestarts(t, 1)
		e := s.engines["decode-0"]
		s.c.programs[s.plan.Client.Points[0].ID] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			e.inFlight.Store(8)
			pause(ctx, 120*time.Second)
			s.c.kill("decode-0.0")
			pause(ctx, 120*time.Second)
			e.served.Add(80)
			e.inFlight.Store(0)
			return client(time.Second, goodResult)(ctx, p)
		}
		if res := s.start(); len(res.Restarts) != 1 || res.ExitCode != int(ExitCollect) {
			t.Errorf("exit %d, cause %+v, restarts %+v", res.ExitCode, res.Cause, res.Restarts)
		}
	})
}
