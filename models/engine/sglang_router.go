package engine

import (
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// routerPort is where clients reach a router unless the recipe says otherwise.
const routerPort = 30000

// routerSpec returns what the recipe says of the router.
func (c *composer) routerSpec() *models.RouterSpec {
	if c.in.Recipe.Router == nil {
		return &models.RouterSpec{}
	}
	return c.in.Recipe.Router
}

// frontPort returns the port that clients use.
func (c *composer) frontPort() int {
	switch {
	case c.in.RouterPort != 0:
		return c.in.RouterPort
	case c.routerSpec().Port != 0:
		return c.routerSpec().Port
	}
	return routerPort
}

// routerDraft starts the router's process with the catalog's settings.
func (c *composer) routerDraft() *draft {
	m := c.commonMode(catalog.RoleRouter)
	m.DP = c.anyDP()
	d := &draft{scope: "router", vars: c.builtins(nil), environ: environment{}, Settings: c.in.Entry.Settings(c.in.Recipe.Engine, m)}
	d.Flags = c.expandFlags(d, d.Flags)
	return d
}

// policies puts the recipe's policies over the catalog's.
func (c *composer) policies(d *draft) {
	spec := c.routerSpec()
	for _, p := range []struct{ flag, key, value string }{
		{"--policy", "policy", spec.Policy},
		{"--prefill-policy", "prefill_policy", spec.PrefillPolicy},
		{"--decode-policy", "decode_policy", spec.DecodePolicy},
	} {
		if p.value != "" {
			d.flag(c.where("recipe", "router."+p.key), p.flag, p.value)
		}
	}
}

// finishRouter makes the router's process of its draft.
func (c *composer) finishRouter(d *draft, kind string, program []string, r models.Router) {
	spec := c.routerSpec()
	if len(spec.Command) > 0 {
		program = spec.Command
	}
	c.catalogEnv(d)
	c.given(d.environ, "recipe", "router.env", spec.Env)
	r.Kind = kind
	r.Port = c.frontPort()
	r.Process.ID, r.Scope = "router", "router"
	r.Image = firstText(spec.Image, r.Image, c.in.Recipe.Image)
	r.Argv = append(append([]string{}, program...), d.args.Words()...)
	r.Env = d.environ.list()
	r.Ports = append([]models.Port{{Name: "http", Number: r.Port}}, r.Ports...)
	c.origins("router", d)
	c.out.Router = &r
}

// sglangRouter composes SGLang's router in front of prefill and decode workers.
func (c *composer) sglangRouter() {
	if c.routerSpec().Kind == "none" || c.first(models.RoleAggregate) != nil {
		return
	}
	d := c.routerDraft()
	d.flag(adapter, "--pd-disaggregation")
	d.flag(adapter, "--port", strconv.Itoa(c.frontPort()))
	d.take(d.Flags)
	c.policies(d)
	if c.scenario() == catalog.ScenarioAgentic && c.anyDP() {
		// Only when there are ranks: the router would otherwise wait for ranks
		// that no worker has.
		d.flag(adapter, "--dp-aware")
	}
	c.texts(d, c.routerSpec().Flags, "router.flags", "")
	for _, w := range c.in.Layout {
		if w.Role == models.RolePrefill {
			f := []string{url(w.Node, w.Port)}
			if w.BootstrapPort > 0 {
				f = append(f, strconv.Itoa(w.BootstrapPort))
			}
			d.add("--prefill", f...)
		}
	}
	for _, w := range c.in.Layout {
		if w.Role == models.RoleDecode {
			d.add("--decode", url(w.Node, w.Port))
		}
	}
	_, aware := d.args.Get("--dp-aware")
	c.finishRouter(d, SGLang, []string{"python", "-m", "sglang_router.launch_router"}, models.Router{
		ReadyPath: "/readiness", MembersPath: "/workers", DPAware: aware})
}

// client says what the client must know of the workers.
func (c *composer) client() {
	m := c.commonMode(catalog.RoleClient)
	m.DP = c.anyDP()
	d := &draft{scope: "client", vars: c.builtins(nil), environ: environment{}, Settings: c.in.Entry.Settings(c.in.Recipe.Engine, m)}
	c.catalogEnv(d)
	d.environ.set("IS_MTP", strconv.FormatBool(c.mtp() > 0), adapter)
	if c.scenario() == catalog.ScenarioAgentic {
		var workers, metrics []string
		for _, w := range c.in.Layout {
			workers = append(workers, url(w.Node, w.Port))
			metrics = append(metrics, url(w.Node, w.Port)+"/metrics")
		}
		d.environ.fact("SERVER_FLUSH_URLS_CSV", strings.Join(workers, ","))
		if c.in.Recipe.Metrics {
			d.environ.fact("AIPERF_SERVER_METRICS_URLS", strings.Join(metrics, ","))
		}
	}
	c.out.ClientEnv = d.environ.list()
	c.origins("client", d)
}
