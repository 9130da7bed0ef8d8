package orchestrator

import (
	"context"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// duringTime bounds a look at the nodes that the end of a run waits for.
const duringTime = 8 * time.Second

// countLast asks the nodes what their NICs counted since they were checked, when the
// stop begins. It holds nothing up: connections that the stop breaks off may count.
func (r *run) countLast() {
	if r.Preflight == nil || !r.served() {
		return
	}
	nodes := r.toLookAt(func(n *node) bool { return len(r.fabric[n.name].Devices) > 0 })
	if len(nodes) == 0 {
		return
	}
	r.counting = true
	ctx, cancel := context.WithTimeout(r.bg, r.allowed(duringTime))
	call(ctx, r, func(ctx context.Context) (RunReport, error) {
		defer cancel()
		return r.Preflight.During(ctx, nodes, rundir.CountersFile)
	}, func(rep RunReport, err error) {
		r.counting = false
		for _, found := range rep.Found {
			if r.lostSome() {
				found += " (but something of the run died or was lost, and what others tried again for it counts too)"
			}
			r.warn(events.Event{Msg: found})
		}
		r.unproven = append(r.unproven, rep.Unproven...)
		if err != nil {
			r.warn(events.Event{Msg: err.Error()})
		}
	})
}

// lostSome says that a process of the run ended by itself, or went with its node.
func (r *run) lostSome() bool {
	for _, f := range r.failures {
		if f.weak || f.exit != nil {
			return true
		}
	}
	return false
}

// awaitCounts waits for what countLast asked, which has a time of its own.
func (r *run) awaitCounts(ctx context.Context) error {
	return r.await(ctx, waiting{done: func() bool { return !r.counting }, what: func() string { return "the nodes' counters" }, through: true})
}

// served says that a worker has run.
func (r *run) served() bool {
	for _, p := range r.workerProcs() {
		if !p.released.IsZero() {
			return true
		}
	}
	return false
}

// toLookAt are the nodes of the run that can be asked.
func (r *run) toLookAt(want func(*node) bool) []PreflightNode {
	var out []PreflightNode
	for _, n := range r.used() {
		if n.usable() && want(n) {
			out = append(out, n.forPreflight())
		}
	}
	return out
}
