package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// errNotAgain says that the launcher gave a node up.
var errNotAgain = errors.New("it could not be reached again")

// reachAgain sends second agents to nodes whose agents are lost: the lease ends
// what runs there, but somebody has to see it, and a killed agent cannot take its
// own files away. Each node's outcome is in its own channel.
func (r *run) reachAgain(ctx context.Context, lost []*node) map[string]chan Connection {
	if len(lost) == 0 {
		return nil
	}
	var names []string
	out := map[string]chan Connection{}
	for _, n := range lost {
		names = append(names, n.name)
		out[n.name] = make(chan Connection, 1)
	}
	put := func(name string, c Connection) {
		select {
		case out[name] <- c: // a nil channel, for a name that was not asked for, takes nothing
		default:
		}
	}
	conns, err := r.Launcher.Start(ctx, names, r.wire)
	if err != nil {
		for _, name := range names {
			put(name, Connection{Err: err})
		}
		return out
	}
	r.wg.Go(func() {
		for {
			select {
			case c, ok := <-conns:
				if !ok {
					for _, name := range names {
						put(name, Connection{Err: errNotAgain})
					}
					return
				}
				put(c.Name, c)
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}

// lookAgain waits for a second agent, has it end the first one, of that process id,
// if that still lives, remove what it left, and looks through it.
func (r *run) lookAgain(ctx context.Context, arrival <-chan Connection, first int, ports []int, until time.Time) (look, error) {
	var c Connection
	select {
	case c = <-arrival:
	case <-ctx.Done():
		return look{}, context.Cause(ctx)
	}
	if c.Err != nil {
		return look{}, c.Err
	}
	// The look is all it is for; an agent that does not end goes with the launcher.
	defer func() { _ = c.Node.Close() }()
	var l look
	for {
		reaped, err := c.Node.Reap(ctx, deploy.ReapRequest{RunID: r.id, Remove: true, Leads: true, Lost: first})
		if err != nil {
			return l, err
		}
		l.reaped.Runs = append(l.reaped.Runs, reaped.Runs...)
		l.left, err = c.Node.Look(ctx, r.id, ports)
		if err != nil || l.left.Clean() || !time.Now().Before(until) || !pause(ctx, lookEvery) {
			return l, err
		}
	}
}

// onRemoved takes what the last look, or a second agent, removed.
func (r *run) onRemoved(n *node, s deploy.Reaped) {
	var gone []string
	for _, x := range s.Runs {
		if x.Removed {
			gone = append(gone, slices.Concat(x.Containers, x.Processes, x.Files)...)
		}
	}
	switch {
	case len(gone) == 0:
	case !n.lost:
		r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("on node %s something came up after its end, and was removed: %s", n.where(), joinMost(gone))})
	default:
		r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("node %s was reached again, and what its lost agent left was removed: %s", n.where(), joinMost(gone))})
	}
}
