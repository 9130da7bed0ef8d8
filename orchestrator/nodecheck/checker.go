package nodecheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/slurm/hostlist"
)

// Checker checks the nodes of one run. The report goes to preflight.json in the
// run directory, and everything that was gathered to a bundle beside it.
type Checker struct {
	Plan *models.Plan
	Dir  *rundir.Dir
	// Job is the scheduler's id of the run's job and User who runs it, to tell own
	// from foreign.
	Job, User string

	mu    sync.Mutex
	facts []preflight.Facts // of hosts, then of images
}

var _ orchestrator.Preflight = (*Checker)(nil)

// Host implements orchestrator.Preflight.
func (c *Checker) Host(ctx context.Context, nodes []orchestrator.PreflightNode) (orchestrator.PreflightReport, error) {
	spec := c.spec(nodes)
	all := c.askAll(ctx, nodes, spec)
	c.mu.Lock()
	c.facts = all
	c.mu.Unlock()
	rep := preflight.Judge(all, spec, hostlist.Compress)
	out := summary(rep, preflight.ContextHost)
	out.Fabric = fabric(all, &spec.Expect)
	if c.oneHost() {
		spread(&out, nodes)
	}
	return out, c.save(spec, all, rep)
}

// askAll has the facts gathered on all nodes at once.
func (c *Checker) askAll(ctx context.Context, nodes []orchestrator.PreflightNode, spec preflight.Spec) []preflight.Facts {
	if c.oneHost() && len(nodes) > 0 {
		nodes = nodes[:1] // the others are the same machine
	}
	all := make([]preflight.Facts, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { all[i] = ask(ctx, n.Name, n.Node, spec) })
	}
	wg.Wait()
	return all
}

// InImage implements orchestrator.Preflight.
func (c *Checker) InImage(ctx context.Context, nodes []orchestrator.PreflightNode) (orchestrator.PreflightReport, error) {
	spec := c.spec(nodes)
	asked := nodes
	if c.oneHost() && len(nodes) > 0 {
		asked = nodes[:1]
	}
	ask := spec // what is asked differs from what is judged in the variables alone
	var mu sync.Mutex
	var wg sync.WaitGroup
	inside := make([][]preflight.Facts, len(asked))
	for i, n := range asked {
		inside[i] = make([]preflight.Facts, len(n.Images))
		for j, p := range n.Images {
			wg.Go(func() {
				f := lookInside(ctx, n.Name, p, ask)
				mu.Lock()
				defer mu.Unlock()
				inside[i][j] = f
			})
			if !slices.Contains(spec.Expect.Plain, p.Image) {
				spec.Expect.Env = common(spec.Expect.Env, p.Env)
			}
		}
	}
	wg.Wait()
	c.mu.Lock()
	all := slices.Concat(c.facts, slices.Concat(inside...))
	c.mu.Unlock()
	rep := preflight.Judge(all, spec, hostlist.Compress)
	out := summary(rep, preflight.ContextImage)
	if c.oneHost() {
		spread(&out, nodes)
	}
	return out, c.save(spec, all, rep)
}

func (c *Checker) oneHost() bool { return c.Plan.Launcher == models.LauncherLocal }

// spec is what the run asks of its nodes.
func (c *Checker) spec(nodes []orchestrator.PreflightNode) preflight.Spec {
	s := preflight.SpecFrom(c.Plan)
	s.Expect.Run = checks.Run{ID: c.Dir.ID(), Job: c.Job, User: c.User}
	// Nodes that do not see the run directory keep their part below /tmp, whose
	// room is looked at anyway.
	if !slices.ContainsFunc(nodes, func(n orchestrator.PreflightNode) bool { return n.Dir != c.Dir.Path() }) {
		s.Expect.RunsDir = c.Dir.Path()
	}
	return s
}

// common are the names in both lists; a nil list is one that holds all.
func common(a, b []string) []string {
	if a == nil {
		return slices.Clone(b)
	}
	return slices.DeleteFunc(a, func(n string) bool { return !slices.Contains(b, n) })
}

// bundleName is the bundle in the run directory.
const bundleName = "preflight"

// LoadBundle reads a bundle, or the one in a run directory.
func LoadBundle(dir string) (preflight.Spec, []preflight.Facts, error) {
	if in := filepath.Join(dir, bundleName); !preflight.IsBundle(dir) && preflight.IsBundle(in) {
		dir = in
	}
	spec, all, err := preflight.LoadBundle(dir)
	if err != nil && !preflight.IsBundle(dir) {
		err = fmt.Errorf("%w; name a directory that preflight --bundle wrote, or the directory of a run that got as far as preflight", err)
	}
	return spec, all, err
}

func (c *Checker) save(spec preflight.Spec, all []preflight.Facts, rep preflight.Report) error {
	data, err := json.MarshalIndent(rep, "", "  ")
	if err == nil {
		err = c.Dir.Put(rundir.PreflightFile, append(data, '\n'), 0o600)
	}
	err = errors.Join(err, preflight.SaveBundle(c.Dir.Join(bundleName), spec, all))
	if err != nil {
		return fmt.Errorf("save the report of preflight: %w", err)
	}
	return nil
}

// fabric is what the run needs to know of each node's RDMA.
func fabric(all []preflight.Facts, e *preflight.Expect) map[string]orchestrator.Fabric {
	out := map[string]orchestrator.Fabric{}
	if e.NoRDMA() != "" {
		return out
	}
	for i := range all {
		f := &all[i]
		if f.Unreached != "" {
			continue
		}
		fab := orchestrator.Fabric{Devices: preflight.Rails(f, e)}
		// Where the NICs give no single answer, check rdma.tc says why.
		if q, err := preflight.DeriveQoS(f, e); err == nil {
			fab.TrafficClass, fab.ServiceLevel = &q.TrafficClass, &q.ServiceLevel
		}
		out[f.Node] = fab
	}
	return out
}

// spread gives all names of one host the verdict of the first.
func spread(r *orchestrator.PreflightReport, nodes []orchestrator.PreflightNode) {
	for _, n := range nodes[min(1, len(nodes)):] {
		first := nodes[0].Name
		if why, ok := r.Unfit[first]; ok {
			r.Unfit[n.Name] = why
		}
		if f, ok := r.Fabric[first]; ok {
			r.Fabric[n.Name] = f
		}
	}
}
