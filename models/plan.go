package models

// Plan is the frozen result of planning: everything that will be started,
// where, with which arguments and environment, and how long each stage may
// take. The same inputs give the same bytes. Host names and addresses are not
// known at plan time; argv and env carry placeholders (see Placeholder*).
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Tool       string `json:"tool"` // version of the binary that planned
	Name       string `json:"name"`
	Site       string `json:"site"`
	Launcher   string `json:"launcher"` // LauncherSlurm, LauncherSSH or LauncherLocal
	Engine     string `json:"engine"`
	Scenario   string `json:"scenario"`

	Model    PlanModel `json:"model"`
	Topology Topology  `json:"topology"`
	Workers  []Worker  `json:"workers"`
	// Services are processes that run beside the workers for the whole run,
	// started in order before them (Mooncake master).
	Services []Process `json:"services,omitempty"`
	Router   *Router   `json:"router,omitempty"`
	Client   *Client   `json:"client,omitempty"`
	Eval     *Eval     `json:"eval,omitempty"`

	Runtime   Runtime       `json:"runtime"`
	Network   NetworkSite   `json:"network,omitzero"`
	RDMA      RDMASite      `json:"rdma,omitzero"`
	Profiles  []NodeProfile `json:"profiles,omitempty"`
	Slurm     SlurmJob      `json:"slurm"`
	SSH       SSHSite       `json:"ssh,omitzero"`
	Exclude   []Exclude     `json:"exclude,omitempty"` // entries in force
	Preflight PreflightPlan `json:"preflight"`
	Budgets   Budgets       `json:"budgets"`
	Deaf      string        `json:"deaf"` // fail or warn

	// Files are the inputs with their sha256, for the record.
	Files []InputFile `json:"files"`
	// Origins says where each effective value comes from; sorted by key.
	Origins []Origin `json:"origins"`
	// Allowed are consistency rules that the recipe knowingly breaks.
	Allowed map[string]string `json:"allowed,omitempty"`
	// Warnings are findings of planning that do not stop it.
	Warnings []string `json:"warnings,omitempty"`
}

// Processes are all processes of the plan, in the order in which they start.
func (p *Plan) Processes() []*Process {
	var out []*Process
	for i := range p.Services {
		out = append(out, &p.Services[i])
	}
	for i := range p.Workers {
		for j := range p.Workers[i].Ranks {
			out = append(out, &p.Workers[i].Ranks[j])
		}
	}
	if p.Router != nil {
		out = append(out, &p.Router.Process)
	}
	if p.Client != nil {
		for i := range p.Client.Points {
			out = append(out, &p.Client.Points[i].Process)
		}
	}
	if p.Eval != nil {
		out = append(out, &p.Eval.Process)
	}
	return out
}

// Placeholders in argv and in values of EnvVar with Expand set. They are
// written by adapters only; a user's text never holds one (planning refuses
// it), so nothing a user wrote is changed.
//
//	@{node.N.addr}   address of plan node N on the site's interface
//	@{node.N.name}   host name of plan node N
//	@{self.addr}     address of the node the process runs on
//	@{self.name}     host name of that node
//	@{self.if}       interface that holds that address
//	@{self.rdma}     comma list of that node's RDMA devices in use
//	@{self.rdma.0}   the first of them
//	@{self.tc}       RDMA traffic class in force on that node
//	@{self.sl}       RDMA service level in force on that node
//	@{result.dir}    directory for the result files of a client or eval, as the
//	                 process sees it
//
// An environment variable whose value expands to "" because a fact is not
// known on the node is not set at all.
const (
	PlaceholderOpen  = "@{"
	PlaceholderClose = "}"
)

// PlanModel is the model as the run uses it.
type PlanModel struct {
	Key string `json:"key"` // catalog key
	// Name is the name the engine serves under and clients must ask for.
	Name string `json:"name"`
	// HostPaths are candidate directories on a node, best first; the first that
	// exists and is complete is used, the same on every node.
	HostPaths []string `json:"host_paths"`
	// Path is where processes see the weights.
	Path string `json:"path"`
	// VRAMBytes is what one GPU must have free; zero: unknown.
	VRAMBytes int64 `json:"vram_bytes,omitempty"`
}

// Topology is who runs where.
type Topology struct {
	Disaggregated bool `json:"disaggregated"`
	Nodes         int  `json:"nodes"`  // nodes the workers need
	Spares        int  `json:"spares"` // further nodes to allocate
	GPUsPerNode   int  `json:"gpus_per_node"`
	// Table has one row for each worker rank, in node order.
	Table []TopologyRow `json:"table"`
}

// TopologyRow places one rank of one worker.
type TopologyRow struct {
	Node   int    `json:"node"` // plan node, 0-based; the n-th node of the allocation
	Role   string `json:"role"`
	Worker string `json:"worker"` // Worker.ID
	Rank   int    `json:"rank"`   // node rank inside the worker
	GPUs   []int  `json:"gpus"`   // device indexes on that node
}

// Worker is one engine instance, possibly over several nodes.
type Worker struct {
	ID    string `json:"id"` // prefill-0, decode-1
	Role  string `json:"role"`
	Index int    `json:"index"`
	TP    int    `json:"tp"`
	PP    int    `json:"pp"`
	EP    int    `json:"ep"`
	DP    int    `json:"dp"` // data-parallel attention ranks; 1: off
	// MTP is the speculative depth; 0: off.
	MTP int `json:"mtp"`
	// ContextLength in tokens; 0: the engine's default.
	ContextLength int `json:"context_length,omitempty"`
	// Node and Port are where the worker's HTTP endpoint is (rank 0).
	Node int `json:"node"`
	Port int `json:"port"`
	// BootstrapPort is prefill's KV bootstrap port; 0: none.
	BootstrapPort int `json:"bootstrap_port,omitempty"`
	// HealthPath answers 200 when the worker can serve.
	HealthPath string `json:"health_path"`
	// Restarts is how often the worker may be started again when it dies while
	// clients run.
	Restarts int `json:"restarts,omitempty"`
	// Ranks are the processes, rank 0 first.
	Ranks []Process `json:"ranks"`
}

// Process is one program to run on one node.
type Process struct {
	ID    string   `json:"id"`    // unique in the plan: prefill-0.0, router, client.c16
	Scope string   `json:"scope"` // prefill, decode, aggregate, router, service, client, eval
	Node  int      `json:"node"`
	Image string   `json:"image,omitempty"`
	Shell string   `json:"shell,omitempty"` // "" or login
	Dir   string   `json:"dir,omitempty"`   // working directory inside; empty: the image's
	Argv  []string `json:"argv"`
	Env   []EnvVar `json:"env"` // sorted by name
	GPUs  []int    `json:"gpus,omitempty"`
	// Accelerated processes get the GPU and RDMA devices of the runtime.
	Accelerated bool `json:"accelerated,omitempty"`
	// Ports the process will listen on; checked free before the launch.
	Ports []Port `json:"ports,omitempty"`
}

// Port is a TCP port that a process listens on.
type Port struct {
	Name   string `json:"name"` // http, bootstrap, dist-init, metrics
	Number int    `json:"number"`
}

// EnvVar is one planned variable of one process.
type EnvVar struct {
	Name string `json:"name"`
	// Value is the exact value. For secrets it is empty and the value is in the
	// run directory's env/secrets file under Name.
	Value string `json:"value,omitempty"`
	// ValueB64 holds the value when it is not valid UTF-8.
	ValueB64 []byte `json:"value_b64,omitempty"`
	// Secret values never appear in plan, argv, logs, events or reports.
	Secret bool `json:"secret,omitempty"`
	// Expand says that Value holds placeholders.
	Expand bool `json:"expand,omitempty"`
	// Prepend says that Value goes before what the image has under this name,
	// with a colon between; where the image has nothing, Value is all.
	Prepend bool `json:"prepend,omitempty"`
	// Origin says who set it: default, catalog:FILE, site:FILE:LINE,
	// recipe:FILE:LINE, forward, adapter, flag.
	Origin string `json:"origin"`
}

// Router is the router process and what makes it ready.
type Router struct {
	Process
	Kind string `json:"kind"` // sglang, vllm, moriio, atom
	Port int    `json:"port"`
	// ReadyPath answers 200 when the router can route; empty: the router has no
	// such path, so an accepted connection and the canary must do.
	ReadyPath string `json:"ready_path"`
	// MembersPath lists workers; empty: the router has no such endpoint.
	MembersPath string `json:"members_path,omitempty"`
	// DPAware routers expand each worker into its DP ranks.
	DPAware bool `json:"dp_aware,omitempty"`
}

// Client is the load, one process for each concurrency.
type Client struct {
	ISL    int           `json:"isl,omitempty"`
	OSL    int           `json:"osl,omitempty"`
	Points []ClientPoint `json:"points"`
}

// ClientPoint is the client at one concurrency.
type ClientPoint struct {
	Concurrency int `json:"concurrency"`
	Process
	// Results are globs, relative to the point's result directory, of which
	// each must match at least one non-empty file; none: any non-empty file, at
	// any depth, will do.
	Results []string `json:"results"`
}

// Eval is the evaluation through the router.
type Eval struct {
	Only bool `json:"only"`
	ClientPoint
}

// Runtime is how processes are contained on this site.
type Runtime struct {
	Kind        string            `json:"kind"` // docker, podman, none
	Sudo        string            `json:"sudo"` // auto, never, always
	Privileged  bool              `json:"privileged"`
	Devices     []string          `json:"devices,omitempty"`
	Mounts      []string          `json:"mounts,omitempty"`
	Ulimits     map[string]string `json:"ulimits,omitempty"`
	ShmSize     string            `json:"shm_size,omitempty"`
	IPC         string            `json:"ipc,omitempty"`
	CapAdd      []string          `json:"cap_add,omitempty"`
	SecurityOpt []string          `json:"security_opt,omitempty"`
	GroupAdd    []string          `json:"group_add,omitempty"`
	User        string            `json:"user,omitempty"`
	ExtraArgs   []string          `json:"extra_args,omitempty"`
	Pull        string            `json:"pull,omitempty"`
}

// SlurmJob is what the job asks of Slurm.
type SlurmJob struct {
	JobName     string            `json:"job_name"`
	Nodes       int               `json:"nodes"` // topology nodes + spares
	TimeLimit   Duration          `json:"time_limit"`
	Partition   string            `json:"partition,omitempty"`
	Account     string            `json:"account,omitempty"`
	QOS         string            `json:"qos,omitempty"`
	Reservation string            `json:"reservation,omitempty"`
	Constraint  string            `json:"constraint,omitempty"`
	GPURequest  string            `json:"gpu_request"` // gres, gpus-per-node, none
	GPUType     string            `json:"gpu_type,omitempty"`
	GPUsPerNode int               `json:"gpus_per_node"`
	Exclusive   bool              `json:"exclusive"`
	Memory      string            `json:"memory,omitempty"`
	Exclude     string            `json:"exclude,omitempty"` // hostlist
	SignalLead  Duration          `json:"signal_lead"`
	Options     map[string]string `json:"options,omitempty"`
	StepOptions map[string]string `json:"step_options,omitempty"`
}

// PreflightPlan is what preflight needs to know of the run.
type PreflightPlan struct {
	Mode  string            `json:"mode"` // enforce, warn, off
	Waive map[string]string `json:"waive,omitempty"`
	Site  PreflightSite     `json:"site,omitzero"`
}

// Budgets bound every stage of a run. All are above zero.
type Budgets struct {
	Agents    Duration `json:"agents"`     // all agents connected
	Preflight Duration `json:"preflight"`  // host and in-image checks
	Image     Duration `json:"image"`      // image present on every node
	Launch    Duration `json:"launch"`     // a container's shim has reported
	Worker    Duration `json:"worker"`     // a loading worker without progress
	WorkerMax Duration `json:"worker_max"` // a loading worker, whatever its progress
	Router    Duration `json:"router"`     // router ready and complete
	Canary    Duration `json:"canary"`
	Client    Duration `json:"client"` // one point
	Eval      Duration `json:"eval"`
	Stall     Duration `json:"stall"` // requests in flight, and no token
	Collect   Duration `json:"collect"`
	Grace     Duration `json:"grace"` // between TERM and KILL
}

// Origin says where one effective value came from.
type Origin struct {
	Key   string `json:"key"` // prefill.tp, flag:decode:--max-running-requests, env:prefill:MORI_RDMA_TC
	Value string `json:"value"`
	From  string `json:"from"` // as EnvVar.Origin
	// Over lists what lost against it, nearest first, as "origin=value".
	Over []string `json:"over,omitempty"`
}

// InputFile is one file that planning read.
type InputFile struct {
	Role   string `json:"role"` // recipe, site, catalog
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Commit is the git commit that the file's directory was at; empty: it is in
	// no repository, or git did not say.
	Commit string `json:"commit,omitempty"`
	// Modified says that the file is not as in Commit: changed, or never added.
	Modified bool `json:"modified,omitempty"`
}
