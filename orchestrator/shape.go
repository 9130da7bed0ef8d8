package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/disagg/disagg/models"
)

// engineSGLang is the engine whose servers tell how they were started.
const engineSGLang = "sglang"

// checkShapes asks workers for their sizes. The results are labelled with the
// plan's; a server that runs with others would make the label a lie.
func (r *run) checkShapes(ctx context.Context, workers []*models.Worker) error {
	if r.plan.Engine != engineSGLang {
		r.unproven = append(r.unproven, fmt.Sprintf("the sizes of the workers: %s servers do not tell them", r.plan.Engine))
		return nil
	}
	answered := 0
	var silent []string
	var bad *failure
	for _, w := range workers {
		url := r.workerURL(w) + "/get_server_info"
		spawn(ctx, r, func(ctx context.Context) (answer, error) { return r.get(ctx, url, r.pace.Probe) }, func(a answer, err error) {
			answered++
			if err == nil && a.status != http.StatusOK {
				err = fmt.Errorf("GET %s: %s", url, a.text())
			}
			var says serverInfo
			if err == nil {
				err = json.Unmarshal(a.body, &says)
			}
			head := r.headOf(w)
			switch {
			case err != nil:
				silent = append(silent, fmt.Sprintf("%s (%v)", w.ID, err))
			case len(says.otherThan(w)) > 0 && bad == nil:
				bad = &failure{process: head.ID, node: head.node.name, logFile: head.logName,
					what: fmt.Sprintf("worker %s is not the planned one: it says %s", head.where(), strings.Join(says.otherThan(w), ", "))}
			case says.EP != nil && *says.EP != max(w.EP, 1):
				// Some versions set it by themselves, from the others.
				r.warn(head.warning(fmt.Sprintf("worker %s says ep_size %d, planned is %d; the result is labelled with the plan's", head.where(), *says.EP, max(w.EP, 1))))
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return bad != nil || answered == len(workers) },
		what: func() string { return "workers to tell their sizes" },
	})
	if bad != nil {
		return bad
	}
	if len(silent) > 0 {
		r.unproven = append(r.unproven, "the sizes of workers: "+joinMost(silent))
	}
	return err
}

// serverInfo is what an sglang server says of itself; what it leaves out is not
// compared.
type serverInfo struct {
	TP   *int    `json:"tp_size"`
	PP   *int    `json:"pp_size"`
	EP   *int    `json:"ep_size"`
	DP   *int    `json:"dp_size"`
	Mode *string `json:"disaggregation_mode"`
}

// otherThan lists what differs from the plan.
func (s serverInfo) otherThan(w *models.Worker) []string {
	var out []string
	for _, x := range []struct {
		name string
		says *int
		plan int
	}{{"tp_size", s.TP, w.TP}, {"pp_size", s.PP, w.PP}, {"dp_size", s.DP, w.DP}} {
		if plan := max(x.plan, 1); x.says != nil && *x.says != plan {
			out = append(out, fmt.Sprintf("%s %d, planned is %d", x.name, *x.says, plan))
		}
	}
	mode := w.Role
	if mode == models.RoleAggregate {
		mode = "null"
	}
	if s.Mode != nil && *s.Mode != mode {
		out = append(out, fmt.Sprintf("disaggregation_mode %q, planned is %q", *s.Mode, mode))
	}
	return out
}
