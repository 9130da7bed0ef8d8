package preflight

import (
	"sort"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight/checks"
)

// SpecVersion is the version of the Spec encoding.
const SpecVersion = 1

// DefaultBudget is how long gathering on one node may take.
const DefaultBudget = 30 * time.Second

// Spec says what to gather and what to compare it with. It is sent to the nodes
// as JSON and holds no secret.
type Spec struct {
	Version int `json:"version"`
	// Context is where the facts are gathered: ContextHost, ContextImage or ContextRun.
	Context string `json:"context"`
	// Node is the name the launcher uses for the node that is asked.
	Node string `json:"node,omitempty"`
	// Image is the image that is probed, in ContextImage.
	Image string `json:"image,omitempty"`
	// Root is prepended to /sys, /proc and /dev; ToolPath is put before PATH.
	Root     string   `json:"root,omitempty"`
	ToolPath []string `json:"tool_path,omitempty"`
	// Budget bounds the gathering on a node.
	Budget models.Duration `json:"budget"`
	// Expect is what the facts are compared with; it also says what to look for.
	Expect Expect `json:"expect"`
	// Waive is check id → reason.
	Waive map[string]string `json:"waive,omitempty"`
	// Read is set in the helper that reads files for the gathering process, see
	// FactsMain; it is empty in a spec that a user of this package makes.
	Read *readList `json:"read,omitempty"`
}

// SpecFrom is the spec of a run.
func SpecFrom(p *models.Plan) Spec {
	site := p.Preflight.Site
	s := newSpec(site, p.Preflight.Waive)
	e := &s.Expect
	e.GPUsPerNode = p.Topology.GPUsPerNode
	e.Nodes = p.Topology.Nodes
	e.Runtime = p.Runtime
	e.Model = p.Model.Key
	e.Models, e.ImageModel = p.Model.HostPaths, p.Model.Path
	e.VRAMBytes = p.Model.VRAMBytes
	e.RDMA.Site = p.RDMA
	switch {
	case p.Topology.Nodes > 1:
		e.RDMA.Needed, e.RDMA.Why = true, "the run spans nodes"
	case p.Topology.Disaggregated:
		e.RDMA.Needed, e.RDMA.Why = true, "KV data moves between prefill and decode workers"
	default:
		e.RDMA.Why = "one worker role on one node moves no data over RDMA"
	}
	images, tools, ports := map[string]bool{}, map[checks.Tool]bool{}, map[int]string{}
	vars := map[checks.Var]bool{}
	rich := map[string]bool{} // images of processes with devices
	each(p, func(proc models.Process) {
		e.GPUs = e.GPUs || proc.Accelerated || len(proc.GPUs) > 0
		if proc.Image != "" {
			images[proc.Image] = true
			rich[proc.Image] = rich[proc.Image] || proc.Accelerated
		}
		if len(proc.Argv) > 0 && !strings.Contains(proc.Argv[0], models.PlaceholderOpen) {
			tools[checks.Tool{Image: proc.Image, Name: proc.Argv[0], Of: proc.Scope}] = true
		}
		for _, port := range proc.Ports {
			ports[port.Number] = proc.ID + " " + port.Name
		}
		for _, v := range proc.Env {
			if checks.Watched(v.Name) && !v.Secret && !v.Expand {
				vars[checks.Var{Scope: proc.Scope, Name: v.Name, Value: v.Value}] = true
			}
		}
	})
	e.Images = sortedKeys(images)
	for _, img := range e.Images {
		if !rich[img] {
			e.Plain = append(e.Plain, img)
		}
	}
	for t := range tools {
		e.Tools = append(e.Tools, t)
	}
	sort.Slice(e.Tools, func(i, j int) bool {
		a, b := e.Tools[i], e.Tools[j]
		return a.Image+"\x00"+a.Name+"\x00"+a.Of < b.Image+"\x00"+b.Name+"\x00"+b.Of
	})
	for n, of := range ports {
		e.Ports = append(e.Ports, checks.Port{Number: n, Of: of})
	}
	sort.Slice(e.Ports, func(i, j int) bool { return e.Ports[i].Number < e.Ports[j].Number })
	for v := range vars {
		e.RDMA.Vars = append(e.RDMA.Vars, v)
	}
	sort.Slice(e.RDMA.Vars, func(i, j int) bool {
		a, b := e.RDMA.Vars[i], e.RDMA.Vars[j]
		return a.Scope+"\x00"+a.Name+"\x00"+a.Value < b.Scope+"\x00"+b.Name+"\x00"+b.Value
	})
	s.countGPUs()
	if p.Client != nil {
		for _, pt := range p.Client.Points {
			e.MaxConns = max(e.MaxConns, pt.Concurrency)
		}
	}
	return s
}

// each visits every process of a plan.
func each(p *models.Plan, do func(models.Process)) {
	for _, w := range p.Workers {
		for _, r := range w.Ranks {
			do(r)
		}
	}
	for _, s := range p.Services {
		do(s)
	}
	if p.Router != nil {
		do(p.Router.Process)
	}
	if p.Client != nil {
		for _, pt := range p.Client.Points {
			do(pt.Process)
		}
	}
	if p.Eval != nil {
		do(p.Eval.Process)
	}
}

// SpecFromSite is the spec of a check of nodes without a run: everything the
// site says about its nodes.
func SpecFromSite(site *models.Site) Spec {
	s := newSpec(site.Preflight, nil)
	e := &s.Expect
	e.GPUsPerNode = site.GPUsPerNode
	e.NodeMemoryGB = site.NodeMemoryGB
	e.GPUs = site.GPUsPerNode > 0
	s.countGPUs()
	e.RDMA = checks.RDMA{Needed: true, Why: "nodes are checked for any run", Site: site.RDMA}
	e.RunsDir = site.RunsDir
	c := site.Container
	e.Runtime = models.Runtime{Kind: c.Runtime, Sudo: c.Sudo, Devices: c.Devices, Mounts: c.Mounts, Ulimits: c.Ulimits,
		ShmSize: c.ShmSize, IPC: c.IPC, CapAdd: c.CapAdd, SecurityOpt: c.SecurityOpt, GroupAdd: c.GroupAdd, User: c.User, ExtraArgs: c.ExtraArgs, Pull: c.Pull}
	if c.Privileged != nil {
		e.Runtime.Privileged = bool(*c.Privileged)
	}
	return s
}

// countGPUs puts the site's own number of GPUs in place of the general one.
func (s *Spec) countGPUs() {
	if n := s.Expect.Site.GPU.Devices; n != nil {
		s.Expect.GPUsPerNode = *n
		s.Expect.GPUs = s.Expect.GPUs && *n > 0
	}
}

// Inside is the spec for gathering in one image of the run.
func (s Spec) Inside(image string) Spec {
	s.Context, s.Image = ContextImage, image
	s.Expect = s.Expect.Inside(image)
	return s
}

// runBudget bounds a look at a node that a run, or its end, waits for.
const runBudget = 6 * time.Second

// During is the spec for looking at the nodes once more while the run is on.
func (s Spec) During() Spec {
	s.Context = ContextRun
	s.Budget = min(s.Budget, models.Duration(runBudget))
	return s
}

func newSpec(site models.PreflightSite, run map[string]string) Spec {
	s := Spec{Version: SpecVersion, Context: ContextHost, Root: site.Root, ToolPath: site.ToolPath, Budget: site.Budget, Waive: map[string]string{}}
	if s.Budget == 0 {
		s.Budget = models.Duration(DefaultBudget)
	}
	for id, why := range site.Waive {
		s.Waive[id] = why
	}
	for id, why := range run {
		s.Waive[id] = why
	}
	s.Expect.Site = site
	return s
}
