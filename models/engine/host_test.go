package engine_test

import (
	"path"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models/engine"
)

// host returns the settings of a record of the host layer: what launcher,
// recipe script, submit script and job script make of their inputs.
func host(r *record) (settings, error) {
	in := r.Inputs.Env
	s := settings{env: map[string]string{}, forwarded: []string{"MORI_IO_SQ_BACKOFF_TIMEOUT_US", "MORI_IO_QP_MAX_SEND_WR"}}
	for k, v := range in {
		s.env[k] = v
	}
	args := r.Inputs.Args
	if len(args) == 0 && strings.HasSuffix(r.Inputs.Script, ".sh") {
		args = s.recipeScript(r)
	}
	if len(args) > 0 {
		if err := s.submit(args); err != nil {
			return s, err
		}
	}
	s.job()
	s.modelPath = path.Join("/models", s.env["MODEL_NAME"])
	return s, nil
}

// recipeScript is what a recipe script passes on: the arguments of the submit
// script, from the variables of a sweep row.
func (s settings) recipeScript(r *record) []string {
	model := s.env["MODEL"]
	s.env["MODEL_NAME"] = model[strings.LastIndex(model, "/")+1:]
	enabled := func(role string) (ep, dp string) {
		ep, dp = "true", "false"
		if s.get(role+"_EP", "1") == "1" {
			ep = "false"
		}
		if s.env[role+"_DP_ATTN"] == "true" {
			dp = "true"
		}
		return ep, dp
	}
	pep, pdp := enabled("PREFILL")
	dep, ddp := enabled("DECODE")
	if s.env["SCENARIO_SUBDIR"] == "agentic/" {
		s.agenticDefaults()
	}
	return []string{s.env["PREFILL_NODES"], s.env["PREFILL_NUM_WORKERS"], s.env["DECODE_NODES"], s.env["DECODE_NUM_WORKERS"],
		s.env["ISL"], s.env["OSL"], strings.ReplaceAll(s.env["CONC_LIST"], " ", "x"), "inf",
		pep, pdp, dep, ddp, s.env["PREFILL_TP"], s.env["DECODE_TP"], s.env["RANDOM_RANGE_RATIO"]}
}

// agenticDefaults are the settings of the old script for trace-replay runs of
// DeepSeek-V4-Pro. Its send-queue depth of 32768 is left out: the old
// environment file set 32767 over it, which is this project's catalog value.
func (s settings) agenticDefaults() {
	def := func(name, value string) {
		if s.env[name] == "" {
			s.env[name] = value
		}
	}
	def("KV_OFFLOADING", "none")
	if s.env["KV_OFFLOADING"] != "none" {
		def("KV_OFFLOAD_BACKEND", "hicache")
	}
	if s.env["KV_OFFLOADING"] == "dram" && s.env["KV_OFFLOAD_BACKEND"] == "hicache" {
		def("HICACHE_TIER", "L2")
		def("HICACHE_HOST_POOL_COUNT", "1")
		def("HICACHE_PAGE_SIZE", "256")
		def("HICACHE_RATIO", "3")
		s.env["FORCE_HICACHE_RATIO"] = "1"
		def("HICACHE_MEM_LAYOUT", "page_first")
		def("HICACHE_IO_BACKEND", "direct")
		def("HICACHE_WRITE_POLICY", "write_through")
		if strings.EqualFold(s.env["HICACHE_TIER"], "L3") {
			def("HICACHE_STORAGE_BACKEND", "mooncake")
		}
		def("HICACHE_PREFETCH_POLICY", "best_effort")
		def("MC_MASTER_PORT", "58137")
		def("MC_METADATA_PORT", "8080")
		def("MC_METRICS_PORT", "19003")
		def("MC_MASTER_THREADS", "64")
		def("MC_EVICTION_HIGH_WATERMARK", "0.95")
		def("MC_PROTOCOL", "tcp")
		def("MC_GLOBAL_SEG", "64gb")
	}
	def("MORI_IO_SQ_BACKOFF_TIMEOUT_US", "500000")
	def("PREFILL_ROUTER_POLICY", "consistent_hashing")
	def("ENABLE_METRICS", "1")
	def("DECODE_MTP_SIZE", "0")
}

// submit is the submit script: positional arguments over the environment.
func (s *settings) submit(args []string) error {
	arg := func(i int, or string) string {
		if i < len(args) && args[i] != "" {
			return args[i]
		}
		return or
	}
	number := func(name, text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, refuse("%s: %q is not a whole number above zero", name, text)
		}
		return n, nil
	}
	for _, role := range []struct {
		name, count string
		at, ep, tp  int
		nodes       *int
	}{
		{"PREFILL", "xP", 0, 8, 12, &s.prefillNodes},
		{"DECODE", "yD", 2, 10, 13, &s.decodeNodes},
	} {
		nodes, err := number(role.name+" nodes", arg(role.at, ""))
		if err != nil {
			return err
		}
		workers, err := number(role.name+" workers", arg(role.at+1, "1"))
		if err != nil {
			return err
		}
		tp, err := number(role.name+" tp", arg(role.tp, "8"))
		if err != nil {
			return err
		}
		if nodes*tp%workers != 0 {
			return refuse("%d nodes of %d GPUs do not divide into %d %s workers", nodes, tp, workers, role.name)
		}
		*role.nodes = nodes
		s.env[role.count] = strconv.Itoa(workers)
		s.env[role.name+"_TP_SIZE"] = strconv.Itoa(nodes * tp / workers)
		s.env[role.name+"_ENABLE_EP"] = arg(role.ep, "true")
		s.env[role.name+"_ENABLE_DP"] = arg(role.ep+1, "true")
	}
	s.env["BENCH_INPUT_LEN"], s.env["BENCH_OUTPUT_LEN"] = arg(4, ""), arg(5, "")
	s.env["BENCH_MAX_CONCURRENCY"] = arg(6, "")
	return nil
}

// job is the job script: which variables reach the container. The others are
// dropped there without a word.
func (s settings) job() {
	for _, n := range []string{"KV_P2P_TRANSFER", "HEADNODE_PORT", "ROUTER_POLICY_FLAGS", "ROUTER_RESILIENCE_FLAGS", "ROUTER_CB_ARGS",
		"SCHEDULER_DELAY_FACTOR"} {
		delete(s.env, n)
	}
	if !strings.HasPrefix(s.env["FRAMEWORK"], engine.ATOM) && !strings.HasPrefix(s.env["ENGINE"], engine.ATOM) {
		delete(s.env, "IBDEVICES")
	}
	for _, n := range []string{"PREFILL_ENABLE_EP", "PREFILL_ENABLE_DP", "DECODE_ENABLE_EP", "DECODE_ENABLE_DP"} {
		if s.env[n] == "" {
			s.env[n] = "false"
		}
	}
	if s.env["KV_OFFLOADING"] == "" {
		s.env["KV_OFFLOADING"] = "none"
	}
	if s.env["PREFILL_ROUTER_POLICY"] == "" {
		s.env["PREFILL_ROUTER_POLICY"] = "random"
	}
}
