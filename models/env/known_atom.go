package env

func atomGroups() []group {
	return []group{
		{
			title:   "ATOM",
			about:   "The ATOM server.",
			readers: []Reader{ATOM},
			vars: []Var{
				{Name: "ATOM_LOG_LEVEL", Kind: String, Meaning: "log level"},
				{Name: "LOG_LEVEL", Kind: String, Meaning: "log level of libraries that have no variable of their own", Readers: []Reader{ATOM, System}},
				{Name: "LOGLEVEL", Kind: String, Meaning: "log level of libraries that have no variable of their own", Readers: []Reader{ATOM, System}},
				{Name: "ATOM_CPU_AFFINITY", Kind: Bool, Meaning: "pin ranks to cores"},
				{Name: "ATOM_FORCE_ATTN_TRITON", Kind: Bool, Meaning: "attention kernels in Triton"},
				{Name: "ATOM_MOE_GU_ITLV", Kind: Bool, Meaning: "interleave gate and up weights of the experts"},
				{Name: "ATOM_USE_TRITON_GEMM", Kind: Bool, Default: "0", Meaning: "FP4 products in Triton"},
				{Name: "ATOM_USE_TRITON_MXFP4_BMM", Kind: Bool, Default: "0", Meaning: "batched FP4 products in MLA"},
				{Name: "ATOM_DISABLE_MMAP", Kind: Bool, Default: "false", Meaning: "read weight files whole instead of mapping them"},
				{Name: "ATOM_LOADER_NUM_THREADS", Kind: Int, Default: "16", Meaning: "threads that load weights"},
				{Name: "ATOM_LOADER_PREFETCH", Kind: Bool, Default: "true", Meaning: "read weight files ahead"},
				{Name: "ATOM_LOADER_STRICT_COVERAGE", Kind: Bool, Default: "true", Meaning: "refuse a checkpoint that lacks experts"},
				{Name: "ATOM_DP_RANK", Kind: Int, Default: "0", Meaning: "this data-parallel rank"},
				{Name: "ATOM_DP_RANK_LOCAL", Kind: Int, Default: "0", Meaning: "this data-parallel rank on its node"},
				{Name: "ATOM_DP_SIZE", Kind: Int, Default: "1", Meaning: "data-parallel ranks"},
				{Name: "ATOM_DP_MASTER_IP", Kind: String, Default: "127.0.0.1", Meaning: "address of the first data-parallel rank"},
				{Name: "ATOM_DP_MASTER_PORT", Kind: Int, Default: "29500", Meaning: "port of the first data-parallel rank"},
				{Name: "ATOM_DP_SESSION_AFFINITY", Kind: Bool, Default: "false", Meaning: "keep the turns of a session on one rank"},
				{Name: "ATOM_ENABLE_PREFILL_DELAYER", Kind: Bool, Default: "true", Meaning: "delay prefills to fill batches"},
				{Name: "ATOM_PREFILL_DECODE_INTERVAL", Kind: Int, Default: "0", Meaning: "decode passes protected after a prefill"},
				{Name: "ATOM_H2D_BACKEND", Kind: String, Allowed: []string{"packed", "direct"}, Default: "packed", Meaning: "how step metadata is copied to the GPU"},
				{Name: "ATOM_DISABLE_VLLM_PLUGIN", Kind: Bool, Default: "0", Meaning: "do not register as a vLLM plugin"},
			},
		},
	}
}
