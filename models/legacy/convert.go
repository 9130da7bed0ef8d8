package legacy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// engineOf is the engine of a framework's name.
func engineOf(framework string) (engine string, ok bool) {
	engine, disagg := strings.CutSuffix(framework, "-disagg")
	return engine, disagg && slices.Contains([]string{"sglang", "vllm", "atom"}, engine)
}

// frameworks names what engineOf knows.
const frameworks = "frameworks: sglang-disagg, vllm-disagg, atom-disagg"

// converter makes the recipe of one run from the variables and arguments that
// the submit script would have got.
type converter struct {
	*reader
	known   *catalog.Catalog
	recipe  *models.Recipe
	entry   *catalog.Entry // nil: the catalog does not have the model
	agentic bool
}

// convert reads the variables. The arguments stand among them by their names.
// Mistakes and notes are in the reader.
func convert(r *reader, known *catalog.Catalog) *converter {
	c := &converter{reader: r, known: known, recipe: &models.Recipe{APIVersion: models.APIVersion, Kind: models.KindRecipe}}
	rec := c.recipe
	framework := r.get("FRAMEWORK", "")
	engine, ok := engineOf(framework)
	if !ok && framework != "" {
		r.fail("FRAMEWORK", fmt.Sprintf("there is no framework %q; the scripts took any name they did not know for sglang", framework), frameworks)
	}
	rec.Engine = engine
	rec.Model = r.get("MODEL_NAME", "")
	rec.Image = r.get("CONTAINER_IMAGE", "")
	rec.Shell = "login" // the scripts started everything through the image's login shell
	rec.Name = runName(r.get("RUNNER_NAME", ""))
	if limit := r.get("TIME_LIMIT", ""); limit != "" {
		d, err := slurmLimit(limit)
		if err != nil {
			r.fail("TIME_LIMIT", err.Error(), "write 08:00:00 or 1-00:00:00")
		}
		rec.TimeLimit = d
	}
	c.entry, _ = known.Lookup(rec.Model)
	if c.agentic = r.truth("IS_AGENTIC", false); c.agentic && engine == "sglang" {
		rec.Scenario = models.ScenarioAgentic
	}
	rec.Prefill, rec.Decode = c.role("PREFILL"), c.role("DECODE")
	if n := r.number("DECODE_MTP_SIZE", 0, 0); n > 0 {
		if engine == "vllm" {
			r.note("DECODE_MTP_SIZE", "the scripts never passed it on to vllm", "write speculative: {tokens: N} in the recipe if the model has multi-token prediction there")
		} else {
			rec.Speculative = &models.Speculative{Tokens: n}
		}
	}
	rec.Metrics = models.Bool(r.truth("ENABLE_METRICS", false) && engine == "sglang")
	c.transfer()
	c.offload()
	c.router()
	c.variables()
	c.tuning()
	c.client()
	c.evals()
	c.preflight()
	c.unheard()
	return c
}

// role reads the size of a role. The scripts gave GPUs a node; a recipe gives
// GPUs a worker.
func (c *converter) role(name string) *models.Role {
	nodes, workers := c.number(name+"_NODES", 1, 1), c.number(name+"_WORKERS", 1, 1)
	gpus := c.number(name+"_TP", 8, 1)
	x := &models.Role{Workers: workers, Nodes: nodes, TP: nodes * gpus / workers}
	if nodes*gpus%workers != 0 {
		c.fail(name+"_WORKERS", fmt.Sprintf("%d nodes of %d GPUs do not divide into %d workers; the scripts rounded down", nodes, gpus, workers), "")
	}
	if c.truth(name+"_ENABLE_EP", false) {
		x.EP = x.TP
	}
	x.DPAttention = models.Bool(c.truth(name+"_ENABLE_DP", false))
	return x
}

// transfer reports a transfer backend that the scripts were given and did not
// pass on, when it is another than the catalog's.
func (c *converter) transfer() {
	asked := c.get("KV_P2P_TRANSFER", "")
	if asked == "" || c.entry == nil || !c.entry.Has(c.recipe.Engine) {
		return
	}
	if has := c.entry.Transfer(c.recipe.Engine).Text; asked != has {
		c.note("KV_P2P_TRANSFER", fmt.Sprintf("the scripts never passed %q on, so KV moved with %s", asked, has), "write transfer: "+asked+" in the recipe if it is meant")
	}
}

// variables takes over what the scripts forwarded to the engine's own readers.
// All other variables that engines read were dropped on the way.
func (c *converter) variables() {
	for _, name := range []string{"MORI_IO_SQ_BACKOFF_TIMEOUT_US", "MORI_IO_QP_MAX_SEND_WR"} {
		if v := c.get(name, ""); v != "" && c.recipe.Engine != "atom" {
			c.set(&c.recipe.Env, name, v)
		}
	}
	// Secrets by name only: their values are in no file.
	for _, name := range []string{"HF_TOKEN", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"} {
		if c.get(name, "") != "" && name == "HF_TOKEN" {
			c.recipe.Forward = append(c.recipe.Forward, name)
		}
	}
}

// set puts a variable into a map, which is made when it is the first.
func (c *converter) set(m *models.EnvMap, name, value string) {
	if *m == nil {
		*m = models.EnvMap{}
	}
	(*m)[name] = models.EnvValue{Value: value}
}

// preflight turns skipped checks into waivers, which stay visible.
func (c *converter) preflight() {
	waive := func(name string, checks ...string) {
		if !c.truth(name, false) {
			return
		}
		if c.recipe.Preflight.Waive == nil {
			c.recipe.Preflight.Waive = map[string]string{}
		}
		for _, id := range checks {
			c.recipe.Preflight.Waive[id] = name + " was set"
		}
	}
	// What the scripts looked at: classification, no-drop priorities, PFC,
	// DCQCN and the DSCP of its notifications; and used GPU memory.
	waive("SKIP_RDMA_CHECK", "rdma.class", "rdma.pfc", "rdma.dcqcn", "rdma.cnp", "rdma.tools")
	waive("SKIP_GPU_SANITY", "gpu.vram")
}

// unheard notes settings that the scripts took and did nothing with.
func (c *converter) unheard() {
	if c.truth("KEEP_CONTAINERS", false) {
		c.note("KEEP_CONTAINERS", "containers of a run are always removed at its end; logs and results stay", "")
	}
	if rate := c.get("REQUEST_RATE", "inf"); rate != "inf" {
		c.note("REQUEST_RATE", fmt.Sprintf("%s only named result files; the client always sent as fast as it could", rate), "write the rate into client.command if it is meant")
	}
	for _, role := range []string{"PREFILL", "DECODE"} {
		for _, dim := range []string{"PP_SIZE", "DCP_SIZE", "PCP_SIZE"} {
			if n := c.number(role+"_"+dim, 1, 1); n > 1 {
				c.note(role+"_"+dim, fmt.Sprintf("%d was exported and read by nothing", n), "")
			}
		}
	}
}

// runName makes a recipe's name of any text.
func runName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '-'
	}, text)
	name = strings.TrimLeft(name, "._-")
	return name[:min(len(name), maxName)]
}

// maxName is the longest name of a recipe.
const maxName = 64

// slurmLimit reads a time limit in any form that Slurm takes. A number alone is
// minutes.
func slurmLimit(text string) (models.Duration, error) {
	day, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		day, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	switch {
	case hasDays: // D-H, D-H:M, D-H:M:S
		for len(parts) < 3 {
			parts = append(parts, "00")
		}
	case len(parts) == 1: // M
		minutes, err := strconv.Atoi(rest)
		if err != nil || minutes < 1 {
			return 0, fmt.Errorf("%q is not a time limit", text)
		}
		parts = []string{strconv.Itoa(minutes / 60), fmt.Sprintf("%02d", minutes%60), "00"}
	case len(parts) == 2: // M:S
		minutes, err := strconv.Atoi(parts[0])
		if err != nil {
			return 0, fmt.Errorf("%q is not a time limit", text)
		}
		parts = []string{strconv.Itoa(minutes / 60), fmt.Sprintf("%02d", minutes%60), parts[1]}
	}
	d, err := models.ParseDuration(day + "-" + strings.Join(parts, ":"))
	if err != nil || d == 0 {
		return 0, fmt.Errorf("%q is not a time limit", text)
	}
	return d, nil
}
