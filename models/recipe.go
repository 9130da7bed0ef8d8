package models

// Recipe says what to run: one model on one engine, its prefill and decode
// workers, the router in front of them and the client that measures them.
// It names nothing of a cluster; that is the Site's.
type Recipe struct {
	// APIVersion is disagg/v1.
	APIVersion string `yaml:"apiVersion" enum:"disagg/v1"`
	// Kind is Recipe.
	Kind string `yaml:"kind" enum:"Recipe"`
	// Name is the run's name; it becomes part of directory and job names:
	// letters, digits, '.', '_' and '-', at most 64 bytes.
	Name string `yaml:"name" is:"name"`
	// Model is a key of the catalog.
	Model string `yaml:"model" is:"word"`
	// ModelPath overrides where the weights are on the nodes, or is hf:ORG/NAME
	// for the engine to fetch them; empty: the site's search paths and the
	// catalog's directory name decide.
	ModelPath string `yaml:"model_path,omitempty" is:"model-path"`
	// Engine is sglang, vllm or atom.
	Engine string `yaml:"engine" enum:"sglang|vllm|atom"`
	// Scenario picks the catalog's settings: "fixed" (fixed input and output
	// lengths, the default) or "agentic" (trace replay).
	Scenario string `yaml:"scenario,omitempty" enum:"fixed|agentic"`
	// Image is the engine's container image. With runtime none it may be empty.
	Image string `yaml:"image,omitempty" is:"image"`
	// Shell is "login" for images that set PATH in their login shell; empty: the
	// catalog's, else the engine is started directly.
	Shell string `yaml:"shell,omitempty" enum:"login"`

	// Prefill are the workers that read prompts.
	Prefill *Role `yaml:"prefill,omitempty"`
	// Decode are the workers that write answers.
	Decode *Role `yaml:"decode,omitempty"`
	// Aggregate are workers that do both, instead of prefill and decode.
	Aggregate *Role `yaml:"aggregate,omitempty"`

	// Speculative asks for multi-token prediction; empty: off.
	Speculative *Speculative `yaml:"speculative,omitempty"`
	// KVOffload asks for a KV cache tier in host memory; empty: none.
	KVOffload *KVOffload `yaml:"kv_offload,omitempty"`
	// Transfer overrides the KV transfer backend that the catalog chose
	// (mori, mooncake, nixl, …); empty: the catalog's.
	Transfer string `yaml:"transfer,omitempty" is:"word"`
	// Metrics makes the engines export Prometheus metrics.
	Metrics Bool `yaml:"metrics,omitempty"`

	// Router describes the router; empty: the engine's own with the catalog's
	// settings.
	Router *RouterSpec `yaml:"router,omitempty"`
	// Client is the load; empty: none.
	Client *ClientSpec `yaml:"client,omitempty"`
	// Evals asks for an accuracy evaluation; empty: none.
	Evals *EvalSpec `yaml:"evals,omitempty"`

	// Env sets variables in every worker; the env of a role, of the router and of
	// the client sets them there.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Forward names variables of the submitting environment (globs allowed)
	// that go to every worker; roles, router, client and evals have their own.
	Forward []string `yaml:"forward,omitempty" is:"env-glob" items:"set"`

	// Preflight decides what the checks of the nodes mean for this run.
	Preflight PreflightPolicy `yaml:"preflight,omitempty"`
	// Timeouts override the site's.
	Timeouts Timeouts `yaml:"timeouts,omitempty"`
	// TimeLimit is the job's wall time; zero: the site's.
	TimeLimit Duration `yaml:"time_limit,omitempty" min:"60000000000"`
	// Spares is the number of extra nodes to allocate, used in place of nodes
	// that preflight finds bad.
	Spares int `yaml:"spares,omitempty" min:"0"`
	// Sweep lists axes: a recipe key path to the values it takes. A recipe
	// with axes expands to one run for each combination.
	Sweep []SweepAxis `yaml:"sweep,omitempty" items:"some"`
	// Allow names consistency rules that this recipe knowingly breaks, each
	// with a reason; they stay visible in the plan and in the result.
	Allow map[string]string `yaml:"allow,omitempty" keys:"rule" is:"reason"`
}

// Role describes the workers of one role.
type Role struct {
	// Workers is the number of workers.
	Workers int `yaml:"workers" min:"1"`
	// Nodes is the number of nodes of the role; left out: it follows from the
	// workers and their GPUs. 0 written out: none of its own, the role runs on
	// GPUs that the other role leaves free.
	Nodes int `yaml:"nodes,omitempty" min:"0"`
	// TP is the tensor parallel size of one worker, which has TP × PP GPUs.
	TP int `yaml:"tp" min:"1"`
	// PP is the pipeline parallel size.
	PP int `yaml:"pp,omitempty" min:"1"`
	// EP is the expert parallel size; 1: off.
	EP int `yaml:"ep,omitempty" min:"1"`
	// Port is the HTTP port of the role's first worker on a host, further ones
	// follow in steps of 100; zero: the engine's usual one. Set it where another
	// service of the nodes has that port.
	Port int `yaml:"port,omitempty" min:"1024" max:"32767"`
	// BootstrapPort is the KV bootstrap port of the first prefill worker on a
	// host, further ones follow; zero: the engine's usual one.
	BootstrapPort int `yaml:"bootstrap_port,omitempty" min:"1024" max:"32767"`
	// DPAttention turns on data-parallel attention (DP size = TP).
	DPAttention Bool `yaml:"dp_attention,omitempty"`
	// ContextLength in tokens; zero: the catalog's, then prefill's for decode.
	ContextLength int `yaml:"context_length,omitempty" min:"1"`
	// ChunkedPrefillSize in tokens, a number or a formula; empty: the catalog's.
	ChunkedPrefillSize string `yaml:"chunked_prefill_size,omitempty" is:"formula"`
	// MaxRunningRequests is how many requests one worker holds at once; zero: the
	// catalog's.
	MaxRunningRequests int `yaml:"max_running_requests,omitempty" min:"1"`
	// MemFraction is the static memory fraction as written ("0.85"); empty:
	// the catalog's.
	MemFraction string `yaml:"mem_fraction,omitempty" is:"share"`
	// Restarts is how often one decode worker that dies while clients run may be
	// started again; zero: never, its death ends the run. Decode only, where engine
	// and KV transfer are known to take a worker back. A point during which it
	// happened is not ok: its numbers hold no steady state.
	Restarts int `yaml:"restarts,omitempty" min:"0" max:"3"`
	// Flags are engine flags, one entry a flag ("--flag value"); a flag that
	// the catalog also sets replaces the catalog's, and "!--flag" takes one of
	// the catalog's away.
	Flags []string `yaml:"flags,omitempty" is:"flag"`
	// Env sets variables in the workers of this role.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Forward names variables of the submitting environment (globs allowed) that
	// go to the workers of this role only.
	Forward []string `yaml:"forward,omitempty" is:"env-glob" items:"set"`
}

// Speculative asks for multi-token prediction (MTP).
type Speculative struct {
	// Tokens is the speculative depth (MTP size); zero: off.
	Tokens int `yaml:"tokens" min:"0" max:"64"`
}

// KVOffload asks for a KV cache tier in host memory (HiCache) and beyond.
type KVOffload struct {
	// Backend is hicache.
	Backend string `yaml:"backend" enum:"hicache"`
	// Tier is L2 (host memory, the default) or L3 (storage behind it).
	Tier string `yaml:"tier,omitempty" enum:"L2|L3"`
	// Ratio is the host pool ÷ the device pool, as written.
	Ratio string `yaml:"ratio,omitempty" is:"positive"`
	// TotalDRAMGB is the budget of a node in GB (10^9 bytes), instead of a ratio.
	TotalDRAMGB int `yaml:"total_dram_gb,omitempty" min:"1"`
	// HostPools is the number of host pools that share the budget; default 1.
	HostPools int `yaml:"host_pools,omitempty" min:"1"`
	// PageSize in tokens; zero: the catalog's.
	PageSize int `yaml:"page_size,omitempty" min:"1"`
	// IOBackend copies between host and device; empty: the catalog's.
	IOBackend string `yaml:"io_backend,omitempty" enum:"direct|kernel"`
	// MemLayout of the host pool; empty: the catalog's.
	MemLayout string `yaml:"mem_layout,omitempty" enum:"layer_first|page_first|page_first_direct|page_head"`
	// WritePolicy says when pages go to the tier below; empty: the catalog's.
	WritePolicy string `yaml:"write_policy,omitempty" enum:"write_back|write_through|write_through_selective"`
	// PrefetchPolicy says how long a request waits for pages of the store; empty:
	// the catalog's.
	PrefetchPolicy string `yaml:"prefetch_policy,omitempty" enum:"best_effort|wait_complete|timeout"`
	// Storage is the store behind host memory; needs tier L3.
	Storage string `yaml:"storage,omitempty" enum:"mooncake"`
	// Mooncake tunes the store.
	Mooncake *MooncakeSpec `yaml:"mooncake,omitempty"`
}

// MooncakeSpec tunes the Mooncake master that backs tier L3.
type MooncakeSpec struct {
	// MasterPort is the master's RPC port.
	MasterPort int `yaml:"master_port,omitempty" min:"1" max:"65535"`
	// MetadataPort is the port of its HTTP metadata server.
	MetadataPort int `yaml:"metadata_port,omitempty" min:"1" max:"65535"`
	// MetricsPort is the port of its metrics.
	MetricsPort int `yaml:"metrics_port,omitempty" min:"1" max:"65535"`
	// Threads is the number of its RPC threads.
	Threads int `yaml:"threads,omitempty" min:"1"`
	// HighWatermark is the used share of the store at which eviction begins.
	HighWatermark string `yaml:"eviction_high_watermark,omitempty" is:"share"`
	// Protocol moves the data: tcp or rdma.
	Protocol string `yaml:"protocol,omitempty" enum:"tcp|rdma"`
	// GlobalSegment is the memory that each worker lends to the store, such as 64gb.
	GlobalSegment string `yaml:"global_segment,omitempty" is:"segment"`
	// Device lists RDMA devices for the store; empty: those of the workers.
	Device string `yaml:"device,omitempty" is:"devices"`
	// MasterAddr is host:port of a master that runs already; empty: start one.
	MasterAddr string `yaml:"master_addr,omitempty" is:"host-port"`
	// MetadataURL is the metadata server of that master.
	MetadataURL string `yaml:"metadata_url,omitempty" is:"url"`
	// Image to start the master from; empty: the engine's.
	Image string `yaml:"image,omitempty" is:"image"`
}

// RouterSpec describes the router.
type RouterSpec struct {
	// Kind of router; "none": workers are asked directly; empty: the engine's own.
	Kind string `yaml:"kind,omitempty" enum:"sglang|vllm|moriio|atom|none"`
	// Port it listens on.
	Port int `yaml:"port,omitempty" min:"1" max:"65535"`
	// Policy is the routing policy, as the router names it; empty: the catalog's.
	Policy string `yaml:"policy,omitempty" is:"word"`
	// PrefillPolicy replaces Policy among prefill workers.
	PrefillPolicy string `yaml:"prefill_policy,omitempty" is:"word"`
	// DecodePolicy replaces Policy among decode workers.
	DecodePolicy string `yaml:"decode_policy,omitempty" is:"word"`
	// Image of the router; empty: the engine's.
	Image string `yaml:"image,omitempty" is:"image"`
	// Command replaces the program that starts the router; its flags follow.
	Command []string `yaml:"command,omitempty" items:"some"`
	// Flags are the router's flags, as prefill.flags.
	Flags []string `yaml:"flags,omitempty" is:"flag"`
	// Env sets variables in the router.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Forward names variables of the submitting environment for the router.
	Forward []string `yaml:"forward,omitempty" is:"env-glob" items:"set"`
}

// ClientSpec describes the load or benchmark command that runs against the
// router, once for each concurrency.
type ClientSpec struct {
	// Command is argv. The words {url}, {host}, {port}, {model}, {model_path},
	// {concurrency}, {isl}, {osl}, {random_range_ratio}, {duration} (seconds),
	// {num_prompts}, {num_warmups} (two for each request in flight) and
	// {result_dir} are replaced.
	Command []string `yaml:"command,omitempty" items:"some"`
	// Image of the client; empty: the engine's.
	Image string `yaml:"image,omitempty" is:"image"`
	// Shell is "login" to start the command through the image's login shell.
	Shell string `yaml:"shell,omitempty" enum:"login"`
	// Concurrency lists how many requests are in flight, one point each.
	Concurrency IntList `yaml:"concurrency" items:"some set" min:"1"`
	// ISL is the number of input tokens a request; below the context length.
	ISL int `yaml:"isl,omitempty" min:"1"`
	// OSL is the number of output tokens a request; isl + osl should fit into the
	// context length.
	OSL int `yaml:"osl,omitempty" min:"1"`
	// PromptsPerConcurrency is the number of prompts for each unit of
	// concurrency; at least 16 prompts are sent in all.
	PromptsPerConcurrency int `yaml:"prompts_per_concurrency,omitempty" min:"1"`
	// RandomRangeRatio is how far lengths fall below isl and osl; 1: exact lengths.
	RandomRangeRatio string `yaml:"random_range_ratio,omitempty" is:"share-or-zero"`
	// Duration is the length of one point of an agentic run.
	Duration Duration `yaml:"duration,omitempty" min:"1000000000"`
	// Results are globs under {result_dir} of which at least one file must
	// exist after each point; default: any file.
	Results []string `yaml:"results,omitempty" items:"some" is:"result-glob"`
	// Env sets variables in the client.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Forward names variables of the submitting environment for the client.
	Forward []string `yaml:"forward,omitempty" is:"env-glob" items:"set"`
}

// EvalSpec asks for an accuracy evaluation through the router.
type EvalSpec struct {
	// Command is argv. The words {url}, {host}, {port}, {model}, {model_path},
	// {concurrency}, {limit} and {result_dir} are replaced.
	Command []string `yaml:"command,omitempty" items:"some"`
	// Image of the evaluation; empty: the engine's.
	Image string `yaml:"image,omitempty" is:"image"`
	// Concurrency of the evaluation; empty: the client's highest.
	Concurrency IntList `yaml:"concurrency,omitempty" items:"some set" min:"1"`
	// Limit is how many samples to take, a number or a share; empty: all.
	Limit string `yaml:"limit,omitempty" is:"positive"`
	// Only skips the client: the allocation is for the evaluation alone.
	Only Bool `yaml:"only,omitempty"`
	// Env sets variables in the evaluation.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Forward names variables of the submitting environment for the evaluation.
	Forward []string `yaml:"forward,omitempty" is:"env-glob" items:"set"`
}

// PreflightPolicy decides what preflight means for one run.
type PreflightPolicy struct {
	// Mode is "enforce" (default), "warn" (report, go on) or "off" (visible in
	// the result).
	Mode string `yaml:"mode,omitempty" enum:"enforce|warn|off"`
	// Waive demotes a check to a warning: check id → reason. An id that no check
	// has is a mistake.
	Waive map[string]string `yaml:"waive,omitempty" keys:"check" is:"reason"`
}

// Timeouts override stage budgets: a recipe's those of the site, and the site's
// the defaults.
type Timeouts struct {
	// Agents is the time until the agents of all nodes are connected.
	Agents Duration `yaml:"agents,omitempty" min:"1000000000"`
	// Preflight is the time for the checks, on hosts and inside the image.
	Preflight Duration `yaml:"preflight,omitempty" min:"1000000000"`
	// Image is the time until the image is on every node.
	Image Duration `yaml:"image,omitempty" min:"1000000000"`
	// Launch is the time until a container's shim has reported.
	Launch Duration `yaml:"launch,omitempty" min:"1000000000"`
	// Worker is the time without progress after which a loading worker counts
	// as hung.
	Worker Duration `yaml:"worker,omitempty" min:"1000000000"`
	// WorkerMax is the cap on loading that progress cannot extend.
	WorkerMax Duration `yaml:"worker_max,omitempty" min:"1000000000"`
	// Router is the time until the router is ready and has all workers.
	Router Duration `yaml:"router,omitempty" min:"1000000000"`
	// Canary is the time for a token through every worker.
	Canary Duration `yaml:"canary,omitempty" min:"1000000000"`
	// Client is the time for one concurrency point.
	Client Duration `yaml:"client,omitempty" min:"1000000000"`
	// Eval is the time for the evaluation.
	Eval Duration `yaml:"eval,omitempty" min:"1000000000"`
	// Stall is the time that a decode worker may have requests in flight without a
	// new token; what they wait for, a KV transfer or the engine, then counts as
	// stalled. It must be longer than the longest prefill, and on SGLang longer than
	// half a minute: its gauges may be that old.
	Stall Duration `yaml:"stall,omitempty" min:"1000000000"`
	// Collect is the time to fetch logs and results.
	Collect Duration `yaml:"collect,omitempty" min:"1000000000"`
	// Grace is the time between TERM and KILL.
	Grace Duration `yaml:"grace,omitempty" min:"1000000000"`
}

// SweepAxis is one axis of a sweep.
type SweepAxis struct {
	// Key is the path of a recipe key, such as prefill.tp.
	Key string `yaml:"key" is:"word"`
	// Values are what it takes, each of the key's own type.
	Values []Scalar `yaml:"values" items:"some set"`
}
