package plan

import (
	"fmt"
	"slices"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

// ports of one kind: the first worker on a host gets the base, the next ones
// base plus stride, twice stride, and so on.
type portRange struct {
	name   string
	base   int
	stride int
}

// portRanges are the ports of a worker's first rank, in the order in which they
// are handed out. What an engine needs beside them its adapter adds. Engines
// open more ports than they are told: SGLang takes a range from 233 above its
// HTTP port when it runs data-parallel ranks, and a range from its rendezvous
// port. A stride of 100 keeps neighbours apart. The bootstrap port is one server
// only. The recipe may say where HTTP and bootstrap ports begin.
func portRanges(engineName, role string, ranks int, r *models.Role) []portRange {
	d := engine.DefaultPorts(engineName, role)
	if r != nil && r.Port > 0 {
		d.HTTP = r.Port
	}
	if r != nil && r.BootstrapPort > 0 && d.Bootstrap > 0 {
		d.Bootstrap = r.BootstrapPort
	}
	out := []portRange{{portHTTP, d.HTTP, 100}}
	if d.Bootstrap > 0 {
		out = append(out, portRange{portBootstrap, d.Bootstrap, 1})
	}
	if d.DistInit > 0 && ranks > 1 {
		out = append(out, portRange{portDistInit, d.DistInit, 100})
	}
	return out
}

// Names of ports.
const (
	portHTTP      = "http"
	portBootstrap = "bootstrap"
	portDistInit  = "dist-init"
)

// lastPort is the highest port that planning hands out: above it Linux takes
// ports for outgoing connections (net.ipv4.ip_local_port_range starts at 32768
// by default), so a port there may be gone when the server wants it.
const lastPort = 32767

// reservedPorts are what services of a run or of a node use by default and
// what planning therefore leaves alone: HTTP alternatives, Mooncake's master
// and its metrics, routers and their metrics.
func reservedPorts() []int { return []int{8080, 9003, 19003, 29000, 29100, 30000} }

// hosts hands out ports, none twice on one host.
type hosts struct {
	local bool
	taken map[int]map[int]string // host → port → who
}

// of is the host of a plan node. Locally all plan nodes are one host.
func (h *hosts) of(node int) int {
	if h.local {
		return 0
	}
	return node
}

// take marks a port; it returns who has it already, if anybody.
func (h *hosts) take(node, port int, who string) string {
	host := h.of(node)
	if h.taken == nil {
		h.taken = map[int]map[int]string{}
	}
	if h.taken[host] == nil {
		h.taken[host] = map[int]string{}
	}
	if other, ok := h.taken[host][port]; ok {
		return other
	}
	h.taken[host][port] = who
	return ""
}

// next takes the first free port of a range; 0: none is left.
func (h *hosts) next(node int, r portRange, who string) int {
	for p := r.base; p <= lastPort; p += r.stride {
		if !slices.Contains(reservedPorts(), p) && h.take(node, p, who) == "" {
			return p
		}
	}
	return 0
}

// ports gives every worker its ports.
func (b *builder) ports(workers []models.Worker) {
	h := &hosts{local: b.in.Launcher == models.LauncherLocal}
	b.reserve(h)
	for _, role := range []string{models.RoleDecode, models.RoleAggregate} {
		if r := b.role(role); r != nil && r.BootstrapPort > 0 {
			b.fail(role+".bootstrap_port", "only prefill workers have a bootstrap port", "set prefill.bootstrap_port, or take it out")
		}
	}
	for i := range workers {
		w := &workers[i]
		head := &w.Ranks[0]
		for _, r := range portRanges(b.in.Recipe.Engine, w.Role, len(w.Ranks), b.role(w.Role)) {
			p := h.next(head.Node, r, w.ID)
			if p == 0 {
				b.fail(w.Role+".workers", fmt.Sprintf("no %s port below %d is left for %s: too many workers on one host", r.name, lastPort+1, w.ID), "use fewer workers a host")
			}
			head.Ports = append(head.Ports, models.Port{Name: r.name, Number: p})
			switch r.name {
			case portHTTP:
				w.Port = p
			case portBootstrap:
				w.BootstrapPort = p
			}
		}
		// Every rank is started with the same HTTP port; those beyond the
		// first answer health probes on it. On one host they cannot.
		for r := 1; r < len(w.Ranks); r++ {
			if h.take(w.Ranks[r].Node, w.Port, w.ID) == "" {
				w.Ranks[r].Ports = []models.Port{{Name: portHTTP, Number: w.Port}}
			}
		}
	}
}

// reserve marks the ports that the recipe gives to other processes. They run
// on the first node.
func (b *builder) reserve(h *hosts) {
	r := b.in.Recipe
	var wanted []int
	if r.Router != nil {
		wanted = append(wanted, r.Router.Port)
	}
	if r.KVOffload != nil && r.KVOffload.Mooncake != nil {
		m := r.KVOffload.Mooncake
		wanted = append(wanted, m.MasterPort, m.MetadataPort, m.MetricsPort)
	}
	for _, p := range wanted {
		h.take(0, p, "recipe")
	}
}

// checkPorts refuses two processes of the plan that would listen on one port of
// a host: engines, services and recipes choose ports of their own beside those
// that planning handed out.
func (b *builder) checkPorts() {
	h := &hosts{local: b.in.Launcher == models.LauncherLocal}
	for _, p := range b.plan.Processes() {
		for _, q := range p.Ports {
			who := p.ID + " (" + q.Name + ")"
			if q.Number < 1 || q.Number > 65535 {
				b.fail(portKey(p, q.Name), fmt.Sprintf("%s has port %d, which is no port", who, q.Number), "use 1024 to 32767")
				continue
			}
			if other := h.take(p.Node, q.Number, who); other != "" {
				b.fail(portKey(p, q.Name), fmt.Sprintf("port %d on plan node %d is wanted by %s and by %s", q.Number, p.Node, other, who), "give one of them another port")
			}
		}
	}
}

// portKey is the recipe key that sets a port, where there is one.
func portKey(p *models.Process, name string) string {
	switch {
	case p.Scope == "router":
		return "router.port"
	case p.ID == "mooncake-master" && name == "rpc":
		return "kv_offload.mooncake.master_port"
	case p.ID == "mooncake-master":
		return "kv_offload.mooncake." + name + "_port"
	}
	return p.Scope
}
