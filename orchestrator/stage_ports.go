package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// stagePorts makes sure that no planned port is taken, so that whoever answers
// on it later is this run, and that nothing of this run id is on the nodes yet.
func (r *run) stagePorts(ctx context.Context) error {
	nodes := r.used()
	for _, n := range nodes {
		r.warnEphemeral(n)
	}
	a, err := each(ctx, r, nodes, "the look for free ports", false, func(ctx context.Context, n *node) (deploy.Leftovers, error) {
		return n.conn.Look(ctx, r.id, r.ports(n))
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		return failf("ports could not be checked: %s", a.failed())
	}
	var taken, old, unseen []string
	for _, n := range nodes {
		l := a.ok[n]
		for _, p := range l.Ports {
			taken = append(taken, n.name+" "+p)
		}
		for _, x := range slices.Concat(l.Containers, l.Processes) {
			old = append(old, n.name+" "+x)
		}
		for _, u := range l.Unverified {
			unseen = append(unseen, n.name+" "+u)
		}
	}
	switch {
	case len(old) > 0:
		return failf("something of this run is on its nodes before it starts: %s; clean up with: disagg cleanup %s", strings.Join(old, "; "), r.id)
	case len(taken) > 0:
		return failf("planned ports are in use: %s; end the holder, or set other ports in the recipe (prefill.port, prefill.bootstrap_port, decode.port, router.port)", strings.Join(taken, "; "))
	case len(unseen) > 0:
		return failf("ports could not be checked: %s", strings.Join(unseen, "; "))
	}
	return nil
}

// ports are the planned ports on a node, sorted.
func (r *run) ports(n *node) []int {
	return portsOf(r.order, func(p *proc) bool { return p.node == n })
}

// ownPorts are the ports of what this run has begun to create on a node, sorted.
// Who holds another planned port is none of its business: a port that was taken
// before is not a leftover.
func (r *run) ownPorts(n *node) []int {
	return portsOf(r.order, func(p *proc) bool { return p.node == n && p.phase > planned })
}

func portsOf(procs []*proc, which func(*proc) bool) []int {
	var out []int
	for _, p := range procs {
		if !which(p) {
			continue
		}
		for _, port := range p.Ports {
			if !slices.Contains(out, port.Number) {
				out = append(out, port.Number)
			}
		}
	}
	slices.Sort(out)
	return out
}

// warnEphemeral says when a planned port is one that the kernel gives to
// outgoing connections: it may be free now and taken in a moment.
func (r *run) warnEphemeral(n *node) {
	low, high := n.info.EphemeralPorts[0], n.info.EphemeralPorts[1]
	if high == 0 {
		return
	}
	var in []string
	for _, p := range r.ports(n) {
		if p >= low && p <= high {
			in = append(in, fmt.Sprint(p))
		}
	}
	if len(in) > 0 {
		r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("node %s gives ports %d to %d to outgoing connections, and the plan listens on %s: another connection can take them first", n.where(), low, high, strings.Join(in, ", "))})
	}
}
