package orchestrator

import (
	"context"
	"fmt"
	"path"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// stageClient runs the client at each concurrency while everything is watched.
// After a point that failed, the run goes on with the next if completions still
// come out: partial results are worth keeping, a dead server is not worth waiting
// for.
func (r *run) stageClient(ctx context.Context) error {
	r.startWatch()
	return r.runPoints(ctx, false)
}

// stageEval runs the evaluation.
func (r *run) stageEval(ctx context.Context) error { return r.runPoints(ctx, true) }

// runPoints runs the client's points, or the evaluation. While it does, a decode
// worker that dies may be started again, if the plan says so.
func (r *run) runPoints(ctx context.Context, isEval bool) error {
	r.clients = true
	err := r.eachPoint(ctx, isEval)
	r.clients = false
	return r.giveUp(err)
}

func (r *run) eachPoint(ctx context.Context, isEval bool) error {
	budget := r.plan.Budgets.Client.D()
	if isEval {
		budget = r.plan.Budgets.Eval.D()
	}
	n := 0
	for _, pt := range r.points {
		if pt.isEval != isEval {
			continue
		}
		n++
		if err := r.runPoint(ctx, pt, budget); err != nil {
			return err
		}
		if err := r.mend(ctx, nil); err != nil { // what died since the client ended
			return err
		}
		if pt.rec.Status != result.PointOK {
			if err := r.stillServing(ctx); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return skip("the plan has none")
	}
	if err := r.mend(ctx, nil); err != nil {
		return err
	}
	return r.pointsFailure(isEval)
}

// stillServing asks the canary again.
func (r *run) stillServing(ctx context.Context) error {
	cctx, cancel := context.WithTimeout(ctx, r.plan.Budgets.Canary.D())
	defer cancel()
	var text string
	if err := r.askFront(cctx, &text, nil); err != nil {
		return err
	}
	r.emit(events.Event{Kind: events.Canary, Msg: "completions still come out"})
	return nil
}

// makePointDir makes the result directory where the client will write.
func (r *run) makePointDir(ctx context.Context, pt *point) error {
	n := pt.proc.node
	mark := path.Join(n.dir, pt.dir, pointMark)
	_, err := each(ctx, r, []*node{n}, "the result directory "+pt.dir, false, func(ctx context.Context, n *node) (struct{}, error) {
		if err := n.conn.WriteFile(ctx, mark, 0o600, []byte(r.id+"\n")); err != nil {
			return struct{}{}, fmt.Errorf("make the result directory: %w", err)
		}
		return struct{}{}, nil
	})
	return err
}
