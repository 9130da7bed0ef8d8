package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

// rule is one reasoned difference between the old scripts and this project.
type rule struct {
	id     string
	reason string // the trap of the old scripts that the difference removes
	match  func(*compared, difference) bool
	// always marks rules of which every run with such a process has a share.
	always bool
}

// parityRules returns every rule. The first that matches a difference owns it.
func parityRules() []rule {
	return slices.Concat(sglangRules(), vllmRules(), atomRules(), commonRules())
}

// commonRules are the rules that are not about one engine.
func commonRules() []rule {
	return []rule{
		{id: "worker-shape", reason: "a worker that is no whole number of nodes is refused; the old division rounded and started another size", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && (strings.Contains(d.ours, "is not a whole number of nodes") || strings.Contains(d.ours, "do not divide"))
		}},
		{id: "nodes-per-worker", reason: "the old nodes-per-worker was (TP+7)/GPUS_PER_NODE, which is the quotient rounded up only with 8 GPUs a node", match: func(c *compared, d difference) bool {
			return c.wrongNodes()
		}},
		{id: "workers-as-nodes", reason: "the old job script took the number of workers for the number of nodes, so ranks of workers over several nodes were never started", match: func(c *compared, d difference) bool {
			return c.Layer == "host" && c.nodes() != len(c.in.Layout)
		}},
		{id: "value-with-blank", reason: "a value with a blank split the container's command line, so the worker never started", match: func(c *compared, d difference) bool {
			blank := func(v string) bool { return strings.Contains(strings.TrimSpace(v), " ") }
			return c.Layer == "host" && d.kind == "process" && d.golden == absent && slices.ContainsFunc(sorted(c.Inputs.Env), func(n string) bool {
				return blank(c.Inputs.Env[n])
			})
		}},
		{id: "addresses-unchecked", reason: "the old scripts went on without an address when no route was found", match: func(c *compared, d difference) bool {
			return c.Inputs.Fixture.NoRoute && slices.Contains([]string{"--prefill", "--decode", "--kv-transfer-config", "VLLM_NIXL_SIDE_CHANNEL_HOST"}, d.name) ||
				strings.Contains(d.golden, "http://:")
		}},
		{id: "boolean-spelling", reason: "1, True and the like meant off in one old layer and on in another; here every spelling has one meaning", match: func(c *compared, d difference) bool {
			return c.oddBoolean()
		}},
		{id: "empty-path-element", always: true, reason: "a list that ends in a colon puts the working directory on the search path", match: func(c *compared, d difference) bool {
			return d.kind == "env" && slices.Contains([]string{"PYTHONPATH", "LD_LIBRARY_PATH"}, d.name) && d.golden == d.ours+":"
		}},
		{id: "empty-is-not-unset", always: true, reason: "the old job script set every variable that it forwarded, to nothing where nobody had set it; here it is not set then", match: func(c *compared, d difference) bool {
			return d.kind == "env" && d.golden == "" && d.ours == absent && c.golden[d.process].given[d.name]
		}},
		{id: "class-from-host-name", reason: "the old scripts guessed the traffic class from the host's name, or set none, when the NICs' tool was missing, silent or misread; here it is the NICs' or the site's, or it is not set", match: func(c *compared, d difference) bool {
			return d.kind == "env" && isQoS(d.name) && (c.logged(d.process, "from hostname") ||
				d.golden == absent && c.Inputs.Fixture.QoS != nil && !c.logged(d.process, "Detected QoS config"))
		}},
		{id: "tool-of-the-first-node", reason: "the NICs' tool was mounted into every container when the first node had it, so a node without it looked as if it had been asked", match: func(c *compared, d difference) bool {
			var node int
			_, err := fmt.Sscanf(d.process, "rank%d", &node)
			return d.kind == "env" && isQoS(d.name) && d.ours == absent && err == nil && c.facts.noNICCtl(node) && !c.facts.noNICCtl(0)
		}},
		{id: "class-given-by-half", reason: "a traffic class given in one variable kept the old scripts from setting the others and any service level", match: func(c *compared, d difference) bool {
			return d.kind == "env" && isQoS(d.name) && d.golden == absent &&
				(c.settings.env["MORI_RDMA_TC"] != "" || c.settings.env["UCX_IB_TRAFFIC_CLASS"] != "")
		}},
		{id: "mtp-without-algorithm", reason: "the old scripts gave depth flags without an algorithm, which engines take and ignore; such a plan is refused", match: func(c *compared, d difference) bool {
			return (strings.HasPrefix(d.name, "--speculative-num-") && d.ours == absent || d.name == "IS_MTP") && c.found("mtp-without-algorithm")
		}},
	}
}

func sglangRules() []rule {
	return []rule{
		{id: "bootstrap-port", always: true, reason: "prefill's bootstrap port is said on both sides, so that prefill and router cannot disagree; the old commands left both to their defaults", match: func(c *compared, d difference) bool {
			if d.kind != "argv" {
				return false
			}
			if d.name == "--disaggregation-bootstrap-port" {
				return d.golden == absent && d.ours == "8998"
			}
			return d.name == "--prefill" && strings.ReplaceAll(d.ours, " 8998", "") == d.golden
		}},
		{id: "no-ranks-no-dp-aware", reason: "the old router was told to expect DP ranks in every agentic run, also when no worker has any", match: func(c *compared, d difference) bool {
			return d.process == "router" && d.name == "--dp-aware" && d.ours == absent &&
				!slices.ContainsFunc(c.in.Layout, func(w models.Worker) bool { return w.DP > 1 })
		}},
		{id: "flag-twice", reason: "the old scripts gave a flag twice and left it to the parser which one counts; here it stands once, with the value that counted", match: func(c *compared, d difference) bool {
			values := strings.Split(d.golden, "\n")
			return d.kind == "argv" && len(values) > 1 && values[len(values)-1] == d.ours
		}},
		{id: "page-size-of-the-model", reason: "HiCache's default page size of 1 came after the model's 256 and won, although the attention kernels need 256", match: func(c *compared, d difference) bool {
			return d.name == "--page-size" && d.golden == "256\n1" && d.ours == "256"
		}},
		{id: "dispatch-tokens-rounded-up", reason: "tokens a rank were the concurrency divided by the ranks and rounded down: too few for an uneven share, none at all below the number of ranks", match: func(c *compared, d difference) bool {
			switch d.name {
			case "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "SGLANG_MORI_DISPATCH_INTER_KERNEL_SWITCH_THRESHOLD":
				tp := c.in.Recipe.Decode.TP
				return slices.Max(c.in.Recipe.Client.Concurrency)%tp != 0
			}
			return false
		}},
		{id: "override-heard", reason: "a variable that was asked for was silently replaced by the model's or the engine's; here the recipe wins (and a send queue deeper than the NIC's is found)", match: func(c *compared, d difference) bool {
			asked, set := c.in.Recipe.Env[d.name]
			return d.kind == "env" && set && d.ours == asked.Value
		}},
		{id: "no-idle-master", reason: "the old scripts started a Mooncake master of their own although the engines were given another one's address", match: func(c *compared, d difference) bool {
			return d.process == "mooncake" && d.kind == "process" && d.ours == absent && c.settings.env["MC_MASTER_ADDR"] != ""
		}},
		{id: "launch-prefix", reason: "LAUNCH_PREFIX was read in the container but nothing could forward it there; there is no such key", match: func(c *compared, d difference) bool {
			prefix := c.settings.env["LAUNCH_PREFIX"]
			return prefix != "" && d.kind == "argv" && (d.name == "program" || d.ours == absent && (d.name == "-m" || strings.Contains(prefix, d.name)))
		}},
		{id: "store-named", reason: "a store that is not mooncake was ignored without a word; it is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "there is no store") && c.settings.env["HICACHE_STORAGE_BACKEND"] != ""
		}},
		{id: "value-is-no-number", reason: "values of the HiCache file were run by a shell, so one with a blank was lost and a command in it was executed; what is no number is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && (strings.HasSuffix(d.ours, "is not a number") || strings.HasSuffix(d.ours, "is not a whole number"))
		}},
		{id: "variant-is-no-model", reason: "entries of the old file for one scenario could be named as if they were models; the scenario is a key of the recipe", match: func(c *compared, d difference) bool {
			name := c.settings.env["MODEL_NAME"]
			return d.kind == "refused" && (strings.HasSuffix(name, "-DI") || strings.HasSuffix(name, "-AgentX"))
		}},
		{id: "formula-without-its-names", reason: "a formula over an unset variable was passed on as text and split into words; here sizes are never unset", match: func(c *compared, d difference) bool {
			return d.name == "--chunked-prefill-size" && strings.Contains(d.golden, "*")
		}},
	}
}

func vllmRules() []rule {
	return []rule{
		{id: "no-such-flag", reason: "--enable-dp-attention is no flag of vLLM, so such a run failed when the engine read its arguments; it is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "vllm has no flag for it")
		}},
		{id: "one-node-workers", reason: "workers of vLLM and ATOM over several nodes were started on one, or as an engine of their own on each, with the size of all of them; they are refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "here it runs on one")
		}},
		{id: "ignored-asked", reason: "KV offload and the KV transfer backend were ignored by vLLM's script without a word; what cannot be done is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && (strings.Contains(d.ours, "no KV tier") || strings.Contains(d.ours, "moves KV with"))
		}},
		{id: "ports-of-both-sides", reason: "another port reached the router or the workers, never both, or could be read in the container and nothing could forward it there; here both sides have it from the plan", match: func(c *compared, d difference) bool {
			set := func(name string) bool { return c.settings.env[name] != "" }
			if d.process == "router" && d.name == "--port" && set("ROUTER_PORT") {
				return true // SGLang's was fixed
			}
			return c.in.Recipe.Engine == engine.VLLM && (d.name == "--kv-transfer-config" && (set("PROXY_PING_PORT") || set("SERVER_PORT")) ||
				d.name == "--vllm-discovery-address" && set("PROXY_PING_PORT") || d.name == "--port" && set("SERVER_PORT"))
		}},
		{id: "router-started", reason: "with ROUTER_TYPE=moriio the old scripts started no router at all", match: func(c *compared, d difference) bool {
			return d.process == "router" && d.golden == absent && c.settings.env["ROUTER_TYPE"] == "moriio"
		}},
		{id: "fabric-is-the-site's", reason: "the old script took the first tw-eth link for UCX and the first 192.168 address for the side channel: facts of one cluster; here the site or the recipe says them", match: func(c *compared, d difference) bool {
			return d.name == "UCX_NET_DEVICES" && strings.HasPrefix(d.golden, "tw-eth") ||
				d.name == "VLLM_NIXL_SIDE_CHANNEL_HOST" && strings.HasPrefix(d.golden, "192.168.")
		}},
	}
}

func atomRules() []rule {
	return []rule{
		{id: "model-unknown", reason: "ATOM's script took any name and ran the model with empty settings; a model that the catalog does not have is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "the catalog has no model") && c.in.Recipe.Engine == engine.ATOM
		}},
		{id: "quantised-by-its-own-mode", reason: "decode was quantised by prefill's mode; here each role is by its own", match: func(c *compared, d difference) bool {
			return d.name == "--online_quant_config" && c.in.Recipe.Prefill.DPAttention != c.in.Recipe.Decode.DPAttention
		}},
		{id: "mode-variables-by-role", reason: "variables of one role's mode were exported to all workers; here a worker has those of its own mode", match: func(c *compared, d difference) bool {
			return c.in.Recipe.Engine == engine.ATOM && d.kind == "env" && d.ours == absent && slices.Contains([]string{"ATOM_CPU_AFFINITY", "GPU_MAX_HW_QUEUES"}, d.name) &&
				(c.in.Recipe.Prefill.DPAttention != c.in.Recipe.Decode.DPAttention || (c.in.Recipe.Prefill.EP > 1) != (c.in.Recipe.Decode.EP > 1))
		}},
	}
}

// isQoS says whether a variable carries the fabric's traffic class or service
// level.
func isQoS(name string) bool {
	return slices.Contains([]string{"MORI_RDMA_TC", "MORI_RDMA_SL", "MORI_IO_TC", "MORI_IO_SL", "UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL"}, name)
}

// nodes returns the number of plan nodes of the composed run.
func (c *compared) nodes() int {
	n := 0
	for _, w := range c.in.Layout {
		for _, r := range w.Ranks {
			n = max(n, r.Node+1)
		}
	}
	return n
}

// wrongNodes says whether the old formula for nodes a worker is wrong here.
func (c *compared) wrongNodes() bool {
	if c.in.Site == nil {
		return false
	}
	gpus := c.in.Site.GPUsPerNode
	return slices.ContainsFunc(c.in.Layout, func(w models.Worker) bool { return (w.TP+7)/gpus != len(w.Ranks) })
}

// oddBoolean says whether a switch of the record is on here and was off in the
// old scripts because of its spelling.
func (c *compared) oddBoolean() bool {
	odd := func(name, on string) bool {
		v := c.settings.env[name]
		b, err := models.ParseBool(v)
		return v != "" && err == nil && bool(b) && v != on
	}
	return odd("PREFILL_ENABLE_EP", "true") || odd("PREFILL_ENABLE_DP", "true") || odd("DECODE_ENABLE_EP", "true") ||
		odd("DECODE_ENABLE_DP", "true") || odd("ENABLE_METRICS", "1") || odd("IS_AGENTIC", "1") && c.settings.env["IS_AGENTIC"] != "true"
}

// logged says whether the old scripts logged a text on the node of a process.
func (c *compared) logged(process, text string) bool {
	var lines []string
	if json.Unmarshal(c.Outputs[process+"_log"], &lines) != nil {
		return false
	}
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, text) })
}

// found says whether Check reports an error of a rule.
func (c *compared) found(name string) bool {
	return slices.ContainsFunc(c.findings, func(f engine.Finding) bool { return f.Rule == name && f.Severity == engine.Error })
}
