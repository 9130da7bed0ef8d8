package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// routerSpec returns what the recipe says of the router.
func (c *composer) routerSpec() *models.RouterSpec {
	if c.in.Recipe.Router == nil {
		return &models.RouterSpec{}
	}
	return c.in.Recipe.Router
}

// frontPort returns the port that clients use.
func (c *composer) frontPort() int {
	if p := c.routerSpec().Port; p != 0 {
		return p
	}
	return models.DefaultRouterPort
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

// sglangRouter composes SGLang's router.
func (c *composer) sglangRouter() {
	switch kind := c.routerSpec().Kind; {
	case kind == "none":
	case kind != "" && kind != SGLang:
		c.fail("router.kind", fmt.Sprintf("sglang has no router %q; routers: sglang, none", kind), "")
	case c.first(models.RoleAggregate) != nil:
		c.aggregateRouter()
	default:
		c.disaggregatedRouter()
	}
}

// disaggregatedRouter stands in front of prefill and decode workers.
func (c *composer) disaggregatedRouter() {
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

// firstEphemeral is where Linux starts to take ports for outgoing connections.
const firstEphemeral = 32768

// aggregateRouter stands in front of the DP ranks of aggregate workers, or of
// several workers. One worker without ranks needs none: clients talk to it.
func (c *composer) aggregateRouter() {
	if !c.anyDP() && len(c.in.Layout) == 1 {
		return
	}
	d := c.routerDraft()
	var urls []string
	for _, w := range c.in.Layout {
		urls = append(urls, url(w.Node, w.Port))
	}
	d.flag(adapter, "--worker-urls", urls...)
	d.take(d.Flags)
	c.policies(d)
	if c.anyDP() {
		d.flag(adapter, "--dp-aware")
	}
	front := c.frontPort()
	metrics := front + 10000
	if metrics >= firstEphemeral {
		metrics = front + 1000
	}
	d.flag(adapter, "--host", "0.0.0.0")
	d.flag(adapter, "--port", strconv.Itoa(front))
	d.flag(adapter, "--prometheus-host", "127.0.0.1")
	d.flag(adapter, "--prometheus-port", strconv.Itoa(metrics))
	c.texts(d, c.routerSpec().Flags, "router.flags", "")
	_, aware := d.args.Get("--dp-aware")
	c.finishRouter(d, SGLang, []string{"python3", "-m", "sglang_router.launch_router"}, models.Router{
		ReadyPath: "/readiness", MembersPath: "/workers", DPAware: aware,
		Process: models.Process{Ports: []models.Port{{Name: "metrics", Number: metrics}}}})
}

// graceConcurrency is the number of sessions from which their first prompts
// take so long together that the client must wait for them.
const graceConcurrency = 32

// exportsMetrics says whether the workers were told to.
func (c *composer) exportsMetrics() bool {
	return slices.ContainsFunc(c.out.Workers, func(w models.Worker) bool {
		return len(w.Ranks) > 0 && slices.Contains(w.Ranks[0].Argv, "--enable-metrics")
	})
}

// client says what the client must know of the workers.
func (c *composer) client() {
	m := c.commonMode(catalog.RoleClient)
	m.DP = c.anyDP()
	d := &draft{scope: "client", vars: c.builtins(nil), environ: environment{}, Settings: c.in.Entry.Settings(c.in.Recipe.Engine, m)}
	c.catalogEnv(d)
	speculative, _ := c.in.Entry.Speculative(c.in.Recipe.Engine)
	d.environ.set("IS_MTP", strconv.FormatBool(c.mtp() > 0 && speculative != nil), adapter)
	if c.scenario() == catalog.ScenarioAgentic && c.in.Recipe.Engine == SGLang {
		var workers, metrics []string
		for _, w := range c.in.Layout {
			workers = append(workers, url(w.Node, w.Port))
			metrics = append(metrics, url(w.Node, w.Port)+"/metrics")
		}
		if c.first(models.RoleAggregate) != nil && concurrency(c.in.Recipe) >= graceConcurrency {
			d.environ.set("AGENTIC_WARMUP_GRACE_PERIOD", "3600", adapter)
		}
		d.environ.fact("SERVER_FLUSH_URLS_CSV", strings.Join(workers, ","))
		if c.exportsMetrics() {
			d.environ.fact("AIPERF_SERVER_METRICS_URLS", strings.Join(metrics, ","))
		}
	}
	c.out.ClientEnv = d.environ.list()
	c.origins("client", d)
}
