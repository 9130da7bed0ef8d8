package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// lookEvery is the time between looks at a node that is not clean yet.
const lookEvery = 250 * time.Millisecond

// stageLook looks at every node, independently of what the stop said: containers,
// processes, ports, files. What is left, and what could not be looked at, is
// listed with what to do.
func (r *run) stageLook(ctx context.Context) error {
	var reach []*node
	for _, n := range r.nodes {
		switch {
		case n.conn == nil:
		case n.lost:
			r.left = append(r.left, deploy.Leftovers{Node: n.name, Unverified: []string{fmt.Sprintf("the node is lost; its lease ends what ran there, but nobody looked; look with: %s", r.cleanupOn(n))}})
		default:
			reach = append(reach, n)
		}
	}
	ports := map[*node][]int{}
	for _, n := range reach {
		ports[n] = r.ports(n)
	}
	until := time.Now().Add(r.pace.Look)
	a, err := each(ctx, r, reach, "the last look", true, func(ctx context.Context, n *node) (deploy.Leftovers, error) {
		for {
			l, err := n.conn.Look(ctx, r.id, ports[n])
			if err != nil || l.Clean() || !time.Now().Before(until) || !pause(ctx, lookEvery) {
				return l, err
			}
		}
	})
	if errors.Is(err, errLeave) {
		return err
	}
	for _, n := range reach {
		l, ok := a.ok[n]
		why := "no answer in time"
		if e := a.bad[n]; e != nil {
			why = e.Error()
		}
		if !ok {
			l = deploy.Leftovers{Unverified: []string{fmt.Sprintf("the node could not be looked at (%s); look with: %s", why, r.cleanupOn(n))}}
		}
		l.Node = n.name
		if !l.Clean() {
			r.left = append(r.left, l)
		}
		if ok {
			r.looked = append(r.looked, n.name)
		}
	}
	return r.leftovers()
}

// leftovers turns what was found into the stage's outcome.
func (r *run) leftovers() error {
	if len(r.left) == 0 {
		return nil
	}
	var parts []string
	for _, l := range r.left {
		text := l.Node + ": " + joinMost(slices.Concat(l.Containers, l.Processes, l.Ports, l.Files, l.Unverified))
		parts = append(parts, text)
		r.emit(events.Event{Kind: events.Leftover, Node: l.Node, Msg: "left or not looked for on " + text, Detail: map[string]any{"leftovers": l}})
	}
	return failf("not everything is known to be gone: %s", strings.Join(parts, "; "))
}

// cleanupOn is the command that looks at one node, and cleans it with --yes.
func (r *run) cleanupOn(n *node) string {
	return fmt.Sprintf("disagg cleanup %s --nodes %s", r.Dir.Path(), n.name)
}

// stageClose ends agents and launcher politely.
func (r *run) stageClose(ctx context.Context) error {
	var open []*node
	for _, n := range r.nodes {
		if n.conn != nil && !n.lost {
			n.closing = true
			open = append(open, n)
		}
	}
	a, err := each(ctx, r, open, "agents to end", true, func(_ context.Context, n *node) (struct{}, error) { return struct{}{}, n.conn.Close() })
	for n, e := range a.bad {
		r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("the agent on %s did not end politely: %v", n.where(), e)})
	}
	if err != nil {
		return err
	}
	closed := false
	spawn(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Launcher.Close(ctx) }, func(_ struct{}, err error) {
		closed = true
		if err != nil {
			r.warn(events.Event{Msg: fmt.Sprintf("the launcher did not end: %v", err)})
		}
	})
	return r.await(ctx, waiting{done: func() bool { return closed }, what: func() string { return "the launcher to end" }, through: true})
}
