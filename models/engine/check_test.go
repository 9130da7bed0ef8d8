package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
)

// readCatalog reads the embedded catalog once for all tests, which do not
// change it.
var readCatalog = sync.OnceValues(catalog.Embedded)

func embedded(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := readCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// input builds an input from a recipe of one prefill and one decode worker of
// eight GPUs each.
func input(t *testing.T, model, name string, change func(r *models.Recipe, s *models.Site)) engine.Input {
	t.Helper()
	entry, err := embedded(t).Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	r := &models.Recipe{Name: "x", Model: model, Engine: name, Image: "img/x:1",
		Prefill: &models.Role{Workers: 1, TP: 8}, Decode: &models.Role{Workers: 1, TP: 8},
		Client: &models.ClientSpec{Concurrency: models.IntList{64}}}
	s := &models.Site{GPUsPerNode: 8}
	if change != nil {
		change(r, s)
	}
	workers, err := layout(r, s.GPUsPerNode, settings{})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Input{Recipe: r, Site: s, Entry: entry, Layout: workers, Launcher: models.LauncherSlurm, ModelPath: "/models/" + model}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const r1, v4, qwen, llama = "DeepSeek-R1-0528", "DeepSeek-V4-Pro", "Qwen3.5-397B-A17B-FP8", "Llama-3.1-405B-Instruct-FP8-KV"
	type change = func(r *models.Recipe, s *models.Site)
	env := func(name, value string) models.EnvMap { return models.EnvMap{name: {Value: value}} }
	for _, tc := range []struct {
		name          string
		model, engine string
		change        change
		want          []string // rule severity path: message
	}{
		{"nothing to find", r1, "sglang", nil, nil},
		{"speculation without an algorithm", qwen, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Speculative = &models.Speculative{Tokens: 2} },
			[]string{"mtp-without-algorithm error speculative.tokens: a speculative depth of 2 is asked for, but the catalog (qwen3.5-397b-a17b-fp8.yaml) has no algorithm for Qwen3.5-397B-A17B-FP8 on sglang: the engine would take the depth and decode without drafts"}},
		{"speculation on decode only", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Decode.Flags = []string{"--speculative-algorithm EAGLE", "--speculative-eagle-topk 1"}
			},
			[]string{"mtp-on-one-role error decode.flags: speculative flags differ: prefill has none, decode has --speculative-algorithm EAGLE --speculative-eagle-topk 1; the draft layers take part in prefill's KV too, so both roles need the same"}},
		{"speculation without its algorithm's flag", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Speculative = &models.Speculative{Tokens: 3}
				r.Prefill.Flags, r.Decode.Flags = []string{"!--speculative-algorithm"}, []string{"!--speculative-algorithm"}
			},
			[]string{
				"mtp-without-algorithm error prefill.flags: a speculative depth of 3 is asked for, but prefill is started without --speculative-algorithm: the engine would take the depth and decode without drafts",
				"mtp-without-algorithm error decode.flags: a speculative depth of 3 is asked for, but decode is started without --speculative-algorithm: the engine would take the depth and decode without drafts",
			}},
		{"speculation on both is fine", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Speculative = &models.Speculative{Tokens: 3} }, nil},
		{"no acceptance length is a warning of the plan, not a finding", v4, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Scenario, r.Speculative = "agentic", &models.Speculative{Tokens: 5}
			}, nil},
		{"decode takes prefill's context length", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.ContextLength = 9216 }, nil},
		{"decode admits longer requests", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.ContextLength, r.Decode.ContextLength = 9216, 16384 },
			[]string{"context-length error decode.context_length: context length differs: prefill 9216, decode 16384; decode would admit requests whose KV never comes, and they hang"}},
		{"context beyond the training", "Kimi-K2.5-MXFP4", "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Decode.ContextLength = 300000, 300000
				r.Router = &models.RouterSpec{Command: []string{"vllm-router"}}
			},
			[]string{
				"context-length warning prefill.context_length: a context of 300000 tokens is more than the 262144 that Kimi-K2.5-MXFP4 was trained for",
				"context-length warning decode.context_length: a context of 300000 tokens is more than the 262144 that Kimi-K2.5-MXFP4 was trained for",
			}},
		{"tp may differ where every rank has the whole KV", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.TP = 4 }, nil},
		{"tp may differ where it was measured", qwen, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.TP = 4 }, nil},
		{"tp may not differ over another transfer", qwen, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.TP, r.Transfer = 4, "nixl" },
			[]string{"tensor-parallel-differs error decode.tp: prefill has tp 4 and decode tp 8, but Qwen3.5-397B-A17B-FP8 has hybrid attention, whose KV is not known to be re-sliced over nixl: workers crash, hang or answer wrongly under load"}},
		{"pages of another size", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Decode.Flags = []string{"--page-size 64"} },
			[]string{"kv-shape-differs error decode.flags: KV lies differently in memory: prefill has --kv-cache-dtype fp8_e4m3, decode has --kv-cache-dtype fp8_e4m3 --page-size 64; decode takes over what prefill wrote, and would refuse or misread it"}},
		{"KV of another type on prefill", "Kimi-K2.5-MXFP4", "atom",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.Flags = []string{"--kv-cache-dtype bf16"} },
			[]string{"kv-shape-differs error prefill.flags: KV lies differently in memory: prefill has --block-size 16 --kv-cache-dtype bf16, decode has --block-size 16 --kv-cache-dtype fp8; decode takes over what prefill wrote, and would refuse or misread it"}},
		{"ratio and size", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.KVOffload = &models.KVOffload{Backend: "hicache", Ratio: "2", TotalDRAMGB: 800}
			},
			[]string{"kv-sizing error kv_offload: both a ratio (2) and a size (800 GB) are given; the engine takes one"}},
		{"size for a model of ratios", v4, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.KVOffload = &models.KVOffload{Backend: "hicache", TotalDRAMGB: 800}
			},
			[]string{"kv-sizing error kv_offload.total_dram_gb: DeepSeek-V4-Pro takes a ratio only; an absolute size of 800 GB would be misread"}},
		{"more KV than memory", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.NodeMemoryGB = 1000
				r.KVOffload = &models.KVOffload{Backend: "hicache", TotalDRAMGB: 900}
			},
			[]string{"kv-budget error kv_offload.total_dram_gb: 900 GB for KV is more than 80% of a node's 1000 GB"}},
		{"more KV by hand than memory", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.NodeMemoryGB = 2000
				r.Prefill.Flags = []string{"--enable-hierarchical-cache", "--hicache-size 900"}
			},
			[]string{"kv-budget error prefill.flags: 900 GB a rank is 7200 GB on a node (900 GB × 8 ranks × 1 pools), more than 80% of its 2000 GB"}},
		{"two workers share a node's memory", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.NodeMemoryGB = 2000
				r.Prefill = &models.Role{Workers: 2, TP: 4, Nodes: 1}
				r.KVOffload = &models.KVOffload{Backend: "hicache", TotalDRAMGB: 1600}
			}, nil},
		{"a ratio that may be too much", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.NodeMemoryGB, s.GPUMemoryGB = 3000, 288
				r.KVOffload = &models.KVOffload{Backend: "hicache", Ratio: "5"}
			},
			[]string{"kv-budget warning kv_offload.ratio: a ratio of 5 is up to 9216 GB on a node (5 × 0.80 of a GPU's 288 GB × 8 ranks), which has 3000 GB"}},
		{"a ratio that is too much", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.NodeMemoryGB, s.GPUMemoryGB = 3000, 288
				r.KVOffload = &models.KVOffload{Backend: "hicache", Ratio: "24"}
			},
			[]string{"kv-budget error kv_offload.ratio: a ratio of 24 is up to 44237 GB on a node (24 × 0.80 of a GPU's 288 GB × 8 ranks), which has 3000 GB"}},
		{"send queue of an ionic NIC", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				s.RDMA.NIC, r.Decode.Env = "ionic", env("MORI_IO_QP_MAX_SEND_WR", "65536")
			},
			[]string{"send-queue-depth error decode.env.MORI_IO_QP_MAX_SEND_WR: a send queue of 65536 (recipe) is deeper than the 32767 of an ionic NIC: the engine fails when it makes its first queue pair"}},
		{"send queue on some nodes", r1, "sglang",
			func(_ *models.Recipe, s *models.Site) {
				s.RDMA.NIC, s.Profiles = "ionic", []models.NodeProfile{{Nodes: "gpu-[1-2]", Env: env("MORI_IO_QP_MAX_SEND_WR", "40000")}}
			},
			[]string{"send-queue-depth error profiles[0].env.MORI_IO_QP_MAX_SEND_WR: a send queue of 40000 (site) is deeper than the 32767 of an ionic NIC: the engine fails when it makes its first queue pair"}},
		{"send queue of an unknown NIC", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.Env = env("MORI_IO_QP_MAX_SEND_WR", "32768") },
			[]string{"send-queue-depth warning prefill.env.MORI_IO_QP_MAX_SEND_WR: a send queue of 32768 (recipe) is deeper than the 32767 of an ionic NIC, and the site does not say what NICs there are"}},
		{"interface list", r1, "sglang",
			func(r *models.Recipe, s *models.Site) {
				r.Decode.Env = env("GLOO_SOCKET_IFNAME", "eno1,eno2")
				s.Profiles = []models.NodeProfile{{Nodes: "gpu-[1-2]", Env: env("GLOO_SOCKET_IFNAME", "^lo,docker0")}}
			},
			[]string{
				`interface-list error decode.env.GLOO_SOCKET_IFNAME: GLOO_SOCKET_IFNAME is "eno1,eno2" (recipe); Gloo needs the name of one interface, without lists and exclusions`,
				`interface-list error profiles[0].env.GLOO_SOCKET_IFNAME: GLOO_SOCKET_IFNAME is "^lo,docker0" (site); Gloo needs the name of one interface, without lists and exclusions`,
			}},
		{"router that expects ranks", v4, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Scenario, r.Router = "agentic", &models.RouterSpec{Flags: []string{"--dp-aware"}}
			},
			[]string{"dp-aware-without-ranks error router.flags: the router is told to route to DP ranks, but no worker has data-parallel attention: it would wait for ranks that never come"}},
		{"evaluation with wrong answers", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Evals = &models.EvalSpec{}
				r.Prefill.Flags = []string{"--ep-dispatch-algorithm fake"}
				r.Decode.Env = env("SGLANG_SIMULATE_ACC_LEN", "2.5")
			},
			[]string{
				"eval-answers error prefill.flags: prefill sends tokens to experts without looking at the weights (--ep-dispatch-algorithm fake): an evaluation would get wrong answers",
				"eval-answers error decode.env.SGLANG_SIMULATE_ACC_LEN: decode accepts drafts by a fixed length of 2.5 (recipe), not by what the model says: an evaluation would get wrong answers",
			}},
		{"side channel at home", llama, "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Router = &models.RouterSpec{Kind: "moriio"}
				r.Prefill.Env = env("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost")
			},
			[]string{"side-channel error prefill.env.VLLM_NIXL_SIDE_CHANNEL_HOST: workers would say that other nodes reach them at \"localhost\" (recipe); decode would fail the handshake and compute every prompt again"}},
		{"flag of the plan", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Decode.Flags = []string{"--tp 4"} },
			[]string{"planned-flag error decode.flags[0]: --tp is set by the plan; given by hand, other workers and the router would not know of it"}},
		{"flag of the plan, shortened", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Decode.Flags = []string{"--disaggregation_mo prefill"} },
			[]string{"planned-flag error decode.flags[0]: --disaggregation_mo, which is short for --disaggregation-mode, is set by the plan; given by hand, other workers and the router would not know of it"}},
		{"flag of the plan, taken away", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Decode.Flags = []string{"!--mem-fraction-static", "!--disaggregation-mode"}
			},
			[]string{"planned-flag error decode.flags[1]: --disaggregation-mode is set by the plan; without it, other workers and the router would expect something else"}},
		{"flags of the router that the plan sets", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Router = &models.RouterSpec{Flags: []string{"--port 31000", "--prefill http://x:1", "--policy random", "--prefill-policy random"}}
			},
			[]string{
				"planned-flag error router.flags[0]: --port is set by the plan; given by hand, other workers and the router would not know of it",
				"planned-flag error router.flags[1]: --prefill is set by the plan; given by hand, other workers and the router would not know of it",
			}},
		{"misspelt flags", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.Flags = []string{"--mem-fracton-static 0.8", "--max_runing_requests 3", "--hicache-sise=9"}
				r.Decode.Flags = []string{"--enable-metrics-for-all-schedulers", "--watchdog-timout 3"}
				r.Router = &models.RouterSpec{Flags: []string{"--prefil-policy random", "--disable-retry"}}
			},
			[]string{
				"misspelt-flag warning prefill.flags[0]: nothing here knows the flag --mem-fracton-static of prefill.flags[0]",
				"misspelt-flag warning prefill.flags[1]: nothing here knows the flag --max_runing_requests of prefill.flags[1]",
				"misspelt-flag warning prefill.flags[2]: nothing here knows the flag --hicache-sise of prefill.flags[2]",
				"misspelt-flag warning decode.flags[1]: nothing here knows the flag --watchdog-timout of decode.flags[1]",
				"misspelt-flag warning router.flags[0]: nothing here knows the flag --prefil-policy of router.flags[0]",
			}},
		{"misspelt names", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Transfer, r.Router = "mooncak", &models.RouterSpec{Policy: "cache_awar", PrefillPolicy: "manual", DecodePolicy: "random"}
			},
			[]string{
				"misspelt-name warning transfer: nothing here knows the name mooncak of transfer",
				"misspelt-name warning router.policy: nothing here knows the name cache_awar of router.policy",
			}},
		{"flags of newer builds are no slips", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.Flags = []string{"--enable-tp-lm-head", "--enable-ep-attention", "--log-level-grpc x", "--cuda-graph-min-bs 1", "--hicache-page", "--brand-new 3", "--quantization fp8"}
				r.Decode.Flags = r.Prefill.Flags
			}, nil},
		{"prompts longer than the context", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Client.OSL = 4096, 4096, 1
			},
			[]string{"client-lengths error client.isl: client.isl is 4096, and the context length is 4096 tokens (prefill.context_length, recipe): the engine refuses every request"}},
		{"prompts that may be longer than the context", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Client.RandomRangeRatio = 4096, 5000, "0.8"
			},
			[]string{"client-lengths warning client.isl: client.isl is 5000, and the context length is 4096 tokens (prefill.context_length, recipe): the engine refuses requests with longer prompts"}},
		{"the shortest prompts are longer than the context", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Client.RandomRangeRatio = 4096, 10000, "0.8"
			},
			[]string{"client-lengths error client.isl: client.isl is 10000, and the context length is 4096 tokens (prefill.context_length, recipe): the engine refuses every request"}},
		{"answers beyond the context", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Client.OSL = 4096, 4000, 97
			},
			[]string{"client-lengths warning client.osl: client.isl 4000 and client.osl 97 are 4097 tokens, and the context length is 4096 (prefill.context_length, recipe): the engine refuses such requests or cuts their answers off"}},
		{"requests that just fit", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Client.OSL = 4096, 4000, 96
			}, nil},
		{"lengths where the trace decides", v4, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Scenario, r.Prefill.ContextLength, r.Decode.ContextLength, r.Client.ISL = "agentic", 4096, 4096, 5000
			}, nil},
		{"lengths of a client that does not run", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Prefill.ContextLength, r.Client.ISL, r.Evals = 4096, 5000, &models.EvalSpec{Only: true}
			}, nil},
		{"prompts longer than the catalog's context", "Kimi-K2.5-MXFP4", "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Client.ISL = 1000000
				r.Router = &models.RouterSpec{Command: []string{"vllm-router"}}
			},
			[]string{"client-lengths error client.isl: client.isl is 1000000, and the context length is 32768 tokens (of the catalog, catalog:kimi-k2.5-mxfp4.yaml:20): the engine refuses every request"}},
		{"prompts longer than what the model was trained for", r1, "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Client.ISL = 1000000 },
			[]string{"client-lengths error client.isl: client.isl is 1000000, and the context length is 163840 tokens (what DeepSeek-R1-0528 was trained for, as no context_length is set; catalog:deepseek-r1-0528.yaml): the engine refuses every request"}},
		{"parallelism that the engine would not do", "Kimi-K2.5-MXFP4", "atom",
			func(r *models.Recipe, _ *models.Site) { r.Prefill.DPAttention, r.Decode.EP = true, 8 },
			[]string{
				"parallel-without-flag error prefill.dp_attention: prefill asks for data-parallel attention, but Kimi-K2.5-MXFP4 on atom has no flag for it in the catalog: the engine would run without",
				"parallel-without-flag error decode.ep: decode asks for expert parallelism, but Kimi-K2.5-MXFP4 on atom has no flag for it in this mode: the engine would run without",
			}},
		{"router older than the connector", llama, "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Image, r.Router = "vllm/vllm-openai-rocm:v0.20.1", &models.RouterSpec{Image: "example.org/vllm-router:v0.1.9"}
			},
			[]string{"router-build error router.image: router example.org/vllm-router:v0.1.9 is older than the MoRI-IO connector of engine vllm/vllm-openai-rocm:v0.20.1: requests are taken, but their KV never arrives"}},
		{"router of unknown build", llama, "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Image, r.Router = "example.org/vllm-rocm:v0.18.0", &models.RouterSpec{Image: "example.org/vllm-router:nightly-older-than-connector-change"}
			},
			[]string{"router-build warning router.image: the tags of engine example.org/vllm-rocm:v0.18.0 and router example.org/vllm-router:nightly-older-than-connector-change do not tell whether the two speak the same KV protocol"}},
		{"router that speaks the protocol", llama, "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.Image, r.Router = "vllm/vllm-openai-rocm:v0.24.0", &models.RouterSpec{Image: "vllm/vllm-router:nightly-20260716-1fbcde7"}
			}, nil},
		{"router in the engine's image", llama, "vllm", nil,
			[]string{"router-build warning router.image: the router runs in the engine's image (img/x:1), which usually has no vllm-router"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range engine.Check(input(t, tc.model, tc.engine, tc.change)) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", f.Rule, f.Severity, f.Path, f.Msg))
				if f.WayOut == "" {
					t.Errorf("%s has no way out", f.Rule)
				}
				if !slices.Contains(engine.Rules(), f.Rule) {
					t.Errorf("%s is not in Rules", f.Rule)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestMisspeltFlagsNameTheRightOne: or the key of the recipe that it follows from.
func TestMisspeltFlagsNameTheRightOne(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range engine.Check(input(t, "DeepSeek-R1-0528", "sglang", func(r *models.Recipe, _ *models.Site) {
		r.Prefill.Flags = []string{"--mem-fracton-static 0.8", "--watchdog-timout=3", "--served-modle-name x"}
	})) {
		got = append(got, f.WayOut)
	}
	want := []string{"did you mean --mem-fraction-static? It follows from mem_fraction: set that", "did you mean --watchdog-timeout?",
		"did you mean --served-model-name? It follows from model: set that"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAllowedFindingsStayVisible(t *testing.T) {
	t.Parallel()
	findings := engine.Check(input(t, "Qwen3.5-397B-A17B-FP8", "sglang", func(r *models.Recipe, _ *models.Site) {
		r.Speculative = &models.Speculative{Tokens: 1}
		r.Allow = map[string]string{"mtp-without-algorithm": "to measure the plain path", "mtp-without-algorythm": "a slip"}
	}))
	want := []engine.Finding{
		{Rule: "mtp-without-algorithm", Severity: engine.Error, Path: "speculative.tokens", Allowed: "to measure the plain path"},
		{Rule: "unknown-rule", Severity: engine.Error, Path: "allow.mtp-without-algorythm"},
	}
	if msg := findings[len(findings)-1].Msg; msg != `there is no rule "mtp-without-algorythm"; did you mean mtp-without-algorithm?` {
		t.Error(msg)
	}
	for i := range findings {
		findings[i].Msg, findings[i].WayOut = "", ""
	}
	if d := cmp.Diff(want, findings); d != "" {
		t.Error(d)
	}
}
