package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// step is one stage as it is declared.
type step struct {
	name   string
	code   ExitCode // what its failures mean
	budget func(models.Budgets) time.Duration
	run    func(*run, context.Context) error
}

// stage is the stage that runs.
type stage struct {
	step
	began time.Time
	timer *time.Timer // ends it; nil: it has all the time
}

// beginning is the code of failures before the first stage.
const beginning = ExitLaunch

// steps are the stages of a run, in their order.
func steps() []step {
	budget := func(f func(models.Budgets) models.Duration) func(models.Budgets) time.Duration {
		return func(b models.Budgets) time.Duration { return f(b).D() }
	}
	agents := budget(func(b models.Budgets) models.Duration { return b.Agents })
	preflight := budget(func(b models.Budgets) models.Duration { return b.Preflight })
	image := budget(func(b models.Budgets) models.Duration { return b.Image })
	launch := budget(func(b models.Budgets) models.Duration { return b.Launch })
	worker := budget(func(b models.Budgets) models.Duration { return b.WorkerMax })
	router := budget(func(b models.Budgets) models.Duration { return b.Router })
	canary := budget(func(b models.Budgets) models.Duration { return b.Canary })
	return []step{
		{"agents", ExitLaunch, agents, (*run).stageAgents},
		{"placement", ExitLaunch, agents, (*run).stagePlacement},
		{"preflight", ExitPreflight, preflight, (*run).stagePreflight},
		{"ports", ExitLaunch, preflight, (*run).stagePorts},
		{"peers", ExitPreflight, preflight, (*run).stagePeers},
		{"image", ExitLaunch, image, (*run).stageImage},
		{"model", ExitLaunch, preflight, (*run).stageModel},
		{"preflight-image", ExitPreflight, preflight, (*run).stagePreflightImage},
		{"services", ExitLaunch, launch, (*run).stageServices},
		{"launch", ExitLaunch, launch, (*run).stageLaunch},
		{"workers", ExitLaunch, worker, (*run).stageWorkers},
		{"router", ExitLaunch, router, (*run).stageRouter},
		{"canary", ExitLaunch, canary, (*run).stageCanary},
		{"client", ExitWorkload, nil, (*run).stageClient},
		{"eval", ExitWorkload, nil, (*run).stageEval},
		{"after", ExitWorkload, canary, (*run).stageAfter},
	}
}

// runStages runs the stages until one fails or the run is asked to end.
func (r *run) runStages() {
	for _, s := range steps() {
		if r.halted() {
			return
		}
		r.runStage(s)
	}
}

// runStage runs one stage under its budget and records how it ended.
func (r *run) runStage(s step) {
	ctx, cancel := context.WithCancel(r.bg)
	defer cancel()
	r.stage = &stage{step: s, began: time.Now()}
	if s.budget != nil {
		r.stage.timer = time.AfterFunc(r.allowed(s.budget(r.plan.Budgets)), cancel)
		defer r.stage.timer.Stop()
	}
	r.lastWaiting, r.waitingSince = "", time.Now()
	started := events.Event{Kind: events.StageStarted, Msg: s.name}
	if s.budget != nil {
		started.Detail = map[string]any{"budget_seconds": s.budget(r.plan.Budgets).Seconds()}
	}
	r.emit(started)
	err := s.run(r, ctx)
	if f, ok := errors.AsType[*failure](err); ok {
		if f.hang != "" && r.served() && !r.stop.begun {
			f.state, _ = r.stateNow(r.bg) // nil where the run is asked to end meanwhile
		}
		r.fail(f)
	} else if _, isSkip := errors.AsType[skipped](err); err != nil && !isSkip && !errors.Is(err, errHalted) && !errors.Is(err, errLeave) {
		r.fail(failf("%v", err))
	}
	r.endStage(err)
}

func (r *run) endStage(err error) {
	s := r.stage
	took := time.Since(s.began)
	rec := result.Stage{Name: s.name, Status: result.StageOK, Started: s.began.UTC(), Seconds: took.Seconds()}
	e := events.Event{Kind: events.StageDone, Msg: fmt.Sprintf("%s done in %s", s.name, took.Round(time.Millisecond))}
	var why skipped
	switch {
	case errors.As(err, &why):
		rec.Status, rec.Note = result.StageSkipped, why.why
		e.Kind, e.Msg = events.StageSkipped, s.name+" "+why.Error()
	case err != nil && len(r.failures) == 0:
		rec.Status = result.StageCancelled
		e.Kind, e.Msg = events.StageFailed, s.name+" cancelled"
	case err != nil:
		rec.Status, rec.Note = result.StageFailed, r.failures[len(r.failures)-1].what
		if !errors.Is(err, errHalted) && !errors.Is(err, errLeave) {
			rec.Note = err.Error()
		}
		e.Kind, e.Msg = events.StageFailed, s.name+" failed: "+rec.Note
	}
	e.Detail = map[string]any{"seconds": rec.Seconds}
	r.emit(e)
	r.stages = append(r.stages, rec)
}

func (r *run) stageName() string {
	if r.stage == nil {
		return ""
	}
	return r.stage.name
}
