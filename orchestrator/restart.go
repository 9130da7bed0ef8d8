package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// restart is a decode worker that died while clients ran, on its way back.
type restart struct {
	worker *models.Worker
	life   int        // which life of its ranks ended
	deaths []*failure // of its ranks, as they were heard of
	point  *point     // what was measured meanwhile; nil: nothing
	// again ends the attempt, saying why; nil: it has not begun.
	again context.CancelCauseFunc
	back  time.Time // when tokens came out through it again; zero: they have not
}

// takeDeath takes the end of a rank that need not end the run, and says whether it
// is such a one: that of a decode worker which may be started again. The stage does
// that as soon as it can (mend).
func (r *run) takeDeath(p *proc, f *failure) bool {
	if r.stop.begun || p.worker == nil {
		return false
	}
	rs := r.restarting(p.worker)
	switch {
	case rs != nil && p.life > rs.life:
		rs.again(f) // it has died before it served
		return true
	case rs != nil: // it goes with the rank that died first
	case r.mayRestart(p):
		rs = &restart{worker: p.worker, life: p.life}
		r.restarts = append(r.restarts, rs)
		e := p.event(events.Restart, fmt.Sprintf("worker %s is started again (restart %d of %d): %s", p.worker.ID, r.restartsOf(p.worker), p.worker.Restarts, f.what))
		if e.Detail = f.detail(); e.Detail == nil {
			e.Detail = map[string]any{}
		}
		e.Detail["worker"], e.Detail["why"] = p.worker.ID, f.what
		r.emit(e)
	case r.clients && p.worker.Restarts > 0 && r.restartsOf(p.worker) >= p.worker.Restarts:
		f.what += fmt.Sprintf("; it was started again %s already, as often as decode.restarts allows", times(p.worker.Restarts))
		return false
	default:
		return false
	}
	f.at, f.stage = time.Now(), r.stageName()
	rs.deaths = append(rs.deaths, f)
	r.diagnose(f)
	return true
}

// mayRestart says whether the worker of a rank that has ended may be started again:
// while clients run, as often as the plan says, and not when somebody ends the run
// or the node is not what it was.
func (r *run) mayRestart(p *proc) bool {
	asked := p.exit != nil && p.exit.Asked
	return r.clients && !r.halted() && r.restartsOf(p.worker) < p.worker.Restarts && !asked && !p.node.lost && !p.node.ended
}

func (r *run) restartsOf(w *models.Worker) int {
	n := 0
	for _, rs := range r.restarts {
		if rs.worker == w {
			n++
		}
	}
	return n
}

// restarting is the restart of a worker that has not come to its end; nil: none.
func (r *run) restarting(w *models.Worker) *restart {
	for _, rs := range r.restarts {
		if rs.worker == w && rs.back.IsZero() {
			return rs
		}
	}
	return nil
}

// mending says that some worker is being started again, or is to be.
func (r *run) mending() bool {
	return slices.ContainsFunc(r.restarts, func(rs *restart) bool { return rs.back.IsZero() })
}

// broken are the workers that nobody has begun to start again.
func (r *run) broken() []*restart {
	return slices.DeleteFunc(slices.Clone(r.restarts), func(rs *restart) bool { return rs.again != nil })
}

// mend starts broken workers again until there are none. pt is what is measured
// meanwhile; nil: nothing. The error is for what ends the run.
func (r *run) mend(ctx context.Context, pt *point) error {
	for {
		batch := r.broken()
		if len(batch) == 0 {
			return nil
		}
		if err := r.bringBack(ctx, batch, pt); err != nil {
			return err
		}
	}
}

// bringBack starts workers again that died together, and proves that they serve.
func (r *run) bringBack(ctx context.Context, batch []*restart, pt *point) error {
	ctx, again := context.WithCancelCause(ctx)
	defer again(nil)
	var ws []*models.Worker
	for _, rs := range batch {
		rs.again, rs.point = again, pt
		ws = append(ws, rs.worker)
		if pt != nil {
			pt.disturbed = append(pt.disturbed, rs.worker.ID)
		}
	}
	if err := r.startAgain(ctx, ws); err != nil {
		if died, ok := errors.AsType[*failure](context.Cause(ctx)); ok && !cutShort(err) {
			err = died
		}
		if f, ok := errors.AsType[*failure](err); ok {
			f.what = fmt.Sprintf("worker %s could not be started again: %s", namesOf(ws), f.what)
			f.life = batch[0].life + 1
		}
		return err
	}
	for _, rs := range batch {
		rs.back = time.Now()
		first, _ := elect(rs.deaths)
		took := rs.back.Sub(rs.deaths[0].at)
		p := r.procs[first.process]
		msg := fmt.Sprintf("worker %s was started again, because %s: tokens came out through it again after %s", rs.worker.ID, first.what, took.Round(time.Millisecond))
		e := p.event(events.Restarted, msg)
		e.Detail = map[string]any{"worker": rs.worker.ID, "seconds": took.Seconds()}
		r.emit(e)
		if pt != nil {
			msg += "; the numbers of point " + pt.rec.Name + " hold no steady state"
		}
		r.warn(p.warning(msg))
	}
	return nil
}

// startAgain ends what is left of workers, and takes them through everything that
// they went through before, each step within its stage's budget.
func (r *run) startAgain(ctx context.Context, ws []*models.Worker) error {
	var procs []*proc
	for _, w := range ws {
		procs = append(procs, r.ranks(w)...)
	}
	b := r.plan.Budgets
	for _, s := range []struct {
		name   string
		budget time.Duration
		run    func(context.Context) error
	}{
		{"stop", b.Grace.D() + stopSlack + r.pace.Look, func(ctx context.Context) error { return r.clear(ctx, procs) }},
		{"launch", b.Launch.D(), func(ctx context.Context) error { return r.launch(ctx, procs) }},
		{"workers", b.WorkerMax.D(), func(ctx context.Context) error { return r.serving(ctx, ws) }},
		{"router", b.Router.D(), func(ctx context.Context) error { return r.listed(ctx, ws) }},
		{"canary", b.Canary.D(), func(ctx context.Context) error {
			_, err := r.proveDirectly(ctx, slices.DeleteFunc(pairs(r.plan.Workers), func(p pair) bool { return !slices.Contains(ws, p.decode) }))
			return err
		}},
	} {
		sctx, cancel := within(ctx, "step "+s.name+" of the restart", s.budget)
		err := s.run(sctx)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// clear ends what is left of processes and makes them what they were before they
// were created. The last word of the old life must have come: one that came later
// would be taken for the new one's.
func (r *run) clear(ctx context.Context, procs []*proc) error {
	var bad error
	asked := len(procs)
	for _, p := range procs {
		r.askStop(ctx, p, r.plan.Budgets.Grace.D(), func(err error) {
			asked--
			if err != nil && bad == nil {
				bad = &failure{what: fmt.Sprintf("%s could not be stopped: %v", p.where(), err), process: p.ID, node: p.node.name, logFile: p.logName}
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool {
			return bad != nil || asked == 0 && all(procs, func(p *proc) bool { return p.phase == gone })
		},
		what: func() string { return "processes to be gone: " + open(procs, gone) },
	})
	if bad != nil {
		return bad
	}
	if err != nil {
		return err
	}
	for _, p := range procs {
		*p = proc{Process: p.Process, worker: p.worker, node: p.node, logName: p.logName, life: p.life + 1, logFrom: p.logBytes}
	}
	return nil
}

// listed waits until the router lists workers as healthy, whatever it says of
// others.
func (r *run) listed(ctx context.Context, ws []*models.Worker) error {
	rt := r.plan.Router
	url, planned := r.frontURL()+rt.MembersPath, r.plannedMembers(ws)
	return r.until(ctx, r.procs[rt.ID], "the router to use "+namesOf(ws)+" again", func(ctx context.Context) error {
		a, err := r.get(ctx, url, r.pace.Probe)
		if err != nil {
			return err
		}
		got, err := readMembers(url, a)
		if err != nil {
			return err
		}
		return compareMembers(planned, slices.DeleteFunc(got, func(m member) bool {
			return !slices.ContainsFunc(planned, func(p member) bool { return normalURL(p.URL) == normalURL(m.URL) })
		}))
	})
}

// giveUp tells of deaths whose restart has not come to its end, now that the run
// ends. They are its cause, unless something else ends it, which is the better
// explanation: the recipe had allowed for them.
func (r *run) giveUp(err error) error {
	if r.stop.asked() {
		return err
	}
	f, _ := errors.AsType[*failure](err)
	for _, rs := range r.restarts {
		if !rs.back.IsZero() {
			continue
		}
		for _, d := range rs.deaths {
			d.weak = d.weak || cutShort(err) || f != nil && f.weak
			r.fail(d)
		}
	}
	return err
}

// cutShort says that a stage did not fail but ends because the run does.
func cutShort(err error) bool { return errors.Is(err, errHalted) || errors.Is(err, errLeave) }

// record is a restart's entry in the result.
func (rs *restart) record() result.Restart {
	first, _ := elect(rs.deaths)
	out := result.Restart{Worker: rs.worker.ID, Death: first.record()}
	if rs.point != nil {
		out.Point = rs.point.rec.Name
	}
	if !rs.back.IsZero() {
		took := rs.back.Sub(rs.deaths[0].at).Seconds()
		out.Seconds = &took
	}
	return out
}

func namesOf(ws []*models.Worker) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.ID)
	}
	return strings.Join(out, ", ")
}
