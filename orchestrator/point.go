package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// point is one thing to measure: the client at one concurrency, or the
// evaluation. Every requested point is in the result, whatever became of it.
type point struct {
	plan   *models.ClientPoint
	proc   *proc
	dir    string // relative to the run directory
	isEval bool
	rec    result.Point
	// incomplete says that the client ended well and its files are not.
	incomplete bool
	// disturbed are the workers that were started again while it was measured.
	disturbed []string
}

// addPoints makes the list of what must be in the result.
func (r *run) addPoints() {
	add := func(p *models.ClientPoint, name, dir string, isEval bool) {
		r.points = append(r.points, &point{plan: p, proc: r.procs[p.ID], dir: dir, isEval: isEval, rec: result.Point{
			Name: name, Concurrency: p.Concurrency, Status: result.PointMissing, Note: "never started",
		}})
	}
	evalOnly := r.plan.Eval != nil && r.plan.Eval.Only
	if r.plan.Client != nil && !evalOnly {
		for i := range r.plan.Client.Points {
			p := &r.plan.Client.Points[i]
			add(p, fmt.Sprintf("c%d", p.Concurrency), rundir.PointName(p.Concurrency), false)
		}
	}
	if r.plan.Eval != nil {
		add(&r.plan.Eval.ClientPoint, "eval", rundir.EvalName, true)
	}
}

// pointOf is the point a process measures; nil: it is no client.
func (r *run) pointOf(p *proc) *point {
	for _, pt := range r.points {
		if pt.proc == p {
			return pt
		}
	}
	return nil
}

// pointMark is put into a result directory that is made on a node; it is no
// result.
const pointMark = ".disagg-point"

// runPoint runs one point to its end and judges it. The error is for what ends
// the run; a point that failed by itself is only recorded.
func (r *run) runPoint(ctx context.Context, pt *point, budget time.Duration) error {
	p := pt.proc
	pt.rec.Note = "broke off"
	if err := r.makePointDir(ctx, pt); err != nil {
		return err
	}
	before, err := r.readGenerated(ctx)
	if err != nil {
		return err
	}
	lctx, cancel := context.WithTimeout(ctx, r.plan.Budgets.Launch.D())
	err = r.launch(lctx, []*proc{p})
	cancel()
	if err != nil {
		if f, ok := errors.AsType[*failure](err); ok {
			r.closePoint(pt, result.PointFailed, f.what, 0)
		}
		return err
	}
	began := time.Now()
	pctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	for {
		err = r.await(pctx, waiting{
			done: func() bool { return p.ended() || len(r.broken()) > 0 },
			what: func() string { return fmt.Sprintf("%s (last line %q)", p.where(), p.lastLine) },
		})
		if err != nil || p.ended() {
			break
		}
		// The client goes on meanwhile; its own end is heard of afterwards.
		if err := r.mend(ctx, pt); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if !p.endedAt.IsZero() {
		took = p.endedAt.Sub(began)
	}
	if _, late := errors.AsType[*failure](err); late { // the point's deadline, not the run's
		note := fmt.Sprintf("%s did not end within %s; its last line is %q", p.where(), took.Round(time.Second), p.lastLine)
		state, err := r.stateNow(ctx)
		if err != nil {
			return err
		}
		e := p.warning(fmt.Sprintf("when %s had no time left: %s", p.where(), strings.Join(state, "; ")))
		e.Detail = map[string]any{"state": state}
		r.warn(e)
		r.closePoint(pt, result.PointFailed, note, took)
		return r.stopPoint(ctx, p)
	}
	if err != nil {
		return err
	}
	return r.judgePoint(ctx, pt, took, before)
}

// judgePoint decides what became of a point whose client has ended.
func (r *run) judgePoint(ctx context.Context, pt *point, took time.Duration, before generated) error {
	p := pt.proc
	if p.lost {
		r.closePoint(pt, result.PointMissing, "lost with node "+p.node.name, took)
		return errHalted
	}
	if p.exit == nil {
		r.closePoint(pt, result.PointFailed, p.where()+" is gone, and nobody said how it ended", took)
		return nil
	}
	pt.rec.ExitCode = &p.exit.Code
	files, problem, err := r.collectPoint(ctx, pt)
	if err != nil {
		return err
	}
	pt.rec.Files = files
	after, err := r.readGenerated(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.exit.Code != 0 || p.exit.Signal != "" || p.exit.Error != "":
		r.closePoint(pt, result.PointFailed, p.where()+" "+exitText(p.exit), took)
	case problem != "":
		pt.incomplete = true
		r.closePoint(pt, result.PointFailed, p.where()+" exited with code 0, but "+problem, took)
	case len(pt.disturbed) == 0 && after.none(before): // a worker that was started again counts anew
		r.closePoint(pt, result.PointFailed, p.where()+" exited with code 0, but no decode worker generated a token meanwhile", took)
	case len(pt.disturbed) > 0:
		r.closePoint(pt, result.PointDisturbed, "its numbers hold no steady state", took)
	default:
		r.closePoint(pt, result.PointOK, "", took)
	}
	return nil
}

func (r *run) closePoint(pt *point, status result.PointStatus, note string, took time.Duration) {
	if len(pt.disturbed) > 0 {
		note += "; started again meanwhile: " + strings.Join(pt.disturbed, ", ")
	}
	pt.rec.Status, pt.rec.Note, pt.rec.Seconds = status, note, took.Seconds()
	msg := fmt.Sprintf("point %s: %s", pt.rec.Name, status)
	if note != "" {
		msg += ": " + note
	}
	e := pt.proc.event(events.Point, msg)
	e.Detail = map[string]any{"name": pt.rec.Name, "status": status, "seconds": took.Seconds(), "files": pt.rec.Files}
	r.emit(e)
}

// stopPoint ends a client that had its time.
func (r *run) stopPoint(ctx context.Context, p *proc) error {
	grace := r.plan.Budgets.Grace.D()
	sctx, cancel := context.WithTimeout(ctx, grace+stopSlack)
	defer cancel()
	done := false
	r.askStop(sctx, p, grace, func(err error) {
		done = true
		if err != nil {
			r.warn(p.warning(fmt.Sprintf("%s could not be stopped: %v", p.where(), err)))
		}
	})
	err := r.await(sctx, waiting{done: func() bool { return done }, what: func() string { return p.where() + " to stop" }})
	if _, ok := errors.AsType[*failure](err); ok {
		return nil // the teardown tries again
	}
	return err
}

// pointsFailure sums up failed points; nil: all are fine.
func (r *run) pointsFailure(isEval bool) error {
	var bad []string
	var first *point
	total := 0
	for _, pt := range r.points {
		if pt.isEval != isEval {
			continue
		}
		total++
		if pt.rec.Status == result.PointOK || pt.rec.Status == result.PointDisturbed {
			continue
		}
		if first == nil {
			first = pt
		}
		bad = append(bad, pt.rec.Name)
	}
	if first == nil {
		return nil
	}
	f := &failure{
		what: first.rec.Note, process: first.proc.ID, exit: first.proc.exit,
		log: first.proc.exitLog, logFile: first.proc.logName,
	}
	if first.proc.node != nil {
		f.node = first.proc.node.name
	}
	if total > 1 {
		f.what += fmt.Sprintf(" (%d of %s failed: %s)", len(bad), plural(total, "point"), strings.Join(bad, ", "))
	}
	if first.incomplete {
		f.code = ExitCollect
	}
	return f
}

// disturbedPoints is the failure of a run whose points all have results, of which
// some are not what was asked for; nil: there are none.
func (r *run) disturbedPoints() error {
	var names []string
	for _, pt := range r.points {
		if pt.rec.Status == result.PointDisturbed {
			names = append(names, pt.rec.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &failure{code: ExitCollect, what: fmt.Sprintf("a worker was started again while points were measured, whose numbers hold no steady state: %s (of %s)", strings.Join(names, ", "), plural(len(r.points), "point"))}
}
