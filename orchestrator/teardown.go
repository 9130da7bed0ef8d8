package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

const (
	// stopSlack is what a stop may take beyond the grace: KILL, and the removal
	// of the container.
	stopSlack = 5 * time.Second
	// tierGap is how long a later tier waits for the end of an earlier one. Most
	// end at once; one that does not must not take the others' grace.
	tierGap = 500 * time.Millisecond
	// closeTime bounds the end of agents and launcher; half of it is their
	// patience, the other half is for ending them by force.
	closeTime = 10 * time.Second
)

// teardown ends everything, whatever happened before, each step in bounded time:
// stop, collect, look, and close the connections.
func (r *run) teardown() {
	r.stopWatch()
	r.stop.begun, r.stop.during = true, r.stage
	r.countLast()
	why := "the run is done"
	switch {
	case r.stop.asked():
		why = r.stop.why
	case len(r.failures) > 0:
		why = r.failures[0].what
	}
	r.emit(events.Event{Kind: events.Teardown, Msg: "teardown begins: " + why, Detail: map[string]any{"after_seconds": r.sinceCause().Seconds()}})
	r.interim()
	constant := func(d time.Duration) func(models.Budgets) time.Duration {
		return func(models.Budgets) time.Duration { return d }
	}
	for _, s := range []step{
		{"stop", ExitLeftovers, func(b models.Budgets) time.Duration { return b.Grace.D() + stopSlack }, (*run).stageStop},
		{"collect", ExitCollect, func(b models.Budgets) time.Duration { return b.Collect.D() }, (*run).stageCollect},
		{"look", ExitLeftovers, constant(r.pace.Look + stopSlack), (*run).stageLook},
		{"close", ExitLeftovers, constant(closeTime), (*run).stageClose},
	} {
		if r.stop.leave {
			break
		}
		r.runStage(s)
	}
	r.stage = nil
	r.awaitSignal()
}

// signalTime is how long a run that ended by what a cancellation looks like waits
// for the signal that says so. A scheduler's signals reach agents, processes and
// controller in no order.
const signalTime = time.Second

func (r *run) awaitSignal() {
	if r.stop.asked() || len(r.failures) == 0 || !all(r.failures, func(f *failure) bool { return f.weak || f.late }) {
		return
	}
	ctx, cancel := context.WithTimeout(r.bg, r.allowed(signalTime))
	defer cancel()
	// No signal is the usual case: then it was no cancellation.
	_ = r.await(ctx, waiting{done: r.stop.asked, what: func() string { return "a signal" }, through: true})
}

// sinceCause is the time from the first failure to now.
func (r *run) sinceCause() time.Duration {
	if len(r.failures) == 0 {
		return 0
	}
	return time.Since(r.failures[0].at)
}

// tier is what is stopped together.
func tier(p *proc) int {
	switch {
	case p.mayEnd || p.Scope == "router":
		return 0
	case p.worker != nil:
		return 1
	}
	return 2
}

// stageStop stops clients and router, then workers, then services, on all nodes
// at once. All of them end by one deadline.
func (r *run) stageStop(ctx context.Context) error {
	r.stop.deadline = time.Now().Add(r.plan.Budgets.Grace.D())
	r.stop.ctx = ctx
	r.awaitCalls(ctx)
	for t := range 3 {
		if err := r.await(ctx, waiting{
			done:    func() bool { return r.tierDone(t - 1) },
			what:    func() string { return "processes to stop: " + r.stopping() },
			through: true,
		}); err != nil {
			return r.notStopped(err)
		}
		for _, p := range r.order {
			if p.alive() && tier(p) == t {
				r.stopProc(p)
			}
		}
		r.stop.tierAt = time.Now()
	}
	err := r.await(ctx, waiting{
		done: func() bool {
			return all(r.order, func(p *proc) bool { return !p.alive() || p.stopErr != nil && !p.stopping })
		},
		what:    func() string { return "processes to stop: " + r.stopping() },
		through: true,
	})
	return r.notStopped(err)
}

// callTime is how long a stop waits for calls to create something, whose stage is
// over and whose context has ended: a stop that overtook them would find nothing.
const callTime = 2 * time.Second

func (r *run) awaitCalls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	// A call that does not return is stopped like everything else.
	_ = r.await(ctx, waiting{
		done:    func() bool { return all(r.order, func(p *proc) bool { return !p.inCall }) },
		what:    func() string { return "calls to return" },
		through: true,
	})
}

// tierDone says that nothing of the tiers up to t is left, or that they had
// their time before the next begins.
func (r *run) tierDone(t int) bool {
	if t < 0 || r.stop.fast || time.Since(r.stop.tierAt) >= r.gap(t) {
		return true
	}
	return all(r.order, func(p *proc) bool { return tier(p) > t || !p.alive() })
}

// gap is how long the tier after t waits at most. Services hold what workers
// write while they end, so they wait longer.
func (r *run) gap(t int) time.Duration {
	half := r.plan.Budgets.Grace.D() / 2
	if t == 1 {
		return half
	}
	return min(tierGap, half)
}

// stopProc asks a process's node to end it, with what is left of the grace.
func (r *run) stopProc(p *proc) {
	p.stopping = true
	p.stops++
	grace := max(time.Until(r.stop.deadline), 0)
	if r.stop.fast {
		grace = 0
	}
	r.askStop(r.stop.ctx, p, grace, func(err error) {
		p.stops--
		p.stopping = p.stops > 0
		if p.stopErr = err; err == nil {
			p.phase, p.stopping = gone, false
		}
	})
}

// askStop has a process's node end it; then hears how that went, unless ctx is over
// by then.
func (r *run) askStop(ctx context.Context, p *proc, grace time.Duration, then func(error)) {
	p.asked = true
	conn := p.node.conn
	spawn(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Stop(ctx, p.ID, grace) }, func(_ struct{}, err error) { then(err) })
}

// hurry asks again, without grace, for everything that has not ended.
func (r *run) hurry() {
	if r.stop.ctx == nil {
		return // the stop has not begun; it will begin without grace
	}
	for _, p := range r.order {
		if p.alive() {
			r.stopProc(p)
		}
	}
}

func (r *run) stopping() string {
	var out []string
	for _, p := range r.order {
		if p.alive() {
			out = append(out, p.where())
		}
	}
	return joinMost(out)
}

// notStopped says what did not end. Whether anything is left is for the look to
// decide, so this is a warning.
func (r *run) notStopped(err error) error {
	if errors.Is(err, errLeave) {
		return err
	}
	for _, p := range r.order {
		switch {
		case !p.alive():
		case p.stopErr != nil:
			r.warn(p.warning(fmt.Sprintf("%s could not be stopped: %v", p.where(), p.stopErr)))
		default:
			r.warn(p.warning(fmt.Sprintf("%s did not stop in time", p.where())))
		}
	}
	return nil
}
