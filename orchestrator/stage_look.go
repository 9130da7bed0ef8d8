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
// processes, ports, files. A node whose agent is lost is looked at by a second
// one. What is left, and what could not be looked at, is listed with what to do.
func (r *run) stageLook(ctx context.Context) error {
	var nodes, lost []*node
	ports := map[*node][]int{}
	for _, n := range r.nodes {
		if n.conn == nil {
			continue
		}
		if n.lost {
			lost = append(lost, n)
		}
		nodes, ports[n] = append(nodes, n), r.ownPorts(n)
	}
	pids := map[*node]int{}
	for _, n := range lost {
		pids[n] = n.info.PID
	}
	until := time.Now().Add(r.pace.Look)
	again := r.reachAgain(ctx, lost)
	a, err := each(ctx, r, nodes, "the last look", true, func(ctx context.Context, n *node) (look, error) {
		if slices.Contains(lost, n) {
			return r.lookAgain(ctx, again[n.name], pids[n], ports[n], until)
		}
		return r.lookUntil(ctx, n.conn, ports[n], until)
	})
	if errors.Is(err, errLeave) {
		return err
	}
	for _, n := range nodes {
		l, ok := a.ok[n]
		if ok {
			n.again = n.lost
			r.onRemoved(n, l.reaped)
			r.looked = append(r.looked, n.name)
		} else {
			l.left.Unverified = []string{r.notLooked(n, a.bad[n])}
		}
		if l.left.Node = n.name; !l.left.Clean() {
			r.left = append(r.left, l.left)
		}
	}
	return r.leftovers()
}

// look is what was found on one node; reaped is what the look took away.
type look struct {
	left   deploy.Leftovers
	reaped deploy.Reaped
}

// lookUntil looks at a node until nothing is left or time is up. A container that was
// created after its creation had failed, because the daemon went on with what nobody
// waited for any more, is taken away.
func (r *run) lookUntil(ctx context.Context, conn Node, ports []int, until time.Time) (look, error) {
	var l look
	for {
		var err error
		l.left, err = conn.Look(ctx, r.id, ports)
		if err != nil || l.left.Clean() || !time.Now().Before(until) || !pause(ctx, lookEvery) {
			return l, err
		}
		if r.oneHost() || !slices.ContainsFunc(l.left.Containers, neverRan) {
			continue
		}
		reaped, err := conn.Reap(ctx, deploy.ReapRequest{RunID: r.id, Remove: true, Leads: true})
		if err != nil {
			return l, err
		}
		l.reaped.Runs = append(l.reaped.Runs, reaped.Runs...)
	}
}

// neverRan says of a container, as a look lists it, that nothing was started in it.
func neverRan(container string) bool {
	return strings.HasSuffix(strings.ToLower(container), " created")
}

// notLooked says of a node that nobody saw it, and how to.
func (r *run) notLooked(n *node, err error) string {
	why := "no answer in time"
	if err != nil {
		why = err.Error()
	}
	what := "the node could not be looked at"
	if n.lost {
		what = "the node is lost; its lease ends what ran there, but nobody looked"
	}
	return fmt.Sprintf("%s (%s); look with: %s", what, why, r.cleanupOn(n))
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
	spawn(ctx, r, func(ctx context.Context) (struct{}, error) {
		patient, cancel := context.WithTimeout(ctx, closeTime/2)
		defer cancel()
		return struct{}{}, r.Launcher.Close(patient)
	}, func(_ struct{}, err error) {
		closed = true
		if err != nil {
			r.warn(events.Event{Msg: fmt.Sprintf("the launcher did not end: %v", err)})
		}
	})
	return r.await(ctx, waiting{done: func() bool { return closed }, what: func() string { return "the launcher to end" }, through: true})
}
