package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
)

// stageCanary wants tokens: first through the router, as a client will ask, then
// through every prefill and every decode worker. Only then is the run ready.
func (r *run) stageCanary(ctx context.Context) error {
	began := time.Now()
	where := r.locate(ctx)
	if err := r.askFront(ctx, &r.answerBefore, where.said); err != nil {
		return where.explain(r, err)
	}
	where.stop()
	how, err := r.prove(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	r.emit(events.Event{Kind: events.Canary, Msg: fmt.Sprintf("tokens came out through every worker after %s: %s", took.Round(time.Millisecond), how), Detail: map[string]any{"seconds": took.Seconds(), "how": how, "answer": r.answerBefore}})
	return nil
}

// canaryLimit bounds one attempt: long enough for a first request that compiles
// kernels, short enough that one lost transfer does not eat the budget.
func (r *run) canaryLimit() time.Duration {
	return max(10*time.Second, r.plan.Budgets.Canary.D()/3)
}

// askFront asks the question that has a known answer where clients will ask; more
// says what else is known while it waits, nil: nothing.
func (r *run) askFront(ctx context.Context, answer *string, more func() string) error {
	base, limit := r.frontURL(), r.canaryLimit()
	var got string
	p := r.frontProc()
	err := r.untilTold(ctx, p, "a completion through "+p.ID, more, func(ctx context.Context) error {
		text, err := r.complete(ctx, base, r.chat(quizPrompt), limit)
		if err == nil {
			got = text
		}
		return err
	})
	if err == nil {
		*answer = got
	}
	return err
}

// frontProc is the process behind frontURL.
func (r *run) frontProc() *proc {
	if rt := r.plan.Router; rt != nil {
		return r.procs[rt.ID]
	}
	return r.headOf(&r.plan.Workers[0])
}

// prove makes sure that each worker takes part, and says how it knows.
func (r *run) prove(ctx context.Context) (string, error) {
	ways := pairs(r.plan.Workers)
	switch {
	case len(ways) == 1:
		// One way only: the completion at the front went through it.
		return "the only way, " + ways[0].String(), nil
	case r.askable(ways):
		return r.proveDirectly(ctx, ways)
	}
	return r.proveByCounters(ctx)
}

// askable says that workers can be asked without the router: how it joins prefill
// and decode is known.
func (r *run) askable(ways []pair) bool {
	return ways[0].prefill == nil || r.plan.Router == nil || r.plan.Router.Kind == routerSGLang
}

// routerSGLang is the router whose way of joining prefill and decode is known.
const routerSGLang = "sglang"

// proveDirectly asks every pair for tokens, whatever the router's policy would
// have picked.
func (r *run) proveDirectly(ctx context.Context, ways []pair) (string, error) {
	a := r.askWays(ctx, ways, r.canaryLimit())
	err := r.await(ctx, waiting{
		done: func() bool { return a.bad != nil || len(a.open) == 0 },
		what: func() string { return "tokens from " + describeOpen(a.open) },
	})
	if a.bad != nil {
		return "", a.bad
	}
	if f, ok := errors.AsType[*failure](err); ok {
		a.blame(r, f)
	}
	return fmt.Sprintf("%s asked directly", plural(len(ways), "pair")), err
}

func (r *run) pairFailure(w pair, err error) *failure {
	head := r.headOf(w.decode)
	return &failure{what: fmt.Sprintf("no token through %s: %v", r.endsOf(w).name, err), process: head.ID, node: head.node.name, logFile: head.logName}
}
