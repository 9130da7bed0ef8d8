package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

func embedded(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmbeddedCatalogHasEveryModel(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	got := map[string][]string{}
	for _, name := range c.Names() {
		e, err := c.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = e.Engines()
	}
	sglang, vllm, both := []string{"sglang"}, []string{"vllm"}, []string{"atom", "vllm"}
	want := map[string][]string{
		"DeepSeek-V3": sglang, "DeepSeek-V3-0324": sglang, "DeepSeek-R1": sglang, "DeepSeek-R1-0528": sglang,
		"DeepSeek-R1-0528-MXFP4": sglang, "DeepSeek-R1-0528-MXFP4-Preview": sglang, "DeepSeek-R1-0528-MXFP4-v2": sglang,
		"Qwen3.5-397B-A17B-FP8": sglang, "Qwen3.5-397B-A17B-MXFP4": sglang, "GLM-5-FP8": sglang,
		"DeepSeek-V4-Pro": {"atom", "sglang"},
		"Kimi-K2.5-MXFP4": both, "MiniMax-M3-MXFP4": both, "MiniMax-M3-MXFP8": both,
		"MiniMax-M2.5": vllm, "gpt-oss-120b": vllm, "Llama-3.1-405B-Instruct-FP8-KV": vllm, "amd-Llama-3.3-70B-Instruct-FP8-KV": vllm,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLookupNamesTheNearest(t *testing.T) {
	t.Parallel()
	_, err := embedded(t).Lookup("DeepSeek-V4-Pro-DI")
	if err == nil || !strings.HasPrefix(err.Error(), `the catalog has no model "DeepSeek-V4-Pro-DI" (did you mean "DeepSeek-V4-Pro"?); models: DeepSeek-R1, `) {
		t.Errorf("got %v", err)
	}
}

const overlay = `apiVersion: disagg/v1
kind: Model
name: DeepSeek-R1
extends: DeepSeek-R1
limits: {context_length: 65536}
engines:
  sglang:
    transfer: nixl
    layers:
      - when: {role: decode}
        max_running_requests: 4 * tp
        drop: [--prefill-round-robin-balance]
        flags: [--attention-backend triton]
        unset: [NCCL_BLOCKING_WAIT]
`

func TestOverlayExtendsTheModelThatItReplaces(t *testing.T) {
	t.Parallel()
	c, err := embedded(t).With([]catalog.File{{Path: "mine.yaml", Data: []byte(overlay)}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Lookup("DeepSeek-R1")
	if err != nil {
		t.Fatal(err)
	}
	s := e.Settings("sglang", catalog.Mode{Role: models.RoleDecode, Scenario: catalog.ScenarioFixed})
	want := catalog.Value{Text: "4 * tp", From: "catalog:mine.yaml:11", Over: []string{"catalog:deepseek-r1-0528.yaml:53=128"}}
	if d := cmp.Diff(want, s.MaxRunningRequests); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(catalog.Value{Text: "nixl", From: "catalog:mine.yaml:8", Over: []string{"catalog:sglang.yaml:6=mori"}}, e.Transfer("sglang")); d != "" {
		t.Error(d)
	}
	if f, ok := s.Flags.Get("--attention-backend"); !ok || f.Value() != "triton" || len(f.Over) != 1 {
		t.Errorf("--attention-backend: %+v", f)
	}
	if _, ok := s.Flags.Get("--prefill-round-robin-balance"); ok {
		t.Error("a dropped flag is still there")
	}
	if _, ok := s.Env["NCCL_BLOCKING_WAIT"]; ok {
		t.Error("a variable that was unset is still there")
	}
	if e.Limits.ContextLength != 65536 || e.Limits.Attention != catalog.AttentionMLA {
		t.Errorf("limits: %+v", e.Limits)
	}
	// The prefill worker and the other model are untouched.
	if s := e.Settings("sglang", catalog.Mode{Role: models.RolePrefill}); s.MaxRunningRequests.Text != "128" {
		t.Errorf("prefill: %+v", s.MaxRunningRequests)
	}
	other, err := c.Lookup("DeepSeek-V3")
	if err != nil {
		t.Fatal(err)
	}
	if other.Transfer("sglang").Text != "mori" {
		t.Errorf("another model: %+v", other.Transfer("sglang"))
	}
}

func TestMistakesAreAllReportedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	files := []catalog.File{
		{Path: "a.yaml", Data: []byte(`apiVersion: disagg/v1
kind: Model
name: a
limits: {attention: gqaa}
acceptance_length: {"x": "1.5", "2": fast}
engines:
  sglnag: {}
  sglang:
    shell: bash
    speculative: {algorithm: "", flags: []}
    kv_offload: {sizing: size, ratio: two}
    layers:
      - when: {role: decod, scenario: agentik}
        vars: {tp: "8", x: "8 * y"}
        flags: [decode, "--a '1", "--b ${tp + z}", "--c @{self.addr}"]
        env: {1X: a, Y: "${oops"}
        mem_fraction: .8
        max_running_requests: concurency
        cuda_graphs: 1-
        page_size: min(1, 2
`)},
		{Path: "b.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Model\nname: b\nextends: c\n")},
		{Path: "c.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Model\nname: c\nextends: b\n")},
		{Path: "d.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Model\nname: d\nextends: DeepSeek-R2\n")},
		{Path: "e.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Model\nname: d\n")},
		{Path: "f.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Model\n")},
		{Path: "g.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Site\nname: g\n")},
		{Path: "h.yaml", Data: []byte("apiVersion: disagg/v1\nkind: Engine\nname: sglang\nlayers:\n  - flags: ['--n ${nn}']\n")},
	}
	_, err := embedded(t).With(files)
	var errs models.FieldErrors
	if !errors.As(err, &errs) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, models.Position{File: e.File, Line: e.Line, Col: e.Col}.String()+" "+e.Msg)
	}
	want := []string{
		`a.yaml:4:21 "gqaa" is not known here (did you mean "gqa"?)`,
		`a.yaml:5:26 "x" is not a speculative depth, a whole number from 1`,
		`a.yaml:5:38 "fast" is not a decimal number`,
		`a.yaml:7:11 there is no engine "sglnag" (did you mean "sglang"?)`,
		`a.yaml:9:12 "bash" is not known here`,
		`a.yaml:10:30 the algorithm is missing: with depth flags alone an engine takes them and never speculates`,
		`a.yaml:10:41 flags are missing that turn multi-token prediction on`,
		`a.yaml:11:26 "size" is not known here`,
		`a.yaml:11:39 "two" is not a decimal number`,
		`a.yaml:13:22 "decod" is not known here (did you mean "decode"?)`,
		`a.yaml:13:39 "agentik" is not known here (did you mean "agentic"?)`,
		`a.yaml:14:20 tp is the name of a built-in value`,
		`a.yaml:14:28 formula "8 * y": nothing defines "y"`,
		`a.yaml:15:17 "decode" is not a flag; write --name or --name value`,
		`a.yaml:15:25 a ' in "--a '1" is not closed`,
		`a.yaml:15:35 formula "tp + z": nothing defines "z" (did you mean "x"?)`,
		`a.yaml:15:52 "@{self.addr}" holds "@{", which is kept for facts of a node`,
		`a.yaml:16:19 "1X" is not a name of an environment variable`,
		`a.yaml:16:25 a ${ in "${oops" is not closed`,
		`a.yaml:17:23 ".8" is not a decimal number`,
		`a.yaml:18:31 formula "concurency": nothing defines "concurency" (did you mean "concurrency"?)`,
		`a.yaml:19:22 "1-" is not a range of batch sizes; write 1-128`,
		`a.yaml:20:20 "min(1, 2" is not closed; write min(A, B)`,
		`c.yaml:4:10 c extends itself through b`,
		`d.yaml:4:10 the catalog has no model "DeepSeek-R2" to extend (did you mean "DeepSeek-R1"?)`,
		`e.yaml:3:7 d is in d.yaml as well`,
		`f.yaml:1:1 name is missing`,
		`g.yaml:2:7 this file is a Site, a Model was expected`,
		`h.yaml:5:13 formula "nn": nothing defines "nn"`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	vars := map[string]int64{"a": 6, "b": 4}
	for _, tc := range []struct {
		text string
		want int64
		err  string
	}{
		{text: "a * b", want: 24},
		{text: "min(a, b)", want: 4},
		{text: "min(2 * a, 3 * b, 100)", want: 12},
		{text: "a / b", err: `formula "a / b", character 3: 6 cannot be divided by 4 without a rest`},
		{text: "min(a)", want: 6},
		{text: "min()", err: `formula "", character 1: the formula is empty`},
	} {
		got, err := catalog.Eval(tc.text, vars)
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if got != tc.want || msg != tc.err {
			t.Errorf("Eval(%q) = %d, %q; want %d, %q", tc.text, got, msg, tc.want, tc.err)
		}
	}
}

func TestGraphs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string
		ok   bool
	}{
		{"2-4", []string{"2", "3", "4"}, true},
		{"1 8 2", []string{"1", "8", "2"}, true},
		{"off", nil, true},
		{"4-2", nil, false},
		{"0-2", nil, false},
		{"all", nil, false},
	} {
		got, err := catalog.Graphs(tc.text)
		if d := cmp.Diff(tc.want, got); d != "" || (err == nil) != tc.ok {
			t.Errorf("Graphs(%q): %v %s", tc.text, err, d)
		}
	}
}

func FuzzOverlay(f *testing.F) {
	f.Add([]byte(overlay))
	f.Add([]byte("apiVersion: disagg/v1\nkind: Engine\nname: vllm\nlayers: [{flags: ['--a ${b}'], vars: {b: '1'}}]\n"))
	c, err := catalog.Embedded()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		next, err := c.With([]catalog.File{{Path: "x.yaml", Data: data}})
		var errs models.FieldErrors
		switch {
		case err != nil && !errors.As(err, &errs):
			t.Errorf("not a list of mistakes: %v", err)
		case err == nil && len(next.Names()) < len(c.Names()):
			t.Error("an overlay took models away")
		}
	})
}
