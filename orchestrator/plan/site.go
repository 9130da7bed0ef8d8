package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/slurm/hostlist"
)

// Container runtimes.
const (
	runtimeDocker = "docker"
	runtimePodman = "podman"
	runtimeNone   = "none"
)

// modelsDir is where containers see the weights.
const modelsDir = "/models"

// hubPrefix marks a model path that the engine downloads from the hub.
const hubPrefix = "hf:"

// exclusions keeps the entries that are in force today for this engine and
// model.
func (b *builder) exclusions() {
	for i, e := range b.in.Site.Exclude {
		at := fmt.Sprintf("exclude[%d]", i)
		if e.Expires != "" && b.in.Date >= e.Expires {
			b.warn("exclusion of %s (%s) expired on %s and is ignored; remove it from the site, or give it a new date", e.Nodes, e.Reason, e.Expires)
			continue
		}
		for j, name := range e.Models {
			// Another catalog may have it; what is probably a slip is told of.
			near := models.Nearest(name, b.in.Models)
			if near != "" && !slices.Contains(b.in.Models, name) && digits(near) == digits(name) {
				b.warn("%s.models[%d]: the catalog has no model %q; did you mean %q? As it is written, %s is not excluded for that one", at, j, name, near, e.Nodes)
			}
		}
		if len(e.Engines) > 0 && !slices.Contains(e.Engines, b.in.Recipe.Engine) ||
			len(e.Models) > 0 && !slices.Contains(e.Models, b.in.Recipe.Model) {
			continue
		}
		hosts, err := hostlist.Expand(e.Nodes)
		if err != nil {
			b.failSite(at+".nodes", fmt.Sprintf("%s.nodes: %s", at, err), "write host names or a host list such as gpu-[01-04]")
			continue
		}
		b.plan.Exclude = append(b.plan.Exclude, e)
		b.excluded = append(b.excluded, hosts...)
		b.origins = append(b.origins, models.Origin{Key: at, Value: fmt.Sprintf("%s (%s)", e.Nodes, e.Reason), From: or(b.where("site", at), "site")})
	}
}

// digits are those of a name: with others it names another version.
func digits(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, name)
}

// runtime copies how the site runs containers, defaults put in.
func (b *builder) runtime() {
	c := b.in.Site.Container
	b.plan.Runtime = models.Runtime{
		Kind: or(c.Runtime, runtimeDocker), Sudo: or(c.Sudo, "auto"),
		Privileged: c.Privileged != nil && bool(*c.Privileged),
		Devices:    c.Devices, Mounts: c.Mounts, Ulimits: c.Ulimits, ShmSize: c.ShmSize, IPC: or(c.IPC, "host"),
		CapAdd: c.CapAdd, SecurityOpt: c.SecurityOpt, GroupAdd: c.GroupAdd, User: c.User,
		ExtraArgs: c.ExtraArgs, Pull: or(c.Pull, "missing"),
	}
	known := []string{runtimeDocker, runtimePodman, runtimeNone}
	if kind := b.plan.Runtime.Kind; !slices.Contains(known, kind) {
		b.failSite("container.runtime", fmt.Sprintf("there is no container runtime %q", kind), "runtimes: "+strings.Join(known, ", "))
	} else if kind != runtimeNone && b.in.Recipe.Image == "" && !b.in.SiteMistakes.At("container.runtime") {
		b.fail("image", fmt.Sprintf("image is missing, and the site runs containers with %s", kind), "write the image, or use a site with container.runtime none")
	}
	s := b.in.Site
	b.plan.Network, b.plan.RDMA, b.plan.SSH = s.Network, s.RDMA, s.SSH
	b.profiles()
	b.plan.Preflight = models.PreflightPlan{Mode: or(b.in.Recipe.Preflight.Mode, "enforce"), Waive: b.in.Recipe.Preflight.Waive, Site: s.Preflight}
	b.plan.Deaf = or(s.Deaf, "fail")
}

// profiles copies the node profiles, with booleans spelled as their readers know
// them: which profile holds for a node is found out when the run has nodes.
func (b *builder) profiles() {
	for i, p := range b.in.Site.Profiles {
		if _, err := path.Match(p.Nodes, ""); err != nil || !strings.ContainsAny(p.Nodes, "*?") {
			if _, err := hostlist.Expand(p.Nodes); err != nil {
				at := fmt.Sprintf("profiles[%d].nodes", i)
				b.failSite(at, fmt.Sprintf("%s: %s", at, err), "write a host list such as gpu-[01-04], or a glob such as gpu-*")
			}
		}
		env := models.EnvMap{}
		for name, v := range p.Env {
			if known, ok := b.known.Lookup(name); ok && !bool(v.Custom) {
				if canon, err := known.Canonical(v.Value); err == nil {
					v.Value = canon
				}
			}
			env[name] = v
		}
		if len(env) > 0 {
			p.Env = env
		}
		b.plan.Profiles = append(b.plan.Profiles, p)
	}
}

// slurmJob says what the job asks of Slurm. The number of nodes is put in when
// the topology is known.
func (b *builder) slurmJob() {
	s := b.in.Site.Slurm
	b.plan.Slurm = models.SlurmJob{
		JobName: b.in.Recipe.Name, TimeLimit: b.timeLimit(), Partition: s.Partition, Account: s.Account, QOS: s.QOS,
		Reservation: s.Reservation, Constraint: s.Constraint, GPURequest: or(s.GPURequest, "gres"), GPUType: s.GPUType,
		GPUsPerNode: b.in.Site.GPUsPerNode, Exclusive: s.Exclusive == nil || bool(*s.Exclusive), Memory: or(s.Memory, "0"),
		SignalLead: b.signalLead(), Options: s.Options, StepOptions: s.StepOptions,
	}
	if len(b.excluded) > 0 {
		b.plan.Slurm.Exclude = hostlist.Compress(b.excluded)
	}
}

// model says where the weights are and where processes see them.
func (b *builder) model() {
	r, e, m := b.in.Recipe, b.in.Entry, &b.plan.Model
	m.Key = r.Model
	if e == nil {
		e = &catalog.Entry{Name: r.Model, Dirs: []string{r.Model}} // where to look is known all the same
	}
	m.VRAMBytes = int64(e.Limits.VRAMGB) * 1e9
	switch {
	case strings.HasPrefix(r.ModelPath, hubPrefix):
		m.HostPaths, m.Path = []string{}, strings.TrimPrefix(r.ModelPath, hubPrefix)
		return
	case r.ModelPath != "":
		m.HostPaths = []string{path.Clean(r.ModelPath)}
		if !path.IsAbs(r.ModelPath) {
			b.fail("model_path", fmt.Sprintf("model_path %q is not absolute", r.ModelPath), "write the path on the nodes from / on, or hf:organisation/name for a model that the engine downloads")
		}
	default:
		for _, dir := range b.in.Site.Models.SearchPaths {
			for _, name := range e.Dirs {
				m.HostPaths = append(m.HostPaths, path.Join(dir, name))
			}
		}
		if len(m.HostPaths) == 0 {
			b.failSite("models", "there is no place to look for weights", "give the site models.search_paths, or the recipe a model_path")
			return
		}
	}
	m.Path = path.Join(modelsDir, e.Name)
	if b.plan.Runtime.Kind == runtimeNone {
		m.Path = m.HostPaths[0]
		if len(m.HostPaths) > 1 {
			b.warn("without containers processes see the weights where they are: only %s is looked at, not %s", m.Path, strings.Join(m.HostPaths[1:], ", "))
			m.HostPaths = m.HostPaths[:1]
		}
	}
}
