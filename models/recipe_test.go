package models

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const minimalRecipe = `apiVersion: disagg/v1
kind: Recipe
name: base
model: DeepSeek-R1-0528
engine: sglang
prefill: {workers: 1, tp: 8}
decode: {workers: 1, tp: 8}
`

// places lists the mistakes as line:col path: message.
func places(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var es FieldErrors
	if !errors.As(err, &es) {
		t.Fatalf("error is %T, want FieldErrors: %v", err, err)
	}
	var out []string
	for _, e := range es {
		if e.File != "f.yaml" || e.Snippet == "" {
			t.Errorf("incomplete mistake: %+v", e)
		}
		out = append(out, fmt.Sprintf("%d:%d %s", e.Line, e.Col, e.Msg))
	}
	return out
}

func TestLoadRecipe(t *testing.T) {
	t.Parallel()
	r, pos, err := LoadRecipe("f.yaml", []byte(minimalRecipe+`
metrics: on
kv_offload: {backend: hicache, ratio: "2.5"}
router: {policy: cache_aware}
client:
  command: [bench, --url, "{url}", --out, "{result_dir}/x.json", 'awk {print}', "${HOME}"]
  concurrency: 8x16
  duration: 30m
env:
  EMPTY: ""
  SGLANG_X: 1
  OWN: {value: yes, custom: true}
  GLOO_SOCKET_IFNAME: enp1s0f0
  MORI_IO_QP_MAX_SEND_WR: 16384
timeouts: {worker_max: 01:30:00, grace: 45}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Recipe{APIVersion: APIVersion, Kind: KindRecipe, Name: "base", Model: "DeepSeek-R1-0528", Engine: "sglang", Scenario: "fixed",
		Prefill: &Role{Workers: 1, TP: 8, PP: 1, EP: 1}, Decode: &Role{Workers: 1, TP: 8, PP: 1, EP: 1},
		Metrics: true, KVOffload: &KVOffload{Backend: "hicache", Tier: "L2", Ratio: "2.5"},
		Router: &RouterSpec{Port: 30000, Policy: "cache_aware"},
		Client: &ClientSpec{
			Command:     []string{"bench", "--url", "{url}", "--out", "{result_dir}/x.json", "awk {print}", "${HOME}"},
			Concurrency: IntList{8, 16}, Duration: Duration(30 * time.Minute), PromptsPerConcurrency: 10,
		},
		Env: EnvMap{"EMPTY": {}, "SGLANG_X": {Value: "1"}, "OWN": {Value: "yes", Custom: true},
			"GLOO_SOCKET_IFNAME": {Value: "enp1s0f0"}, "MORI_IO_QP_MAX_SEND_WR": {Value: "16384"}},
		Preflight: PreflightPolicy{Mode: "enforce"},
		Timeouts:  Timeouts{WorkerMax: Duration(90 * time.Minute), Grace: Duration(45 * time.Second)},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
	for path, at := range map[string]string{"prefill.tp": "f.yaml:6:27", "prefill.pp": "", "env.OWN": "f.yaml:19:8", "scenario": ""} {
		if got := pos.At(path); got != at {
			t.Errorf("At(%s) = %q, want %q", path, got, at)
		}
	}
}

func TestRecipeWithTenMistakesGivesTenErrors(t *testing.T) {
	t.Parallel()
	_, _, err := LoadRecipe("f.yaml", []byte(`apiVersion: disagg/v1
kind: Recipe
name: -bad
model: DeepSeek-R1-0528
engine: sglnag
scenaro: fixed
prefill:
  workers: 0
  tp: "8"
  env:
    GLOO_SOCKET_IFNAME: ^lo,docker
decode:
  workers: 1
  flags: [mem 0.8]
client:
  concurrency: [8, eight]
preflight:
  waive: {rdma.pfc: ""}
env: {2BAD: x}
`))
	want := []string{
		`3:7 name must be a name of letters, digits, '.', '_' and '-', at most 64, that begins with a letter or a digit, not "-bad"`,
		`5:9 engine is "sglnag", it must be one of: sglang, vllm, atom; did you mean "sglang"?`,
		`6:1 unknown key "scenaro"; did you mean "scenario"?`,
		`8:12 prefill.workers must be at least 1, not 0`,
		`9:7 prefill.tp must be a whole number, not the text "8"`,
		`11:25 prefill.env.GLOO_SOCKET_IFNAME: "^lo,docker" is not the name of an interface`,
		`12:1 decode.tp is missing`,
		`14:11 decode.flags[0]: "mem 0.8" is not a flag; write --name or --name value`,
		`16:20 client.concurrency[1]: "eight" is not a whole number in decimal digits`,
		`18:21 preflight.waive["rdma.pfc"] must be a reason in words, not ""`,
		`19:7 the key "2BAD" in env must be the name of a variable (letters, digits and '_', no digit first), not "2BAD"`,
	}
	if d := cmp.Diff(want, places(t, err)); d != "" {
		t.Error(d)
	}
}

func TestRecipeMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml string // after the minimal recipe, from line 8 on
		want       []string
	}{
		{"nothing wrong", "spares: 0\n", nil},
		{"no reason", "allow: {hetero-tp: \" \"}\n", []string{`8:20 allow.hetero-tp must be a reason in words, not " "`}},
		{"waiver without id", "preflight: {waive: {everything: because}}\n", []string{`8:21 the key "everything" in preflight.waive must be the id of a check, such as rdma.pfc, not "everything"`}},
		{"both ways to size", "kv_offload: {backend: hicache, ratio: 3, total_dram_gb: 5}\n", []string{`8:57 kv_offload.total_dram_gb and kv_offload.ratio both size the host pool`}},
		{"ratio of zero", "kv_offload: {backend: hicache, ratio: 0}\n", []string{`8:39 kv_offload.ratio must be a number above zero, not "0"`}},
		{"storage without L3", "kv_offload: {backend: hicache, storage: mooncake}\n", []string{"8:41 kv_offload.storage needs tier L3"}},
		{"L3 without storage", "kv_offload: {backend: hicache, tier: L3}\n", []string{"8:38 kv_offload.tier L3 needs a storage"}},
		{"mooncake unused", "kv_offload: {backend: hicache, mooncake: {threads: 1}}\n", []string{"8:32 kv_offload.mooncake tunes a store that the recipe does not use"}},
		{"port out of range", "router: {port: 65536}\n", []string{"8:16 router.port must be at most 65535, not 65536"}},
		{"empty command", "client: {command: [], concurrency: 1}\n", []string{"8:19 client.command is an empty list"}},
		{"empty program", "client: {command: [\"\"], concurrency: 1}\n", []string{"8:20 client.command begins with an empty word, a program was expected"}},
		{"braces in capitals", "client: {command: [a, \"{URL}\", \"{Result-Dir}\", \"{HOME}\", \"{hos-t}\"], concurrency: 1}\n", []string{
			"8:23 client.command: {URL} is replaced by nothing; did you mean {url}?", "8:32 client.command: {Result-Dir} is replaced by nothing; did you mean {result_dir}?"}},
		{"command in one word", "client: {command: [\"a --url {url}\"], concurrency: 1}\n", []string{"8:20 client.command is one word with blanks in it, and no program has that name"}},
		{"program with a blank", "client: {command: [\"/opt/my tools/a\"], concurrency: 1}\n", nil},
		{"time without a unit", "time_limit: 4\n", []string{"8:13 time_limit must be at least 1m0s, not 4s"}},
		{"word of the evaluation in the client", "client: {command: [a, \"{limit}\"], concurrency: 1}\n", []string{"8:23 client.command: {limit} is replaced in evals.command only"}},
		{"word of the client in the evaluation", "evals: {command: [a, \"--x={isl}\"]}\n", []string{"8:22 evals.command: {isl} is replaced in client.command only"}},
		{"misspelt word of the other place", "client: {command: [a, \"{limt}\", \"${limit}\"], concurrency: 1}\n", nil},
		{"misspelt word in braces", "client: {command: [a, \"{concurency}\"], concurrency: 1}\n", []string{"8:23 client.command: {concurency} is replaced by nothing; did you mean {concurrency}?"}},
		{"client without concurrency", "client: {command: [a]}\n", []string{"8:1 client.concurrency is missing"}},
		{"concurrency of nothing", "client: {concurrency: x}\n", []string{`8:23 client.concurrency: a number is missing in "x"; write a list such as [8, 16, 32] or 8x16x32`}},
		{"concurrency twice", "client: {concurrency: 8x16x8}\n", []string{"8:23 client.concurrency has 8 twice, as item 1 and as item 3"}},
		{"ratio for a trace", "scenario: agentic\nclient: {concurrency: 1, random_range_ratio: 0.8}\n", []string{"9:26 client.random_range_ratio has no meaning with scenario agentic, where the trace decides lengths"}},
		{"list of interfaces", "env: {GLOO_SOCKET_IFNAME: 'eno1,eno2'}\n", []string{`8:27 env.GLOO_SOCKET_IFNAME: "eno1,eno2" is not the name of an interface`}},
		{"loopback", "env: {GLOO_SOCKET_IFNAME: {value: lo}}\n", []string{`8:35 env.GLOO_SOCKET_IFNAME.value: "lo" reaches no other node`}},
		{"queue depth in words", "env: {MORI_IO_QP_MAX_SEND_WR: 16k}\n", []string{`8:31 env.MORI_IO_QP_MAX_SEND_WR must be a whole number above zero, not "16k"`}},
		{"NUL in a variable", "env: {A: \"a\\0b\"}\n", []string{"8:10 env.A has a NUL character, which no variable can carry"}},
		{"NUL in a command", "client: {concurrency: 1, command: [a, \"\\0\"]}\n", []string{"8:39 client.command[1] has a NUL character, which no argument and no variable can carry"}},
		{"variable of no value", "env: {A: {custom: true}}\n", []string{`8:10 env.A has no value`}},
		{"variable of a list", "env: {A: [1]}\n", []string{`8:10 env.A must be one value or a mapping (key: value), not a list`}},
		{"forward everything", "forward: ['*', 'MC_*', 'MC_*', 'A B']\n", []string{
			`8:11 forward[0] must be the name of a variable, in which * and ? may stand for letters, not "*"`,
			`8:24 forward has MC_* twice, as item 2 and as item 3`,
			`8:32 forward[3] must be the name of a variable, in which * and ? may stand for letters, not "A B"`}},
		{"relative model path", "model_path: models/x\n", []string{`8:13 model_path must be an absolute path, or hf:ORG/NAME, not "models/x"`}},
		{"hub without owner", "model_path: hf:x\n", []string{`8:13 model_path must be an absolute path, or hf:ORG/NAME, not "hf:x"`}},
		{"model path that no mount carries", "model_path: /a:b\n", []string{`8:13 model_path: "/a:b" has a ':', which a mount cannot carry`}},
		{"image with an option", "image: --privileged\n", []string{`8:8 image must be an image reference such as registry.example.org/team/image:tag, not "--privileged"`}},
		{"not a boolean", "metrics: maybe\n", []string{`8:10 metrics: "maybe" is not a boolean; write true or false`}},
		{"time limit without a unit", "time_limit: 8\n", []string{`8:13 time_limit must be at least 1m0s, not 8s`}},
		{"time in words", "time_limit: a day\n", []string{`8:13 time_limit: "a day" is not a duration; write 90s, 45m, 8h, 08:00:00 or 1-00:00:00`}},
		{"list for a time", "time_limit: [1h]\n", []string{`8:13 time_limit must be one value, not a list`}},
		{"bad speculative", "speculative: {tokens: -1}\n", []string{`8:23 speculative.tokens must be at least 0, not -1`}},
		{"restarts that nobody would see", "sweep: [{key: decode.restarts, values: [1]}]\n", []string{`8:41 decode.restarts is for workers that die while clients run, and the recipe has neither client nor evals`}},
		{"too many restarts", "client: {concurrency: 1}\nsweep: [{key: decode.restarts, values: [1, 3, 4]}]\n", []string{`9:47 decode.restarts must be at most 3, not 4`}},
		{"prefill that comes back", "client: {concurrency: 1}\nsweep: [{key: prefill.restarts, values: [1]}]\n", []string{`9:42 prefill.restarts: only decode workers can be started again`}},
		{"a key of a role at the top", "dp_attention: true\n", []string{`8:1 unknown key "dp_attention"; it belongs at prefill.dp_attention or decode.dp_attention or aggregate.dp_attention`}},
		{"aggregate beside", "aggregate: {workers: 1, tp: 8}\n", []string{`8:1 aggregate cannot stand beside prefill and decode`}},
		{"axis of an unknown key", "sweep: [{key: prefill.tpp, values: [1]}]\n", []string{`8:15 "prefill.tpp" is not a key of a recipe; did you mean "prefill.tp"?`}},
		{"axis of a section", "sweep: [{key: prefill, values: [1]}]\n", []string{`8:15 prefill cannot be swept: it is not one value`}},
		{"axis of a list", "sweep: [{key: prefill.flags, values: [1]}]\n", []string{`8:15 prefill.flags cannot be swept: it is not one value`}},
		{"axis of the name", "sweep: [{key: name, values: [a]}]\n", []string{`8:15 name cannot be swept`}},
		{"axis twice", "sweep: [{key: prefill.tp, values: [4]}, {key: prefill.tp, values: [8]}]\n", []string{`8:47 prefill.tp is swept by axis 1 already`}},
		{"axis without values", "sweep: [{key: prefill.tp, values: []}]\n", []string{`8:35 sweep[0].values is an empty list`}},
		{"axis with a value twice", "sweep: [{key: prefill.tp, values: [4, 8, 4]}]\n", []string{`8:42 sweep[0].values has 4 twice, as item 1 and as item 3`}},
		{"axis with a null", "sweep: [{key: prefill.tp, values: [~]}]\n", []string{`8:36 sweep[0].values[0] has no value`}},
		{"axis with values of another type", "sweep: [{key: prefill.tp, values: [4, eight, 0]}, {key: metrics, values: [true, maybe]}]\n", []string{
			`8:39 prefill.tp: "eight" is not a whole number in decimal digits`,
			`8:46 prefill.tp must be at least 1, not 0`,
			`8:81 metrics: "maybe" is not a boolean; write true or false`}},
		{"empty sweep", "sweep: []\n", []string{`8:8 sweep is an empty list`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _, err := LoadRecipe("f.yaml", []byte(minimalRecipe+tt.yaml))
			if d := cmp.Diff(tt.want, places(t, err)); d != "" {
				t.Error(d)
			}
			if (r == nil) != (err != nil) {
				t.Errorf("recipe %v with error %v", r, err)
			}
		})
	}
}

func TestRecipeWithoutWorkers(t *testing.T) {
	t.Parallel()
	head := strings.Split(minimalRecipe, "prefill")[0]
	for yaml, want := range map[string]string{
		"":                               "1:1 there are no workers",
		"prefill: {workers: 1, tp: 1}\n": "1:1 decode is missing; prefill alone answers no request",
		"decode: {workers: 1, tp: 1}\n":  "1:1 prefill is missing; decode alone answers no request",
	} {
		_, _, err := LoadRecipe("f.yaml", []byte(head+yaml))
		if d := cmp.Diff([]string{want}, places(t, err)); d != "" {
			t.Errorf("%q: %s", yaml, d)
		}
	}
	if _, _, err := LoadRecipe("f.yaml", []byte(head+"aggregate: {workers: 1, tp: 1}\n")); err != nil {
		t.Error(err)
	}
	_, _, err := LoadRecipe("f.yaml", []byte(head+"aggregate: {workers: 1, tp: 1, restarts: 1}\nclient: {concurrency: 1}\n"))
	if d := cmp.Diff([]string{"6:32 aggregate.restarts: only decode workers can be started again"}, places(t, err)); d != "" {
		t.Error(d)
	}
}

func TestAnotherDocument(t *testing.T) {
	t.Parallel()
	_, _, err := LoadRecipe("f.yaml", []byte("apiVersion: disagg/v1\nkind: Site\nname: x\ngpus_per_node: 8\n"))
	if d := cmp.Diff([]string{"2:7 this file is a Site, a Recipe was expected"}, places(t, err)); d != "" {
		t.Error(d)
	}
	_, _, err = LoadSite("f.yaml", []byte(minimalRecipe))
	if d := cmp.Diff([]string{"2:7 this file is a Recipe, a Site was expected"}, places(t, err)); d != "" {
		t.Error(d)
	}
	for _, text := range []string{"", "# only this\n", "\t", "- a\n"} {
		if _, _, err := LoadRecipe("f.yaml", []byte(text)); len(places(t, err)) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
