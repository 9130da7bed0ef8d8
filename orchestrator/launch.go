package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// launch brings processes up on all their nodes at once: each to the point where
// its program is held and has shown its environment; and only when all of them
// are there and see what was planned, lets the programs run.
func (r *run) launch(ctx context.Context, procs []*proc) error {
	if err := r.create(ctx, procs); err != nil {
		return err
	}
	return r.release(ctx, procs)
}

// create resolves all processes, and only when that succeeds creates any.
func (r *run) create(ctx context.Context, procs []*proc) error {
	ws := make([]deploy.Workload, len(procs))
	for i, p := range procs {
		var err error
		if ws[i], err = r.workload(p); err != nil {
			return &failure{what: err.Error(), process: p.ID, node: p.node.name}
		}
	}
	var bad error
	for i, p := range procs {
		r.createOne(ctx, p, ws[i], func(err error) { bad = cmp.Or(bad, err) })
	}
	err := r.await(ctx, waiting{
		done: func() bool { return bad != nil || all(procs, func(p *proc) bool { return p.phase >= held }) },
		what: func() string { return "containers with their environment: " + open(procs, held) },
	})
	return cmp.Or(bad, err)
}

// createOne creates a process; failed hears why it could not be, if the stage is
// still interested.
func (r *run) createOne(ctx context.Context, p *proc, w deploy.Workload, failed func(error)) {
	p.phase, p.inCall = creating, true
	conn := p.node.conn
	call(ctx, r, func(ctx context.Context) (deploy.Receipt, error) { return conn.Create(ctx, w) }, func(rec deploy.Receipt, err error) {
		p.inCall = false
		switch {
		case ctx.Err() != nil:
		case deploy.ClassOf(err) == deploy.ClassEnding:
			// The answer came before the agent's own word, which takes another way.
			r.onTerminating(p.node)
			failed(errHalted)
		case err != nil:
			failed(&failure{what: fmt.Sprintf("%s could not be created: %v", p.where(), err), process: p.ID, node: p.node.name, logFile: p.logName, weak: p.node.lost})
		default:
			if err := r.accept(p, w, rec); err != nil {
				failed(err)
			}
		}
	})
}

// accept compares what the process inside sees with the plan.
func (r *run) accept(p *proc, w deploy.Workload, rec deploy.Receipt) error {
	r.keepReceipt(p, w, rec)
	diff := compareReceipt(w.Env, rec, r.key)
	if len(diff) > 0 {
		var parts []string
		for _, d := range diff {
			parts = append(parts, d.String())
		}
		return &failure{process: p.ID, node: p.node.name, what: fmt.Sprintf("the environment inside %s (scope %s) is not the planned one: %s", p.where(), p.Scope, strings.Join(parts, "; "))}
	}
	p.phase = max(p.phase, held)
	msg := fmt.Sprintf("%s sees all %s as planned", p.where(), plural(len(w.Env), "variable"))
	var unset []string
	for _, v := range p.unset {
		unset = append(unset, v.Name)
	}
	if len(unset) > 0 {
		msg += fmt.Sprintf("; not set, because %s does not tell their values: %s", p.node.name, strings.Join(unset, ", "))
	}
	e := p.event(events.ProcessEnv, msg)
	e.Detail = map[string]any{"variables": len(w.Env), "seen": len(rec.Env), "unset": unset}
	r.emit(e)
	return nil
}

// release lets the programs run.
func (r *run) release(ctx context.Context, procs []*proc) error {
	var bad error
	for _, p := range procs {
		conn := p.node.conn
		spawn(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Release(ctx, p.ID) }, func(_ struct{}, err error) {
			if err != nil {
				bad = cmp.Or(bad, error(&failure{what: fmt.Sprintf("%s could not be started: %v", p.where(), err), process: p.ID, node: p.node.name, logFile: p.logName, weak: p.node.lost}))
				return
			}
			p.phase = max(p.phase, running)
			now := time.Now()
			p.released = cmp.Or(p.released, now)
			p.moved = cmp.Or(p.moved, now)
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return bad != nil || all(procs, func(p *proc) bool { return p.phase >= running }) },
		what: func() string { return "programs to start: " + open(procs, running) },
	})
	return cmp.Or(bad, err)
}

// stageLaunch starts the workers, all ranks on all nodes at once.
func (r *run) stageLaunch(ctx context.Context) error { return r.launch(ctx, r.workerProcs()) }

func all[T any](xs []T, ok func(T) bool) bool {
	for _, x := range xs {
		if !ok(x) {
			return false
		}
	}
	return true
}

// open names the processes that have not come as far as want.
func open(procs []*proc, want phase) string {
	var out []string
	for _, p := range procs {
		if p.phase < want {
			out = append(out, p.where())
		}
	}
	return strings.Join(out, ", ")
}
