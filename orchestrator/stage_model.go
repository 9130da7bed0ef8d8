package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/disagg/disagg/deploy"
)

// stageModel finds the model's directory: the first candidate that every node
// which runs the engine has.
func (r *run) stageModel(ctx context.Context) error {
	paths := r.plan.Model.HostPaths
	if len(paths) == 0 {
		return skip("the plan names no directory for the model")
	}
	var nodes []*node
	for _, n := range r.used() {
		for _, p := range r.workerProcs() {
			if p.node == n {
				nodes = append(nodes, n)
				break
			}
		}
	}
	a, err := each(ctx, r, nodes, "the model's directory", false, func(ctx context.Context, n *node) (map[string]bool, error) {
		have := map[string]bool{}
		for _, p := range paths {
			res, err := n.conn.Exec(ctx, deploy.ExecRequest{Argv: []string{"test", "-d", p}, Timeout: r.pace.Look})
			if err != nil {
				return nil, err
			}
			if res.Exit != 0 && res.Exit != 1 {
				return nil, fmt.Errorf("look for %s: exit %d: %s", p, res.Exit, strings.TrimSpace(res.Error+" "+string(res.Stderr)))
			}
			have[p] = res.Exit == 0
		}
		return have, nil
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		return failf("the model's directory could not be looked for: %s", a.failed())
	}
	var lacking []string
	for _, p := range paths {
		var without []*node
		for _, n := range nodes {
			if !a.ok[n][p] {
				without = append(without, n)
			}
		}
		if len(without) == 0 {
			r.modelDir = p
			return r.checkModelDir()
		}
		lacking = append(lacking, fmt.Sprintf("%s is missing on %s", p, nodeNames(without)))
	}
	return failf("no directory of model %s is on every node: %s; copy the weights, or set model_path or the site's models.search_paths", r.plan.Model.Key, strings.Join(lacking, "; "))
}

// checkModelDir refuses a directory that processes without a container would not
// look into: nothing is mounted for them.
func (r *run) checkModelDir() error {
	if r.plan.Runtime.Kind == runtimeNone && r.modelDir != r.plan.Model.Path {
		return failf("the model is at %s, the engines are started with %s, and with runtime none nothing is mounted; set model_path to %s", r.modelDir, r.plan.Model.Path, r.modelDir)
	}
	return nil
}
