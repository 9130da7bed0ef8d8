package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// fromComputed is the origin of values that follow from others.
const fromComputed = "computed"

// said is what one document says of a setting; text is empty when it is silent.
type said struct {
	document string
	key      string
	text     string
}

// from says where a document sets something, or "" when it does not. Reading a
// file puts defaults in, so a value without a place is a default; a recipe that
// was never a file has no places at all.
func (b *builder) from(d said) string {
	if d.text == "" {
		return ""
	}
	pos := b.in.RecipePos
	if d.document == "site" {
		pos = b.in.SitePos
	}
	if len(pos) == 0 {
		return d.document
	}
	return b.where(d.document, d.key)
}

// note records an effective setting: the first document that says something
// wins, the others and the default lose. What neither is set nor has a value
// is left out.
func (b *builder) note(key, value, def string, docs ...said) {
	o := models.Origin{Key: key, Value: value}
	for _, d := range docs {
		switch from := b.from(d); {
		case from == "":
		case o.From == "":
			o.From = from
		default:
			o.Over = append(o.Over, from+"="+d.text)
		}
	}
	switch {
	case o.From == "" && value == "":
		return
	case o.From == "":
		o.From = def
	default:
		if d := defaultOf(key); d != "" && d != value {
			o.Over = append(o.Over, fromDefault+"="+d)
		}
	}
	b.origins = append(b.origins, o)
}

// defaultOf is the default of a setting that lost, for settings whose default
// matters to whoever changed it.
func defaultOf(key string) string {
	if key == "time_limit" {
		return models.DefaultTimeLimit.String()
	}
	name, ok := strings.CutPrefix(key, "timeouts.")
	if !ok {
		return ""
	}
	defaults := DefaultBudgets()
	for _, x := range budgetList(&models.Timeouts{}, &models.Timeouts{}, &defaults) {
		if x.key == name && *x.value > 0 {
			return x.value.String()
		}
	}
	return ""
}

// settings records where every effective setting comes from.
func (b *builder) settings() {
	r, s, p := b.in.Recipe, b.in.Site, b.plan
	recipe := func(key, text string) said { return said{"recipe", key, text} }
	site := func(key, text string) said { return said{"site", key, text} }

	b.note("name", p.Name, fromDefault, recipe("name", r.Name))
	b.note("model", p.Model.Key, fromDefault, recipe("model", r.Model))
	b.note("model.host_paths", strings.Join(p.Model.HostPaths, ", "), fromComputed,
		recipe("model_path", r.ModelPath), site("models.search_paths", strings.Join(s.Models.SearchPaths, ", ")))
	b.note("model.path", p.Model.Path, fromComputed)
	b.note("engine", p.Engine, fromDefault, recipe("engine", r.Engine))
	b.note("scenario", p.Scenario, fromDefault, recipe("scenario", r.Scenario))
	b.note("image", r.Image, fromDefault, recipe("image", r.Image))
	b.roleSettings()
	if r.Speculative != nil {
		b.note("speculative.tokens", strconv.Itoa(r.Speculative.Tokens), fromDefault, recipe("speculative.tokens", number(r.Speculative.Tokens)))
	}
	b.routerSettings()
	b.clientSettings()
	b.note("spares", strconv.Itoa(p.Topology.Spares), fromDefault, recipe("spares", number(r.Spares)))
	b.note("time_limit", p.Slurm.TimeLimit.String(), fromDefault,
		recipe("time_limit", span(r.TimeLimit)), site("slurm.time_limit", span(s.Slurm.TimeLimit)))
	for _, x := range budgetList(&r.Timeouts, &s.Timeouts, &p.Budgets) {
		if x.key == "client" && b.points() == 0 || x.key == "eval" && r.Evals == nil {
			continue
		}
		def := fromDefault
		if x.key == "client" {
			def = fromComputed
		}
		b.note("timeouts."+x.key, x.value.String(), def,
			recipe("timeouts."+x.key, span(x.recipe)), site("timeouts."+x.key, span(x.site)))
	}
	b.note("timeouts", "every stage at its budget: "+b.worst.String(), fromComputed)
	b.siteSettings(site)
	b.note("preflight.mode", p.Preflight.Mode, fromDefault, recipe("preflight.mode", r.Preflight.Mode))
	for id, reason := range r.Preflight.Waive {
		b.note("preflight.waive."+id, reason, fromDefault, recipe(waiverKey(id), or(reason, " ")))
	}
	for rule, reason := range r.Allow {
		b.note("allow."+rule, reason, fromDefault, recipe("allow."+rule, or(reason, " ")))
	}
}

// roleSettings records the sizes of the workers.
func (b *builder) roleSettings() {
	for _, z := range b.recipeSizes() {
		role := b.role(z.role)
		nodes := map[int]bool{}
		for _, row := range b.plan.Topology.Table {
			if row.Role == z.role {
				nodes[row.Node] = true
			}
		}
		at := func(key string) string { return z.role + "." + key }
		given := func(key, text string) said { return said{"recipe", at(key), text} }
		b.note(at("workers"), strconv.Itoa(z.workers), fromDefault, given("workers", number(role.Workers)))
		b.note(at("nodes"), strconv.Itoa(len(nodes)), fromComputed, given("nodes", number(role.Nodes)))
		b.note(at("tp"), strconv.Itoa(z.tp), fromDefault, given("tp", number(role.TP)))
		b.note(at("pp"), strconv.Itoa(z.pp), fromDefault, given("pp", number(role.PP)))
		b.note(at("ep"), strconv.Itoa(z.ep), fromDefault, given("ep", number(role.EP)))
		if role.Port > 0 {
			b.note(at("port"), strconv.Itoa(role.Port), fromDefault, given("port", number(role.Port)))
		}
		if role.BootstrapPort > 0 {
			b.note(at("bootstrap_port"), strconv.Itoa(role.BootstrapPort), fromDefault, given("bootstrap_port", number(role.BootstrapPort)))
		}
		if role.Restarts > 0 {
			b.note(at("restarts"), strconv.Itoa(role.Restarts), fromDefault, given("restarts", number(role.Restarts)))
		}
		dp := ""
		if z.dp {
			dp = "true"
		}
		b.note(at("dp_attention"), strconv.FormatBool(z.dp), fromDefault, given("dp_attention", dp))
	}
}

// role returns what the recipe says of a role that it has.
func (b *builder) role(name string) *models.Role {
	switch name {
	case models.RolePrefill:
		return b.in.Recipe.Prefill
	case models.RoleDecode:
		return b.in.Recipe.Decode
	}
	return b.in.Recipe.Aggregate
}

func (b *builder) routerSettings() {
	r := b.in.Recipe.Router
	if r == nil {
		r = &models.RouterSpec{}
	}
	if b.plan.Router == nil {
		b.note("router.kind", "none", fromComputed, said{"recipe", "router.kind", r.Kind})
		return
	}
	b.note("router.kind", b.plan.Router.Kind, fromComputed, said{"recipe", "router.kind", r.Kind})
	b.note("router.port", strconv.Itoa(b.plan.Router.Port), fromDefault, said{"recipe", "router.port", number(r.Port)})
}

func (b *builder) clientSettings() {
	c := b.in.Recipe.Client
	if c == nil || b.plan.Client == nil {
		return
	}
	given := func(key, text string) said { return said{"recipe", "client." + key, text} }
	list := make([]string, len(c.Concurrency))
	for i, n := range c.Concurrency {
		list[i] = strconv.Itoa(n)
	}
	b.note("client.concurrency", strings.Join(list, " "), fromDefault, given("concurrency", strings.Join(list, " ")))
	b.note("client.isl", number(c.ISL), fromDefault, given("isl", number(c.ISL)))
	b.note("client.osl", number(c.OSL), fromDefault, given("osl", number(c.OSL)))
	b.note("client.prompts_per_concurrency", strconv.Itoa(or(c.PromptsPerConcurrency, defaultPromptsPerConcurrency)), fromDefault,
		given("prompts_per_concurrency", number(c.PromptsPerConcurrency)))
}

// siteSettings records what the site decides.
func (b *builder) siteSettings(site func(key, text string) said) {
	s, p := b.in.Site, b.plan
	b.note("site", p.Site, fromDefault, site("name", s.Name))
	b.note("gpus_per_node", strconv.Itoa(p.Topology.GPUsPerNode), fromDefault, site("gpus_per_node", number(s.GPUsPerNode)))
	b.note("deaf", p.Deaf, fromDefault, site("deaf", s.Deaf))
	b.note("container.runtime", p.Runtime.Kind, fromDefault, site("container.runtime", s.Container.Runtime))
	b.note("container.sudo", p.Runtime.Sudo, fromDefault, site("container.sudo", s.Container.Sudo))
	b.note("container.pull", p.Runtime.Pull, fromDefault, site("container.pull", s.Container.Pull))
	b.note("container.ipc", p.Runtime.IPC, fromDefault, site("container.ipc", s.Container.IPC))
	b.note("network.interface", or(p.Network.Interface, "that of the default route"), fromDefault, site("network.interface", s.Network.Interface))
	if p.Launcher != models.LauncherSlurm {
		return
	}
	for _, x := range []struct{ key, value, given string }{
		{"partition", p.Slurm.Partition, s.Slurm.Partition},
		{"account", p.Slurm.Account, s.Slurm.Account},
		{"gpu_request", p.Slurm.GPURequest, s.Slurm.GPURequest},
		{"memory", p.Slurm.Memory, s.Slurm.Memory},
		{"signal_lead", p.Slurm.SignalLead.String(), span(s.Slurm.SignalLead)},
	} {
		b.note("slurm."+x.key, x.value, fromDefault, site("slurm."+x.key, x.given))
	}
	exclusive := ""
	if s.Slurm.Exclusive != nil {
		exclusive = fmt.Sprint(bool(*s.Slurm.Exclusive))
	}
	b.note("slurm.exclusive", strconv.FormatBool(p.Slurm.Exclusive), fromDefault, site("slurm.exclusive", exclusive))
}

// number writes a number that a file gives; zero is silence.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// span writes a time that a file gives; zero is silence.
func span(d models.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
