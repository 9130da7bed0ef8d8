package models

// Recipe says what to run: one model on one engine, its prefill and decode
// workers, the router in front of them and the client that measures them.
// It names nothing of a cluster; that is the Site's.
type Recipe struct {
	APIVersion string `yaml:"apiVersion"` // must be APIVersion
	Kind       string `yaml:"kind"`       // must be KindRecipe
	// Name is the run's name; it becomes part of directory and job names:
	// letters, digits, '.', '_' and '-', at most 64 bytes.
	Name string `yaml:"name"`
	// Model is a key of the catalog.
	Model string `yaml:"model"`
	// ModelPath overrides where the weights are on the nodes; empty: the
	// site's search paths and the catalog's directory name decide.
	ModelPath string `yaml:"model_path,omitempty"`
	// Engine is sglang, vllm or atom.
	Engine string `yaml:"engine"`
	// Scenario picks the catalog's settings: "fixed" (fixed input and output
	// lengths, the default) or "agentic" (trace replay).
	Scenario string `yaml:"scenario,omitempty"`
	// Image is the engine's container image. With runtime none it may be empty.
	Image string `yaml:"image,omitempty"`
	// Shell is "" (exec the engine directly) or "login" (through the image's
	// login shell, for images that set PATH there).
	Shell string `yaml:"shell,omitempty"`

	Prefill   *Role `yaml:"prefill,omitempty"`
	Decode    *Role `yaml:"decode,omitempty"`
	Aggregate *Role `yaml:"aggregate,omitempty"` // instead of prefill and decode

	Speculative *Speculative `yaml:"speculative,omitempty"`
	KVOffload   *KVOffload   `yaml:"kv_offload,omitempty"`
	// Transfer overrides the KV transfer backend that the catalog chose
	// (mori, mooncake, nixl, …); empty: the catalog's.
	Transfer string `yaml:"transfer,omitempty"`
	// Metrics makes the engines export Prometheus metrics.
	Metrics Bool `yaml:"metrics,omitempty"`

	Router *RouterSpec `yaml:"router,omitempty"`
	Client *ClientSpec `yaml:"client,omitempty"`
	Evals  *EvalSpec   `yaml:"evals,omitempty"`

	// Env sets variables in every worker; Role.Env, RouterSpec.Env and
	// ClientSpec.Env set them for one scope.
	Env EnvMap `yaml:"env,omitempty"`
	// Forward names variables of the submitting environment (globs allowed)
	// that go to every worker; ClientSpec.Forward and RouterSpec.Forward for
	// those scopes.
	Forward []string `yaml:"forward,omitempty"`

	Preflight PreflightPolicy `yaml:"preflight,omitempty"`
	Timeouts  Timeouts        `yaml:"timeouts,omitempty"`
	// TimeLimit is the job's wall time; zero: the site's.
	TimeLimit Duration `yaml:"time_limit,omitempty"`
	// Spares is the number of extra nodes to allocate, used in place of nodes
	// that preflight finds bad.
	Spares int `yaml:"spares,omitempty"`
	// Sweep lists axes: a recipe key path to the values it takes. A recipe
	// with axes expands to one run for each combination.
	Sweep []SweepAxis `yaml:"sweep,omitempty"`
	// Allow names consistency rules that this recipe knowingly breaks, each
	// with a reason; they stay visible in the plan and in the result.
	Allow map[string]string `yaml:"allow,omitempty"`
}

// Role describes the workers of one role.
type Role struct {
	Workers int `yaml:"workers"`         // number of workers, at least 1
	Nodes   int `yaml:"nodes,omitempty"` // nodes for the role; zero: follows from workers and GPUs a worker
	TP      int `yaml:"tp"`              // tensor parallel size of one worker: GPUs a worker = TP × PP
	PP      int `yaml:"pp,omitempty"`    // pipeline parallel size, default 1
	EP      int `yaml:"ep,omitempty"`    // expert parallel size, default 1 (off)
	// DPAttention turns on data-parallel attention (DP size = TP).
	DPAttention Bool `yaml:"dp_attention,omitempty"`
	// ContextLength in tokens; zero: the catalog's, then prefill's for decode.
	ContextLength int `yaml:"context_length,omitempty"`
	// ChunkedPrefillSize in tokens, a number or a formula; empty: catalog.
	ChunkedPrefillSize string `yaml:"chunked_prefill_size,omitempty"`
	// MaxRunningRequests; zero: catalog and derivation.
	MaxRunningRequests int `yaml:"max_running_requests,omitempty"`
	// MemFraction is the static memory fraction as written ("0.85"); empty: catalog.
	MemFraction string `yaml:"mem_fraction,omitempty"`
	// Flags are engine flags, one entry a flag ("--flag value"); a flag that
	// the catalog also sets replaces the catalog's.
	Flags []string `yaml:"flags,omitempty"`
	Env   EnvMap   `yaml:"env,omitempty"`
}

// Speculative asks for multi-token prediction (MTP).
type Speculative struct {
	// Tokens is the speculative depth (MTP size); zero: off.
	Tokens int `yaml:"tokens"`
}

// KVOffload asks for a KV cache tier in host memory (HiCache) and beyond.
type KVOffload struct {
	Backend        string        `yaml:"backend"`                   // hicache
	Tier           string        `yaml:"tier,omitempty"`            // L2 (host memory, default) or L3 (storage behind it)
	Ratio          string        `yaml:"ratio,omitempty"`           // host pool ÷ device pool, as written
	TotalDRAMGB    int           `yaml:"total_dram_gb,omitempty"`   // absolute budget of a node in GB (10^9); instead of ratio
	HostPools      int           `yaml:"host_pools,omitempty"`      // host pools that share the budget, default 1
	PageSize       int           `yaml:"page_size,omitempty"`       // tokens a page
	IOBackend      string        `yaml:"io_backend,omitempty"`      // direct, kernel
	MemLayout      string        `yaml:"mem_layout,omitempty"`      // page_first, page_first_direct, layer_first
	WritePolicy    string        `yaml:"write_policy,omitempty"`    // write_through, write_back, …
	PrefetchPolicy string        `yaml:"prefetch_policy,omitempty"` // best_effort, wait_complete, timeout
	Storage        string        `yaml:"storage,omitempty"`         // mooncake with tier L3
	Mooncake       *MooncakeSpec `yaml:"mooncake,omitempty"`
}

// MooncakeSpec tunes the Mooncake master that backs tier L3.
type MooncakeSpec struct {
	MasterPort    int    `yaml:"master_port,omitempty"`
	MetadataPort  int    `yaml:"metadata_port,omitempty"`
	MetricsPort   int    `yaml:"metrics_port,omitempty"`
	Threads       int    `yaml:"threads,omitempty"`
	HighWatermark string `yaml:"eviction_high_watermark,omitempty"`
	Protocol      string `yaml:"protocol,omitempty"` // tcp, rdma
	GlobalSegment string `yaml:"global_segment,omitempty"`
	Device        string `yaml:"device,omitempty"`
	MasterAddr    string `yaml:"master_addr,omitempty"` // an existing master; empty: start one
	MetadataURL   string `yaml:"metadata_url,omitempty"`
	Image         string `yaml:"image,omitempty"`
}

// RouterSpec describes the router.
type RouterSpec struct {
	Kind          string   `yaml:"kind,omitempty"` // sglang, vllm, moriio, atom, none; empty: the engine's own
	Port          int      `yaml:"port,omitempty"` // default 30000
	Policy        string   `yaml:"policy,omitempty"`
	PrefillPolicy string   `yaml:"prefill_policy,omitempty"`
	DecodePolicy  string   `yaml:"decode_policy,omitempty"`
	Image         string   `yaml:"image,omitempty"`   // empty: the engine's image
	Command       []string `yaml:"command,omitempty"` // replaces the program that starts the router; its flags follow
	Flags         []string `yaml:"flags,omitempty"`
	Env           EnvMap   `yaml:"env,omitempty"`
	Forward       []string `yaml:"forward,omitempty"`
}

// ClientSpec describes the load or benchmark command that runs against the
// router, once for each concurrency.
type ClientSpec struct {
	// Command is argv. The words {url}, {host}, {port}, {model}, {model_path},
	// {concurrency}, {isl}, {osl}, {result_dir}, {num_prompts} are replaced.
	Command     []string `yaml:"command,omitempty"`
	Image       string   `yaml:"image,omitempty"` // empty: the engine's image
	Shell       string   `yaml:"shell,omitempty"`
	Concurrency IntList  `yaml:"concurrency"`
	ISL         int      `yaml:"isl,omitempty"` // input tokens a request
	OSL         int      `yaml:"osl,omitempty"` // output tokens a request
	// PromptsPerConcurrency is the number of prompts for each unit of
	// concurrency; default 10, at least 16 prompts in all.
	PromptsPerConcurrency int      `yaml:"prompts_per_concurrency,omitempty"`
	RandomRangeRatio      string   `yaml:"random_range_ratio,omitempty"`
	Duration              Duration `yaml:"duration,omitempty"` // agentic: length of one point
	// Results are globs under {result_dir} of which at least one file must
	// exist after each point; default: any file.
	Results []string `yaml:"results,omitempty"`
	Env     EnvMap   `yaml:"env,omitempty"`
	Forward []string `yaml:"forward,omitempty"`
}

// EvalSpec asks for an accuracy evaluation through the router.
type EvalSpec struct {
	Command     []string `yaml:"command,omitempty"`
	Image       string   `yaml:"image,omitempty"`
	Concurrency IntList  `yaml:"concurrency,omitempty"`
	Limit       string   `yaml:"limit,omitempty"`
	// Only skips the client: the allocation is for the evaluation alone.
	Only    Bool     `yaml:"only,omitempty"`
	Env     EnvMap   `yaml:"env,omitempty"`
	Forward []string `yaml:"forward,omitempty"`
}

// PreflightPolicy decides what preflight means for one run.
type PreflightPolicy struct {
	// Mode is "enforce" (default), "warn" (report, go on) or "off" (visible in
	// the result).
	Mode string `yaml:"mode,omitempty"`
	// Waive demotes a check to a warning: check id → reason.
	Waive map[string]string `yaml:"waive,omitempty"`
}

// Timeouts override stage budgets; zero means the default of Budgets.
type Timeouts struct {
	Agents    Duration `yaml:"agents,omitempty"`
	Preflight Duration `yaml:"preflight,omitempty"`
	Image     Duration `yaml:"image,omitempty"`
	Launch    Duration `yaml:"launch,omitempty"`
	// Worker is the time without progress after which a loading worker counts
	// as hung; WorkerMax is the cap that progress cannot extend.
	Worker    Duration `yaml:"worker,omitempty"`
	WorkerMax Duration `yaml:"worker_max,omitempty"`
	Router    Duration `yaml:"router,omitempty"`
	Canary    Duration `yaml:"canary,omitempty"`
	Client    Duration `yaml:"client,omitempty"` // one concurrency point
	Eval      Duration `yaml:"eval,omitempty"`
	Collect   Duration `yaml:"collect,omitempty"`
	// Grace is the time between TERM and KILL.
	Grace Duration `yaml:"grace,omitempty"`
}

// SweepAxis is one axis of a sweep.
type SweepAxis struct {
	Key    string   `yaml:"key"` // path of a recipe key, such as prefill.tp
	Values []Scalar `yaml:"values"`
}
