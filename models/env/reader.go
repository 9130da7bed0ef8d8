package env

import "slices"

// Reader is a program, or a family of programs and libraries, that reads
// environment variables.
type Reader string

const (
	// SGLang is the SGLang server.
	SGLang Reader = "sglang"
	// VLLM is the vLLM server.
	VLLM Reader = "vllm"
	// ATOM is the ATOM server.
	ATOM Reader = "atom"
	// AITER is AMD's kernel library under the engines.
	AITER Reader = "aiter"
	// MoRI is AMD's RDMA library: expert dispatch and KV transfer.
	MoRI Reader = "mori"
	// Mooncake is the Mooncake transfer engine, store and master.
	Mooncake Reader = "mooncake"
	// UCX is the transport under NIXL and RIXL.
	UCX Reader = "ucx"
	// RCCL is the collective library (it keeps NCCL's names).
	RCCL Reader = "rccl"
	// Gloo is the CPU collective library in PyTorch.
	Gloo Reader = "gloo"
	// Torch is PyTorch itself.
	Torch Reader = "pytorch"
	// Triton is the Triton compiler.
	Triton Reader = "triton"
	// ROCm is the HIP and HSA run time.
	ROCm Reader = "rocm"
	// HuggingFace are the hub, tokenizer and safetensors libraries.
	HuggingFace Reader = "hugging face"
	// SGLangRouter is sglang-router.
	SGLangRouter Reader = "sglang-router"
	// Bench are the throughput and trace-replay client scripts.
	Bench Reader = "client scripts"
	// AIPerf is the trace-replay load generator.
	AIPerf Reader = "aiperf"
	// EvalScripts are the accuracy evaluations.
	EvalScripts Reader = "eval scripts"
	// Modal is the sandbox service that SWE-bench evaluations may use.
	Modal Reader = "modal"
	// Python is the interpreter.
	Python Reader = "python"
	// System is the C library, the loader, shells and what every program reads.
	System Reader = "system"
	// Launcher stands for the scripts that disagg replaces: no process inside a
	// run reads such a variable, a recipe or site key says it instead.
	Launcher Reader = "launcher"
)

// Scopes lists the processes that the reader runs in.
func (r Reader) Scopes() []string {
	workers := []string{ScopePrefill, ScopeDecode, ScopeAggregate}
	switch r {
	case SGLang, VLLM, ATOM, AITER, MoRI, UCX, RCCL, Gloo, Torch, Triton, ROCm:
		return workers
	case Mooncake:
		return append(workers, ScopeService)
	case SGLangRouter:
		return []string{ScopeRouter}
	case HuggingFace:
		return append(workers, ScopeRouter, ScopeClient, ScopeEval)
	case Bench:
		return []string{ScopeClient, ScopeEval}
	case AIPerf:
		return []string{ScopeClient}
	case EvalScripts, Modal:
		return []string{ScopeEval}
	case Python, System:
		return Scopes()
	}
	return nil
}

// WithEngine says whether the reader is part of a run of the given engine.
func (r Reader) WithEngine(engine string) bool {
	switch r {
	case SGLang, VLLM, ATOM:
		return string(r) == engine
	case SGLangRouter:
		return engine == string(SGLang)
	}
	return true
}

// Readers lists every reader in the order of the documentation.
func Readers() []Reader {
	return []Reader{SGLang, VLLM, ATOM, AITER, MoRI, RCCL, Gloo, UCX, Mooncake, Torch, Triton, ROCm,
		HuggingFace, SGLangRouter, Bench, AIPerf, EvalScripts, Modal, Python, System, Launcher}
}

// group is a part of the list that is read by the same programs.
type group struct {
	title   string
	about   string
	readers []Reader
	vars    []Var
}

// groups is the whole list, in the order of the documentation.
func groups() []group {
	return slices.Concat(sglangGroups(), vllmGroups(), atomGroups(), fabricGroups(), mooncakeGroups(),
		rocmGroups(), modelGroups(), clientGroups(), evalGroups(), launcherGroups(), systemGroups())
}
