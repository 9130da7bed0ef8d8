package catalog

import (
	"github.com/disagg/disagg/models"
)

// KindEngine is the kind of a file that holds the settings all models share on
// one engine. Its keys are those of an entry of Model.Engines.
const KindEngine = "Engine"

// ModelFile is a file of kind Model: what is known of one model.
type ModelFile struct {
	// APIVersion is disagg/v1.
	APIVersion string `yaml:"apiVersion"`
	// Kind is Model.
	Kind string `yaml:"kind"`
	// Name is the key that recipes use.
	Name string `yaml:"name"`
	// Extends names a model whose settings come first: its layers apply before
	// this file's, and what this file leaves out is taken from it.
	Extends string `yaml:"extends,omitempty"`
	// Dirs are names of the weights' directory below a search path, best
	// first; default: the name.
	Dirs   []string `yaml:"dirs,omitempty"`
	Limits Limits   `yaml:"limits,omitempty"`
	// Engines holds the settings by engine: sglang, vllm, atom.
	Engines map[string]Engine `yaml:"engines,omitempty"`
	// Acceptance maps a speculative depth to the mean acceptance length that
	// was measured with real traffic. Throughput runs over recorded traces
	// pin it, so that results do not move with the text of the traces.
	Acceptance map[string]string `yaml:"acceptance_length,omitempty"`
}

// EngineFile is a file of kind Engine: what all models share on one engine.
type EngineFile struct {
	// APIVersion is disagg/v1.
	APIVersion string `yaml:"apiVersion"`
	// Kind is Engine.
	Kind string `yaml:"kind"`
	// Name is sglang, vllm or atom.
	Name string `yaml:"name"`
	Engine
}

// Limits is what is known of a model's bounds. Zero values: unknown.
type Limits struct {
	// ContextLength in tokens that the weights were trained for.
	ContextLength int `yaml:"context_length,omitempty"`
	// Attention is mla, gqa or hybrid. It decides whether KV can be re-sliced
	// between roles of different tensor parallel size.
	Attention string `yaml:"attention,omitempty"`
	// VRAMGB is the GPU memory in GB (10^9) that one GPU must have free.
	VRAMGB int `yaml:"vram_gb,omitempty"`
}

// Attention kinds.
const (
	AttentionMLA    = "mla"
	AttentionGQA    = "gqa"
	AttentionHybrid = "hybrid"
)

// Engine is what makes models run on one engine.
type Engine struct {
	// Transfer is the backend that moves KV from prefill to decode.
	Transfer string `yaml:"transfer,omitempty"`
	// MixedTP lists the transfer backends over which prefill and decode of
	// different tensor parallel size are known to work. Where every rank
	// holds the whole KV (mla) they always do.
	MixedTP []string `yaml:"mixed_tp,omitempty"`
	// DecodeRestart lists the transfer backends over which a prefill worker is
	// known to take a decode worker that was started again.
	DecodeRestart []string `yaml:"decode_restart,omitempty"`
	// Shell is login where the image sets PATH in its login shell.
	Shell string `yaml:"shell,omitempty"`
	// Speculative says that multi-token prediction works; unset: it does not.
	Speculative *Speculative `yaml:"speculative,omitempty"`
	// KVOffload says how the KV tier in host memory is sized and tuned unless
	// the recipe says otherwise; unset: the engine has none.
	KVOffload *KVOffload `yaml:"kv_offload,omitempty"`
	Layers    []Layer    `yaml:"layers,omitempty"`
}

// Speculative describes multi-token prediction of a model on an engine.
type Speculative struct {
	// Algorithm as the engine names it (NEXTN, EAGLE, mtp, eagle3).
	Algorithm string `yaml:"algorithm"`
	// Flags are added on every worker when the depth is above zero. They may
	// use the formula variable mtp, the depth.
	Flags []string `yaml:"flags"`
}

// KVOffload holds defaults and limits of the KV tier in host memory.
type KVOffload struct {
	// Sizing is what the model accepts: "any" (default), or "ratio" where an
	// absolute size is not understood.
	Sizing string `yaml:"sizing,omitempty"`
	// Ratio is the host pool ÷ the device pool.
	Ratio string `yaml:"ratio,omitempty"`
	// AggregateRatio replaces Ratio for workers that do prefill and decode.
	AggregateRatio string `yaml:"aggregate_ratio,omitempty"`
	// HostPools, PageSize (tokens), IOBackend, MemLayout, WritePolicy and
	// PrefetchPolicy are the defaults of the recipe's keys of these names.
	HostPools      int    `yaml:"host_pools,omitempty"`
	PageSize       int    `yaml:"page_size,omitempty"`
	IOBackend      string `yaml:"io_backend,omitempty"`
	MemLayout      string `yaml:"mem_layout,omitempty"`
	WritePolicy    string `yaml:"write_policy,omitempty"`
	PrefetchPolicy string `yaml:"prefetch_policy,omitempty"`
	// StorageMemLayout replaces MemLayout when a store stands behind the tier.
	StorageMemLayout string               `yaml:"storage_mem_layout,omitempty"`
	Mooncake         *models.MooncakeSpec `yaml:"mooncake,omitempty"`
}

// SizingRatio is the value of KVOffload.Sizing for models that take a ratio only.
const SizingRatio = "ratio"

// Layer is settings that apply when a condition holds.
type Layer struct {
	When When `yaml:"when,omitempty"`
	// Vars are named integers for the formulas of this and all other layers:
	// name → formula over the built-in names (see Builtins).
	Vars map[string]string `yaml:"vars,omitempty"`
	// Flags are engine flags, one entry a flag ("--flag value"), with the
	// quoting of a shell and formulas in ${…}. A flag that an earlier layer
	// set is replaced in its place.
	Flags []string `yaml:"flags,omitempty"`
	// Drop are names of flags that an earlier layer set and that go away.
	Drop []string `yaml:"drop,omitempty"`
	// Env sets variables; values may hold formulas in ${…}.
	Env models.EnvMap `yaml:"env,omitempty"`
	// Prepend sets variables that hold a colon-separated list: the value goes
	// before what the image has.
	Prepend map[string]string `yaml:"prepend,omitempty"`
	// Unset are names of variables that an earlier layer set and that go away.
	Unset []string `yaml:"unset,omitempty"`

	// The following are formulas, or min(FORMULA, …), unless said otherwise; each engine has its
	// own flag for them.

	// MemFraction is the static memory fraction as written.
	MemFraction string `yaml:"mem_fraction,omitempty"`
	// MaxRunningRequests is how many requests one worker holds at once.
	MaxRunningRequests string `yaml:"max_running_requests,omitempty"`
	// ChunkedPrefillSize, ContextLength and PageSize are in tokens.
	ChunkedPrefillSize string `yaml:"chunked_prefill_size,omitempty"`
	ContextLength      string `yaml:"context_length,omitempty"`
	PageSize           string `yaml:"page_size,omitempty"`
	// CudaGraphMax is the largest batch that graphs are captured for, where the
	// engine chooses the sizes below it.
	CudaGraphMax string `yaml:"cuda_graph_max,omitempty"`
	// CudaGraphs is a range ("1-160"), a list ("1 2 3"), or "off".
	CudaGraphs string `yaml:"cuda_graphs,omitempty"`
}
