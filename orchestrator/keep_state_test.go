package orchestrator

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
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
				"64 requests wait on decode for KV, and no prefill worker holds any: prefill has failed or dropped them; look for their errors in the logs of prefill",
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
