package legacy

import (
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// atomModel is an entry of models_atom.yaml.
type atomModel struct {
	Env           string        `yaml:"env,omitempty"`
	KVCache       string        `yaml:"kv_cache_flags,omitempty"`
	TPDP          string        `yaml:"tp_dp_flags,omitempty"`
	PrefillTPDP   string        `yaml:"prefill_tp_dp_flags,omitempty"`
	DecodeTPDP    string        `yaml:"decode_tp_dp_flags,omitempty"`
	TPDPEnv       string        `yaml:"tp_dp_env,omitempty"`
	EPDP          string        `yaml:"ep_dp_flags,omitempty"`
	PrefillEPDP   string        `yaml:"prefill_ep_dp_flags,omitempty"`
	DecodeEPDP    string        `yaml:"decode_ep_dp_flags,omitempty"`
	EPDPEnv       string        `yaml:"ep_dp_env,omitempty"`
	MTP           string        `yaml:"mtp_flags,omitempty"`
	Quant         string        `yaml:"online_quant_config,omitempty"`
	QuantDP       string        `yaml:"online_quant_dpa_config,omitempty"`
	BlockSize     models.Scalar `yaml:"block_size,omitempty" is:"positive"`
	Mem           models.Scalar `yaml:"mem_frac_static,omitempty" is:"share"`
	Context       models.Scalar `yaml:"max_model_len,omitempty" is:"positive"`
	Seqs          models.Scalar `yaml:"max_num_seqs,omitempty" is:"positive"`
	BatchedTokens models.Scalar `yaml:"max_num_batched_tokens,omitempty" is:"positive"`
	Delay         models.Scalar `yaml:"scheduler_delay_factor,omitempty"`
	Dir           string        `yaml:"hf_dir,omitempty" is:"word"`
}

// atomModels converts models_atom.yaml.
func (im *importer) atomModels(f File, of func(string) *modelFile) {
	doc := yamlx.ParseForeign(f.Path, f.Data)
	entries := map[string]atomModel{}
	doc.Decode(&entries)
	doc.Check(&entries, models.Formats())
	if err := doc.Err(); err != nil {
		im.take(err)
		return
	}
	for _, name := range sorted(entries) {
		m := of(name)
		if dir := entries[name].Dir; dir != "" {
			m.dirs = []string{dir, name}
		}
		m.engines["atom"] = im.atomModel(doc, yamlx.Key("", name), entries[name])
	}
}

func (im *importer) atomModel(doc *yamlx.Document, at string, e atomModel) catalog.Engine {
	x := catalog.Engine{}
	both := catalog.Names{models.RolePrefill, models.RoleDecode}
	first := catalog.Layer{When: catalog.When{Role: both}, Env: im.variables(doc, at+".env", e.Env), Flags: texts(im.flagLine(doc, at+".kv_cache_flags", e.KVCache)),
		PageSize: string(e.BlockSize), MemFraction: string(e.Mem), ContextLength: string(e.Context), ChunkedPrefillSize: string(e.BatchedTokens)}
	if e.Delay != "" {
		first.Flags = append(first.Flags, "--scheduler-delay-factor "+string(e.Delay))
	}
	x.Layers = append(x.Layers, first)
	if e.Seqs != "" {
		// Decode took the largest concurrency.
		x.Layers = append(x.Layers, catalog.Layer{When: catalog.When{Role: catalog.Names{models.RolePrefill}}, MaxRunningRequests: string(e.Seqs)})
	}
	// What the weights become on load follows from how attention is shared.
	for _, q := range []struct {
		key, json string
		dp        bool
	}{{"online_quant_config", e.Quant, false}, {"online_quant_dpa_config", or(e.QuantDP, e.Quant), true}} {
		if q.json != "" {
			x.Layers = append(x.Layers, catalog.Layer{When: catalog.When{Role: both, DP: is(q.dp)},
				Flags: texts(flags.List{{Name: "--online_quant_config", Args: []string{q.json}}})})
		}
	}
	for _, mode := range []struct {
		key, all, prefill, decode, env string
		ep                             bool
	}{
		{"tp_dp", e.TPDP, e.PrefillTPDP, e.DecodeTPDP, e.TPDPEnv, false},
		{"ep_dp", e.EPDP, e.PrefillEPDP, e.DecodeEPDP, e.EPDPEnv, true},
	} {
		when := catalog.When{EP: is(mode.ep), DP: is(true)}
		prefill, decode := catalog.Layer{When: when}, catalog.Layer{When: when}
		line := func(role, own string) []string {
			key := at + "." + mode.key + "_flags"
			if own != "" {
				key = at + "." + role + "_" + mode.key + "_flags"
			}
			return texts(im.flagLine(doc, key, or(own, mode.all)))
		}
		prefill.Flags, decode.Flags = line(models.RolePrefill, mode.prefill), line(models.RoleDecode, mode.decode)
		common := shared(&prefill, &decode, im.variables(doc, at+"."+mode.key+"_env", mode.env))
		common.When.EP, common.When.DP = when.EP, when.DP
		prefill.When.Role, decode.When.Role = catalog.Names{models.RolePrefill}, catalog.Names{models.RoleDecode}
		for _, l := range []catalog.Layer{common, prefill, decode} {
			if !empty(l) {
				x.Layers = append(x.Layers, l)
			}
		}
	}
	if mtp := im.flagLine(doc, at+".mtp_flags", e.MTP); len(mtp) > 0 {
		method, ok := mtp.Get("--method")
		if last := &mtp[len(mtp)-1]; !ok || len(last.Args) > 0 {
			im.fail(doc, at+".mtp_flags", at+".mtp_flags must name a --method and end with the flag that the depth is added to", "such as --method mtp --num-speculative-tokens")
		} else {
			list := texts(mtp)
			list[len(list)-1] += " ${mtp}"
			x.Speculative = &catalog.Speculative{Algorithm: method.Value(), Flags: list}
		}
	}
	return x
}
