package engine

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/disagg/disagg/models"
)

// Ports of ATOM beside its HTTP server. A further worker on a host takes its
// own block.
const (
	atomHandshake     = 6301  // Mooncake's handshake
	atomPortBlock     = 100   // for each further worker of a host
	atomRouterMetrics = 29100 // the router's
)

// transferMooncake is the KV transfer that this adapter composes for ATOM.
const transferMooncake = "mooncake"

// atom composes a run of ATOM.
func (c *composer) atom() {
	c.atomRefuse()
	for i := range c.in.Layout {
		w := c.in.Layout[i]
		c.out.Workers = append(c.out.Workers, c.atomWorker(w, c.draft(&w), c.slot(i)))
	}
	c.out.ModelName = c.in.ModelPath
	c.atomRouter()
	c.client()
}

// atomRefuse reports what this adapter cannot compose, and what the engine
// would take and ignore.
func (c *composer) atomRefuse() {
	r := c.in.Recipe
	if r.KVOffload != nil {
		c.fail("kv_offload", "atom has no KV tier in host memory here", "leave kv_offload out, or use sglang")
	}
	if r.Transfer != "" && r.Transfer != transferMooncake {
		c.fail("transfer", fmt.Sprintf("atom moves KV with mooncake here, not with %q", r.Transfer), "leave transfer out")
	}
	for _, w := range c.in.Layout {
		if len(w.Ranks) > 1 || w.PP > 1 {
			c.fail(w.Role+".tp", fmt.Sprintf("an atom worker of %d GPUs needs %d nodes; here it runs on one, without pipeline stages", w.TP*max(1, w.PP), len(w.Ranks)),
				fmt.Sprintf("give tp at most %d and pp 1", c.in.Site.GPUsPerNode))
			return
		}
	}
}

// atomWorker composes one worker. slot is its place among those of its host.
func (c *composer) atomWorker(w models.Worker, d *draft, slot int) models.Worker {
	role := w.Role
	d.flag(adapter, "--model", c.in.ModelPath)
	d.flag(adapter, "--host", "0.0.0.0")
	d.flag(adapter, "--server-port", strconv.Itoa(w.Port))
	d.flag(adapter, "--trust-remote-code")
	d.flag(c.where("recipe", role+".tp"), "-tp", strconv.Itoa(w.TP))
	d.take(d.Flags)
	c.speculate(d)
	d.value("--block-size", d.PageSize)
	d.value("--gpu-memory-utilization", d.MemFraction)
	d.value("--max-num-seqs", d.MaxRunningRequests)
	d.value("--max-model-len", d.ContextLength)
	d.value("--max-num-batched-tokens", d.ChunkedPrefillSize)
	var handshake int
	if role != models.RoleAggregate {
		handshake = port(w.Ranks[0], "handshake", atomHandshake+slot*atomPortBlock)
		d.flag(adapter, "--kv-transfer-config", atomTransfer(role, handshake))
	}
	w.HealthPath = firstText(w.HealthPath, "/health")
	w = c.fill(w, d, []string{"python3", "-m", "atom.entrypoints.openai_server"}, nil)
	if handshake != 0 {
		addPort(&w.Ranks[0], "handshake", handshake)
	}
	return w
}

// atomTransfer tells a worker how KV moves.
func atomTransfer(role string, handshake int) string {
	kvRole := "kv_producer"
	if role == models.RoleDecode {
		kvRole = "kv_consumer"
	}
	// Texts and a number cannot fail to encode.
	b, _ := json.Marshal(struct {
		Role      string `json:"kv_role"`
		Connector string `json:"kv_connector"`
		ProxyIP   string `json:"proxy_ip"`
		Handshake int    `json:"handshake_port"`
	}{kvRole, transferMooncake, "@{self.addr}", handshake})
	return string(b)
}

// addPort notes a port that a process listens on, unless it is noted already.
func addPort(p *models.Process, name string, number int) {
	if port(*p, name, 0) == 0 {
		p.Ports = append(p.Ports, models.Port{Name: name, Number: number})
	}
}

// atomRouter composes ATOM's router.
func (c *composer) atomRouter() {
	kind := firstText(c.routerSpec().Kind, ATOM)
	if kind == "none" || c.first(models.RoleAggregate) != nil {
		return
	}
	if kind != ATOM {
		c.fail("router.kind", fmt.Sprintf("atom has no router %q; routers: atom, none", kind), "")
		return
	}
	d := c.routerDraft()
	d.flag(adapter, "--host", "0.0.0.0")
	d.flag(adapter, "--port", strconv.Itoa(c.frontPort()))
	d.flag(adapter, "--pd-disaggregation")
	d.take(d.Flags)
	c.policies(d)
	d.flag(adapter, "--prometheus-port", strconv.Itoa(atomRouterMetrics))
	c.texts(d, c.routerSpec().Flags, "router.flags", "")
	for _, role := range []string{models.RolePrefill, models.RoleDecode} {
		for _, w := range c.in.Layout {
			if w.Role == role {
				d.add("--"+role, url(w.Node, w.Port))
			}
		}
	}
	c.finishRouter(d, kind, []string{"/usr/local/bin/atomesh", "launch"}, models.Router{
		ReadyPath: "/v1/models", Process: models.Process{Ports: []models.Port{{Name: "metrics", Number: atomRouterMetrics}}}})
}
