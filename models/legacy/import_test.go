package legacy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/legacy"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

func source(t *testing.T, name string) *legacy.File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return &legacy.File{Path: name, Data: data}
}

func embedded(t *testing.T) *catalog.Catalog {
	t.Helper()
	return embeddedF(t)
}

func embeddedF(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestImportModels converts model files whose models the catalog has: it must
// find that it has them, which means that all settings are equal in every mode.
func TestImportModels(t *testing.T) {
	t.Parallel()
	got, err := legacy.Import(legacy.Sources{SGLang: source(t, "models.yaml"), Catalog: embedded(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"DeepSeek-R1-0528", "DeepSeek-R1-0528-MXFP4-v2", "DeepSeek-V4-Pro", "GLM-5-FP8"}
	if d := cmp.Diff(want, got.Known); d != "" {
		t.Errorf("models that the catalog has already: %s", d)
	}
	compareFiles(t, "models", got)
}

// compareFiles compares what is to be written, and the notes, with a file.
func compareFiles(t *testing.T, name string, got *legacy.Imported) {
	t.Helper()
	var b strings.Builder
	for _, f := range got.Files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Path, f.Data)
	}
	b.WriteString("-- notes --\n")
	for _, n := range got.Notes {
		fmt.Fprintf(&b, "%s:%d:%d: %s\n", n.File, n.Line, n.Col, n.Msg)
	}
	b.WriteString("-- runs --\n")
	for _, r := range got.Runs {
		fmt.Fprintf(&b, "%s %s %s %s\n", r.Place, r.Key, r.Name, r.LeftOut)
	}
	path := filepath.Join("testdata", name+".txtar")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s is not what comes out; look at the difference, and run the test with -update if it is right\n%s", path, d)
	}
	for _, f := range got.Files {
		var err error
		switch {
		case strings.HasPrefix(f.Path, "recipes/"):
			_, _, err = models.LoadRecipe(f.Path, f.Data)
		case f.Path == "site.yaml":
			_, _, err = models.LoadSite(f.Path, f.Data)
		default:
			_, err = embedded(t).With([]catalog.File{{Path: f.Path, Data: f.Data}})
		}
		if err != nil {
			t.Errorf("%s cannot be read: %v", f.Path, err)
		}
	}
}

func TestImportVLLMAndATOM(t *testing.T) {
	t.Parallel()
	got, err := legacy.Import(legacy.Sources{VLLM: source(t, "models_vllm.yaml"), ATOM: source(t, "models_atom.yaml"), Excludes: source(t, "node_excludes.yaml"), Catalog: embedded(t)})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"DeepSeek-V4-Pro", "Kimi-K2.5-MXFP4", "MiniMax-M3-MXFP4"}, got.Known); d != "" {
		t.Errorf("models that the catalog has already: %s", d)
	}
	compareFiles(t, "models-vllm-atom", got)
}

// TestImportFindsWhatDiffers changes one thing at a time in a model that the
// catalog has: it must not be taken for the catalog's any more.
func TestImportFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	_, data, _ := strings.Cut(string(source(t, "models.yaml").Data), "\nGLM-5-FP8:")
	data, _, _ = strings.Cut("GLM-5-FP8:"+data, "\n# One model")
	for _, change := range []struct{ from, to string }{
		{"--tool-call-parser glm47", "--tool-call-parser glm46"},
		{"--reasoning-parser glm45 ", ""},
		{"num_threads\\\\\\\": 8", "num_threads\\\\\\\": 4"},
		{"--disaggregation-transfer-backend mori --tool-call-parser", "--disaggregation-transfer-backend nixl --tool-call-parser"},
		{"  mtp_flags: \"\"\n", "  mtp_flags: \"--speculative-algorithm EAGLE\"\n"},
		{"  decode: {}\n", "  decode: {no_dp: {max_running_requests: 129}}\n"},
		{"  decode: {}\n", "  decode: {mem_fraction_static: 0.86}\n"},
		{"  decode: {}\n", "  decode: {dp: {cuda_graph_bs_range: 1-161}}\n"},
		{"  decode: {}\n", "  decode: {prefill_round_robin_balance: false}\n"},
		{"  decode: {}\n", "  hf_dir: glm\n  decode: {}\n"},
	} {
		changed := strings.Replace(data, change.from, change.to, 1)
		if changed == data {
			t.Fatalf("%q is not in the file", change.from)
		}
		got, err := legacy.Import(legacy.Sources{SGLang: &legacy.File{Path: "models.yaml", Data: []byte(changed)}, Catalog: embedded(t)})
		if err != nil {
			t.Errorf("%q: %v", change.to, err)
			continue
		}
		if len(got.Known) != 0 || len(got.Files) == 0 {
			t.Errorf("with %q the catalog is said to have the same", change.to)
		}
	}
}

func TestImportMaster(t *testing.T) {
	t.Parallel()
	for _, evals := range []legacy.EvalMode{legacy.EvalsNone, legacy.EvalsOnly} {
		got, err := legacy.Import(legacy.Sources{Master: []legacy.File{*source(t, "master.yaml")}, Runners: source(t, "runners.yaml"), Evals: evals,
			Repo: "/shared/sweep", Catalog: embedded(t)})
		if err != nil {
			t.Fatal(err)
		}
		compareFiles(t, "master-"+string(evals), got)
	}
	got, err := legacy.Import(legacy.Sources{Master: []legacy.File{*source(t, "master.yaml")}, Keys: []string{"dsv4-*"}, Evals: legacy.EvalsNone, Catalog: embedded(t)})
	if err != nil || len(got.Runs) != 3+2+3 {
		t.Errorf("%d runs of the keys dsv4-*, want 8: %v", len(got.Runs), err)
	}
}

// TestImportTellsWhatItLeavesOut has rows that this tool does not run, and one
// whose model nobody knows: nothing is dropped without a word.
func TestImportTellsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	const head = "  image: i\n  model-prefix: p\n  precision: fp8\n  runner: r\n"
	data := `disagg-lmcache:
` + head + `  model: o/DeepSeek-R1-0528
  framework: sglang-disagg
  multinode: True
  disagg: yes
  scenarios: {agentic-coding: [{dram-utilization: 0.5, search-space: [{conc-list: [1, 2], kv-offloading: dram, kv-offload-backend: {name: lmcache},
    prefill: {num-worker: 1, tp: 8, ep: 1, dp-attn: no, additional-settings: [PREFILL_NODES=1]},
    decode: {num-worker: 1, tp: 8, ep: 1, dp-attn: no, additional-settings: [DECODE_NODES=1]}}]}]}
other-launcher:
` + head + `  model: o/X
  framework: dynamo-sglang
  multinode: true
  disagg: true
  srt-recipe-dir: d
  scenarios: {fixed-seq-len: [{isl: 1, osl: 1, search-space: [{conc-list: [4], srt-recipe: a.yaml,
    prefill: {num-worker: 1, tp: 8, ep: 1, dp-attn: false}, decode: {num-worker: 1, tp: 8, ep: 1, dp-attn: false}}]}]}
many-nodes:
` + head + `  model: o/X
  framework: sglang
  multinode: true
  scenarios: {fixed-seq-len: [{isl: 1, osl: 1, search-space: [{conc-list: [4], num-nodes: 2, worker: {num-worker: 1, tp: 16, ep: 1, dp-attn: false}}]}]}
unknown-model:
` + head + `  model: o/Not-There
  framework: sglang
  multinode: false
  scenarios: {fixed-seq-len: [{isl: 1024, osl: 1024, search-space: [{conc-start: 4, conc-end: 10, tp: 8}]}]}
`
	got, err := legacy.Import(legacy.Sources{Master: []legacy.File{{Path: "m.yaml", Data: []byte(data)}}, Catalog: embedded(t)})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, r := range got.Runs {
		left = append(left, r.Key+": "+r.LeftOut)
	}
	want := []string{
		"disagg-lmcache: its KV offload backend is lmcache; here it is hicache", "disagg-lmcache: its KV offload backend is lmcache; here it is hicache",
		"other-launcher: it is run from another launcher's recipe, a.yaml",
		"many-nodes: it has workers over several nodes without disaggregation",
		"unknown-model: ",
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Error(d)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0].Msg, "the catalog has no model Not-There") || got.Notes[0].Line == 0 {
		t.Errorf("notes: %v", got.Notes)
	}
}
