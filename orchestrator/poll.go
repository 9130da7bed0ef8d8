package orchestrator

import (
	"context"
	"errors"
	"time"
)

// poll calls probe until it succeeds, fails for good, or ctx is over: often at
// first, so that what is quick is noticed at once, then less. The owner hears
// each new reason why it is not there yet, and the end.
func (r *run) poll(ctx context.Context, probe func(context.Context) error, notYet func(error), end func(error)) {
	r.wg.Go(func() {
		began := time.Now()
		wait := r.pace.Fast
		timer := time.NewTimer(0)
		defer timer.Stop()
		last := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			err := probe(ctx)
			if ctx.Err() != nil {
				return
			}
			if _, final := errors.AsType[permanent](err); err == nil || final {
				r.post(ctx, func() { end(err) })
				return
			}
			if err.Error() != last {
				last = err.Error()
				r.post(ctx, func() { notYet(err) })
			}
			if time.Since(began) > r.pace.FastFor {
				wait = min(wait+wait/4, r.pace.Slow)
			}
			timer.Reset(wait)
		}
	})
}
