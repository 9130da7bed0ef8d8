package orchestrator

import (
	"context"
	"fmt"

	"github.com/disagg/disagg/orchestrator/events"
)

// canariesPerWorker bounds the completions sent to see every worker's counters
// move. With a random policy over n workers the chance to miss one after 16·n
// requests is below n·e^-16.
const canariesPerWorker = 16

// proveByCounters sends completions through the router until the counters of
// every worker have moved: its own, or what the router counted for it. Workers
// for which neither did, or can be read, are not proven, and the run is not
// ready.
func (r *run) proveByCounters(ctx context.Context) (string, error) {
	before, err := r.readCounters(ctx)
	if err != nil {
		return "", err
	}
	open := map[string]error{}
	for i := range r.plan.Workers {
		id := r.plan.Workers[i].ID
		open[id] = before.blind(id)
	}
	workers := len(open)
	sent, limit := 0, canariesPerWorker*workers
	for countable(open) && sent < limit {
		n := min(atOnce, limit-sent)
		if err := r.burst(ctx, sent, n); err != nil {
			return "", err
		}
		sent += n
		now, err := r.readCounters(ctx)
		if err != nil {
			return "", err
		}
		for id := range open {
			if now.moved(before, id) {
				delete(open, id)
			}
		}
	}
	if len(open) > 0 {
		for id, err := range open {
			if err == nil {
				open[id] = fmt.Errorf("the counters of %s did not move", id)
			}
		}
		return "", failf("after %s through the router these workers are not proven to take part: %s", plural(sent, "completion"), describeOpen(open))
	}
	r.emit(events.Event{Kind: events.Canary, Msg: fmt.Sprintf("the counters of all %s moved after %s", plural(workers, "worker"), plural(sent, "completion"))})
	return fmt.Sprintf("counters of all workers moved after %s", plural(sent, "completion")), nil
}

// countable says that a worker is open whose counters can be read: for others no
// further completion would prove anything.
func countable(open map[string]error) bool {
	for _, err := range open {
		if err == nil {
			return true
		}
	}
	return false
}

// reading is one reading of all counters, by worker id.
type reading struct {
	own    map[string]float64
	routed map[string]float64
	bad    map[string]error
}

// blind says why nothing is counted for a worker; nil: something is.
func (x *reading) blind(id string) error {
	if _, ok := x.routed[id]; ok {
		return nil
	}
	return x.bad[id]
}

func (x *reading) moved(before reading, id string) bool {
	own, ok := before.own[id]
	if ok && x.own[id] > own {
		return true
	}
	// A router names a worker only once it has used it.
	return x.routed[id] > before.routed[id]
}

func (r *run) readCounters(ctx context.Context) (reading, error) {
	out := reading{own: map[string]float64{}, routed: map[string]float64{}, bad: map[string]error{}}
	open := 0
	for i := range r.plan.Workers {
		id, base := r.plan.Workers[i].ID, r.workerURL(&r.plan.Workers[i])
		open++
		spawn(ctx, r, func(ctx context.Context) (counters, error) { return r.scrape(ctx, base) }, func(c counters, err error) {
			open--
			n, ok := c.workDone()
			switch {
			case err != nil:
				out.bad[id] = fmt.Errorf("the counters of %s cannot be read: %w", id, err)
			case !ok:
				out.bad[id] = fmt.Errorf("the metrics of %s have no counter of requests or tokens", id)
			default:
				out.own[id] = n
			}
		})
	}
	if base, ok := r.routerMetrics(); ok {
		open++
		spawn(ctx, r, func(ctx context.Context) (counters, error) { return r.scrape(ctx, base) }, func(c counters, err error) {
			open--
			if err != nil {
				return // then the workers' own counters must do
			}
			for i := range r.plan.Workers {
				w := &r.plan.Workers[i]
				out.routed[w.ID] = c.byWorker[workerKey(r.workerURL(w))]
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return open == 0 },
		what: func() string { return "the counters of workers and router" },
	})
	return out, err
}

// routerMetrics is where the router exports its counters, if the plan says so.
func (r *run) routerMetrics() (base string, ok bool) {
	rt := r.plan.Router
	for _, p := range rt.Ports {
		if p.Name == "metrics" {
			return baseURL(r.place[rt.Node].info.Addr, p.Number), true
		}
	}
	return "", false
}

// burst sends n different completions at once, so that policies which go by the
// prompt spread them too.
func (r *run) burst(ctx context.Context, first, n int) error {
	base, limit := r.frontURL(), r.canaryLimit()
	left := n
	var bad error
	for i := range n {
		req := r.chat(fmt.Sprintf("Say the number %d.", 1000+first+i))
		spawn(ctx, r, func(ctx context.Context) (string, error) { return r.complete(ctx, base, req, limit) }, func(_ string, err error) {
			left--
			if err != nil && bad == nil {
				bad = err
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return left == 0 || bad != nil },
		what: func() string { return fmt.Sprintf("%s through the router", plural(left, "completion")) },
	})
	if bad != nil {
		return failf("a completion failed after others had come out: %v", bad)
	}
	return err
}
