package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// prober looks into every image of every node and keeps what came of it.
type prober struct {
	mu  sync.Mutex
	got map[string]string // node and image → what was written, or why nothing was
	env map[string][]string
}

func (f *prober) Host(context.Context, []PreflightNode) (PreflightReport, error) {
	return PreflightReport{}, nil
}

func (f *prober) InImage(ctx context.Context, nodes []PreflightNode) (PreflightReport, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	rep := PreflightReport{Unfit: map[string]string{}}
	var wg sync.WaitGroup
	for _, n := range nodes {
		for _, p := range n.Images {
			wg.Go(func() {
				out, err := p.Run(ctx, []string{"facts"}, []byte("the spec"))
				f.mu.Lock()
				defer f.mu.Unlock()
				key := n.Name + " " + p.Image
				f.env[key] = p.Env
				if f.got[key] = strings.TrimSpace(string(out)); err != nil {
					f.got[key] = "error: " + err.Error()
					rep.Unfit[n.Name] = err.Error()
				}
			})
		}
	}
	wg.Wait()
	return rep, nil
}

func (f *prober) During(context.Context, []PreflightNode, string) (RunReport, error) {
	return RunReport{}, nil
}

// probing sets a prober up; each probe of a node runs the program.
func probing(s *scenario, run program) *prober {
	f := &prober{got: map[string]string{}, env: map[string][]string{}}
	s.opt.Preflight = f
	for _, n := range s.c.order {
		for i := range 3 {
			s.c.programs[fmt.Sprintf("preflight.%s.%d", n, i)] = run
		}
	}
	return f
}

func TestProbes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.plan.Workers[0].Ranks[0].Env = append(s.plan.Workers[0].Ranks[0].Env, models.EnvVar{Name: "HF_TOKEN", Secret: true}, models.EnvVar{Name: "PLAIN", Value: "x"})
		var mu sync.Mutex
		var seen []deploy.Workload
		f := probing(s, func(_ context.Context, p *fakeProc) deploy.Exit {
			mu.Lock()
			seen = append(seen, p.w)
			mu.Unlock()
			p.log("facts of " + p.w.Image)
			return deploy.Exit{}
		})
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		want := map[string]string{"gpu-01 engine:1": "facts of engine:1", "gpu-01 router:1": "facts of router:1", "gpu-02 engine:1": "facts of engine:1"}
		if diff := cmp.Diff(want, f.got); diff != "" {
			t.Errorf("probes (-want +got):\n%s", diff)
		}
		for _, w := range seen {
			if len(w.Argv) != 2 || w.Argv[1] != "facts" || string(w.Stdin) != "the spec" || w.Accelerated != (w.Image == "engine:1") {
				t.Errorf("probe %s: argv %q, stdin %q, accelerated %v", w.ID, w.Argv, w.Stdin, w.Accelerated)
			}
			if slices.ContainsFunc(w.Env, func(e deploy.EnvEntry) bool { return e.Secret }) {
				t.Errorf("probe %s is given a secret", w.ID)
			}
		}
		if env := f.env["gpu-01 engine:1"]; !slices.Contains(env, "PLAIN") || slices.Contains(env, "HF_TOKEN") {
			t.Errorf("variables of the probe: %q", env)
		}
		for _, e := range s.events() {
			if strings.HasPrefix(e.Process, "preflight.") {
				t.Errorf("a probe is in the log of the run: %+v", e)
			}
		}
	})
}

func TestProbesThatFail(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		run  program
		want string
	}{
		{"it fails", func(_ context.Context, p *fakeProc) deploy.Exit {
			p.log("no such library")
			return deploy.Exit{Code: 127}
		}, "error: the probe exited with code 127: no such library"},
		{"it hangs", func(ctx context.Context, _ *fakeProc) deploy.Exit {
			<-ctx.Done()
			return deploy.Exit{Code: -1, Signal: "SIGKILL"}
		}, "error: context deadline exceeded"},
		{"its node goes", func(ctx context.Context, p *fakeProc) deploy.Exit {
			p.node.lose(errKilled)
			<-ctx.Done()
			return deploy.Exit{Code: -1, Signal: "SIGKILL"}
		}, "error: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				f := probing(s, tc.run)
				res := s.start()
				if res.Outcome == result.OK || s.find(events.ProcessStarted, "prefill-0.0") != nil {
					t.Errorf("outcome %s; the workers were started", res.Outcome)
				}
				if got := f.got["gpu-01 engine:1"]; !strings.HasPrefix(got, tc.want) {
					t.Errorf("said %q, want %q", got, tc.want)
				}
				for _, n := range s.c.nodes {
					for id := range n.proc {
						t.Errorf("%s is left", id)
					}
				}
			})
		})
	}
	t.Run("it cannot be created", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			f := probing(s, func(context.Context, *fakeProc) deploy.Exit { return deploy.Exit{} })
			s.c.nodes["gpu-02"].onCreate = func(w *deploy.Workload) error { return fmt.Errorf("refused: %s", w.Image) }
			s.verdict(s.start(), ExitPreflight, "preflight found 1 node unfit: gpu-02: refused: engine:1")
			if got := f.got["gpu-02 engine:1"]; got != "error: refused: engine:1" {
				t.Errorf("said %q", got)
			}
			if got := f.got["gpu-01 engine:1"]; got != "" {
				t.Errorf("of the other node: %q", got)
			}
		})
	})
}
