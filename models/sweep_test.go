package models

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sweptRecipe = `apiVersion: disagg/v1
kind: Recipe
name: base
model: DeepSeek-R1-0528
engine: sglang
prefill: {workers: 1}
decode: {workers: 1, tp: 8}
sweep:
- key: prefill.tp
  values: [4, 8]
- key: decode.dp_attention
  values: [true, off]
- key: env.MC_X
  values: [007, "a b", ""]
- key: client.concurrency
  values: [16, 8x16]
`

func TestExpandSweep(t *testing.T) {
	t.Parallel()
	all, err := ExpandSweep("f.yaml", []byte(sweptRecipe), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2*2*3*2 {
		t.Fatalf("%d variants, want 24", len(all))
	}
	seen := map[string]bool{}
	for _, v := range all {
		if seen[v.Name] || v.Recipe.Name != v.Name || v.Recipe.Sweep != nil {
			t.Errorf("bad variant %q", v.Name)
		}
		seen[v.Name] = true
	}
	first, last := all[0], all[23]
	if first.Name != "base-tp4-dp_attentiontrue-MC_X007-concurrency16" || last.Name != "base-tp8-dp_attentionoff-MC_X-concurrency8x16" {
		t.Errorf("names %q … %q", first.Name, last.Name)
	}
	want := []SweepValue{{"prefill.tp", "4"}, {"decode.dp_attention", "true"}, {"env.MC_X", "007"}, {"client.concurrency", "16"}}
	if d := cmp.Diff(want, first.Point); d != "" {
		t.Error(d)
	}
	// Each value has the type of its key.
	if r := first.Recipe; r.Prefill.TP != 4 || !bool(r.Decode.DPAttention) || r.Env["MC_X"].Value != "007" || !cmp.Equal(r.Client.Concurrency, IntList{16}) {
		t.Errorf("first variant: %+v", r)
	}
	if r := last.Recipe; r.Prefill.TP != 8 || bool(r.Decode.DPAttention) || r.Env["MC_X"].Value != "" || !cmp.Equal(r.Client.Concurrency, IntList{8, 16}) {
		t.Errorf("last variant: %+v", r)
	}
	if r := last.Recipe; r.Prefill.PP != 1 || r.Client.PromptsPerConcurrency != 10 {
		t.Error("defaults are not in")
	}
	for path, at := range map[string]string{"prefill.tp": "f.yaml:10:15", "prefill.workers": "f.yaml:6:20", "env.MC_X": "f.yaml:14:24", "sweep": ""} {
		if got := last.Positions.At(path); got != at {
			t.Errorf("At(%s) = %q, want %q", path, got, at)
		}
	}
	if _, _, err := LoadRecipe("f.yaml", []byte(sweptRecipe)); err != nil {
		t.Errorf("a key that only the sweep sets is missed: %v", err)
	}
}

func TestExpandSweepWithoutAxes(t *testing.T) {
	t.Parallel()
	all, err := ExpandSweep("f.yaml", []byte(minimalRecipe), nil)
	if err != nil || len(all) != 1 || all[0].Name != "base" || len(all[0].Point) != 0 || all[0].Recipe.Prefill.TP != 8 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestExpandSweepOverGivenAxes(t *testing.T) {
	t.Parallel()
	all, err := ExpandSweep("f.yaml", []byte(sweptRecipe), []SweepAxis{
		{Key: "prefill.tp", Values: []Scalar{"2", "4"}},
		{Key: "decode.tp", Values: []Scalar{"1"}},
		{Key: "prefill.env.A", Values: []Scalar{""}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
		if v, ok := v.Recipe.Prefill.Env["A"]; !ok || v.Value != "" {
			t.Errorf("prefill.env.A is %+v, %t", v, ok)
		}
	}
	if d := cmp.Diff([]string{"base-prefill.tp2-decode.tp1-A", "base-prefill.tp4-decode.tp1-A"}, names); d != "" {
		t.Error(d)
	}
	_, err = ExpandSweep("f.yaml", []byte(minimalRecipe), []SweepAxis{{Key: "prefill.tp", Values: []Scalar{"many"}}})
	if d := cmp.Diff([]string{`6:27 prefill.tp: "many" is not a whole number in decimal digits`}, places(t, err)); d != "" {
		t.Error(d)
	}
}

func TestSweepMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"consequence of a value", "sweep: [{key: kv_offload.ratio, values: [2, 3]}]\n", "8:42 kv_offload.backend is missing"},
		{"names that are equal", "sweep: [{key: env.A, values: ['a b', a_b]}]\n", "8:8 two points of the sweep have the name base-Aa_b"},
		{"name too long", "sweep: [{key: env.A, values: [" + strings.Repeat("x", 60) + "]}]\n", "3:7 the sweep makes names such as base-A" + strings.Repeat("x", 60) + ", longer than 64 characters"},
		{"too many", "sweep:\n" + strings.Repeat("- {key: env.A%d, values: [1, 2]}\n", 13), "9:1 the sweep has more than 4096 points"},
	} {
		yaml := tt.yaml
		if n := strings.Count(yaml, "%d"); n > 0 {
			args := make([]any, n)
			for i := range args {
				args[i] = i
			}
			yaml = fmt.Sprintf(yaml, args...)
		}
		_, err := ExpandSweep("f.yaml", []byte(minimalRecipe+yaml), nil)
		got := places(t, err)
		if len(got) == 0 || got[0] != tt.want {
			t.Errorf("%s: %q, want %q first", tt.name, got, tt.want)
		}
	}
}
