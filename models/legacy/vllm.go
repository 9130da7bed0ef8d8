package legacy

import (
	"slices"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// vllmModel is an entry of models_vllm.yaml.
type vllmModel struct {
	Prefill    string `yaml:"prefill_flags"`
	Decode     string `yaml:"decode_flags"`
	Env        string `yaml:"env,omitempty"`
	PrefillEnv string `yaml:"prefill_env,omitempty"`
	DecodeEnv  string `yaml:"decode_env,omitempty"`
	Dir        string `yaml:"hf_dir,omitempty" is:"word"`
}

// vllmModels converts models_vllm.yaml.
func (im *importer) vllmModels(f File, of func(string) *modelFile) {
	doc := yamlx.ParseForeign(f.Path, f.Data)
	entries := map[string]vllmModel{}
	doc.Decode(&entries)
	doc.Check(&entries, models.Formats())
	if err := doc.Err(); err != nil {
		im.take(err)
		return
	}
	for _, name := range sorted(entries) {
		e, at, m := entries[name], yamlx.Key("", name), of(name)
		if e.Dir != "" {
			m.dirs = []string{e.Dir, name}
		}
		prefill := vllmLayer(im.flagLine(doc, at+".prefill_flags", e.Prefill))
		decode := vllmLayer(im.flagLine(doc, at+".decode_flags", e.Decode))
		x := catalog.Engine{}
		x.Layers = append(x.Layers, shared(&prefill, &decode, im.variables(doc, at+".env", e.Env)))
		prefill.Env, decode.Env = im.variables(doc, at+".prefill_env", e.PrefillEnv), im.variables(doc, at+".decode_env", e.DecodeEnv)
		prefill.When.Role, decode.When.Role = catalog.Names{models.RolePrefill}, catalog.Names{models.RoleDecode}
		for _, l := range []catalog.Layer{prefill, decode} {
			if !empty(l) {
				x.Layers = append(x.Layers, l)
			}
		}
		m.engines["vllm"] = x
	}
}

// vllmLayer puts numbers that have keys of their own there. The size of the
// worker is the recipe's.
func vllmLayer(list flags.List) catalog.Layer {
	var l catalog.Layer
	cut(&list, "--tensor-parallel-size")
	l.PageSize, _ = cut(&list, "--block-size")
	l.MemFraction, _ = cut(&list, "--gpu-memory-utilization")
	l.ContextLength, _ = cut(&list, "--max-model-len")
	l.MaxRunningRequests, _ = cut(&list, "--max-num-seqs")
	l.ChunkedPrefillSize, _ = cut(&list, "--max-num-batched-tokens")
	cut(&list, "--trust-remote-code") // always given
	l.Flags = texts(list)
	return l
}

// shared moves what two layers have in common into one for both.
func shared(a, b *catalog.Layer, env models.EnvMap) catalog.Layer {
	both := catalog.Layer{When: catalog.When{Role: catalog.Names{models.RolePrefill, models.RoleDecode}}, Env: env}
	for _, f := range slices.Clone(a.Flags) {
		if slices.Contains(b.Flags, f) {
			both.Flags = append(both.Flags, f)
			drop := func(s string) bool { return s == f }
			a.Flags, b.Flags = slices.DeleteFunc(a.Flags, drop), slices.DeleteFunc(b.Flags, drop)
		}
	}
	for _, n := range []struct{ a, b, both *string }{
		{&a.PageSize, &b.PageSize, &both.PageSize}, {&a.MemFraction, &b.MemFraction, &both.MemFraction}, {&a.ContextLength, &b.ContextLength, &both.ContextLength},
		{&a.MaxRunningRequests, &b.MaxRunningRequests, &both.MaxRunningRequests}, {&a.ChunkedPrefillSize, &b.ChunkedPrefillSize, &both.ChunkedPrefillSize},
	} {
		if *n.a == *n.b {
			*n.both, *n.a, *n.b = *n.a, "", ""
		}
	}
	return both
}

// empty says whether a layer sets nothing.
func empty(l catalog.Layer) bool {
	return len(l.Flags)+len(l.Env) == 0 && l.PageSize+l.MemFraction+l.ContextLength+l.MaxRunningRequests+l.ChunkedPrefillSize == ""
}
