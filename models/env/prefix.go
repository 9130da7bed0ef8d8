package env

import "strings"

// prefixes are the beginnings of names that belong to the engines, their
// libraries and the scripts that disagg replaces. A variable of the submitting
// environment with such a name was probably meant for the run.
func prefixes() []string {
	return []string{
		"AIPERF_", "AITER_", "ATOM_", "BENCH_", "DECODE_", "EVAL_", "GLOO_", "HICACHE_", "HSA_",
		"KV_", "MC_", "MOONCAKE_", "MORI_", "NCCL_", "NIXL_", "PREFILL_", "RCCL_", "ROCR_", "ROUTER_",
		"SGLANG_", "SWEBENCH_", "TORCH_NCCL_", "UCX_", "VLLM_",
	}
}

// KnownPrefix returns the known prefix that name starts with.
func KnownPrefix(name string) (prefix string, ok bool) {
	for _, p := range prefixes() {
		if strings.HasPrefix(name, p) && len(name) > len(p) {
			return p, true
		}
	}
	return "", false
}

// LooksOurs says whether a variable of the submitting environment was probably
// meant for a run: it has a known prefix, or it is a name of the list that only
// engines, their libraries or the old launcher use. Names that any shell may
// have for other reasons (IMAGE, PORT, TP, PATH) do not count.
func (t *Table) LooksOurs(name string) bool {
	if _, ok := KnownPrefix(name); ok {
		return true
	}
	v, ok := t.Lookup(name)
	if !ok {
		return false
	}
	for _, r := range v.Readers {
		switch r {
		case SGLang, VLLM, ATOM, MoRI, Mooncake, RCCL, Gloo:
			return true
		case Launcher:
			return strings.Contains(name, "_") || name == "IBDEVICES" || name == "xP" || name == "yD"
		}
	}
	return false
}
