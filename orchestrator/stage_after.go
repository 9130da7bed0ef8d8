package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/disagg/disagg/orchestrator/events"
)

// stageAfter asks once more when the load is over: the servers must still serve,
// and must not have lost what they knew. Corrupted KV caches do not change the
// speed, only the answers. Last, what was measured must be what was asked for.
func (r *run) stageAfter(ctx context.Context) error {
	if len(r.points) == 0 {
		return skip("nothing ran since the canary")
	}
	var now string
	if err := r.askFront(ctx, &now, nil); err != nil {
		return err
	}
	before := r.answerBefore
	switch {
	case strings.Contains(before, quizAnswer) && !strings.Contains(now, quizAnswer):
		return failf("the answers went wrong under load: %q was answered with %q before and %q after; the results are not to be trusted", quizPrompt, before, now)
	case before != now:
		r.warn(events.Event{Msg: fmt.Sprintf("the same question got another answer after the load: %q before, %q after", before, now)})
	}
	r.emit(events.Event{Kind: events.Canary, Msg: "completions still come out after the load", Detail: map[string]any{"answer": now}})
	return r.disturbedPoints()
}
