package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

func minutes(n float64) models.Duration { return models.Duration(n * float64(time.Minute)) }

func TestDefaultBudgets(t *testing.T) {
	t.Parallel()
	p := build(t, inputs(t)).Plan
	want := DefaultBudgets()
	// 8h less 133m of starting, 10m of collecting and 2m of stopping, for two points.
	want.Client = minutes((480 - 133 - 10 - 2) / 2.0)
	if d := cmp.Diff(want, p.Budgets); d != "" {
		t.Error(d)
	}
	if p.Slurm.TimeLimit != minutes(480) || p.Slurm.SignalLead != minutes(2) {
		t.Errorf("time limit %s, lead %s", p.Slurm.TimeLimit, p.Slurm.SignalLead)
	}
	for _, b := range budgetList(&models.Timeouts{}, &models.Timeouts{}, &p.Budgets) {
		if *b.value <= 0 {
			t.Errorf("%s is %s", b.key, *b.value)
		}
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Inputs)
		check  func(models.Budgets) bool
		errs   []string
		warn   string
	}{
		{
			name: "recipe over site over default",
			change: func(in *Inputs) {
				in.Site.Timeouts = models.Timeouts{Router: minutes(7), Canary: minutes(8)}
				in.Recipe.Timeouts = models.Timeouts{Canary: minutes(9)}
			},
			check: func(b models.Budgets) bool {
				return b.Router == minutes(7) && b.Canary == minutes(9) && b.Launch == minutes(3)
			},
		}, {
			name:   "a longer worker raises its cap",
			change: func(in *Inputs) { in.Recipe.Timeouts.Worker = minutes(90) },
			check:  func(b models.Budgets) bool { return b.Worker == minutes(90) && b.WorkerMax == minutes(90) },
		}, {
			name:   "a lower cap lowers the worker",
			change: func(in *Inputs) { in.Recipe.Timeouts.WorkerMax = minutes(5) },
			check:  func(b models.Budgets) bool { return b.Worker == minutes(5) && b.WorkerMax == minutes(5) },
		}, {
			name:   "worker above its cap",
			change: func(in *Inputs) { in.Recipe.Timeouts = models.Timeouts{Worker: minutes(10), WorkerMax: minutes(5)} },
			errs:   []string{"timeouts.worker 10m0s is above timeouts.worker_max 5m0s, which nothing extends"},
		}, {
			name:   "a short time limit leaves the client the least",
			change: func(in *Inputs) { in.Recipe.TimeLimit = minutes(60) },
			check:  func(b models.Budgets) bool { return b.Client == minutes(10) },
		}, {
			name:   "no time to stop",
			change: func(in *Inputs) { in.Recipe.TimeLimit = minutes(2) },
			errs:   []string{"the time limit is 2m0s, but stopping alone takes up to 2m0s (grace 30s, then killing and looking at every node)"},
		}, {
			name:   "replays do not fit",
			change: func(in *Inputs) { in.Recipe.Client.Duration = minutes(60); in.Recipe.TimeLimit = minutes(120) },
			errs:   []string{"2 client points of 1h0m0s and 2m0s to stop make 2h2m0s, but the time limit is 2h0m0s"},
		}, {
			name:   "a replay gets room for its warm-up",
			change: func(in *Inputs) { in.Recipe.Client.Duration = minutes(100) },
			check:  func(b models.Budgets) bool { return b.Client == minutes(200) },
		}, {
			name: "client budget below its duration",
			change: func(in *Inputs) {
				in.Recipe.Client.Duration, in.Recipe.Timeouts.Client = minutes(30), minutes(20)
			},
			errs: []string{"timeouts.client is 20m0s, but one point lasts 30m0s"},
		}, {
			name: "written budgets do not fit",
			change: func(in *Inputs) {
				in.Recipe.TimeLimit = minutes(60)
				in.Recipe.Timeouts = models.Timeouts{WorkerMax: minutes(30), Client: minutes(20), Grace: minutes(1)}
			},
			check: func(b models.Budgets) bool { return b.Client == minutes(20) },
			warn:  "timeouts add up to 1h12m30s (worker_max 30m0s, 2 x client 20m0s, stop 2m30s), but the time limit is 1h0m0s: it may end the run in a stage that still has time",
		}, {
			name: "an evaluation alone has no client points",
			change: func(in *Inputs) {
				in.Recipe.Evals = &models.EvalSpec{Command: []string{"e"}, Only: true}
				in.Recipe.Client.Duration = minutes(600)
			},
			check: func(b models.Budgets) bool { return b.Eval == minutes(60) && b.Client == minutes(10) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			c.change(&in)
			r, err := Build(in)
			if d := cmp.Diff(c.errs, messages(err)); d != "" {
				t.Error(d)
			}
			if err != nil {
				return
			}
			if c.check != nil && !c.check(r.Plan.Budgets) {
				t.Errorf("budgets %+v", r.Plan.Budgets)
			}
			if got := strings.Join(r.Plan.Warnings, "\n"); got != c.warn {
				t.Errorf("warnings %q, want %q", got, c.warn)
			}
		})
	}
}
