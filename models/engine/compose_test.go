package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
)

// TestEveryModelComposes goes through every model, engine, scenario and mode.
// What is refused must be refused for one of the known reasons, and what is
// composed may set only variables that the list of known variables has.
func TestEveryModelComposes(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	known := env.Known()
	composed := 0
	for _, model := range c.Names() {
		entry, err := c.Lookup(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range entry.Engines() {
			for i := range 1 << 6 {
				bit := func(n int) bool { return i>>n&1 == 1 }
				in := input(t, model, name, func(r *models.Recipe, _ *models.Site) {
					if bit(0) {
						r.Scenario = catalog.ScenarioAgentic
					}
					for _, role := range []*models.Role{r.Prefill, r.Decode} {
						if bit(1) {
							role.EP = 8
						}
						role.DPAttention = models.Bool(bit(2))
					}
					if bit(3) {
						r.Speculative = &models.Speculative{Tokens: 2}
					}
					if bit(4) {
						r.Evals = &models.EvalSpec{}
					}
					if bit(5) && name == engine.SGLang {
						r.KVOffload = &models.KVOffload{Backend: "hicache", Tier: "L3"}
					}
				})
				at := fmt.Sprintf("%s on %s, mode %06b", model, name, i)
				out, errs := engine.Compose(in)
				if name == engine.VLLM && bit(2) {
					if len(errs) == 0 {
						t.Errorf("%s: data-parallel attention was not refused", at)
					}
					continue
				}
				if len(errs) > 0 {
					t.Errorf("%s: %v", at, errs)
					continue
				}
				composed++
				for _, w := range out.Workers {
					checkProcess(t, at, w.Ranks[0], known)
				}
				checkProcess(t, at, out.Router.Process, known)
			}
		}
	}
	if composed < 1000 {
		t.Errorf("only %d runs composed", composed)
	}
}

// checkProcess finds what no process may have: formulas left over, flags
// twice, variables that nobody reads, an unsorted environment.
func checkProcess(t *testing.T, at string, p models.Process, known *env.Table) {
	t.Helper()
	_, list := flagsOf(p.Argv)
	for name, values := range byName(list) {
		if len(values) > 1 && name != "--prefill" && name != "--decode" {
			t.Errorf("%s, %s: %s stands %d times", at, p.ID, name, len(values))
		}
	}
	for _, a := range p.Argv {
		if strings.Contains(a, "${") {
			t.Errorf("%s, %s: %q was not computed", at, p.ID, a)
		}
	}
	if !slices.IsSortedFunc(p.Env, func(a, b models.EnvVar) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%s, %s: environment is not sorted", at, p.ID)
	}
	for _, v := range p.Env {
		if strings.Contains(v.Value, "${") || v.Origin == "" || v.Expand != strings.Contains(v.Value, models.PlaceholderOpen) {
			t.Errorf("%s, %s: %+v", at, p.ID, v)
		}
		if _, ok := known.Lookup(v.Name); !ok {
			t.Errorf("%s, %s: nobody is known to read %s", at, p.ID, v.Name)
		}
	}
}

func TestComposeIsPure(t *testing.T) {
	t.Parallel()
	in := input(t, "DeepSeek-V4-Pro", "sglang", func(r *models.Recipe, _ *models.Site) {
		r.Scenario = catalog.ScenarioAgentic
		r.Prefill.DPAttention, r.Prefill.Flags = true, []string{"--log-level debug"}
		r.Speculative = &models.Speculative{Tokens: 3}
		r.KVOffload = &models.KVOffload{Backend: "hicache", Tier: "L3"}
	})
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := text([]any{in.Recipe, in.Site, in.Layout})
	first, _ := engine.Compose(in)
	want := text(first)
	for range 5 {
		again, _ := engine.Compose(in)
		if got := text(again); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	}
	if after := text([]any{in.Recipe, in.Site, in.Layout}); after != before {
		t.Errorf("the input was changed: %s", cmp.Diff(before, after))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	type change = func(r *models.Recipe, s *models.Site)
	for _, tc := range []struct {
		name, model, engine string
		change              change
		want                []string // path: message
	}{
		{"engine unknown", "DeepSeek-R1", "sglang", func(r *models.Recipe, _ *models.Site) { r.Engine = "trt" },
			[]string{`engine: there is no engine "trt"; engines: sglang, vllm, atom`}},
		{"concurrency needed and not given", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Client, r.Prefill.EP, r.Prefill.DPAttention = nil, 8, true
			},
			[]string{`prefill.max_running_requests: compute max_running_requests of prefill: catalog:deepseek-r1-0528.yaml:48: formula "concurrency", character 1: "concurrency" is not a known name; known are dispatch_tokens, dp, ep, gpus_per_node, mtp, pp, tp`}},
		{"size that rounds to nothing", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.KVOffload = &models.KVOffload{Backend: "hicache", TotalDRAMGB: 6}
			},
			[]string{"kv_offload.total_dram_gb: 6 GB shared by 8 ranks of a node and 1 host pools is less than 1 GB each"}},
		{"backend unknown", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) { r.KVOffload = &models.KVOffload{Backend: "lmcache"} },
			[]string{`kv_offload.backend: sglang has no KV offload backend "lmcache"; it has hicache`}},
		{"store unknown", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.KVOffload = &models.KVOffload{Backend: "hicache", Storage: "file"}
			},
			[]string{`kv_offload.storage: there is no store "file" for KV; write mooncake`}},
		{"flags that are none", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) {
				r.Decode.Flags = []string{"log-level debug", "!--no-such", "--a ${b}"}
			},
			[]string{
				`decode.flags[0]: "log-level debug" is not a flag; write --name or --name value`,
				`decode.flags[1]: !--no-such takes a flag away that nothing sets`,
				`decode.flags[2]: formula "b", character 1: "b" is not a known name; known are concurrency, concurrency_per_rank, decode_concurrency_per_rank, dispatch_tokens, dp, ep, gpus_per_node, mtp, pp, tp`,
			}},
		{"router of another engine", "DeepSeek-R1", "sglang",
			func(r *models.Recipe, _ *models.Site) { r.Router = &models.RouterSpec{Kind: "vllm"} },
			[]string{`router.kind: sglang has no router "vllm"; routers: sglang, none`}},
		{"vllm over nodes", "gpt-oss-120b", "vllm", func(r *models.Recipe, _ *models.Site) { r.Decode.TP = 16 },
			[]string{"decode.tp: a vllm worker of 16 GPUs needs 2 nodes; here it runs on one"}},
		{"vllm with what it has not", "gpt-oss-120b", "vllm",
			func(r *models.Recipe, _ *models.Site) {
				r.KVOffload, r.Transfer = &models.KVOffload{Backend: "hicache"}, "nixl"
				r.Router = &models.RouterSpec{Flags: []string{"--vllm-discovery-address here"}}
			},
			[]string{
				"kv_offload: vllm has no KV tier in host memory here",
				`transfer: vllm moves KV with moriio here, not with "nixl"`,
				`router.flags[0]: --vllm-discovery-address needs HOST:PORT, not "here"`,
			}},
		{"atom over nodes", "DeepSeek-V4-Pro", "atom", func(r *models.Recipe, _ *models.Site) { r.Prefill.TP = 16 },
			[]string{"prefill.tp: an atom worker of 16 GPUs needs 2 nodes; here it runs on one, without pipeline stages"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, errs := engine.Compose(input(t, tc.model, tc.engine, tc.change))
			var got []string
			for _, e := range errs {
				got = append(got, e.Path+": "+e.Msg)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDiscoveryPortIsOne(t *testing.T) {
	t.Parallel()
	in := input(t, "gpt-oss-120b", "vllm", func(r *models.Recipe, _ *models.Site) {
		r.Router = &models.RouterSpec{Flags: []string{"--vllm-discovery-address 0.0.0.0:40000"}}
	})
	out, errs := engine.Compose(in)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, w := range out.Workers {
		_, list := flagsOf(w.Ranks[0].Argv)
		if v := byName(list)["--kv-transfer-config"]; len(v) != 1 || !strings.Contains(v[0], `"proxy_ping_port":"40000"`) {
			t.Errorf("%s: %v", w.ID, v)
		}
	}
	if i := slices.IndexFunc(out.Router.Ports, func(p models.Port) bool { return p.Name == "discovery" }); i < 0 || out.Router.Ports[i].Number != 40000 {
		t.Errorf("ports %v", out.Router.Ports)
	}
}

func TestShapeOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tp, pp, gpus int
		want         engine.Shape
		err          string
	}{
		{tp: 8, pp: 1, gpus: 8, want: engine.Shape{Nodes: 1, GPUs: 8}},
		{tp: 4, pp: 1, gpus: 8, want: engine.Shape{Nodes: 1, GPUs: 4}},
		{tp: 16, pp: 1, gpus: 4, want: engine.Shape{Nodes: 4, GPUs: 4}},
		{tp: 8, pp: 2, gpus: 8, want: engine.Shape{Nodes: 2, GPUs: 8}},
		{tp: 12, pp: 1, gpus: 8, err: "a worker of 12 GPUs is not a whole number of nodes of 8"},
		{tp: 3, pp: 1, gpus: 8, err: "a worker of 3 GPUs does not divide a node of 8"},
		{tp: 0, pp: 1, gpus: 8, err: "tensor parallel size 0, pipeline parallel size 1 and 8 GPUs a node must all be at least 1"},
	} {
		got, err := engine.ShapeOf(tc.tp, tc.pp, tc.gpus)
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if got != tc.want || msg != tc.err {
			t.Errorf("ShapeOf(%d, %d, %d) = %v, %q", tc.tp, tc.pp, tc.gpus, got, msg)
		}
	}
}
