package signature

import "slices"

// Table is every known signature. Where two fit one line, the earlier explains
// it, so the more specific stand first.
func Table() []Signature {
	return slices.Concat(memory(), gpu(), transfer(), network(), files(), arguments(), router(), effects())
}

func memory() []Signature {
	return []Signature{
		{
			ID: "oom.capture", Any: []string{"out of memory", "OutOfMemoryError"}, Phase: PhaseCapture,
			Meaning: "A GPU ran out of memory while graphs were captured: what the static pools left over is too little for the graphs.",
			Remedy:  "Lower mem_fraction of this role, or capture fewer or smaller batch sizes (--cuda-graph-max-bs).",
			Source:  "torch.OutOfMemoryError (HIP and CUDA) after the engine announced graph capture",
		},
		{
			ID: "oom.load", Any: []string{"out of memory", "OutOfMemoryError"}, Pattern: `(HIP|CUDA|hip|cuda).*out of memory|OutOfMemoryError`, Phase: PhaseLoad,
			Meaning: "A GPU ran out of memory while the weights were loaded: they do not fit, or something else holds memory on this GPU.",
			Remedy:  "Check with the preflight that the GPUs are empty, then raise tp or ep of this role, or use a smaller quantisation.",
			Source:  "torch.OutOfMemoryError while loading weights",
		},
		{
			ID: "oom.gpu", Any: []string{"out of memory", "OutOfMemoryError"}, Pattern: `(HIP|CUDA|hip|cuda).*out of memory|OutOfMemoryError`,
			Meaning: "A GPU ran out of memory.",
			Remedy:  "Lower mem_fraction, chunked_prefill_size or max_running_requests of this role; check that nothing else holds memory on this GPU.",
			Source:  "torch.OutOfMemoryError while serving",
		},
		{
			ID: "oom.pool", Engine: "sglang", Any: []string{"Not enough memory. Please try to increase --mem-fraction-static"},
			Meaning: "After the weights were loaded, mem_fraction leaves no room for a KV pool.",
			Remedy:  "Raise mem_fraction of this role, or spread the weights over more GPUs (tp, ep).",
			Source:  "sglang model runner, memory pool sizing",
		},
		{
			ID: "oom.kvcache", Engine: "vllm", Any: []string{"No available memory for the cache blocks", "larger than the maximum number of tokens that can be stored in KV cache", "is larger than the available KV cache memory"},
			Meaning: "The KV cache that fits into the GPU memory is too small for the context length.",
			Remedy:  "Raise --gpu-memory-utilization, lower context_length, or use more GPUs.",
			Source:  "vllm KV cache sizing",
		},
		{
			ID: "oom.host", Any: []string{"Cannot allocate memory", "std::bad_alloc", "oom-kill", "Out of memory: Killed process", "DefaultCPUAllocator: can't allocate memory"},
			Meaning: "The host ran out of memory, or a limit of the job or the container was reached.",
			Remedy:  "Lower the host KV budget (kv_offload), ask for all memory of the node (slurm.memory: \"0\"), and check the locked-memory limit.",
			Source:  "kernel, libc and torch host allocators",
		},
		{
			ID: "hsa.resources", Any: []string{"HSA_STATUS_ERROR_OUT_OF_RESOURCES"},
			Meaning: "The ROCm runtime could not get what a kernel needs; nearly always GPU memory that the static pools took whole.",
			Remedy:  "Lower mem_fraction of this role so that some GB stay free on each GPU; the line \"Available Free mem\" says how little was left.",
			Source:  "ROCr queue error handler; sglang with compressed attention",
		},
		{
			ID: "shm", Any: []string{"No space left on device"}, Pattern: `/dev/shm|shm|shared memory`,
			Meaning: "Shared memory (/dev/shm) is full.",
			Remedy:  "Raise container.shm_size on this site, or use ipc: host.",
			Source:  "torch and NCCL shared memory segments",
		},
		{
			ID: "disk", Any: []string{"No space left on device", "Disk quota exceeded"},
			Meaning: "A file system is full, or the quota is used up.",
			Remedy:  "Find it with df on the node (the container store, the cache directories, the run directory) and make room.",
			Source:  "ENOSPC, EDQUOT",
		},
	}
}

func gpu() []Signature {
	return []Signature{
		{
			ID: "graph.capture", Any: []string{"operation not permitted when stream is capturing", "hipErrorStreamCapture", "cudaErrorStreamCapture"},
			Meaning: "A call that is not allowed while a graph is captured broke the capture; on ROCm 7 the watchdog of the collectives is a known one.",
			Remedy:  "Set TORCH_NCCL_BLOCKING_WAIT=0 and a matching torch/RCCL build, or run this role without graphs (--disable-cuda-graph) to confirm.",
			Source:  "ROCm/hip 3876, ROCm/rccl 2022",
		},
		{
			ID: "graph.failed", Any: []string{"Capture cuda graph failed", "CUDA graph capture failed", "Graph capture failed"},
			Meaning: "Graph capture failed.",
			Remedy:  "Read the exception that follows in the log; lower mem_fraction or --cuda-graph-max-bs, or confirm with --disable-cuda-graph.",
			Source:  "sglang and vllm graph runners",
		},
		{
			ID: "gpu.invalid-device", Any: []string{"invalid device ordinal", "hipErrorInvalidDevice", "cudaErrorInvalidDevice"},
			Meaning: "The program asked for a GPU number that it cannot see: it sees fewer GPUs than its tp needs.",
			Remedy:  "Check the visibility variables (ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES; both at once multiply), the devices given to the container, and the GPU count of this node.",
			Source:  "HIP and CUDA runtimes",
		},
		{
			ID: "gpu.none", Any: []string{"No HIP GPUs are available", "No CUDA GPUs are available", "no ROCm-capable device is detected", "no CUDA-capable device is detected", "Failed to infer device type"},
			Meaning: "The program sees no GPU at all.",
			Remedy:  "Give the container /dev/kfd and /dev/dri and the video and render groups; check that the GPU driver answers on this node.",
			Source:  "torch device initialisation",
		},
		{
			ID: "gpu.kfd", Any: []string{"/dev/kfd"}, Pattern: `(?i)unable to open|permission denied|cannot open|no such file`,
			Meaning: "The GPU device file cannot be opened.",
			Remedy:  "Add /dev/kfd to container.devices and the render group to container.group_add of this site.",
			Source:  "ROCm runtime",
		},
		{
			ID: "gpu.fault", Any: []string{"Memory access fault by GPU", "illegal memory access", "hipErrorIllegalAddress", "an illegal instruction was encountered", "HSA_STATUS_ERROR_EXCEPTION", "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"},
			Meaning: "A kernel accessed memory it must not: a fault in a kernel, or in the GPU.",
			Remedy:  "Run again on other nodes: if it follows the node, drain it and look at its RAS counters; if it follows the recipe, change the attention or MoE backend or the image.",
			Source:  "ROCr and CUDA fault handlers",
		},
		{
			ID: "gpu.arch", Any: []string{"invalid device function", "no kernel image is available", "hipErrorNoBinaryForGpu"},
			Meaning: "The image holds no code for this GPU.",
			Remedy:  "Use an image built for the GPU of this site.",
			Source:  "HIP and CUDA runtimes",
		},
		{
			ID: "gpu.kernel-resources", Any: []string{"out of resource: shared memory", "OutOfResources: out of resource"},
			Meaning: "A compiled kernel needs more on-chip memory than this GPU has.",
			Remedy:  "Use another attention or MoE backend, or an image tuned for this GPU.",
			Source:  "Triton",
		},
	}
}

func transfer() []Signature {
	return []Signature{
		{
			ID: "kv.state-components", Any: []string{"state component count mismatch", "state_item_lens mismatch", "number of state components"},
			Meaning: "Prefill and decode register a different number of KV state components: speculative decoding, or the model's state cache, is on for one role only.",
			Remedy:  "Give both roles the same speculative and state settings.",
			Source:  "sglang disaggregation",
		},
		{
			ID: "kv.tp", Any: []string{"does NOT support PD", "different TP sizes", "tp_size mismatch", "Different prefill and decode TP"},
			Meaning: "This model or transfer backend cannot re-slice the KV cache between the tp of prefill and that of decode.",
			Remedy:  "Use the same tp on both roles, or data-parallel attention where the model has it.",
			Source:  "sglang disaggregation, llm-d/llm-d 2433",
		},
		{
			ID: "kv.bootstrap", Any: []string{"KVPoll.Bootstrapping", "Error fetching prefill parallel info from bootstrap", "Error fetching prefill info from bootstrap", "Failed to fetch prefill server info", "Could not fetch prefill parallel info"},
			Meaning: "Decode and prefill did not find each other: the bootstrap server of the prefill worker was not reached, or the other side never took the request.",
			Remedy:  "Check from the decode node that the prefill worker's bootstrap port answers, that both run the same image, and that decode has room for the requests.",
			Source:  "sglang 9266, 9926, 10110, 11648",
		},
		{
			ID: "kv.transfer-timeout", Any: []string{"KVPoll.WaitingForInput", "KVPoll.Transferring", "KVTransferError", "Failed to complete transfers after", "Decode transfer failed", "Prefill transfer failed"},
			Meaning: "A KV cache transfer between prefill and decode did not complete.",
			Remedy:  "Check the RDMA fabric between the two nodes (preflight: port state, PFC, traffic class, GIDs); if it is fine, lower the concurrency.",
			Source:  "sglang 9266, 10560; Mooncake 1088",
		},
		{
			ID: "kv.mori", Any: []string{"MoRIIO transfer failed", "RDMA transfer failed", "ERR_RDMA_OP", "SQ full"},
			Meaning: "MoRI-IO could not move KV data over RDMA.",
			Remedy:  "Check the NICs' QoS and link state on both nodes; with \"SQ full\" lower the concurrency or raise MORI_IO_QP_MAX_SEND_WR within what the NIC can do.",
			Source:  "vllm 40344, 47495; ROCm/mori 655",
		},
		{
			ID: "kv.nixl", Any: []string{"NIXL_ERR_", "nixl_agent", "NIXL handshake"}, Pattern: `(?i)err|fail|invalid|timed? ?out`,
			Meaning: "The NIXL transfer agent failed; with a handshake in the line the side channel address is wrong.",
			Remedy:  "Check that the side channel host is the node's own address and that UCX sees the RDMA devices.",
			Source:  "NVIDIA/srt-slurm 158, vllm 27083",
		},
		{
			ID: "kv.fallback", Engine: "vllm", Any: []string{"recompute", "Recompute"}, Pattern: `(?i)kv (load|transfer|recv).*recompute|recompute.*kv`, Grade: Suspect,
			Meaning: "Decode computes prompts itself because KV did not arrive; the run is not disaggregated while it does.",
			Remedy:  "Find the first transfer or handshake error above this line.",
			Source:  "vllm KV load failure policy",
		},
	}
}

func network() []Signature {
	return []Signature{
		{
			ID: "addr.in-use", Any: []string{"ddress already in use", "EADDRINUSE", "server socket has failed to listen", "port_base at"}, Pattern: `(?i)address already in use|EADDRINUSE|failed to listen|is not available`,
			Meaning: "A port that the program listens on is taken on this node.",
			Remedy:  "Find the holder (ss -ltnp on the node); if it is another run, use other ports, if it is a leftover of this tool, run disagg cleanup.",
			Source:  "bind(2); sglang, torch TCPStore",
		},
		{
			ID: "rdma.abi", Any: []string{"does not support the kernel ABI"}, Grade: Suspect,
			Meaning: "The RDMA provider in the image does not match the kernel driver of this node, so the image sees no such RDMA device.",
			Remedy:  "Mount the host's provider library into the container (container.mounts), or use an image with a matching rdma-core.",
			Source:  "libibverbs; sglang 33374",
		},
		{
			ID: "rdma.none", Any: []string{"No IB devices found", "No RDMA devices found", "no available RDMA device", "Failed to open device"}, Pattern: `(?i)no (ib|rdma) devices found|no available rdma device|failed to open device.*(mlx|bnxt|ionic|rdma)`,
			Meaning: "The program sees no RDMA device.",
			Remedy:  "Give the container /dev/infiniband, and check the provider library inside the image (ibv_devinfo).",
			Source:  "libibverbs users",
		},
		{
			ID: "rdma.memlock", Any: []string{"ibv_reg_mr", "Failed to register memory"}, Pattern: `(?i)fail|cannot allocate|errno`,
			Meaning: "Memory could not be registered for RDMA: the locked-memory limit is too low, or peer memory is not available.",
			Remedy:  "Set container.ulimits.memlock to \"-1\" on this site (and the limit of the Slurm step); check that the GPU peer memory module is loaded.",
			Source:  "ibv_reg_mr(3), Mooncake, NCCL",
		},
		{
			ID: "rdma.qp", Any: []string{"ibv_modify_qp", "ibv_poll_cq", "IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded", "local protection error", "IBV_WC_"}, Pattern: `(?i)fail|error|exceeded|IBV_WC_[A-Z_]*ERR|Connection timed out`,
			Meaning: "RDMA packets did not get through between two nodes.",
			Remedy:  "Check GID index, link state, MTU, PFC and traffic class on both nodes (preflight, cross-node findings).",
			Source:  "libibverbs completion errors",
		},
		{
			ID: "net.interface", Any: []string{"Unable to find address for", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "no socket interface found", "Bootstrap : no socket interface"}, Pattern: `(?i)unable to find address|no socket interface|invalid interface|failed`,
			Meaning: "A collective library does not find the network interface it was told to use.",
			Remedy:  "Set network.interface of this site to a name that exists on every node; Gloo takes one name only, no list and no exclusion.",
			Source:  "Gloo, NCCL",
		},
		{
			ID: "net.fds", Any: []string{"Too many open files"},
			Meaning: "The limit of open files is too low for this concurrency.",
			Remedy:  "Raise container.ulimits.nofile on this site (and the limit of the Slurm step).",
			Source:  "EMFILE",
		},
	}
}

func files() []Signature {
	return []Signature{
		{
			ID: "weights.missing", Any: []string{"Cannot find any model weights with", "does not appear to have a file named", "No such file or directory", "an't load the configuration of", "is not a local folder and is not a valid model identifier"},
			Pattern: `model weights|does not appear to have a file named|\.(safetensors|json|bin|model)\b|an't load the configuration|not a local folder`,
			Meaning: "Files of the model are not where the engine looks.",
			Remedy:  "Check the model's directory on this node, and that it is mounted into the container; every node needs the same files.",
			Source:  "sglang and vllm loaders, transformers",
		},
		{
			ID: "weights.broken", Any: []string{"SafetensorError", "HeaderTooLarge", "MetadataIncompleteBuffer", "InvalidHeaderDeserialization", "Error while deserializing header"},
			Meaning: "A weight file is truncated, or is a pointer instead of the file.",
			Remedy:  "Compare its size on this node with other nodes and copy it again.",
			Source:  "safetensors",
		},
		{
			ID: "weights.gated", Any: []string{"GatedRepoError", "401 Client Error", "403 Client Error", "Access to model"}, Pattern: `Gated|huggingface\.co|restricted`,
			Meaning: "The engine tried to download the model and was refused.",
			Remedy:  "Use a directory that exists on the nodes (model_path), or forward a token that may read the repository.",
			Source:  "huggingface_hub",
		},
		{
			ID: "weights.remote-code", Any: []string{"trust_remote_code=True", "trust-remote-code"}, Pattern: `(?i)requires|please|set|pass|execute`, Grade: Suspect,
			Meaning: "The model needs code from its own directory, which the engine does not run unasked.",
			Remedy:  "Add --trust-remote-code to the flags of both roles if you trust the model's directory.",
			Source:  "transformers",
		},
		{
			ID: "image.library", Any: []string{"undefined symbol", "version `GLIBC", "cannot open shared object file"},
			Meaning: "A library inside the image does not fit the others.",
			Remedy:  "Use an image whose parts were built together; check that no host library is mounted over one of the image's.",
			Source:  "dynamic linker",
		},
		{
			ID: "image.module", Any: []string{"ModuleNotFoundError", "No module named", "ImportError: cannot import name"},
			Meaning: "A Python module is missing in the image, or another version than the program expects.",
			Remedy:  "Use the image this recipe was made for; if the image sets its path in a login shell, set shell: login.",
			Source:  "CPython",
		},
		{
			ID: "image.command", Any: []string{"executable file not found", "command not found", "No such file or directory: 'python"},
			Meaning: "The program is not in the image, or not on its path.",
			Remedy:  "Check the image; if it sets its path in a login shell, set shell: login.",
			Source:  "runc, bash",
		},
		{
			ID: "cache.lock", Any: []string{"waiting for baton release", "Waiting for baton release"}, Grade: Suspect,
			Meaning: "The process waits for a compile lock that another process holds, or left behind when it died.",
			Remedy:  "If nothing compiles on the node, delete the stale lock file in the cache directory that the line names.",
			Source:  "torch extension builder, aiter; sglang 16242",
		},
	}
}

func arguments() []Signature {
	return []Signature{
		{
			ID: "args.unknown", Any: []string{"unrecognized arguments", "no such option", "unexpected argument '", "unknown flag"},
			Meaning: "The program does not know a flag: it is another version than the recipe was written for, or the flag is misspelt.",
			Remedy:  "Remove or rename the flag (disagg plan --explain says which file set it), or use the matching image.",
			Source:  "argparse, click, clap",
		},
		{
			ID: "args.value", Any: []string{"invalid choice", "error: argument -", "invalid value '"}, Pattern: `invalid choice|error: argument -|invalid value '`,
			Meaning: "The program refuses the value of a flag.",
			Remedy:  "Use one of the values the line lists, or the image this recipe was made for.",
			Source:  "argparse, clap",
		},
		{
			ID: "args.divisible", Any: []string{"divisible by", "is not divisible"}, Pattern: `(?i)assert|error|must be|is not divisible`,
			Meaning: "A size of the model cannot be split by the parallel size of this role.",
			Remedy:  "Choose another tp, ep or dp for this role.",
			Source:  "sglang and vllm model code",
		},
		{
			ID: "args.context", Any: []string{"longer than the maximum model length", "is longer than the model's context length", "exceeds the model's maximum context length", "User-specified max_model_len"},
			Meaning: "The context length is beyond what the model or the KV pool allows.",
			Remedy:  "Lower context_length, or the client's input and output lengths.",
			Source:  "sglang and vllm",
		},
	}
}

func router() []Signature {
	return []Signature{
		{
			ID: "router.circuit-open", Any: []string{"circuits open or unhealthy"},
			Meaning: "The router has workers but sends them nothing: their circuit breakers are open after failures, or its health checks fail.",
			Remedy:  "If the workers answer their health path, shorten the breaker's timeout or disable it (--disable-circuit-breaker); else look at the worker named before.",
			Source:  "sglang 12355, 13894",
		},
		{
			ID: "router.no-workers", Any: []string{"No available prefill workers", "No available decode workers", "No available workers", "server_selection_failed", "No prefill servers available", "No decode servers available", "No workers are available"},
			Meaning: "The router knows no worker it can send to.",
			Remedy:  "Compare its member list with the plan; a worker that was slow when the router started may have been dropped for good.",
			Source:  "sglang-router",
		},
		{
			ID: "router.prefill-failed", Any: []string{"Prefill server failed (CRITICAL)", "prefill_server_error"},
			Meaning: "A prefill worker failed a request that its decode worker is now waiting for.",
			Remedy:  "Look at the log of the prefill worker that the line names.",
			Source:  "sglang-router",
		},
		{
			ID: "router.decode-failed", Any: []string{"Decode server error", "decode_server_error", "Decode request failed"},
			Meaning: "A decode worker did not answer the router.",
			Remedy:  "Look at the log of the decode worker that the line names.",
			Source:  "sglang-router",
		},
	}
}

func effects() []Signature {
	return []Signature{
		{
			ID: "peer.lost", Any: []string{"Connection closed by remote peer", "Connection reset by peer", "Socket Timeout", "connectFullMesh failed", "ncclRemoteError", "remote process exited or there was a network error", "NCCL communicator was aborted"}, Grade: Effect,
			Meaning: "Another rank of this worker went away.",
			Remedy:  "Look for the rank or the node that failed first.",
			Source:  "NCCL, RCCL, Gloo",
		},
		{
			ID: "peer.rendezvous", Any: []string{"The client socket has failed to connect", "DistStoreError", "Timed out after", "wait timeout after"}, Pattern: `(?i)client socket has failed|DistStoreError|timed out after \d+ seconds waiting for clients|wait timeout after`, Grade: Effect,
			Meaning: "The ranks of this worker did not find each other.",
			Remedy:  "Look for a rank that never started or died; if all run, check that the nodes reach each other on the dist-init port.",
			Source:  "torch.distributed",
		},
		{
			ID: "peer.collective", Any: []string{"Watchdog caught collective operation timeout", "NCCL timeout", "unhandled system error", "ncclSystemError"}, Grade: Effect,
			Meaning: "A collective operation did not complete, because a rank is gone, hangs, or cannot be reached.",
			Remedy:  "Look for the rank that stopped first; if none did, check the fabric between the nodes.",
			Source:  "torch ProcessGroupNCCL, NCCL, RCCL",
		},
		{
			ID: "engine.watchdog", Any: []string{"Watchdog timeout (self.watchdog", "Scheduler watchdog timeout", "Health check failed. Server couldn't get a response from detokenizer"}, Grade: Suspect,
			Meaning: "The engine's own watchdog saw no progress: a forward step or a process inside it hangs.",
			Remedy:  "Look at the stack dump the engine wrote before, and at the GPU of the rank that hangs.",
			Source:  "sglang scheduler watchdog",
		},
		{
			ID: "engine.child", Any: []string{"Received sigquit from a child process", "EngineCore failed to start", "EngineDeadError", "Engine core initialization failed", "BrokenProcessPool", "WorkerProc initialization failed"}, Grade: Effect,
			Meaning: "A process of the engine died; the reason is further up in the log.",
			Remedy:  "Read the first exception above this line.",
			Source:  "sglang and vllm process managers",
		},
	}
}
