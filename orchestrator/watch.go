package orchestrator

import (
	"context"
	"fmt"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

// watcher is what is known while the client runs.
type watcher struct {
	cancel  context.CancelFunc
	workers []*watched
	router  *watched
	members since
	all     stall // of all workers together
	hung    []*finding
	kept    int // how often the state of things was kept
}

// finding is something that was found to hang, while the state of things is kept.
type finding struct {
	*failure
	still func() bool // it does
	told  bool        // acted on already
}

// keptMost bounds how often the state of things is kept: where hangs are only warned
// of they may come and go all day.
const keptMost = 3

// watched is one HTTP endpoint under watch.
type watched struct {
	what   string
	worker *models.Worker // nil for the router
	head   *proc
	ranks  []*proc
	silent since // since when it does not answer
	late   bool  // that it has not answered for a while was told
	stall  stall
	tokens tokenView
	// visible says that the last look showed progress and requests in flight.
	visible            bool
	activity, inFlight float64
	life               int // of the head whose counters those are
}

// tokenView is whether it can be seen that a worker makes tokens.
type tokenView int

const (
	tokensUnasked tokenView = iota
	tokensUnseen
	tokensSeen
)

// since is a state that holds for some time, and whether it was told.
type since struct {
	at   time.Time
	err  error
	told bool
}

// set notes how a question went: nil ends the state.
func (s *since) set(err error) {
	switch {
	case err == nil:
		*s = since{}
	case s.at.IsZero():
		s.at, s.err = time.Now(), err
	default:
		s.err = err
	}
}

func (s *since) lasts() time.Duration {
	if s.at.IsZero() {
		return 0
	}
	return time.Since(s.at)
}

// stall is requests in flight without progress.
type stall struct {
	at       time.Time // since when; zero: not looked at yet
	progress float64
	told     bool
}

// stands takes the latest progress and whether there is work, and says whether
// nothing has moved for as long as limit.
func (s *stall) stands(progress float64, work bool, limit time.Duration) bool {
	if s.at.IsZero() || !work || progress != s.progress {
		*s = stall{at: time.Now(), progress: progress}
	}
	return time.Since(s.at) >= limit
}

// startWatch begins to ask every worker and the router in rounds, until the
// teardown. What it finds out reaches the owner like every other event.
func (r *run) startWatch() {
	ctx, cancel := context.WithCancel(r.bg)
	r.watch = watcher{cancel: cancel}
	r.watchLogs(ctx)
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		s := &watched{what: "worker " + w.ID, worker: w, ranks: r.ranks(w)}
		s.head = s.ranks[0]
		r.watch.workers = append(r.watch.workers, s)
		base, health := r.workerURL(w), r.workerURL(w)+w.HealthPath
		r.rounds(ctx, r.pace.Watch, func(ctx context.Context) {
			r.watchHealth(ctx, s, func(ctx context.Context) error { return r.probeHealth(ctx, health) })
		})
		r.rounds(ctx, r.pace.Watch, func(ctx context.Context) { r.watchTokens(ctx, s, base) })
	}
	if rt := r.plan.Router; rt != nil {
		p := r.procs[rt.ID]
		s := &watched{what: "router", head: p, ranks: []*proc{p}}
		r.watch.router = s
		base, planned, ready := r.frontURL(), r.plannedMembers(r.workers()), r.routerProbe()
		r.rounds(ctx, r.pace.Watch, func(ctx context.Context) { r.watchHealth(ctx, s, ready) })
		if listsMembers(rt) {
			r.rounds(ctx, r.pace.Watch, func(ctx context.Context) { r.watchMembers(ctx, base+rt.MembersPath, planned) })
		}
	}
}

// stopWatch ends the rounds; it may never have begun.
func (r *run) stopWatch() {
	if r.watch.cancel != nil {
		r.watch.cancel()
	}
	r.hurryHung()
	var unseen []string
	for _, s := range r.watch.workers {
		if s.tokens == tokensUnseen && s.worker.Role != models.RolePrefill {
			unseen = append(unseen, s.worker.ID)
		}
	}
	if len(unseen) > 0 {
		r.unproven = append(r.unproven, fmt.Sprintf("stalls were not watched for on %s: no counter that moves with every token can be read there (metrics: true in the recipe has engines show them)", joinMost(unseen)))
	}
}

// rounds calls ask again and again, a pause between.
func (r *run) rounds(ctx context.Context, every time.Duration, ask func(context.Context)) {
	r.wg.Go(func() {
		for pause(ctx, every) {
			ask(ctx)
		}
	})
}

// watchHealth notices who is alive but deaf: it does not answer, and does not
// even write to its log; or does not answer for very long.
func (r *run) watchHealth(ctx context.Context, s *watched, probe func(context.Context) error) {
	err := probe(ctx)
	r.post(ctx, func() {
		if r.restarting(s.worker) != nil {
			err = nil // it is known to be gone, and what brings it back has a time of its own
		}
		s.silent.set(err)
		silent := s.silent.lasts()
		still := silent
		for _, p := range s.ranks {
			if d := time.Since(p.moved); d < still {
				still = d
			}
		}
		r.sayUnanswered(s, silent)
		if silent < r.pace.Mute && (silent < r.pace.Deaf || still < r.pace.Deaf) {
			return
		}
		r.deaf(&s.silent.told, s.head, hangDeaf, func() bool { return s.silent.err != nil }, fmt.Sprintf("%s on %s is alive but deaf: no good answer for %s, no progress for %s; last: %v", s.what, s.head.node.name, silent.Round(time.Second), still.Round(time.Second), s.silent.err))
	})
}

// sayUnanswered tells while the run goes on that an endpoint has not answered for a
// third of the time after which it is deaf, and when it answers again.
func (r *run) sayUnanswered(s *watched, silent time.Duration) {
	switch late := silent >= r.pace.Deaf/3; {
	case late && !s.late:
		r.emit(s.head.warning(fmt.Sprintf("%s on %s has not answered for %s: %v", s.what, s.head.node.name, silent.Round(time.Second), s.silent.err)))
		s.late = true
	case silent == 0 && s.late:
		r.emit(s.head.warning(fmt.Sprintf("%s on %s answers again", s.what, s.head.node.name)))
		s.late = false
	}
}

// deaf is what the site wants when something lives and does not serve: the end of
// the run, or a warning, once. Before either the state of things is kept; when it
// still holds then, it is acted on.
func (r *run) deaf(told *bool, p *proc, how hang, still func() bool, what string) {
	if *told {
		return
	}
	*told = true
	life := p.life
	f := &finding{failure: &failure{at: time.Now(), what: what, process: p.ID, node: p.node.name, logFile: p.logName, life: life, hang: how}}
	f.still = func() bool { return p.life == life && r.restarting(p.worker) == nil && still() }
	r.emit(p.warning(what + "; its state is being kept"))
	r.watch.hung = append(r.watch.hung, f)
	if len(r.watch.hung) > 1 {
		return // it is being kept for the first
	}
	if r.watch.kept++; r.watch.kept > keptMost {
		r.sayHung([]string{fmt.Sprintf("not kept again: it was %d times", keptMost)})
		return
	}
	r.keepState(r.sayHung)
}

// sayHung acts on what was found to hang, now that the state of things is kept; state
// is what there is to say of it.
func (r *run) sayHung(state []string) {
	hung := r.watch.hung
	r.watch.hung = nil
	for _, f := range hung {
		f.state = state
		r.actOn(f)
	}
}

// hurryHung acts on what was found to hang before its state is kept: something else
// ends the run, and came later.
func (r *run) hurryHung() {
	for _, f := range r.watch.hung {
		r.actOn(f)
	}
}

func (r *run) actOn(f *finding) {
	if f.told {
		return
	}
	f.told = true
	switch {
	case !f.still():
		r.warn(r.procs[f.process].warning(f.what + "; it went on by itself"))
	case r.plan.Deaf == deafWarn:
		e := r.procs[f.process].warning(f.what)
		e.Detail = f.detail()
		switch {
		case r.watch.kept <= keptMost:
			r.warn(e)
		case r.watch.kept == keptMost+1:
			r.warn(e)
			r.warn(events.Event{Msg: "what hangs from now on and goes on by itself is told in events.jsonl alone"})
		default:
			r.emit(e)
		}
	default:
		r.fail(f.failure)
	}
}

// deafWarn is the site's choice to go on with a deaf worker.
const deafWarn = "warn"

// watchMembers notices when the router no longer uses the planned workers: then
// what is measured is not what was planned.
func (r *run) watchMembers(ctx context.Context, url string, planned []member) {
	a, err := r.get(ctx, url, r.pace.Probe)
	if err != nil {
		return // no answer says nothing of the list: watchHealth sees to that
	}
	err = judgeMembers(url, a, planned)
	r.post(ctx, func() {
		if r.mending() {
			err = nil // the router is right to miss one
		}
		m := &r.watch.members
		m.set(err)
		if lasts := m.lasts(); lasts >= r.pace.Deaf {
			p := r.watch.router.head
			r.deaf(&m.told, p, hangMembers, func() bool { return m.err != nil }, fmt.Sprintf("the router does not use the planned workers for %s: %v", lasts.Round(time.Second), m.err))
		}
	})
}

// watchTokens notices when requests are in flight and no token comes out: a KV
// transfer that stalls looks like this, with everything answering.
func (r *run) watchTokens(ctx context.Context, s *watched, base string) {
	c, err := r.scrape(ctx, base)
	if err != nil {
		c = counters{} // without metrics; or without an answer: watchHealth sees to that
	}
	progress, ok := c.progress()
	activity, _ := c.activity()
	inFlight, counts := c.inFlight()
	r.post(ctx, func() {
		s.tokens = max(s.tokens, tokensUnseen)
		if s.visible = ok && counts; !s.visible {
			return
		}
		s.tokens, s.inFlight, s.activity = tokensSeen, inFlight, activity
		if mending := r.restarting(s.worker) != nil; mending || s.life != s.head.life {
			s.stall, r.watch.all, s.life = stall{}, stall{}, s.head.life // it counts anew
			if mending {
				return
			}
		}
		if s.worker.Role != models.RolePrefill && s.stall.stands(progress, inFlight > 0, r.plan.Budgets.Stall.D()) {
			r.deaf(&s.stall.told, s.head, hangStall, func() bool { return s.stall.progress == progress },
				fmt.Sprintf("%s on %s has %g requests in flight and generated no token for %s: the KV transfer or the engine stalls", s.what, s.head.node.name, inFlight, time.Since(s.stall.at).Round(time.Second)))
		}
		r.watchAll()
	})
}

// watchAll notices when requests are in flight somewhere and no worker of any role
// does anything: a prefill that hangs keeps requests that decode never hears of. One
// worker alone may have to wait for the others for long.
func (r *run) watchAll() {
	var sum, inFlight float64
	var busy *watched
	for _, s := range r.watch.workers {
		if !s.visible {
			return // nobody knows what that one does
		}
		sum += s.activity
		inFlight += s.inFlight
		if s.inFlight > 0 && busy == nil {
			busy = s
		}
	}
	all := &r.watch.all
	// A worker of its own is found first, which says more.
	if all.stands(sum, inFlight > 0, r.plan.Budgets.Stall.D()+2*r.pace.Watch) && !r.stallTold() {
		r.deaf(&all.told, busy.head, hangStall, func() bool { return all.progress == sum },
			fmt.Sprintf("%g requests are in flight (%s on %s has %g) and no worker has done anything for them for %s", inFlight, busy.what, busy.head.node.name, busy.inFlight, time.Since(all.at).Round(time.Second)))
	}
}

// stallTold says that a stall is known already.
func (r *run) stallTold() bool {
	for _, s := range r.watch.workers {
		if s.stall.told {
			return true
		}
	}
	return false
}

// generated is how many tokens decode workers have made, as far as they count.
type generated struct {
	tokens float64
	known  bool
}

// readGenerated asks the decode workers now.
func (r *run) readGenerated(ctx context.Context) (generated, error) {
	var g generated
	open, counted, all := 0, 0, 0
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		if w.Role == models.RolePrefill {
			continue
		}
		open++
		all++
		base := r.workerURL(w)
		spawn(ctx, r, func(ctx context.Context) (counters, error) { return r.scrape(ctx, base) }, func(c counters, _ error) {
			open--
			if n, ok := c.tokens(); ok { // without metrics nothing is known
				g.tokens += n
				counted++
			}
		})
	}
	err := r.await(ctx, waiting{done: func() bool { return open == 0 }, what: func() string { return "the decode workers' counters" }})
	g.known = counted == all
	return g, err
}

// none says that surely no token was generated since before.
func (g generated) none(before generated) bool {
	return g.known && before.known && g.tokens <= before.tokens
}
