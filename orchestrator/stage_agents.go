package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

// stageAgents reaches every node of the allocation. Nodes beyond those the plan
// needs are spares: the run starts without those that cannot be reached.
func (r *run) stageAgents(ctx context.Context) error {
	seen := map[string]bool{}
	for _, name := range r.Nodes {
		if seen[name] {
			return failf("the allocation names node %s twice", name)
		}
		seen[name] = true
		r.nodes = append(r.nodes, &node{name: name})
	}
	need := r.needed()
	if len(r.nodes) < need {
		return failf("the plan needs %s, the allocation has %s: %s", plural(need, "node"), plural(len(r.nodes), "node"), strings.Join(r.Nodes, ","))
	}
	conns, err := r.Launcher.Start(r.bg, r.Nodes, r.wire)
	if err != nil {
		return failf("start agents: %v", err)
	}
	closed := false
	r.wg.Go(func() {
		for {
			select {
			case c, ok := <-conns:
				if !ok {
					r.post(r.bg, func() { closed = true })
					return
				}
				r.post(r.bg, func() { r.onConnection(c) })
			case <-r.bg.Done():
				return
			}
		}
	})
	open := func() (joined, failed int) {
		for _, n := range r.nodes {
			switch {
			case n.usable():
				joined++
			case n.err != nil || closed:
				failed++
			}
		}
		return joined, failed
	}
	var hopeless time.Time
	err = r.await(ctx, waiting{
		done: func() bool {
			joined, failed := open()
			if len(r.nodes)-failed < need && hopeless.IsZero() {
				hopeless = time.Now()
			}
			return joined+failed == len(r.nodes) || !hopeless.IsZero() && time.Since(hopeless) >= othersToo
		},
		what: func() string { return "agents on " + nodeNames(r.missing()) },
	})
	joined, _ := open()
	late := &failure{}
	switch {
	case errors.As(err, &late) && joined >= need, err == nil && joined >= need:
		for _, n := range r.missing() {
			r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("node %s was not reached (%s); the run goes on without it", n.name, n.why())})
		}
		return nil
	case err != nil:
		return err
	}
	return failf("the plan needs %s of the allocation's %d, and not enough of them can take part: %s", plural(need, "node"), len(r.nodes), r.whyMissing(closed))
}

// othersToo is how long a run that cannot start waits for what the other nodes have
// to say: whoever mends one of them should know of all.
const othersToo = time.Second

// oneHost says that all nodes are this host, whatever they are called.
func (r *run) oneHost() bool { return r.plan.Launcher == models.LauncherLocal }

// needed is how many nodes the plan needs at least. On one host any number will
// do.
func (r *run) needed() int {
	if r.oneHost() {
		return 1
	}
	return r.plan.Topology.Nodes
}

// onConnection takes the outcome of reaching one node.
func (r *run) onConnection(c Connection) {
	for _, n := range r.nodes {
		if n.name != c.Name || n.conn != nil {
			continue
		}
		if c.Err != nil {
			n.err = c.Err
			r.emit(events.Event{Kind: events.Warning, Node: n.name, Msg: fmt.Sprintf("node %s does not take part: %v", n.name, c.Err)})
			return
		}
		n.conn, n.info = c.Node, c.Node.Info()
		r.watchNode(n)
		r.emit(events.Event{Kind: events.NodeJoined, Node: n.name, Msg: fmt.Sprintf("node %s joined", n.where()), Detail: map[string]any{
			"host": n.info.Host, "addr": n.info.Addr, "interface": n.info.Interface, "version": n.info.Version, "runtime": n.info.Docker,
		}})
		return
	}
	if c.Node != nil {
		_ = c.Node.Close() // not a node of this run, or here twice
	}
}

// missing are the nodes that did not join.
func (r *run) missing() []*node {
	var out []*node
	for _, n := range r.nodes {
		if !n.usable() {
			out = append(out, n)
		}
	}
	return out
}

func (n *node) why() string {
	switch {
	case n.err != nil:
		return n.err.Error()
	case n.lost:
		return "it is lost"
	}
	return "its agent did not connect"
}

// whyMissing says why nodes did not join; those that may still come are left out
// unless all of them had their chance.
func (r *run) whyMissing(all bool) string {
	by := map[string][]*node{}
	var reasons []string
	for _, n := range r.missing() {
		if !all && n.err == nil && !n.lost {
			continue
		}
		// What nodes say of themselves differs in their name alone.
		why := regexp.MustCompile(`\b`+regexp.QuoteMeta(n.name)+`\b`).ReplaceAllString(n.why(), "it")
		if by[why] == nil {
			reasons = append(reasons, why)
		}
		by[why] = append(by[why], n)
	}
	var parts []string
	for _, why := range reasons {
		if n := by[why]; len(n) == 1 {
			why = n[0].why()
		}
		parts = append(parts, nodeNames(by[why])+": "+why)
	}
	return strings.Join(parts, "; ")
}
