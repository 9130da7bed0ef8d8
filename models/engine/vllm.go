package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
)

// Ports of vLLM beside its HTTP server. A further worker on a host takes its
// own block, because every rank counts up from them.
const (
	vllmDiscovery   = 36367 // where workers register with the router, unless its flags say otherwise
	vllmSideChannel = 5600  // NIXL's handshake
	vllmHandshake   = 6301  // MoRI-IO's handshake
	vllmNotify      = 61005 // MoRI-IO's notifications
	vllmPortBlock   = 100
)

// transferMoRIIO is the KV transfer that this adapter composes for vLLM.
const transferMoRIIO = "moriio"

// vllm composes a run of vLLM.
func (c *composer) vllm() {
	c.vllmRefuse()
	for i := range c.in.Layout {
		w := c.in.Layout[i]
		c.out.Workers = append(c.out.Workers, c.vllmWorker(w, c.draft(&w), c.slot(i)))
	}
	c.out.ModelName = c.in.Entry.Name
	c.vllmRouter()
}

// vllmRefuse reports what this adapter cannot compose, and what the engine
// would take and ignore.
func (c *composer) vllmRefuse() {
	r := c.in.Recipe
	if r.KVOffload != nil {
		c.fail("kv_offload", "vllm has no KV tier in host memory here", "leave kv_offload out, or use sglang")
	}
	if r.Transfer != "" && r.Transfer != transferMoRIIO {
		c.fail("transfer", fmt.Sprintf("vllm moves KV with moriio here, not with %q", r.Transfer), "leave transfer out")
	}
	for _, w := range c.in.Layout {
		if w.DP > 1 {
			c.fail(w.Role+".dp_attention", "data-parallel attention is a mode of sglang and atom; vllm has no flag for it", "set dp_attention: false")
			return
		}
		if len(w.Ranks) > 1 {
			c.fail(w.Role+".tp", fmt.Sprintf("a vllm worker of %d GPUs needs %d nodes; here it runs on one", w.TP*max(1, w.PP), len(w.Ranks)),
				fmt.Sprintf("give tp × pp at most %d", c.in.Site.GPUsPerNode))
			return
		}
	}
}

// slot returns how many workers before the i-th share its host.
func (c *composer) slot(i int) int {
	n := 0
	for _, w := range c.in.Layout[:i] {
		if c.in.Launcher == models.LauncherLocal || w.Node == c.in.Layout[i].Node {
			n++
		}
	}
	return n
}

// vllmWorker composes one worker. slot is its place among those of its host.
func (c *composer) vllmWorker(w models.Worker, d *draft, slot int) models.Worker {
	role := w.Role
	d.flag(adapter, "--served-model-name", c.in.Entry.Name)
	d.flag(adapter, "--port", strconv.Itoa(w.Port))
	d.flag(adapter, "--trust-remote-code")
	sideChannel := port(w.Ranks[0], "side-channel", vllmSideChannel+slot*vllmPortBlock)
	handshake := port(w.Ranks[0], "handshake", vllmHandshake+slot*vllmPortBlock)
	notify := port(w.Ranks[0], "notify", vllmNotify+slot*vllmPortBlock)
	if role != models.RoleAggregate {
		d.flag(adapter, "--kv-transfer-config", c.vllmTransfer(&w, handshake, notify))
	}
	d.flag(c.where("recipe", role+".tp"), "--tensor-parallel-size", strconv.Itoa(w.TP))
	if w.PP > 1 {
		d.flag(c.where("recipe", role+".pp"), "--pipeline-parallel-size", strconv.Itoa(w.PP))
	}
	d.take(d.Flags)
	d.value("--block-size", d.PageSize)
	d.value("--gpu-memory-utilization", d.MemFraction)
	d.value("--max-model-len", d.ContextLength)
	d.value("--max-num-seqs", d.MaxRunningRequests)
	d.value("--max-num-batched-tokens", d.ChunkedPrefillSize)
	if w.EP > 1 {
		d.flag(c.where("recipe", role+".ep"), "--enable-expert-parallel")
	}
	c.speculate(d)
	d.environ.fact("VLLM_NIXL_SIDE_CHANNEL_HOST", "@{self.addr}")
	d.environ.set("VLLM_NIXL_SIDE_CHANNEL_PORT", strconv.Itoa(sideChannel), adapter)
	if g := c.in.Site.RDMA.GIDIndex; g != nil {
		d.Env["UCX_IB_GID_INDEX"] = catalog.Value{Text: strconv.Itoa(*g), From: c.where("site", "rdma.gid_index")}
	}
	w.HealthPath = firstText(w.HealthPath, "/health")
	w = c.fill(w, d, []string{"vllm", "serve", c.in.ModelPath}, nil)
	addPort(&w.Ranks[0], "side-channel", sideChannel)
	if role != models.RoleAggregate {
		addPort(&w.Ranks[0], "handshake", handshake)
		addPort(&w.Ranks[0], "notify", notify)
	}
	return w
}

// vllmTransfer tells a worker how KV moves and where the router is.
func (c *composer) vllmTransfer(w *models.Worker, handshake, notify int) string {
	type extra struct {
		ProxyIP   string `json:"proxy_ip"`
		PingPort  string `json:"proxy_ping_port"`
		HTTPPort  string `json:"http_port"`
		ReadMode  bool   `json:"read_mode"`
		Handshake string `json:"handshake_port,omitempty"`
		Notify    string `json:"notify_port,omitempty"`
	}
	e := extra{ProxyIP: addr(0), PingPort: strconv.Itoa(c.discoveryPort()), HTTPPort: strconv.Itoa(w.Port), ReadMode: true}
	if handshake != vllmHandshake || notify != vllmNotify {
		e.Handshake, e.Notify = strconv.Itoa(handshake), strconv.Itoa(notify)
	}
	kvRole := "kv_producer"
	if w.Role == models.RoleDecode {
		kvRole = "kv_consumer"
	}
	// Texts and a boolean cannot fail to encode.
	b, _ := json.Marshal(struct {
		Connector string `json:"kv_connector"`
		Role      string `json:"kv_role"`
		Extra     extra  `json:"kv_connector_extra_config"`
	}{"MoRIIOConnector", kvRole, e})
	return string(b)
}

// discoveryFlag says where the router waits for workers to register.
const discoveryFlag = "--vllm-discovery-address"

// discoveryPort returns the port that workers register at. It is one for the
// router and all workers, wherever it is set.
func (c *composer) discoveryPort() int {
	for i, text := range c.routerSpec().Flags {
		f, err := flags.Parse(text)
		if err != nil || !flags.Same(f.Name, discoveryFlag) {
			continue
		}
		_, digits, _ := strings.Cut(f.Value(), ":")
		port, err := strconv.Atoi(digits)
		if err != nil || port < 1 || port > 65535 {
			c.fail(fmt.Sprintf("router.flags[%d]", i), fmt.Sprintf("%s needs HOST:PORT, not %q", discoveryFlag, f.Value()), "")
		}
		return port
	}
	return vllmDiscovery
}

// vllmRouter composes the router that workers register with: vllm-router, or
// the proxy that comes with vLLM.
func (c *composer) vllmRouter() {
	kind := firstText(c.routerSpec().Kind, VLLM)
	if kind == "none" || c.first(models.RoleAggregate) != nil {
		return
	}
	d := c.routerDraft()
	discovery := []models.Port{{Name: "discovery", Number: c.discoveryPort()}}
	switch kind {
	case VLLM:
		d.flag(adapter, "--vllm-pd-disaggregation")
		d.flag(adapter, "--kv-connector", transferMoRIIO)
		d.flag(adapter, discoveryFlag, fmt.Sprintf("0.0.0.0:%d", vllmDiscovery))
		d.flag(adapter, "--port", strconv.Itoa(c.frontPort()))
		d.flag(adapter, "--host", "0.0.0.0")
		d.take(d.Flags)
		c.policies(d)
		c.texts(d, c.routerSpec().Flags, "router.flags", "")
		c.finishRouter(d, kind, []string{"vllm-router"}, models.Router{
			ReadyPath: "/health", MembersPath: "/workers", Process: models.Process{Ports: discovery}})
	case transferMoRIIO:
		// It has one policy, listens for workers on the port above, and has no
		// path for health.
		d.flag(adapter, "--port", strconv.Itoa(c.frontPort()))
		c.texts(d, c.routerSpec().Flags, "router.flags", "")
		c.finishRouter(d, kind, []string{"python3", "/app/vllm/examples/disaggregated/disaggregated_serving/moriio_toy_proxy_server.py"},
			models.Router{Process: models.Process{Ports: discovery}})
	default:
		c.fail("router.kind", fmt.Sprintf("vllm has no router %q; routers: vllm, moriio, none", kind), "")
	}
}
