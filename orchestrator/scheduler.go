package orchestrator

import (
	"context"
	"fmt"

	"github.com/disagg/disagg/orchestrator/events"
)

// schedulerWatch is the scheduler's view as last heard.
type schedulerWatch struct {
	unknown int // answers in a row that said nothing
}

// unknownsTold is after how many silent answers in a row that is told, once. It
// is never a failure by itself: processes run on without a scheduler's answer.
const unknownsTold = 4

// watchScheduler asks the scheduler for the job in rounds. Only its own word that
// the job has ended counts as the end.
func (r *run) watchScheduler() {
	if r.Scheduler == nil {
		return
	}
	r.rounds(r.bg, r.pace.Scheduler, func(ctx context.Context) {
		state, word, err := r.Scheduler.Job(ctx)
		r.post(ctx, func() { r.onJob(state, word, err) })
	})
}

func (r *run) onJob(state JobState, word string, err error) {
	switch {
	case state == JobRunning:
		r.scheduler.unknown = 0
	case state == JobEnded:
		if !r.stop.begun {
			r.fail(&failure{code: ExitScheduler, what: fmt.Sprintf("the scheduler says that job %s has ended: %s", r.Job, word), weak: true})
		}
	default:
		r.scheduler.unknown++
		if r.scheduler.unknown == unknownsTold {
			r.warn(events.Event{Msg: fmt.Sprintf("the scheduler does not answer for job %s (%v); the run goes on", r.Job, err)})
		}
	}
}
