package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
)

// DefaultBudgets bound the stages when nothing else is said. They are what a
// cold node needs, with room: a stage that needs longer hangs.
//
//	agents      5m   srun starts within seconds; a prolog with node checks takes minutes
//	preflight   5m   checks take seconds; probes inside a cold image more
//	image      45m   60 GB pulled at 25 MB/s
//	launch      3m   a container runtime under load
//	worker     15m   without a sign of progress: the longest silence of a healthy start is kernel compilation
//	worker_max  1h   700 GB of weights at 200 MB/s
//	router      5m   includes its own health checks of every worker
//	canary     10m   first tokens compile kernels
//	client           what the time limit leaves, shared by the points
//	eval        1h
//	stall       3m   a prefill of a million tokens; below the 5m after which engines give transfers up
//	collect    10m
//	grace      30s   between TERM and KILL
func DefaultBudgets() models.Budgets {
	d := func(v time.Duration) models.Duration { return models.Duration(v) }
	return models.Budgets{
		Agents: d(5 * time.Minute), Preflight: d(5 * time.Minute), Image: d(45 * time.Minute), Launch: d(3 * time.Minute),
		Worker: d(15 * time.Minute), WorkerMax: d(time.Hour), Router: d(5 * time.Minute), Canary: d(10 * time.Minute),
		Eval: d(time.Hour), Stall: d(3 * time.Minute), Collect: d(10 * time.Minute), Grace: d(30 * time.Second),
	}
}

// shortestClient is the least that a client point gets when the time limit
// leaves nothing: the warning says so.
const shortestClient = models.Duration(10 * time.Minute)

// stopReserve is what stopping takes after the grace period: killing, looking
// at every node, writing the result.
const stopReserve = 90 * time.Second

// budget is one stage: what recipe and site say, and what is in force.
type budget struct {
	key          string
	recipe, site models.Duration
	value        *models.Duration
}

// budgetList joins what recipe and site say of each stage with the budgets p.
func budgetList(r, s *models.Timeouts, p *models.Budgets) []budget {
	return []budget{
		{"agents", r.Agents, s.Agents, &p.Agents},
		{"preflight", r.Preflight, s.Preflight, &p.Preflight},
		{"image", r.Image, s.Image, &p.Image},
		{"launch", r.Launch, s.Launch, &p.Launch},
		{"worker", r.Worker, s.Worker, &p.Worker},
		{"worker_max", r.WorkerMax, s.WorkerMax, &p.WorkerMax},
		{"router", r.Router, s.Router, &p.Router},
		{"canary", r.Canary, s.Canary, &p.Canary},
		{"client", r.Client, s.Client, &p.Client},
		{"eval", r.Eval, s.Eval, &p.Eval},
		{"stall", r.Stall, s.Stall, &p.Stall},
		{"collect", r.Collect, s.Collect, &p.Collect},
		{"grace", r.Grace, s.Grace, &p.Grace},
	}
}

// points is the number of client points that the run has.
func (b *builder) points() int {
	r := b.in.Recipe
	if r.Client == nil || r.Evals != nil && bool(r.Evals.Only) {
		return 0
	}
	return len(r.Client.Concurrency)
}

// budgets settles how long each stage may take, and refuses a run that cannot
// fit into its time limit.
func (b *builder) budgets() {
	p := &b.plan.Budgets
	*p = DefaultBudgets()
	list := budgetList(&b.in.Recipe.Timeouts, &b.in.Site.Timeouts, p)
	given := map[string]bool{}
	for _, x := range list {
		if v := or(x.recipe, x.site); v != 0 {
			*x.value = v
			given[x.key] = true
		}
	}
	if given["worker"] && !given["worker_max"] {
		p.WorkerMax = max(p.WorkerMax, p.Worker)
	}
	if !given["worker"] {
		p.Worker = min(p.Worker, p.WorkerMax)
	}
	if p.Worker > p.WorkerMax {
		b.fail("timeouts.worker", fmt.Sprintf("timeouts.worker %s is above timeouts.worker_max %s, which nothing extends", p.Worker, p.WorkerMax), "raise worker_max, or lower worker")
	}

	if b.untimed() {
		return
	}
	limit, points := b.timeLimit(), models.Duration(b.points())
	stop := b.signalLead()
	var duration models.Duration
	if c := b.in.Recipe.Client; c != nil && points > 0 {
		duration = c.Duration
	}
	before := p.Agents + p.Preflight + p.Image + p.Launch + p.WorkerMax + p.Router + p.Canary
	after := p.Collect + stop
	if b.in.Recipe.Evals != nil {
		after += p.Eval
	}
	if !given["client"] {
		p.Client = shortestClient
		if points > 0 {
			p.Client = max(shortestClient, (limit-before-after)/points)
		}
		// A replay of a given length needs its warm-up on top.
		p.Client = max(p.Client, 2*duration) / models.Duration(time.Second) * models.Duration(time.Second)
	}
	if stop >= limit {
		b.fail("time_limit", fmt.Sprintf("the time limit is %s, but stopping alone takes up to %s (grace %s, then killing and looking at every node)", limit, stop, p.Grace), "raise time_limit, or lower timeouts.grace")
		return
	}
	if need := points*duration + stop; need >= limit {
		b.fail("time_limit", fmt.Sprintf("%d client points of %s and %s to stop make %s, but the time limit is %s", points, duration, stop, need, limit), "raise time_limit, or ask for fewer or shorter points")
		return
	}
	if points > 0 && p.Client < duration {
		b.fail("timeouts.client", fmt.Sprintf("timeouts.client is %s, but one point lasts %s", p.Client, duration), "raise timeouts.client above client.duration")
	}
	// Budgets that somebody wrote are meant to be used. When they alone do not
	// fit, the time limit would end the run in a stage that still has time.
	var sum models.Duration
	var terms []string
	for _, x := range list {
		n := models.Duration(1)
		switch x.key {
		case "client":
			n = points
		case "worker", "stall", "grace": // inside worker_max, client, and the reserve for stopping
			n = 0
		case "eval":
			if b.in.Recipe.Evals == nil {
				n = 0
			}
		}
		if given[x.key] && n > 0 {
			sum += n * *x.value
			term := fmt.Sprintf("%s %s", x.key, *x.value)
			if n > 1 {
				term = fmt.Sprintf("%d x %s", n, term)
			}
			terms = append(terms, term)
		}
	}
	if len(terms) > 0 && sum+stop > limit {
		b.warn("timeouts add up to %s (%s, stop %s), but the time limit is %s: it may end the run in a stage that still has time", sum+stop, strings.Join(terms, ", "), stop, limit)
	}
	b.worst = before + points*p.Client + after
}

// untimed says whether some of the times could not be read, so that nothing can be
// said of their sum.
func (b *builder) untimed() bool {
	r, s := b.in.RecipeMistakes, b.in.SiteMistakes
	return r.At("timeouts") || r.At("time_limit") || r.At("client.concurrency") || r.At("client.duration") || r.At("evals") ||
		s.At("timeouts") || s.At("slurm.time_limit") || s.At("slurm.signal_lead")
}

// timeLimit is the wall time of the run.
func (b *builder) timeLimit() models.Duration {
	return or(b.in.Recipe.TimeLimit, b.in.Site.Slurm.TimeLimit, models.DefaultTimeLimit)
}

// signalLead is how long before the time limit the run is told to end: what a
// stop needs.
func (b *builder) signalLead() models.Duration {
	return or(b.in.Site.Slurm.SignalLead, b.plan.Budgets.Grace+models.Duration(stopReserve))
}
