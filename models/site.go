package models

// Site describes one cluster. Nothing about a cluster is compiled in.
type Site struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"` // KindSite
	Name       string `yaml:"name"`
	// GPUsPerNode is the number of GPUs of every node.
	GPUsPerNode int `yaml:"gpus_per_node"`
	// NodeMemoryGB is the host memory of a node in GB (10^9 bytes); zero: unknown.
	NodeMemoryGB int `yaml:"node_memory_gb,omitempty"`
	// RunsDir is where run directories live (absolute). It must be on a file
	// system that every node sees, unless SharedFS is false.
	RunsDir string `yaml:"runs_dir"`
	// SharedFS says that RunsDir is the same directory on every node
	// (default true). When false, run files are staged and fetched.
	SharedFS *Bool `yaml:"shared_fs,omitempty"`

	Slurm     SlurmSite     `yaml:"slurm,omitempty"`
	SSH       SSHSite       `yaml:"ssh,omitempty"`
	Container ContainerSite `yaml:"container,omitempty"`
	Network   NetworkSite   `yaml:"network,omitempty"`
	RDMA      RDMASite      `yaml:"rdma,omitempty"`
	Models    ModelsSite    `yaml:"models,omitempty"`
	Preflight PreflightSite `yaml:"preflight,omitempty"`
	// Env sets variables in every worker on this site; a recipe's win.
	Env EnvMap `yaml:"env,omitempty"`
	// Exclude lists nodes not to use, each with its reason.
	Exclude []Exclude `yaml:"exclude,omitempty"`
	// Profiles select settings by node name: the first rule whose hostlist
	// holds the node applies.
	Profiles []NodeProfile `yaml:"profiles,omitempty"`
	Timeouts Timeouts      `yaml:"timeouts,omitempty"`
	// Deaf decides what an alive but unresponsive worker means during the
	// client: "fail" (default) or "warn".
	Deaf string `yaml:"deaf,omitempty"`
}

// SlurmSite holds how jobs are asked for.
type SlurmSite struct {
	Partition   string   `yaml:"partition,omitempty"`
	Account     string   `yaml:"account,omitempty"`
	QOS         string   `yaml:"qos,omitempty"`
	Reservation string   `yaml:"reservation,omitempty"`
	Constraint  string   `yaml:"constraint,omitempty"`
	TimeLimit   Duration `yaml:"time_limit,omitempty"` // default 8h
	// GPURequest is the dialect of the GPU request: "gres" (--gres=gpu:N, the
	// default), "gpus-per-node" (--gpus-per-node=N) or "none".
	GPURequest string `yaml:"gpu_request,omitempty"`
	// GPUType is put between gpu: and the count when set.
	GPUType   string `yaml:"gpu_type,omitempty"`
	Exclusive *Bool  `yaml:"exclusive,omitempty"` // default true
	// Memory is --mem; default 0 (all of the node), because --exclusive alone
	// gives only the default memory.
	Memory string `yaml:"memory,omitempty"`
	// SignalLead is how long before the time limit TERM comes; default: what a
	// stop needs.
	SignalLead Duration `yaml:"signal_lead,omitempty"`
	// Options are further sbatch options, name without dashes → value.
	Options map[string]string `yaml:"options,omitempty"`
	// StepOptions are further srun options for the agents' step.
	StepOptions map[string]string `yaml:"step_options,omitempty"`
}

// SSHSite holds how nodes are reached by ssh.
type SSHSite struct {
	User          string   `yaml:"user,omitempty" json:"user,omitempty"`
	Port          int      `yaml:"port,omitempty" json:"port,omitempty"`
	Identity      []string `yaml:"identity,omitempty" json:"identity,omitempty"`       // private key files
	Config        string   `yaml:"config,omitempty" json:"config,omitempty"`           // ssh_config file; default the user's
	KnownHosts    []string `yaml:"known_hosts,omitempty" json:"known_hosts,omitempty"` // default the user's and the system's
	ProxyJump     string   `yaml:"proxy_jump,omitempty" json:"proxy_jump,omitempty"`
	MaxHandshakes int      `yaml:"max_handshakes,omitempty" json:"max_handshakes,omitempty"` // at once for one sshd; default 8
	// Dir is where the tool puts its binary on a node; default /tmp/disagg-<uid>.
	Dir string `yaml:"dir,omitempty" json:"dir,omitempty"`
}

// ContainerSite holds how containers run on this site.
type ContainerSite struct {
	// Runtime is docker, podman or none (plain processes).
	Runtime string `yaml:"runtime,omitempty"`
	// Sudo is auto (default: per node, plain if it works, else sudo -n), never
	// or always.
	Sudo       string   `yaml:"sudo,omitempty"`
	Privileged *Bool    `yaml:"privileged,omitempty"` // default false
	Devices    []string `yaml:"devices,omitempty"`    // paths or globs; expanded on each node
	// Mounts are host:container[:ro] for every container.
	Mounts      []string          `yaml:"mounts,omitempty"`
	Ulimits     map[string]string `yaml:"ulimits,omitempty"` // memlock: "-1", nofile: "1048576:1048576"
	ShmSize     string            `yaml:"shm_size,omitempty"`
	IPC         string            `yaml:"ipc,omitempty"` // host (default), private
	CapAdd      []string          `yaml:"cap_add,omitempty"`
	SecurityOpt []string          `yaml:"security_opt,omitempty"`
	// GroupAdd are groups for device access; names are resolved to numbers on
	// each node.
	GroupAdd []string `yaml:"group_add,omitempty"`
	User     string   `yaml:"user,omitempty"` // user inside the container; empty: the image's
	// ExtraArgs are further arguments of the runtime's run command.
	ExtraArgs []string `yaml:"extra_args,omitempty"`
	// Pull is missing (default), always or never.
	Pull string `yaml:"pull,omitempty"`
}

// NetworkSite names the interface whose address is a node's address.
type NetworkSite struct {
	// Interface is one name, or a comma-separated list of which the first that
	// exists on a node counts; empty: the interface of the default route.
	Interface string `yaml:"interface,omitempty" json:"interface,omitempty"`
}

// RDMASite describes the RDMA fabric as the engines use it.
type RDMASite struct {
	// Devices are RDMA device names; empty: discovered on each node.
	Devices      []string `yaml:"devices,omitempty" json:"devices,omitempty"`
	TrafficClass *int     `yaml:"traffic_class,omitempty" json:"traffic_class,omitempty"` // 4 × DSCP; nil: derived from the NICs' QoS
	ServiceLevel *int     `yaml:"service_level,omitempty" json:"service_level,omitempty"`
	GIDIndex     *int     `yaml:"gid_index,omitempty" json:"gid_index,omitempty"`
	// NIC is ionic, bnxt or mlx5; empty: discovered.
	NIC string `yaml:"nic,omitempty" json:"nic,omitempty"`
}

// ModelsSite says where weights are found on the nodes.
type ModelsSite struct {
	SearchPaths []string `yaml:"search_paths,omitempty"`
	// Catalog are further catalog directories; their files override the
	// embedded ones.
	Catalog []string `yaml:"catalog,omitempty"`
}

// Exclude is one node list not to be used.
type Exclude struct {
	Nodes   string   `yaml:"nodes" json:"nodes"` // hostlist
	Reason  string   `yaml:"reason" json:"reason"`
	Since   string   `yaml:"since,omitempty" json:"since,omitempty"`     // date, YYYY-MM-DD
	Expires string   `yaml:"expires,omitempty" json:"expires,omitempty"` // date; from then on the entry is ignored with a warning
	Engines []string `yaml:"engines,omitempty" json:"engines,omitempty"` // only for these engines
	Models  []string `yaml:"models,omitempty" json:"models,omitempty"`   // only for these models
}

// NodeProfile overrides site settings for some nodes.
type NodeProfile struct {
	Nodes     string   `yaml:"nodes" json:"nodes"` // hostlist or glob
	Interface string   `yaml:"interface,omitempty" json:"interface,omitempty"`
	RDMA      RDMASite `yaml:"rdma,omitempty" json:"rdma,omitempty"`
	Env       EnvMap   `yaml:"env,omitempty" json:"env,omitempty"`
}
