package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

// readiness is one worker on its way to serving.
type readiness struct {
	worker *models.Worker
	head   *proc
	last   error // why it is not ready yet
	ready  bool
}

// stageWorkers waits until every worker answers and is the one planned.
func (r *run) stageWorkers(ctx context.Context) error {
	if err := r.serving(ctx, r.workers()); err != nil {
		return err
	}
	return r.checkBootstraps(ctx)
}

// serving waits until workers answer and are those planned. A worker has time as
// long as it makes progress, up to the end of ctx; the end of any process ends the
// wait at once (onExited).
func (r *run) serving(ctx context.Context, workers []*models.Worker) error {
	var ws []*readiness
	var bad *failure
	for _, w := range workers {
		s := &readiness{worker: w, head: r.headOf(w)}
		ws = append(ws, s)
		base, health := r.workerURL(w), r.workerURL(w)+w.HealthPath
		r.poll(ctx, func(ctx context.Context) error { return r.probeWorker(ctx, base, health) },
			func(err error) { s.last = err },
			func(err error) {
				if err != nil {
					if bad == nil {
						bad = r.workerFailure(s, fmt.Sprintf("worker %s is not the planned one: %v", s.head.where(), err))
					}
					return
				}
				s.ready = true
				took := time.Since(s.head.released)
				e := s.head.event(events.ProcessReady, fmt.Sprintf("worker %s serves %s after %s", w.ID, r.plan.Model.Name, took.Round(time.Millisecond)))
				e.Detail = map[string]any{"seconds": took.Seconds(), "url": base}
				r.emit(e)
			})
	}
	err := r.await(ctx, waiting{
		done: func() bool {
			if bad == nil {
				bad = r.standing(ws)
			}
			return bad != nil || all(ws, func(s *readiness) bool { return s.ready })
		},
		what: func() string { return "workers: " + strings.Join(r.notReady(ws), "; ") },
	})
	if bad != nil {
		return bad
	}
	if err != nil {
		return err
	}
	return r.checkShapes(ctx, workers)
}

// standing finds a worker that has not moved for the budget of one.
func (r *run) standing(ws []*readiness) *failure {
	limit := r.plan.Budgets.Worker.D()
	for _, s := range ws {
		if s.ready {
			continue
		}
		moved := s.head.moved
		for _, p := range r.ranks(s.worker) {
			if p.moved.After(moved) {
				moved = p.moved
			}
		}
		if still := time.Since(moved); still > limit {
			f := r.workerFailure(s, fmt.Sprintf("worker %s made no progress for %s (timeouts.worker is %s): %s", s.head.where(), still.Round(time.Second), limit, r.seen(s)))
			f.hang = hangLate
			return f
		}
	}
	return nil
}

func (r *run) workerFailure(s *readiness, what string) *failure {
	return &failure{what: what, process: s.head.ID, node: s.head.node.name, logFile: s.head.logName}
}

func (r *run) notReady(ws []*readiness) []string {
	var out []string
	for _, s := range ws {
		if !s.ready {
			out = append(out, s.head.where()+" ("+r.seen(s)+")")
		}
	}
	return out
}

// seen is the last that was heard of a worker that is not ready.
func (r *run) seen(s *readiness) string {
	parts := []string{"not asked yet"}
	if s.last != nil {
		parts[0] = s.last.Error()
	}
	for _, p := range r.ranks(s.worker) {
		if p.lastLine != "" {
			parts = append(parts, fmt.Sprintf("last line of %s %q", p.ID, p.lastLine))
		}
	}
	return strings.Join(parts, "; ")
}

// probeWorker asks a worker whether it serves, and who it is.
func (r *run) probeWorker(ctx context.Context, base, health string) error {
	if err := r.probeHealth(ctx, health); err != nil {
		return err
	}
	return r.probeModel(ctx, base)
}

// probeHealth wants 200.
func (r *run) probeHealth(ctx context.Context, url string) error {
	a, err := r.get(ctx, url, r.pace.Probe)
	if errors.Is(err, errNoAnswer) { // other errors name it themselves
		err = fmt.Errorf("GET %s: %w", url, err)
	}
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, a.text())
	}
	return nil
}

// probeModel wants the planned model to be served at base. Another model is
// another server, and waiting does not change it.
func (r *run) probeModel(ctx context.Context, base string) error {
	names, err := r.servedModels(ctx, base)
	if err != nil {
		return err
	}
	if !slices.Contains(names, r.plan.Model.Name) {
		return permanentf("%s serves %q, planned is %q", base, strings.Join(names, ", "), r.plan.Model.Name)
	}
	return nil
}

// servedModels lists the model names a server answers to.
func (r *run) servedModels(ctx context.Context, base string) ([]string, error) {
	url := base + "/v1/models"
	a, err := r.get(ctx, url, r.pace.Probe)
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusNotFound {
		return r.modelInfo(ctx, base)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &list) != nil || len(list.Data) == 0 {
		return nil, fmt.Errorf("GET %s: want a list of models: %s", url, a.text())
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, nil
}

// modelInfo is the question for servers without the OpenAI list.
func (r *run) modelInfo(ctx context.Context, base string) ([]string, error) {
	url := base + "/get_model_info"
	a, err := r.get(ctx, url, r.pace.Probe)
	if err != nil {
		return nil, err
	}
	var info struct {
		Path string `json:"model_path"`
		Name string `json:"served_model_name"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &info) != nil || info.Path+info.Name == "" {
		return nil, fmt.Errorf("GET %s: want the model's path: %s", url, a.text())
	}
	if info.Path == r.plan.Model.Path {
		return []string{r.plan.Model.Name}, nil
	}
	return []string{info.Name + info.Path}, nil
}
