package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/orchestrator/events"
)

// stagePreflight checks the hosts, spares included, and replaces unfit nodes by
// spares while there are any.
func (r *run) stagePreflight(ctx context.Context) error {
	return r.preflight(ctx, "the checks of the hosts", func(ctx context.Context, nodes []PreflightNode) (PreflightReport, error) {
		return r.Preflight.Host(ctx, nodes)
	}, true)
}

// stagePreflightImage checks what only shows inside the images.
func (r *run) stagePreflightImage(ctx context.Context) error {
	if r.plan.Runtime.Kind == runtimeNone {
		return skip("runtime none: there is no image to look into")
	}
	return r.preflight(ctx, "the checks inside the images", func(ctx context.Context, nodes []PreflightNode) (PreflightReport, error) {
		return r.Preflight.InImage(ctx, nodes)
	}, false)
}

// forPreflight is a node as it is given to the checks.
func (n *node) forPreflight() PreflightNode {
	return PreflightNode{Name: n.name, Node: n.conn, Plan: n.plan, Dir: n.dir}
}

func (r *run) preflight(ctx context.Context, what string, check func(context.Context, []PreflightNode) (PreflightReport, error), replace bool) error {
	switch {
	case r.plan.Preflight.Mode == "off":
		r.unproven = append(r.unproven, what+": preflight is off in the recipe")
		return skip("preflight is off in the recipe")
	case r.Preflight == nil:
		r.unproven = append(r.unproven, what+": this run has no preflight")
		return skip("this run has no preflight")
	}
	var nodes []PreflightNode
	for _, n := range r.nodes {
		if n.usable() && (replace || len(n.plan) > 0) {
			pn := n.forPreflight()
			if !replace {
				pn.Images = r.probes(n)
			}
			nodes = append(nodes, pn)
		}
	}
	type outcome struct {
		rep PreflightReport
		err error
	}
	var got *outcome
	spawn(ctx, r, func(ctx context.Context) (PreflightReport, error) { return check(ctx, nodes) }, func(rep PreflightReport, err error) { got = &outcome{rep, err} })
	if err := r.await(ctx, waiting{done: func() bool { return got != nil }, what: func() string { return what }}); err != nil {
		return err
	}
	if got.err != nil {
		return failf("%s could not be made: %v", what, got.err)
	}
	return r.judge(got.rep, replace)
}

// judge acts on a report: findings are shown, unfit nodes are replaced or end
// the run.
func (r *run) judge(rep PreflightReport, replace bool) error {
	r.unproven = append(r.unproven, rep.Unproven...)
	for name, f := range rep.Fabric {
		r.fabric[name] = f
	}
	for _, w := range rep.Warnings {
		r.warn(events.Event{Msg: w})
	}
	var bad []string
	for _, n := range r.nodes {
		why, ok := rep.Unfit[n.name]
		if !ok {
			continue
		}
		bad = append(bad, n.name+": "+why)
		if r.plan.Preflight.Mode == "warn" {
			r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("node %s is unfit, and is used all the same because preflight.mode is warn: %s", n.where(), why)})
			continue
		}
		n.unfit = why
	}
	if len(bad) == 0 || r.plan.Preflight.Mode == "warn" {
		return nil
	}
	if !replace {
		return failf("preflight found %s unfit: %s", plural(len(bad), "node"), strings.Join(bad, "; "))
	}
	before := append([]*node(nil), r.place...)
	if err := r.placeNodes(); err != nil {
		return failf("preflight found %s unfit and there is no spare: %s", plural(len(bad), "node"), strings.Join(bad, "; "))
	}
	for _, n := range r.nodes {
		if n.unfit != "" && !slices.Contains(before, n) {
			r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("spare node %s is unfit, and is not used: %s", n.where(), n.unfit)})
		}
	}
	for i, n := range r.place {
		switch old := before[i]; {
		case n == old:
		case old.unfit != "":
			r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("plan node %d moves from %s to %s, because %s is unfit: %s", i, old.name, n.name, old.name, old.unfit)})
		default:
			r.emit(events.Event{Kind: events.Warning, Node: n.name, Msg: fmt.Sprintf("plan node %d moves from %s to %s, in the allocation's order", i, old.name, n.name)})
		}
	}
	return nil
}
