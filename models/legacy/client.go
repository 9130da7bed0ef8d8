package legacy

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// workspace is where containers see the sweep repository, with the client in it.
const workspace = "/workspace"

// client writes the load that the scripts ran.
func (c *converter) client() {
	list, err := models.ParseIntList(c.get("CONCURRENCIES", "512"))
	if err != nil {
		c.fail("CONCURRENCIES", err.Error(), "")
		return
	}
	cl := &models.ClientSpec{Concurrency: list, Image: c.get("CLIENT_IMAGE", "")}
	c.recipe.Client = cl
	if cl.Image != "" && c.recipe.Scenario != models.ScenarioAgentic {
		c.note("CLIENT_IMAGE", "the scripts used it for trace replay on sglang only", "write client.image: "+cl.Image+" in the recipe if it is meant")
		cl.Image = ""
	}
	cl.Shell = "login"
	c.secrets(&cl.Forward)
	gpus := func(r *models.Role) int { return r.Workers * r.TP }
	if c.recipe.Scenario == models.ScenarioAgentic {
		c.replay(cl, map[string]string{
			"PREFILL_NUM_WORKERS": strconv.Itoa(c.recipe.Prefill.Workers), "DECODE_NUM_WORKERS": strconv.Itoa(c.recipe.Decode.Workers),
			"PREFILL_ENABLE_DP": strconv.FormatBool(bool(c.recipe.Prefill.DPAttention)), "DECODE_ENABLE_DP": strconv.FormatBool(bool(c.recipe.Decode.DPAttention)),
		})
		return
	}
	cl.ISL, cl.OSL = c.number("ISL", 1024, 0), c.number("OSL", 1024, 0)
	cl.RandomRangeRatio = c.decimal("RANDOM_RANGE_RATIO")
	if n := c.number("BENCH_NUM_PROMPTS_MULTIPLIER", 10, 1); n != 10 {
		cl.PromptsPerConcurrency = n
	}
	c.bench(cl, gpus(c.recipe.Prefill), gpus(c.recipe.Decode))
}

// bench is the client for requests of fixed length. The numbers of GPUs are
// part of its results' names.
func (c *converter) bench(cl *models.ClientSpec, p, d int) {
	// A length of nothing, as trace replays give, is not a length that a recipe has.
	word := func(name string, n int) string {
		if n == 0 {
			return "0"
		}
		return "{" + name + "}"
	}
	cl.Command = []string{"python3", workspace + "/utils/bench_serving/benchmark_serving.py", "--model", "{model}", "--backend", "openai", "--base-url", "{url}",
		"--dataset-name", "random", "--random-input-len", word("isl", cl.ISL), "--random-output-len", word("osl", cl.OSL), "--random-range-ratio", "{random_range_ratio}",
		"--num-prompts", "{num_prompts}", "--max-concurrency", "{concurrency}", "--request-rate", "inf", "--ignore-eos", "--save-result",
		"--num-warmups", "{num_warmups}", "--percentile-metrics", "ttft,tpot,itl,e2el", "--result-dir", "{result_dir}",
		"--result-filename", fmt.Sprintf("{result_dir}/concurrency_{concurrency}_req_rate_%s_gpus_%d_ctx_%d_gen_%d.json", c.get("REQUEST_RATE", "inf"), p+d, p, d)}
	mtp := c.speculates()
	if c.recipe.Engine == "vllm" || c.recipe.Engine == "atom" && !mtp {
		cl.Command = append(cl.Command, "--trust-remote-code", "--tokenizer", "{model_path}")
	}
	if mtp && c.recipe.Engine != "vllm" {
		cl.Command = append(cl.Command, "--use-chat-template")
		if c.recipe.Model == "DeepSeek-V4-Pro" {
			cl.Command = append(cl.Command, "--dsv4")
		}
	}
	cl.Results = []string{"*.json"}
}

// speculates says whether the workers will.
func (c *converter) speculates() bool {
	if c.recipe.Speculative == nil || c.entry == nil {
		return false
	}
	s, _ := c.entry.Speculative(c.recipe.Engine)
	return s != nil
}

// replay is the client for recorded traces. The given variables are for it.
func (c *converter) replay(cl *models.ClientSpec, given map[string]string) {
	cl.Command = []string{"bash", "-c", fmt.Sprintf("cd %s/benchmarks/multi_node/amd_utils && exec bash trace_replay.sh /models %s {concurrency} {result_dir}", workspace, c.recipe.Model)}
	seconds := c.number("DURATION", 1800, 1)
	if err := cl.Duration.UnmarshalText([]byte(strconv.Itoa(seconds))); err != nil {
		c.fail("DURATION", err.Error(), "")
	}
	vars := map[string]string{"ENGINE": c.get("FRAMEWORK", ""), "MODEL_NAME": c.recipe.Model, "MODEL_DIR": "/models", "FRAMEWORK": c.get("FRAMEWORK", ""), "IS_AGENTIC": "1",
		"IS_MULTINODE": strconv.FormatBool(given != nil), "DURATION": strconv.Itoa(seconds), "INFMAX_CONTAINER_WORKSPACE": workspace, "ROUTER_PORT": c.get("ROUTER_PORT", "30000")}
	maps.Copy(vars, given)
	for _, name := range []string{"MODEL_PREFIX", "PRECISION", "SPEC_DECODING", "MAX_MODEL_LEN", "RESULT_FILENAME", "RUNNER_NAME", "RUNNER_TYPE", "DISAGG", "SCENARIO_TYPE",
		"PREFILL_TP", "PREFILL_EP", "PREFILL_DP_ATTN", "DECODE_TP", "DECODE_EP", "DECODE_DP_ATTN", "KV_OFFLOADING", "KV_OFFLOAD_BACKEND", "TOTAL_CPU_DRAM_GB", "ENABLE_METRICS"} {
		if v := c.get(name, ""); v != "" {
			vars[name] = v
		}
	}
	// Variables of the client's own scripts, which no table of this project knows.
	cl.Env = models.EnvMap{}
	for name, v := range vars {
		cl.Env[name] = models.EnvValue{Value: v, Custom: true}
	}
}

// evals writes the evaluation that the scripts ran.
func (c *converter) evals() {
	run, only := c.truth("RUN_EVAL", false), c.truth("EVAL_ONLY", false)
	if !run && !only {
		return
	}
	e := &models.EvalSpec{Only: models.Bool(only), Limit: c.get("EVAL_LIMIT", "")}
	if v := c.get("EVAL_CONC", ""); v != "" {
		list, err := models.ParseIntList(v)
		if err != nil {
			c.fail("EVAL_CONC", err.Error(), "")
		}
		e.Concurrency = list
	}
	// The old evaluation asks for the model by its name, but for ATOM's workers,
	// which serve under the path.
	model := c.recipe.Model
	if c.recipe.Engine == "atom" {
		model = "{model}"
	}
	script := []string{"cd " + workspace, "source benchmarks/benchmark_lib.sh",
		"export MODEL_NAME=" + model + " EVAL_CONCURRENT_REQUESTS={concurrency} EVAL_RESULT_DIR={result_dir}"}
	if e.Limit != "" {
		script = append(script, "export EVAL_LIMIT={limit}")
	}
	script = append(script, "run_eval --framework lm-eval --port {port}")
	e.Command = []string{"bash", "-lc", strings.Join(script, " && ")}
	c.secrets(&e.Forward)
	c.recipe.Evals = e
}

// secrets forwards by name what a client may need to log in somewhere.
func (c *converter) secrets(into *[]string) {
	for _, name := range []string{"HF_TOKEN", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"} {
		if c.get(name, "") != "" {
			*into = append(*into, name)
		}
	}
}
