package orchestrator

import (
	"fmt"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// sayProgressEvery is the least time between two progress events of a process:
// often enough to see that it moves, rare enough for a log that people read.
const sayProgressEvery = 10 * time.Second

// onWorkload takes in what a node reports.
func (r *run) onWorkload(e deploy.Event) {
	switch e.Kind {
	case deploy.EventDetached, deploy.EventAttached, deploy.EventTerminating:
		r.onNode(e)
		return
	}
	p := r.procs[e.Workload]
	if p == nil || p.node == nil {
		r.warn(events.Event{Node: e.Node, Process: e.Workload, Msg: fmt.Sprintf("node %s reports %q of a process that is not in the plan: %s", e.Node, e.Kind, e.Workload)})
		return
	}
	if p.probe != nil {
		r.onProbe(p, e)
		return
	}
	switch e.Kind {
	case deploy.EventCreated:
		r.emit(p.event(events.ProcessCreated, p.where()+" is created"))
	case deploy.EventStarted:
		r.onStarted(p, e)
	case deploy.EventProgress:
		r.onProgress(p, e)
	case deploy.EventExited:
		r.onExited(p, e)
	case deploy.EventGone:
		r.onGone(p)
	}
}

func (p *proc) event(kind events.Kind, msg string) events.Event {
	e := events.Event{Kind: kind, Process: p.ID, Msg: msg}
	if p.node != nil {
		e.Node = p.node.name
	}
	return e
}

func (r *run) onStarted(p *proc, e deploy.Event) {
	p.phase = max(p.phase, running)
	if p.released.IsZero() {
		p.released = time.Now()
	}
	p.moved = time.Now()
	ev := p.event(events.ProcessStarted, p.where()+" is started")
	ev.Detail = map[string]any{"pid": e.PID, "log": p.logName}
	r.emit(ev)
}

func (r *run) onProgress(p *proc, e deploy.Event) {
	p.moved = time.Now()
	p.logBytes, p.rss = e.LogBytes, e.RSSBytes
	if l := lastLine(e.Log); l != "" {
		p.lastLine = l
	}
	if time.Since(p.said) < sayProgressEvery {
		return
	}
	p.said = time.Now()
	ev := p.event(events.ProcessProgress, p.where()+": "+p.lastLine)
	ev.Detail = map[string]any{"log_bytes": e.LogBytes, "rss_bytes": e.RSSBytes, "read_bytes": e.ReadBytes, "line": p.lastLine}
	r.emit(ev)
}

// onExited takes the end of a program. Unless this run asked for it, or the
// process is one that ends by itself, it is a failure, exit code 0 included.
func (r *run) onExited(p *proc, e deploy.Event) {
	if p.exit != nil {
		return
	}
	p.exit, p.exitLog, p.endedAt = e.Exit, e.Log, time.Now()
	p.logBytes = max(p.logBytes, e.LogBytes)
	if p.exit == nil {
		p.exit = &deploy.Exit{Code: -1, Lost: true, Error: "the node did not say how"}
	}
	p.phase = max(p.phase, exited)
	ev := p.event(events.ProcessExited, p.where()+" "+exitText(p.exit))
	ev.Detail = map[string]any{"code": p.exit.Code, "signal": p.exit.Signal, "asked": p.asked || p.exit.Asked, "oom": p.exit.OOM, "log": e.Log}
	r.emit(ev)
	switch {
	case p.asked && p.exit.Asked, p.mayEnd && !p.node.ended:
	case r.stop.begun && len(r.failures) == 0:
		// The work was done, or the run was asked to end, and this one was quicker
		// than its stop.
		r.warn(p.warning(p.where() + " " + exitText(p.exit) + " before it was stopped"))
	default:
		if f := r.exitFailure(p); !r.takeDeath(p, f) {
			r.fail(f)
		}
	}
}

// exitFailure is the failure of a process that ended unasked.
func (r *run) exitFailure(p *proc) *failure {
	what := p.where() + " " + exitText(p.exit)
	if p.exit.Code == 0 && p.exit.Signal == "" && p.exit.Error == "" {
		what += ", although it should run until the end"
	}
	f := p.failure(what)
	f.exit, f.log, f.weak = p.exit, p.exitLog, looksLikeTerm(p.exit)
	return f
}

// failure is one of the process in its present life.
func (p *proc) failure(what string) *failure {
	f := &failure{what: what, process: p.ID, life: p.life, node: p.node.name, logFile: p.logName}
	if p.worker != nil {
		f.worker = p.worker.ID
	}
	return f
}

func (r *run) onGone(p *proc) {
	if p.phase == gone {
		return
	}
	p.phase = gone
	r.emit(p.event(events.ProcessGone, p.where()+" is gone"))
	if p.exit == nil && !p.asked && !p.mayEnd {
		if f := p.failure(p.where() + " is gone, and nobody said how it ended: it was removed from outside"); !r.takeDeath(p, f) {
			r.fail(f)
		}
	}
}
