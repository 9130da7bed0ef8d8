package engine_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
)

// errRefused marks what this project refuses where the old scripts went on.
var errRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// settings is what a record asks for, in the names of the old container.
type settings struct {
	env map[string]string
	// prefillNodes and decodeNodes are zero where the record has one node, or
	// as many as needed, for each worker.
	prefillNodes, decodeNodes int
	modelPath                 string
	// bare records ran ATOM's script alone, with its own default for the
	// router's port.
	bare bool
	// forwarded are the variables that reach the engine; nil: all.
	forwarded []string
}

func (s settings) get(name, or string) string {
	if v := s.env[name]; v != "" {
		return v
	}
	return or
}

// input translates a record to this project's input. Everything it does, a
// person moving from the old scripts would do by hand.
func (s settings) input(c *catalog.Catalog, name string) (engine.Input, error) {
	r := &models.Recipe{Name: "golden", Engine: name, Model: s.env["MODEL_NAME"], Image: "img/x:1"}
	entry, err := c.Lookup(r.Model)
	if err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("%v", err)
	}
	if !entry.Has(name) {
		return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("%s has no settings for %s", r.Model, name)
	}
	// Spelling of booleans: whatever people write, one meaning.
	truth := func(key string, unset bool) (bool, error) {
		v, set := s.env[key]
		if !set || v == "" {
			return unset, nil
		}
		b, err := models.ParseBool(v)
		if err != nil {
			return false, refuse("%s: %v", key, err)
		}
		return bool(b), nil
	}
	agentic, err := truth("IS_AGENTIC", false)
	if err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, err
	}
	if agentic {
		r.Scenario = catalog.ScenarioAgentic
	}
	site := &models.Site{GPUsPerNode: 8}
	if n, err := strconv.Atoi(s.get("GPUS_PER_NODE", "8")); err == nil {
		site.GPUsPerNode = n
	}
	for _, role := range []struct {
		prefix, count string
		nodes         int
		into          **models.Role
	}{
		{"PREFILL", "xP", s.prefillNodes, &r.Prefill},
		{"DECODE", "yD", s.decodeNodes, &r.Decode},
	} {
		ep, err := truth(role.prefix+"_ENABLE_EP", name == engine.SGLang)
		if err != nil {
			return engine.Input{Recipe: r, Site: &models.Site{}}, err
		}
		dp, err := truth(role.prefix+"_ENABLE_DP", name == engine.SGLang)
		if err != nil {
			return engine.Input{Recipe: r, Site: &models.Site{}}, err
		}
		tp, err := strconv.Atoi(s.get(role.prefix+"_TP_SIZE", "8"))
		if err != nil {
			return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("%s_TP_SIZE: %v", role.prefix, err)
		}
		workers, err := strconv.Atoi(s.get(role.count, "1"))
		if err != nil || workers < 1 {
			return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("%s workers: %q", role.prefix, s.env[role.count])
		}
		x := &models.Role{Workers: workers, Nodes: role.nodes, TP: tp, DPAttention: models.Bool(dp)}
		if ep {
			x.EP = tp
		}
		*role.into = x
	}
	if n, err := strconv.Atoi(s.get("DECODE_MTP_SIZE", "0")); err == nil && n > 0 {
		r.Speculative = &models.Speculative{Tokens: n}
	}
	metrics, err := truth("ENABLE_METRICS", false)
	if err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, err
	}
	r.Metrics = models.Bool(metrics)
	r.Transfer = s.env["KV_P2P_TRANSFER"]
	list, err := models.ParseIntList(s.get("BENCH_MAX_CONCURRENCY", "512"))
	if err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("%v", err)
	}
	r.Client = &models.ClientSpec{Concurrency: list}
	run, _ := truth("RUN_EVAL", false)
	only, _ := truth("EVAL_ONLY", false)
	if run || only {
		r.Evals = &models.EvalSpec{Only: models.Bool(only)}
		if v := s.env["EVAL_CONC"]; v != "" {
			if r.Evals.Concurrency, err = models.ParseIntList(v); err != nil {
				return engine.Input{Recipe: r, Site: &models.Site{}}, refuse("EVAL_CONC: %v", err)
			}
		}
	}
	if r.KVOffload, err = s.offload(r.Model); err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, err
	}
	r.Router = s.router(name, agentic)
	s.variables(r, site, name)
	s.tuning(r, entry)
	layout, err := layout(r, site.GPUsPerNode, s)
	if err != nil {
		return engine.Input{Recipe: r, Site: &models.Site{}}, err
	}
	in := engine.Input{Recipe: r, Site: site, Entry: entry, Layout: layout, Launcher: models.LauncherSlurm,
		ModelPath: s.modelPath}
	return in, nil
}

// offload translates the HiCache variables.
func (s settings) offload(model string) (*models.KVOffload, error) {
	if s.get("KV_OFFLOADING", "none") == "none" || s.env["KV_OFFLOAD_BACKEND"] != "hicache" {
		return nil, nil
	}
	o := &models.KVOffload{Backend: "hicache", Mooncake: &models.MooncakeSpec{}}
	number := func(name string, into *int) error {
		v := s.env[name]
		if v == "" {
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil {
			return refuse("%s: %q is not a whole number", name, v)
		}
		*into = n
		return nil
	}
	o.Ratio = s.env["HICACHE_RATIO"]
	if strings.ContainsAny(o.Ratio, " $") {
		return nil, refuse("HICACHE_RATIO: %q is not a number", o.Ratio)
	}
	o.IOBackend = s.env["HICACHE_IO_BACKEND"]
	o.MemLayout = s.env["HICACHE_MEM_LAYOUT"]
	o.WritePolicy = s.env["HICACHE_WRITE_POLICY"]
	o.PrefetchPolicy = s.env["HICACHE_PREFETCH_POLICY"]
	if o.Storage = s.env["HICACHE_STORAGE_BACKEND"]; o.Storage != "" {
		o.Tier = "L3"
	}
	m := o.Mooncake
	m.HighWatermark, m.Protocol, m.GlobalSegment = s.env["MC_EVICTION_HIGH_WATERMARK"], s.env["MC_PROTOCOL"], s.env["MC_GLOBAL_SEG"]
	m.Device, m.MasterAddr, m.MetadataURL = s.env["MC_DEVICE"], s.env["MC_MASTER_ADDR"], s.env["MC_METADATA_SERVER"]
	for _, f := range []struct {
		name string
		into *int
	}{
		{"HICACHE_HOST_POOL_COUNT", &o.HostPools}, {"HICACHE_PAGE_SIZE", &o.PageSize},
		{"MC_MASTER_PORT", &m.MasterPort}, {"MC_METADATA_PORT", &m.MetadataPort},
		{"MC_METRICS_PORT", &m.MetricsPort}, {"MC_MASTER_THREADS", &m.Threads},
	} {
		if err := number(f.name, f.into); err != nil {
			return nil, err
		}
	}
	// The budget is given with every run; the old scripts took the ratio all
	// the same when told to, and for models that know no absolute size.
	if s.env["FORCE_HICACHE_RATIO"] != "1" && !strings.Contains(model, "DeepSeek-V4") {
		if err := number("TOTAL_CPU_DRAM_GB", &o.TotalDRAMGB); err != nil {
			return nil, err
		}
		// A budget of nothing was taken for no budget.
		if o.TotalDRAMGB = max(0, o.TotalDRAMGB); o.TotalDRAMGB > 0 {
			o.Ratio = ""
		}
	}
	return o, nil
}

// router translates what the old scripts let one change of the router.
func (s settings) router(name string, agentic bool) *models.RouterSpec {
	spec := &models.RouterSpec{}
	if agentic && name == engine.SGLang {
		spec.Policy = s.env["PREFILL_ROUTER_POLICY"]
	}
	// These variables replaced a block of flags whole.
	for _, block := range []struct {
		name     string
		agentic  bool
		replaces []string
	}{
		{"ROUTER_POLICY_FLAGS", false, []string{"--policy", "--prefill-policy", "--decode-policy"}},
		{"ROUTER_CB_ARGS", false, []string{"--cb-timeout-duration-secs", "--retry-max-retries"}},
		{"ROUTER_RESILIENCE_FLAGS", false, []string{"--cb-timeout-duration-secs", "--retry-max-retries"}},
		{"ROUTER_POLICY_FLAGS", true, []string{"--policy", "--dp-aware", "--cache-threshold", "--balance-abs-threshold", "--balance-rel-threshold"}},
		{"ROUTER_RESILIENCE_FLAGS", true, []string{"--disable-circuit-breaker", "--health-failure-threshold",
			"--health-check-timeout-secs", "--health-check-interval-secs"}},
	} {
		value := s.env[block.name]
		if value == "" || block.agentic != agentic || name != engine.SGLang {
			continue
		}
		_, list := flagsOf(strings.Fields(value))
		given := byName(list)
		for _, name := range block.replaces {
			if _, there := given[name]; !there && (name != "--dp-aware" || s.env["PREFILL_ENABLE_DP"] == "true" || s.env["DECODE_ENABLE_DP"] == "true") {
				spec.Flags = append(spec.Flags, "!"+name)
			}
		}
		for _, w := range list {
			spec.Flags = append(spec.Flags, strings.TrimSpace(w.name+" "+strings.Join(w.args, " ")))
		}
	}
	if agentic && name == engine.SGLang {
		for flag, name := range map[string]string{"--cache-threshold": "ROUTER_CACHE_THRESHOLD",
			"--balance-abs-threshold": "ROUTER_BALANCE_ABS_THRESHOLD", "--balance-rel-threshold": "ROUTER_BALANCE_REL_THRESHOLD"} {
			if v := s.env[name]; v != "" {
				spec.Flags = append(spec.Flags, flag+" "+v)
			}
		}
	}
	if s.env["ROUTER_TYPE"] == "moriio" && name == engine.VLLM {
		spec.Kind = "moriio"
	}
	if v := s.env["PROXY_PING_PORT"]; v != "" && name == engine.VLLM {
		spec.Flags = append(spec.Flags, "--vllm-discovery-address 0.0.0.0:"+v)
	}
	if s.bare && name == engine.ATOM && s.env["ROUTER_PORT"] == "" {
		spec.Port = 8000
	}
	if n, err := strconv.Atoi(s.env["ROUTER_PORT"]); err == nil {
		spec.Port = n
	}
	return spec
}

// launcherLiterals are variables that the old job script set itself for every
// vLLM container, so that they are the catalog's here and not the user's.
func launcherLiterals() []string {
	return []string{"UCX_TLS", "UCX_SOCKADDR_TLS_PRIORITY", "UCX_MEMTYPE_CACHE", "UCX_RNDV_SCHEME", "UCX_RNDV_THRESH",
		"UCX_ROCM_IPC_MIN_ZCOPY", "UCX_LOG_LEVEL", "TQDM_MININTERVAL", "HSA_ENABLE_SDMA", "PYTHONPYCACHEPREFIX", "PROXY_STREAM_IDLE_TIMEOUT",
		// These stand for what an image brings.
		"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"}
}

// variables translates variables that the engine itself reads.
func (s settings) variables(r *models.Recipe, site *models.Site, name string) {
	known := env.Known()
	r.Env = models.EnvMap{}
	for _, n := range sorted(s.env) {
		v, ok := known.Lookup(n)
		value := s.env[n]
		if !ok || v.Secret || value == "" || s.forwarded != nil && !slices.Contains(s.forwarded, n) || slices.Contains(launcherLiterals(), n) || !v.ReadIn(env.ScopePrefill, name) {
			continue
		}
		if n == "MORI_RDMA_TC" {
			// The traffic class is the fabric's: a key of the site.
			tc, err := strconv.Atoi(value)
			if err == nil {
				site.RDMA.TrafficClass = &tc
			}
			continue
		}
		r.Env[n] = models.EnvValue{Value: value}
	}
	if v := s.env["IBDEVICES"]; v != "" {
		site.RDMA.Devices = strings.Split(v, ",")
	}
}

// tuning translates ATOM's variables for numbers that have keys here. A number
// in the old model file won over the variable, and each variable was always
// there with a default.
func (s settings) tuning(r *models.Recipe, entry *catalog.Entry) {
	if r.Engine != engine.ATOM {
		return
	}
	number := func(name, or string) int {
		n, err := strconv.Atoi(s.get(name, or))
		if err != nil || s.env[name] == or {
			return 0
		}
		return n
	}
	for _, role := range []struct {
		name string
		of   *models.Role
	}{{models.RolePrefill, r.Prefill}, {models.RoleDecode, r.Decode}} {
		x, has := role.of, entry.Settings(r.Engine, catalog.Mode{Role: role.name})
		free := func(v catalog.Value) bool { return !v.IsSet() || strings.HasPrefix(v.From, "catalog:atom.yaml:") }
		if v := s.get("MEM_FRAC_STATIC", "0.85"); v != "0.85" && free(has.MemFraction) {
			x.MemFraction = v
		}
		if n := number("MAX_MODEL_LEN", "0"); free(has.ContextLength) {
			x.ContextLength = n
		}
		if n := number("MAX_NUM_BATCHED_TOKENS", "0"); n > 0 && free(has.ChunkedPrefillSize) {
			x.ChunkedPrefillSize = strconv.Itoa(n)
		}
		if n := number("MAX_NUM_SEQS", "256"); role.name == models.RolePrefill && free(has.MaxRunningRequests) && !s.fixedSeqs(r.Model) {
			x.MaxRunningRequests = n
		}
		if n := number("BLOCK_SIZE", "16"); n > 0 && free(has.PageSize) {
			x.Flags = append(x.Flags, "--block-size "+strconv.Itoa(n))
		}
		if v := s.env["SCHEDULER_DELAY_FACTOR"]; v != "" {
			x.Flags = append(x.Flags, "--scheduler-delay-factor "+v)
		}
		_, list := flagsOf(strings.Fields(s.env["EXTRA_SERVER_ARGS"]))
		for _, w := range list {
			x.Flags = append(x.Flags, strings.TrimSpace(w.name+" "+strings.Join(w.args, " ")))
		}
	}
}

// fixedSeqs says whether the old model file gave a number of sequences, which
// here is the engine's default.
func (s settings) fixedSeqs(model string) bool { return strings.HasPrefix(model, "MiniMax") }

// layout places the workers as the old scripts did: prefill first, then decode,
// each worker on nodes of its own unless the record gives fewer nodes.
func layout(r *models.Recipe, gpus int, s settings) ([]models.Worker, error) {
	var out []models.Worker
	first := 0
	for _, role := range []struct {
		name string
		of   *models.Role
	}{{models.RolePrefill, r.Prefill}, {models.RoleDecode, r.Decode}, {models.RoleAggregate, r.Aggregate}} {
		x := role.of
		if x == nil {
			continue
		}
		shape, err := engine.ShapeOf(x.TP, max(1, x.PP), gpus)
		if err != nil {
			return nil, refuse("%s: %v", role.name, err)
		}
		perNode := 1
		if x.Nodes > 0 && shape.Nodes == 1 && x.Workers > x.Nodes {
			if x.Workers%x.Nodes != 0 || x.Workers/x.Nodes*x.TP > gpus {
				return nil, refuse("%s: %d workers of %d GPUs on %d nodes of %d", role.name, x.Workers, x.TP, x.Nodes, gpus)
			}
			perNode = x.Workers / x.Nodes
		}
		for i := range x.Workers {
			w := models.Worker{ID: fmt.Sprintf("%s-%d", role.name, i), Role: role.name, Index: i,
				TP: x.TP, PP: max(1, x.PP), EP: max(1, x.EP), DP: 1}
			if x.DPAttention {
				w.DP = x.TP
			}
			w.Node = first + i*shape.Nodes/perNode
			slot := i % perNode
			ports := engine.DefaultPorts(r.Engine, role.name)
			w.Port = ports.HTTP + slot
			if n, err := strconv.Atoi(s.env[strings.ToUpper(role.name)+"_PORT"]); err == nil {
				w.Port = n + slot
			}
			if role.name == models.RolePrefill && ports.Bootstrap > 0 {
				w.BootstrapPort = ports.Bootstrap + slot
			}
			for k := range shape.Nodes {
				p := models.Process{ID: fmt.Sprintf("%s.%d", w.ID, k), Node: w.Node + k}
				for g := range shape.GPUs {
					p.GPUs = append(p.GPUs, slot*shape.GPUs+g)
				}
				if n, err := strconv.Atoi(s.env["HEADNODE_PORT"]); err == nil && k == 0 {
					p.Ports = append(p.Ports, models.Port{Name: "dist-init", Number: n})
				}
				if n, err := strconv.Atoi(s.env["HANDSHAKE_PORT"]); err == nil {
					p.Ports = append(p.Ports, models.Port{Name: "handshake", Number: n})
				}
				w.Ranks = append(w.Ranks, p)
			}
			out = append(out, w)
		}
		first += x.Workers * shape.Nodes / perNode
	}
	return out, nil
}

// server returns the settings of a record of the server layer.
func server(r *record) settings {
	s := settings{env: map[string]string{}}
	for k, v := range r.Inputs.Env {
		s.env[k] = v
	}
	for _, line := range strings.Split(r.Inputs.HiCache, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			s.env[name] = strings.Trim(value, `"'`)
		}
	}
	s.modelPath = path.Join(s.get("MODEL_DIR", "/models"), s.env["MODEL_NAME"])
	s.bare = strings.HasPrefix(r.Engine, engine.ATOM)
	if v := s.env["MODEL_PATH"]; v != "" && strings.HasPrefix(r.Engine, engine.VLLM) {
		s.modelPath = v
	}
	return s
}
