package engine

import (
	"strconv"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// distInitPort is where the ranks of a worker over several nodes meet, unless
// the layout says otherwise.
const distInitPort = 20000

// sglang composes a run of SGLang.
func (c *composer) sglang() {
	o := c.hicache()
	var context catalog.Value
	for i := range c.in.Layout {
		w := c.in.Layout[i]
		d := c.draft(&w)
		// One context length for the deployment: decode would admit longer
		// requests than prefill ever sends, and they would hang.
		switch {
		case w.Role == models.RolePrefill:
			context = d.ContextLength
		case w.Role == models.RoleDecode && !d.ContextLength.IsSet():
			d.ContextLength = context
		}
		c.out.Workers = append(c.out.Workers, c.sglangWorker(w, d, o))
	}
	// Without --served-model-name the engine serves under the path it was given.
	c.out.ModelName = c.in.ModelPath
	if c.first(models.RoleAggregate) != nil {
		c.out.ModelName = c.in.Entry.Name
	}
	c.mooncakeMaster(o)
	c.sglangRouter()
	c.client()
}

// sglangWorker composes one prefill, decode or aggregate worker.
func (c *composer) sglangWorker(w models.Worker, d *draft, o *offload) models.Worker {
	role := w.Role
	d.flag(adapter, "--model-path", c.in.ModelPath)
	if role != models.RoleAggregate {
		d.flag(adapter, "--disaggregation-mode", role)
		d.flag(adapter, "--disaggregation-ib-device", "@{self.rdma}")
	}
	tp, dp := "--tp-size", "--dp-size"
	if role == models.RoleAggregate {
		d.flag(adapter, "--served-model-name", c.in.Entry.Name)
		tp, dp = "--tensor-parallel-size", "--dp"
	}
	d.flag(adapter, "--host", "0.0.0.0")
	d.flag(adapter, "--port", strconv.Itoa(w.Port))
	d.flag(adapter, "--trust-remote-code")
	d.flag(c.where("recipe", role+".tp"), tp, strconv.Itoa(w.TP))
	if w.PP > 1 {
		d.flag(c.where("recipe", role+".pp"), "--pp-size", strconv.Itoa(w.PP))
	}
	if w.EP > 1 {
		d.flag(c.where("recipe", role+".ep"), "--ep-size", strconv.Itoa(w.EP))
	}
	if w.DP > 1 {
		d.flag(c.where("recipe", role+".dp_attention"), dp, strconv.Itoa(w.DP))
	}
	d.take(d.Flags)
	if role != models.RoleAggregate {
		c.transfer(d, "--disaggregation-transfer-backend")
	}
	c.speculate(d)
	d.value("--mem-fraction-static", d.MemFraction)
	d.value("--max-running-requests", d.MaxRunningRequests)
	d.value("--chunked-prefill-size", d.ChunkedPrefillSize)
	d.value("--page-size", d.PageSize)
	d.value("--cuda-graph-max-bs", d.CudaGraphMax)
	c.sglangGraphs(d)
	d.value("--context-length", d.ContextLength)
	if c.in.Recipe.Metrics {
		d.flag(c.where("recipe", "metrics"), "--enable-metrics")
	}
	if w.BootstrapPort > 0 {
		// Said on both sides, so that prefill and router cannot disagree.
		d.flag(adapter, "--disaggregation-bootstrap-port", strconv.Itoa(w.BootstrapPort))
	}
	o.worker(c, d, &w)
	c.simulate(d, role)
	w.HealthPath = firstText(w.HealthPath, "/health")
	return c.fill(w, d, []string{"python3", "-m", "sglang.launch_server"}, func(rank int, d *draft) {
		if len(w.Ranks) > 1 {
			head := w.Ranks[0]
			d.flag(adapter, "--dist-init-addr", addr(head.Node)+":"+strconv.Itoa(port(head, "dist-init", distInitPort)))
			d.flag(adapter, "--nnodes", strconv.Itoa(len(w.Ranks)))
			d.flag(adapter, "--node-rank", strconv.Itoa(rank))
		}
	})
}

// transfer puts in the flag of the KV transfer backend.
func (c *composer) transfer(d *draft, name string) {
	v := c.in.Entry.Transfer(c.in.Recipe.Engine)
	if c.in.Recipe.Transfer != "" {
		v.Set(c.in.Recipe.Transfer, c.where("recipe", "transfer"))
	}
	d.value(name, v)
}

// sglangGraphs puts in the batch sizes that CUDA graphs are captured for.
func (c *composer) sglangGraphs(d *draft) {
	if !d.CudaGraphs.IsSet() {
		return
	}
	sizes, err := catalog.Graphs(d.CudaGraphs.Text)
	switch {
	case err != nil:
		c.fail(d.scope, d.CudaGraphs.From+": "+err.Error(), "")
	case sizes == nil:
		d.flag(d.CudaGraphs.From, "--disable-cuda-graph")
	default:
		d.flag(d.CudaGraphs.From, "--cuda-graph-bs", sizes...)
	}
}

// simulate pins the acceptance length of throughput runs over recorded traces
// to what was measured with real traffic. An evaluation needs real acceptance.
func (c *composer) simulate(d *draft, role string) {
	if c.mtp() == 0 || c.scenario() != catalog.ScenarioAgentic || c.evaluates() || role == models.RolePrefill {
		return
	}
	length, known := c.in.Entry.Acceptance[strconv.Itoa(c.mtp())]
	if !known {
		c.warnOnce("%s: no acceptance length is known for a speculative depth of %d on %s; drafts are accepted as they come, so throughput depends on the text of the traces",
			c.in.Entry.File, c.mtp(), c.in.Entry.Name)
		return
	}
	from := "catalog:" + c.in.Entry.File
	d.environ.set("SGLANG_SIMULATE_ACC_LEN", length, from)
	d.environ.set("SGLANG_SIMULATE_ACC_METHOD", "match-expected", adapter)
	d.environ.set("SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token", adapter)
}
