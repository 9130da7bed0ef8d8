package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
)

// asking is every pair being asked for a token directly.
type asking struct {
	ways []pair
	open map[string]error // those that have given none, with the reason where there is one
	bad  *failure         // one that never will
}

// askWays begins to ask every pair, until ctx is over; limit bounds one attempt.
func (r *run) askWays(ctx context.Context, ways []pair, limit time.Duration) *asking {
	a := &asking{ways: ways, open: map[string]error{}}
	slots := make(chan struct{}, atOnce)
	for _, w := range ways {
		e := r.endsOf(w)
		a.open[w.String()] = nil
		r.poll(ctx, func(ctx context.Context) error {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return ctx.Err()
			}
			return r.askPair(ctx, e, limit)
		}, func(err error) { a.open[w.String()] = err }, func(err error) {
			delete(a.open, w.String())
			if err != nil && a.bad == nil {
				a.bad = r.pairFailure(w, err)
			}
		})
	}
	return a
}

// describeOpen names what is not proven, with the reason where there is one.
func describeOpen(open map[string]error) string {
	var out []string
	for _, k := range sortedKeys(open) {
		if err := open[k]; err != nil {
			out = append(out, err.Error())
			continue
		}
		out = append(out, k)
	}
	return strings.Join(out, "; ")
}

// suspect is the only worker that is part of every pair that failed, and of none
// that gave a token; nil: there is no such one, or there are two.
func (a *asking) suspect() *models.Worker {
	var in []*models.Worker
	for _, w := range a.ways {
		if a.open[w.String()] == nil { // a token came, or no attempt has ended yet
			continue
		}
		ends := slices.DeleteFunc([]*models.Worker{w.prefill, w.decode}, func(x *models.Worker) bool { return x == nil })
		if in == nil {
			in = ends
			continue
		}
		in = slices.DeleteFunc(in, func(x *models.Worker) bool { return !slices.Contains(ends, x) })
	}
	for _, w := range a.ways {
		if _, waits := a.open[w.String()]; !waits {
			in = slices.DeleteFunc(in, func(x *models.Worker) bool { return x == w.prefill || x == w.decode })
		}
	}
	if len(in) != 1 {
		return nil
	}
	return in[0]
}

// blame gives a failure the worker that must be looked at first.
func (a *asking) blame(r *run, f *failure) {
	w := a.suspect()
	if w != nil {
		f.what += fmt.Sprintf("; every pair with %s fails, and no other does", r.headOf(w).where())
	} else if w = a.lead(); w == nil {
		return
	}
	head := r.headOf(w)
	f.process, f.node, f.logFile = head.ID, head.node.name, head.logName
}

// lead is the worker whose log tells most where no worker is the suspect: the only
// one that gave an error instead of silence; of a single pair that is silent the one
// that waits, decode. nil: there is no such one.
func (a *asking) lead() *models.Worker {
	var spoke []*models.Worker
	for _, err := range a.open {
		if p, ok := errors.AsType[*pairError](err); ok {
			spoke = append(spoke, p.spoke()...)
		}
	}
	switch {
	case len(spoke) == 0 && len(a.ways) == 1:
		return a.ways[0].decode
	case len(spoke) == 0 || slices.ContainsFunc(spoke, func(w *models.Worker) bool { return w != spoke[0] }):
		return nil
	}
	return spoke[0]
}

// said is what the pairs have said so far; "" where they have not been asked.
func (l *located) said() string {
	switch {
	case l.asking == nil || l.bad == nil && len(l.open) == len(l.ways) && !slices.ContainsFunc(l.ways, func(w pair) bool { return l.open[w.String()] != nil }):
		return ""
	case l.bad != nil:
		return l.bad.what
	case len(l.open) == 0:
		return fmt.Sprintf("asked directly, %s gave tokens: look at the router", plural(len(l.ways), "pair"))
	}
	return "asked directly: " + describeOpen(l.open)
}

// located is the search for the pair that gives no token, while a completion
// through the router is awaited.
type located struct {
	stop context.CancelFunc
	*asking
}

// locateAfter is how long the router may owe a completion before the pairs are asked:
// its silence does not say which worker is silent.
const locateAfter = 20 * time.Second

// locate asks every pair directly when the router has owed a completion for some
// time.
func (r *run) locate(ctx context.Context) *located {
	ctx, stop := context.WithCancel(ctx)
	l := &located{stop: stop}
	ways, limit := pairs(r.plan.Workers), r.canaryLimit()/2
	if !r.askable(ways) {
		return l
	}
	r.wg.Go(func() {
		if pause(ctx, min(limit, locateAfter)) {
			r.post(ctx, func() { l.asking = r.askWays(ctx, ways, limit) })
		}
	})
	return l
}

// explain adds to the end of the wait what the pairs said.
func (l *located) explain(r *run, err error) error {
	l.stop()
	f, ok := errors.AsType[*failure](err)
	if !ok || l.asking == nil {
		return err
	}
	switch {
	case l.bad != nil:
		f.process, f.node, f.logFile = l.bad.process, l.bad.node, l.bad.logFile
	case len(l.open) > 0:
		l.blame(r, f)
	}
	return err
}
