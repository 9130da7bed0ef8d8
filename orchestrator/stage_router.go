package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

// stageRouter starts the router, now that every worker serves (routers drop
// workers that are slow when they start, for good), and waits until it is ready
// and lists exactly the planned workers.
func (r *run) stageRouter(ctx context.Context) error {
	rt := r.plan.Router
	if rt == nil {
		return skip("the plan has no router")
	}
	p := r.procs[rt.ID]
	if err := r.launch(ctx, []*proc{p}); err != nil {
		return err
	}
	base := r.frontURL()
	if err := r.until(ctx, p, "the router to be ready", r.routerProbe()); err != nil {
		return err
	}
	took := time.Since(p.released)
	e := p.event(events.ProcessReady, fmt.Sprintf("%s is ready after %s", p.where(), took.Round(time.Millisecond)))
	e.Detail = map[string]any{"seconds": took.Seconds(), "url": base}
	r.emit(e)

	if !listsMembers(rt) {
		r.unproven = append(r.unproven, "the router's members: a "+rt.Kind+" router lists none; only the canary shows who takes part")
		return nil
	}
	planned := r.plannedMembers(r.workers())
	if err := r.until(ctx, p, "the router's workers", func(ctx context.Context) error { return r.probeMembers(ctx, base+rt.MembersPath, planned) }); err != nil {
		return err
	}
	took = time.Since(p.released)
	e = p.event(events.Members, fmt.Sprintf("the router lists all %s as planned after %s", plural(len(planned), "worker"), took.Round(time.Millisecond)))
	e.Detail = map[string]any{"seconds": took.Seconds(), "members": len(planned)}
	r.emit(e)
	return nil
}

// routerProbe asks whether the router is ready. One without a page for that is
// ready when it takes connections; the canary shows the rest.
func (r *run) routerProbe() func(context.Context) error {
	rt := r.plan.Router
	if rt.ReadyPath == "" {
		addr := net.JoinHostPort(r.place[rt.Node].info.Addr, strconv.Itoa(rt.Port))
		return func(ctx context.Context) error { return dial(ctx, addr, r.pace.Probe) }
	}
	url := r.frontURL() + rt.ReadyPath
	return func(ctx context.Context) error { return r.probeHealth(ctx, url) }
}

// listsMembers says whether the router's list of workers means anything. One that
// workers register with (it has a discovery port) serves the page and leaves it
// empty.
func listsMembers(rt *models.Router) bool {
	return rt.MembersPath != "" && !slices.ContainsFunc(rt.Ports, func(p models.Port) bool { return p.Name == "discovery" })
}

// until polls a probe that belongs to a process until it succeeds.
func (r *run) until(ctx context.Context, p *proc, what string, probe func(context.Context) error) error {
	return r.untilTold(ctx, p, what, nil, probe)
}

// untilTold is until with more to say than the last line of the process's log, where
// more has something; nil: it never has.
func (r *run) untilTold(ctx context.Context, p *proc, what string, more func() string, probe func(context.Context) error) error {
	var last, bad error
	done := false
	r.poll(ctx, probe, func(err error) { last = err }, func(err error) { done, bad = true, err })
	err := r.await(ctx, waiting{
		done: func() bool { return done },
		what: func() string {
			text := what
			if last != nil {
				text += " (" + last.Error() + ")"
			}
			said := ""
			if more != nil {
				said = more()
			}
			if said != "" {
				text += "; " + said
			} else if p.lastLine != "" {
				text += fmt.Sprintf("; last line of %s %q", p.ID, p.lastLine)
			}
			return text
		},
	})
	if f, ok := errors.AsType[*failure](err); ok {
		f.process, f.node, f.logFile = p.ID, p.node.name, p.logName
	}
	if bad != nil {
		return &failure{what: bad.Error(), process: p.ID, node: p.node.name, logFile: p.logName}
	}
	return err
}
