package engine

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/models/internal/flags"
)

// plannedFlags are flags that follow from keys of the recipe, by engine: flag →
// what to set instead; "": it follows from the plan.
func plannedFlags(engine string) map[string]string {
	switch engine {
	case SGLang:
		return map[string]string{
			"--tp": "tp", "--tp-size": "tp", "--tensor-parallel-size": "tp",
			"--pp": "pp", "--pp-size": "pp", "--pipeline-parallel-size": "pp",
			"--ep": "ep", "--ep-size": "ep", "--expert-parallel-size": "ep",
			"--dp": "dp_attention", "--dp-size": "dp_attention", "--data-parallel-size": "dp_attention",
			"--model": "model", "--model-path": "model", "--served-model-name": "model", "--host": "", "--port": "",
			"--nnodes": "nodes", "--node-rank": "nodes", "--dist-init-addr": "nodes", "--base-gpu-id": "", "--config": "",
			"--disaggregation-mode": "", "--disaggregation-bootstrap-port": "",
			"--disaggregation-transfer-backend": "transfer", "--context-length": "context_length",
			"--max-running-requests": "max_running_requests", "--mem-fraction-static": "mem_fraction",
			"--chunked-prefill-size": "chunked_prefill_size", "--enable-metrics": "metrics",
			"--speculative-num-steps": "speculative.tokens", "--speculative-num-draft-tokens": "speculative.tokens",
		}
	case VLLM:
		return map[string]string{
			"--tensor-parallel-size": "tp", "-tp": "tp", "--pipeline-parallel-size": "pp", "-pp": "pp",
			"--model": "model", "--served-model-name": "model", "--host": "", "--port": "", "--config": "", "--kv-transfer-config": "transfer",
			"--max-model-len": "context_length", "--max-num-seqs": "max_running_requests",
			"--gpu-memory-utilization": "mem_fraction", "--max-num-batched-tokens": "chunked_prefill_size",
		}
	case ATOM:
		return map[string]string{
			"-tp": "tp", "--model": "model", "--host": "", "--server-port": "", "--kv-transfer-config": "transfer",
			"--max-model-len": "context_length", "--max-num-seqs": "max_running_requests",
			"--gpu-memory-utilization": "mem_fraction", "--max-num-batched-tokens": "chunked_prefill_size",
			"--num-speculative-tokens": "speculative.tokens",
		}
	}
	return nil
}

// plannedRouterFlags are those of the routers, whatever the kind: no flag of
// these names means something else in one of them.
func plannedRouterFlags() map[string]string {
	return map[string]string{
		"--host": "", "--port": "router.port", "--pd-disaggregation": "", "--vllm-pd-disaggregation": "",
		"--prefill": "", "--decode": "", "--worker-urls": "", "--kv-connector": "transfer",
	}
}

// amounts are keys whose flags a recipe may take away: the engine then decides
// how much, and nobody else must know.
func amounts() map[string]bool {
	return map[string]bool{"context_length": true, "max_running_requests": true, "mem_fraction": true,
		"chunked_prefill_size": true, "metrics": true}
}

func checkPlannedFlags(c *checker, rule string) {
	for _, role := range c.roles() {
		c.checkPlanned(rule, role+".flags", c.role(role).Flags, plannedFlags(c.in.Recipe.Engine))
	}
	if c.result.Router != nil {
		c.checkPlanned(rule, "router.flags", c.routerSpec().Flags, plannedRouterFlags())
	}
}

// checkPlanned finds planned flags among those of a recipe.
func (c *checker) checkPlanned(rule, key string, texts []string, planned map[string]string) {
	for i, text := range texts {
		name, removal := flags.Removal(text)
		if !removal {
			f, err := flags.Parse(text)
			if err != nil {
				continue // Compose says so
			}
			name = f.Name
		}
		long := plannedName(name, planned)
		if long == "" || removal && amounts()[planned[long]] {
			continue
		}
		wayOut := "leave it out: the plan sets it"
		if k := planned[long]; k != "" {
			wayOut = "set " + k + " instead"
		}
		short := ""
		if !flags.Same(long, name) {
			short = ", which is short for " + long + ","
		}
		msg := "%s%s is set by the plan; given by hand, other workers and the router would not know of it"
		if removal {
			msg = "%s%s is set by the plan; without it, other workers and the router would expect something else"
		}
		c.add(rule, Error, fmt.Sprintf("%s[%d]", key, i), wayOut, msg, name, short)
	}
}

// plannedName is the planned flag that an engine takes a name for; empty: none.
// Engines take any beginning of a long name for the whole.
func plannedName(name string, planned map[string]string) string {
	short := ""
	for _, p := range sortedKeys(planned) {
		if flags.Same(p, name) {
			return p
		}
		if short == "" && strings.HasPrefix(name, "--") && strings.HasPrefix(p, strings.ReplaceAll(name, "_", "-")) {
			short = p
		}
	}
	return short
}
