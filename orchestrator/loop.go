package orchestrator

import (
	"context"
	"fmt"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
)

// spawn runs work in the background and hands its outcome to then, which runs in
// the owner. An outcome that comes when ctx is over is dropped: the stage that
// wanted it has ended.
func spawn[T any](ctx context.Context, r *run, work func(context.Context) (T, error), then func(T, error)) {
	r.wg.Go(func() {
		v, err := work(ctx)
		r.post(ctx, func() { then(v, err) })
	})
}

// call is spawn for work that leaves something behind: then runs even when ctx is
// over, as long as the run is.
func call[T any](ctx context.Context, r *run, work func(context.Context) (T, error), then func(T, error)) {
	r.wg.Go(func() {
		v, err := work(ctx)
		r.post(r.bg, func() { then(v, err) })
	})
}

// post hands a function to the owner, who runs it unless ctx is over by then.
func (r *run) post(ctx context.Context, fn func()) {
	select {
	case r.mail <- func() {
		if ctx.Err() == nil {
			fn()
		}
	}:
	case <-r.bg.Done():
	}
}

// waiting is what an await waits for.
type waiting struct {
	done func() bool
	what func() string // completes "waiting for …"
	// through keeps waiting although the run is ending: for the teardown.
	through bool
}

// await runs the owner's loop until w is done, the run is ending, or ctx is over;
// then the failure says what was waited for.
func (r *run) await(ctx context.Context, w waiting) error {
	began := time.Now()
	for {
		if r.stop.leave {
			return errLeave
		}
		if !w.through && r.halted() {
			return errHalted
		}
		if w.done() {
			return nil
		}
		r.say(w.what, began)
		select {
		case fn := <-r.mail:
			fn()
		case e := <-r.wire:
			r.onWorkload(e)
		case s, ok := <-r.Signals:
			if !ok {
				r.Signals = nil // nobody will ask any more
				continue
			}
			r.onSignal(s)
		case <-r.tick.C:
			r.beat()
		case <-ctx.Done():
			if r.stop.leave {
				return errLeave
			}
			if w.done() {
				return nil
			}
			return r.outOfTime(ctx, w.what())
		}
	}
}

// part is a part of a stage that has a time of its own.
type part struct {
	name  string
	began time.Time
}

type partKey struct{}

// within bounds a part of a stage. What is not done by then is told of the part, by
// its name.
func within(ctx context.Context, name string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, partKey{}, part{name, time.Now()}), limit)
}

func (r *run) outOfTime(ctx context.Context, what string) *failure {
	f := r.late(ctx, what)
	f.hang = hangLate
	return f
}

func (r *run) late(ctx context.Context, what string) *failure {
	if p, ok := ctx.Value(partKey{}).(part); ok {
		return failf("%s did not end within %s: still waiting for %s", p.name, time.Since(p.began).Round(100*time.Millisecond), what)
	}
	if r.stage == nil {
		return failf("out of time waiting for %s", what)
	}
	took := time.Since(r.stage.began).Round(100 * time.Millisecond)
	return failf("stage %s did not end within %s: still waiting for %s", r.stage.name, took, what)
}

// say emits what the run waits for once that takes longer than a moment, and when
// it changes, not more often than it can be read.
func (r *run) say(what func() string, since time.Time) {
	every := sayEvery
	if time.Since(since) > sayLess*sayEvery {
		every *= sayLess // the last line of a program changes all the time
	}
	if r.stage == nil || time.Since(since) < sayEvery || time.Since(r.waitingSince) < every {
		return
	}
	text := what()
	if text == r.lastWaiting {
		return
	}
	r.lastWaiting, r.waitingSince = text, time.Now()
	r.emit(events.Event{Kind: events.StageWaiting, Msg: "waiting for " + text})
}

// sayEvery is the least time between two events of what is waited for; in a wait that
// is long, it is so many times as much.
const (
	sayEvery = time.Second
	sayLess  = 10
)

// beat is what happens every second.
func (r *run) beat() {
	if time.Since(r.lastAlive) >= events.AliveEvery {
		r.lastAlive = time.Now()
		r.emit(events.Event{Kind: events.Alive, Msg: "alive"})
	}
	r.watchDisk()
	if !r.Deadline.IsZero() && !r.stop.asked() && !r.stop.begun && time.Now().After(r.Deadline.Add(-r.stopTime())) {
		r.onDeadline()
	}
}

// watchDisk ends a run whose directory cannot be written to: its results and logs
// would be lost, and the GPU time with them.
func (r *run) watchDisk() {
	r.unwritable.set(r.out.Err())
	if lasts := r.unwritable.lasts(); lasts >= r.pace.Unwritable && !r.stop.begun && !r.unwritable.told {
		r.unwritable.told = true
		r.fail(&failure{code: ExitCollect, what: fmt.Sprintf("the run directory cannot be written to for %s, so results would be lost: %v; make room, or set another runs_dir in the site", lasts.Round(time.Second), r.unwritable.err)})
	}
}

// halted says that the run is ending and stages must not go on.
func (r *run) halted() bool { return r.stop.asked() || len(r.failures) > 0 }

// watchCaller ends the run when the caller's context does.
func (r *run) watchCaller(ctx context.Context) {
	r.wg.Go(func() {
		select {
		case <-ctx.Done():
			r.post(r.bg, func() { r.onCancel(context.Cause(ctx)) })
		case <-r.bg.Done():
		}
	})
}
