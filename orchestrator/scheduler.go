package orchestrator

import (
	"context"
	"fmt"
	"time"

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
		v, err := r.Scheduler.Job(ctx)
		r.post(ctx, func() { r.onJob(v, err) })
	})
}

func (r *run) onJob(v JobView, err error) {
	switch {
	case v.State == JobRunning:
		r.scheduler.unknown = 0
	case v.State == JobEnded:
		if !r.stop.begun {
			r.fail(&failure{code: ExitScheduler, what: fmt.Sprintf("the scheduler says that job %s has ended: %s", r.Job, v.Word), weak: true})
		}
	default:
		r.scheduler.unknown++
		if r.scheduler.unknown == unknownsTold {
			r.warn(events.Event{Msg: fmt.Sprintf("the scheduler does not answer for job %s (%v); the run goes on", r.Job, err)})
		}
	}
}

// whyTime bounds the question why a signal came. The answer must be there before
// the cluster's own KILL.
const whyTime = 3 * time.Second

// askWhy asks the scheduler why it ends the job: to a process a scancel, a time
// limit and a node that went down look the same.
func (r *run) askWhy() {
	if r.Scheduler == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.bg, whyTime)
	r.asking++
	call(ctx, r, func(ctx context.Context) (JobView, error) {
		defer cancel()
		return r.Scheduler.Job(ctx)
	}, func(v JobView, err error) {
		r.asking--
		switch {
		case err != nil || v.Why == "":
		case v.NodeDown:
			// Nobody asked for the end: a node failed, and the job with it.
			r.stop.after = true
			f := &failure{what: fmt.Sprintf("the scheduler ends job %s because of a node: %s%s", r.Job, v.Why, r.silentNodes()), outside: true}
			r.fail(f)
			r.askWhich(f)
		default:
			r.stop.why += ": " + v.Why
			r.emit(events.Event{Kind: events.Signal, Msg: "the scheduler says why: " + v.Why})
		}
	})
}

// askWhich asks the scheduler which node it means, while there is time.
func (r *run) askWhich(f *failure) {
	ctx, cancel := context.WithTimeout(r.bg, whyTime)
	r.asking++
	call(ctx, r, func(ctx context.Context) (string, error) {
		defer cancel()
		return r.Scheduler.BadNodes(ctx), nil
	}, func(which string, _ error) {
		r.asking--
		if which != "" {
			f.what += "; " + which
			r.emit(events.Event{Kind: events.Warning, Msg: "the scheduler says of its nodes: " + which})
		}
	})
}

// silentNodes names the nodes that are not heard of.
func (r *run) silentNodes() string {
	var silent []*node
	for _, n := range r.nodes {
		if n.detached || n.lost {
			silent = append(silent, n)
		}
	}
	if len(silent) == 0 {
		return ""
	}
	return "; not heard of: " + nodeNames(silent)
}
