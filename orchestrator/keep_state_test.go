package orchestrator

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// stalled has a client whose requests all wait for their KV.
func stalled(s *scenario) {
	s.slow()
	s.c.programs[s.plan.Client.Points[0].ID] = func(ctx context.Context, p *fakeProc) deploy.Exit {
		s.engines["decode-0"].awaiting.Store(64)
		<-ctx.Done()
		return deploy.Exit{Code: 143}
	}
}

func TestStateIsKeptWhenSomethingHangs(t *testing.T) {
	t.Parallel()
	t.Run("a stalled transfer", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			f := &fakePreflight{during: RunReport{
				Found:    []string{"gpu-02: run.counters: tx_rdma_ack_timeout grew during the run: ionic_3 +12"},
				Unproven: []string{"gpu-01: run.counters: no answer within 6s (unknown)"},
			}}
			s.opt.Preflight = f
			stalled(s)
			res := s.start()
			s.verdict(res, ExitWorkload, "worker decode-0 on gpu-02 has 64 requests in flight and generated no token for 3m")
			want := []string{
				"prefill-0: no requests",
				"decode-0: 64 waiting for their KV",
				"64 requests wait on decode for KV, and no prefill worker counts any: prefill may have failed or dropped them; look for errors in the logs of prefill",
				"gpu-02: run.counters: tx_rdma_ack_timeout grew during the run: ionic_3 +12",
				"gpu-01: run.counters: no answer within 6s (unknown)",
				"kept in state/1",
			}
			if d := res.Cause.Diagnosis; d == nil || d.Signature != "hang.stall" {
				t.Errorf("diagnosis: %+v", d)
			}
			if diff := cmp.Diff(want, res.Cause.State); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"state/1/counters.json gpu-01", "state/1/counters.json gpu-02"}, f.again); diff != "" {
				t.Errorf("nodes that were looked at (-want +got):\n%s", diff)
			}
			for file, holds := range map[string]string{
				"decode-0.metrics":  `sglang:num_decode_transfer_queue_reqs{model_name="m"} 64`,
				"prefill-0.metrics": "sglang:generation_tokens_total",
				"router.members":    `"worker_type":"decode"`,
			} {
				data, err := os.ReadFile(s.dir.Join(rundir.StateDir + "/1/" + file))
				if err != nil || !strings.Contains(string(data), holds) {
					t.Errorf("%s: %v, %q", file, err, data)
				}
			}
		})
	})
	t.Run("who does not answer is said, and nobody waits for long", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			s.slow()
			s.during(5*time.Second, func() { s.engines["decode-0"].deaf.Store(true) })
			began := time.Now()
			res := s.start()
			s.verdict(res, ExitWorkload, "worker decode-0 on gpu-02 is alive but deaf")
			if d := res.Cause.Diagnosis; d == nil || d.Signature != "hang.deaf" {
				t.Errorf("diagnosis: %+v", d)
			}
			if len(res.Cause.State) != 3 || res.Cause.State[1] != "decode-0: no answer within 5s" {
				t.Errorf("state: %q", res.Cause.State)
			}
			if d := time.Since(began); d > 2*time.Minute {
				t.Errorf("the run took %s", d)
			}
		})
	})
	t.Run("a warning has it too", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			s.plan.Deaf = deafWarn
			stalled(s)
			s.start()
			for _, e := range s.events() {
				if state, ok := e.Detail["state"].([]any); ok && strings.Contains(e.Msg, "generated no token") {
					if !slices.Contains(state, any("decode-0: 64 waiting for their KV")) {
						t.Errorf("state: %q", state)
					}
					return
				}
			}
			t.Error("no warning with the state of things")
		})
	})
}

// TestNICsOfARunThatLostSomething: the peers of a dead worker try again and again, and
// no cable is to blame.
func TestNICsOfARunThatLostSomething(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.opt.Preflight = &fakePreflight{host: PreflightReport{Fabric: map[string]Fabric{"gpu-01": {Devices: []string{"ionic_0"}}}}, during: RunReport{Found: []string{"gpu-01: bad"}}}
		s.slow()
		s.during(5*time.Second, func() { s.c.kill("decode-0.0") })
		res := s.start()
		if !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.HasPrefix(w, "gpu-01: bad (but something of the run died") }) {
			t.Errorf("warnings: %q", res.Warnings)
		}
	})
}

func TestNICsAreLookedAtWhenTheRunEnds(t *testing.T) {
	t.Parallel()
	rails := PreflightReport{Fabric: map[string]Fabric{"gpu-02": {Devices: []string{"ionic_0"}}}}
	for _, tc := range []struct {
		name  string
		set   func(*scenario, *fakePreflight)
		asked []string
	}{
		{"nodes with rails", func(_ *scenario, f *fakePreflight) { f.host = rails }, []string{"counters.json gpu-02"}},
		{"no rails", func(*scenario, *fakePreflight) {}, nil},
		{"no worker ran", func(s *scenario, f *fakePreflight) {
			f.host = rails
			f.image.Unfit = map[string]string{"gpu-01": "image.start: no such image"}
		}, nil},
		{"the node is lost", func(s *scenario, f *fakePreflight) {
			f.host = rails
			s.slow()
			s.during(5*time.Second, func() { s.c.nodes["gpu-02"].lose(os.ErrDeadlineExceeded) })
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				f := &fakePreflight{during: RunReport{Found: []string{"gpu-02: bad"}, Unproven: []string{"gpu-02: unread"}}}
				tc.set(s, f)
				s.opt.Preflight = f
				res := s.start()
				if diff := cmp.Diff(tc.asked, f.again); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if got := slices.Contains(res.Warnings, "gpu-02: bad") && slices.Contains(res.Unproven, "gpu-02: unread"); got != (tc.asked != nil) {
					t.Errorf("warnings %q, unproven %q", res.Warnings, res.Unproven)
				}
			})
		})
	}
}

// TestStallsThatCannotBeSeen: a worker without the counters for it is never said to
// have been watched.
func TestStallsThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	const says = "stalls were not watched for on decode-0: no counter that moves with every token can be read there (metrics: true in the recipe has engines show them)"
	for name, metrics := range map[string]bool{"no metrics": false, "metrics": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.engines["decode-0"].metrics = metrics
				res := s.start()
				if res.Outcome != "ok" || slices.Contains(res.Unproven, says) == metrics {
					t.Errorf("outcome %s, unproven %q, cause %+v", res.Outcome, res.Unproven, res.Cause)
				}
			})
		})
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       float64
		ok         bool
	}{
		{"sglang", "sglang:generation_tokens_total 100\nsglang:inter_token_latency_seconds_count{le=\"a\"} 40\nsglang:time_to_first_token_seconds_count 3\n", 143, true},
		{"sglang, newer", "sglang:realtime_tokens_total{mode=\"decode\"} 7\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 5\n", 12, true},
		{"sglang with what moves at the end of a request alone", "sglang:generation_tokens_total 100\nsglang:num_requests_total 4\n", 100, false},
		{"vllm", "vllm:generation_tokens_total{engine=\"0\"} 9\nvllm:time_to_first_token_seconds_count 2\n", 11, true},
		{"nobody knows", "atom:generation_tokens_total 9\n", 0, false},
		{"nothing", "", 0, false},
	} {
		if got, ok := parseCounters([]byte(tc.text)).progress(); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %g, %v; want %g, %v", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}

// slowLook is a look at the nodes that takes its time, and what happens meanwhile.
type slowLook struct {
	*fakePreflight
	takes     time.Duration
	meanwhile func()
}

func (f *slowLook) During(ctx context.Context, nodes []PreflightNode, file string) (RunReport, error) {
	if f.meanwhile != nil {
		go f.meanwhile()
	}
	time.Sleep(f.takes) // whatever ctx says
	return f.fakePreflight.During(ctx, nodes, file)
}

// TestMeanwhile: what happens while the state is kept does not take the hang's place,
// and nothing that hangs itself holds up the end.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	const stall = "worker decode-0 on gpu-02 has 64 requests in flight and generated no token for 3m"
	for _, tc := range []struct {
		name  string
		takes time.Duration
		do    func(*scenario)
		cause string
		also  string // of the consequences
	}{
		{"Ctrl-C", 6 * time.Second, func(s *scenario) { s.signals <- os.Interrupt }, stall, ""},
		{"another worker dies", 6 * time.Second, func(s *scenario) { s.c.kill("prefill-0.0") }, stall, "prefill-0.0 on gpu-01 was killed by SIGKILL"},
		{"the worker itself dies", 6 * time.Second, func(s *scenario) { s.c.kill("decode-0.0") }, stall, "decode-0.0 on gpu-02 was killed by SIGKILL"},
		{"the look never ends", 24 * time.Hour, func(*scenario) {}, stall, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.opt.Preflight = &slowLook{fakePreflight: &fakePreflight{}, takes: tc.takes, meanwhile: func() {
					time.Sleep(time.Second)
					tc.do(s)
				}}
				stalled(s)
				began := time.Now()
				res := s.start()
				defer time.Sleep(tc.takes) // the look has ended by then
				s.verdict(res, ExitWorkload, tc.cause)
				if took := time.Since(began); took > 4*time.Minute {
					t.Errorf("it took %s", took)
				}
				if tc.also != "" && !slices.ContainsFunc(res.Consequences, func(f result.Failure) bool { return strings.HasPrefix(f.What, tc.also) }) {
					t.Errorf("consequences: %+v", res.Consequences)
				}
			})
		})
	}
	t.Run("it goes on by itself", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			e := s.engines["decode-0"]
			s.opt.Preflight = &slowLook{fakePreflight: &fakePreflight{}, takes: 7 * time.Second, meanwhile: func() { e.steps.Add(100) }}
			id := s.plan.Client.Points[0].ID
			s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				e.inFlight.Store(64)
				pause(ctx, 200*time.Second)
				e.served.Add(100)
				e.inFlight.Store(0)
				return client(time.Second, goodResult)(ctx, p)
			}
			res := s.start()
			if res.Outcome != result.OK || !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.HasSuffix(w, "it went on by itself") }) {
				t.Errorf("cause %+v, warnings %q", res.Cause, res.Warnings)
			}
		})
	})
}

// TestCountersThatSayNothing: a run is not ended for what engines count wrongly.
func TestCountersThatSayNothing(t *testing.T) {
	t.Parallel()
	const tokens = "sglang:inter_token_latency_seconds_count 5\n"
	for name, page := range map[string]string{
		"fewer than none in flight": tokens + "sglang:num_running_reqs -1\n",
		"not a number":              tokens + "sglang:num_running_reqs NaN\n",
		"infinite":                  tokens + "sglang:num_running_reqs +Inf\n",
		"a page":                    "<html>login</html>",
		"nothing":                   "",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				s.engines["decode-0"].before = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/metrics" {
						_, _ = io.WriteString(w, page)
					}
					return r.URL.Path == "/metrics"
				}
				for _, pt := range s.plan.Client.Points {
					s.c.programs[pt.ID] = client(400*time.Second, goodResult)
				}
				if res := s.start(); res.Outcome != result.OK {
					t.Errorf("cause: %+v", res.Cause)
				}
			})
		})
	}
	if got := parseCounters([]byte("<html>login</html>")).busy(); got != "it does not count its requests" {
		t.Errorf("a page says %q", got)
	}
}

// TestPrefillThatHangs: with some routers decode never hears of a request that prefill
// keeps.
func TestPrefillThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.slow()
		s.c.programs[s.plan.Client.Points[0].ID] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			s.engines["prefill-0"].inFlight.Store(4)
			<-ctx.Done()
			return deploy.Exit{Code: 143}
		}
		s.verdict(s.start(), ExitWorkload, "4 requests are in flight (worker prefill-0 on gpu-01 has 4) and no worker has done anything for them for 3m1")
	})
}

// TestHangsAllDay: where hangs are only warned of, what is kept and told is bounded.
func TestHangsAllDay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.plan.Deaf = deafWarn
		s.plan.Budgets.Stall = models.Duration(30 * time.Second)
		s.plan.Budgets.Client = models.Duration(48 * time.Hour)
		id := s.plan.Client.Points[0].ID
		s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			e := s.engines["decode-0"]
			e.inFlight.Store(1)
			for range 12 * 60 {
				pause(ctx, time.Minute)
				e.steps.Add(1)
			}
			e.inFlight.Store(0)
			e.served.Add(1)
			return client(time.Second, goodResult)(ctx, p)
		}
		res := s.start()
		states, _ := os.ReadDir(s.dir.Join(rundir.StateDir))
		if res.Outcome != result.OK || len(states) != keptMost || len(res.Warnings) > 3*keptMost {
			t.Errorf("cause %+v, %d states, %d warnings", res.Cause, len(states), len(res.Warnings))
		}
	})
}

// TestStateThatCannotBeWritten is never said to be kept.
func TestStateThatCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		stalled(s)
		s.during(0, func() {
			if err := os.WriteFile(s.dir.Join(rundir.StateDir), nil, 0o600); err != nil {
				t.Error(err)
			}
		})
		res := s.start()
		if n := len(res.Cause.State); n == 0 || res.Cause.State[n-1] != "nothing of it could be written to state/1" {
			t.Errorf("state: %q", res.Cause.State)
		}
	})
}
