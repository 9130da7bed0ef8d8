package models

// Site describes one cluster. Nothing about a cluster is compiled in.
type Site struct {
	// APIVersion is disagg/v1.
	APIVersion string `yaml:"apiVersion" enum:"disagg/v1"`
	// Kind is Site.
	Kind string `yaml:"kind" enum:"Site"`
	// Name of the cluster, as plans and results show it.
	Name string `yaml:"name" is:"name"`
	// GPUsPerNode is the number of GPUs of every node.
	GPUsPerNode int `yaml:"gpus_per_node" min:"1" max:"64"`
	// NodeMemoryGB is the host memory of a node in GB (10^9 bytes); zero: unknown.
	NodeMemoryGB int `yaml:"node_memory_gb,omitempty" min:"1"`
	// GPUMemoryGB is the memory of one GPU in GB (10^9 bytes); zero: unknown.
	// With it, planning can tell what a KV tier given as a ratio comes to.
	GPUMemoryGB int `yaml:"gpu_memory_gb,omitempty" min:"1"`
	// RunsDir is where run directories live (absolute). With Slurm it must be the
	// same directory on every node.
	RunsDir string `yaml:"runs_dir" is:"runs-dir"`
	// SharedFS says that RunsDir is the same directory on every node. When false,
	// runs through Slurm are refused, because its jobs start from that directory;
	// over ssh files are copied and fetched wherever a node does not see it.
	SharedFS *Bool `yaml:"shared_fs,omitempty"`

	// Slurm says how jobs are asked for.
	Slurm SlurmSite `yaml:"slurm,omitempty"`
	// SSH says how nodes are reached by ssh.
	SSH SSHSite `yaml:"ssh,omitempty"`
	// Container says how containers run.
	Container ContainerSite `yaml:"container,omitempty"`
	// Network names the interface between the nodes.
	Network NetworkSite `yaml:"network,omitempty"`
	// RDMA describes the RDMA fabric.
	RDMA RDMASite `yaml:"rdma,omitempty"`
	// Models says where weights are.
	Models ModelsSite `yaml:"models,omitempty"`
	// Preflight holds what a healthy node looks like.
	Preflight PreflightSite `yaml:"preflight,omitempty"`
	// Env sets variables in every worker on this site; a recipe's win.
	Env EnvMap `yaml:"env,omitempty" keys:"env-name"`
	// Exclude lists nodes not to use, each with its reason.
	Exclude []Exclude `yaml:"exclude,omitempty"`
	// Profiles select settings by node name: the first rule whose hostlist
	// holds the node applies.
	Profiles []NodeProfile `yaml:"profiles,omitempty"`
	// Timeouts override the default stage budgets on this site.
	Timeouts Timeouts `yaml:"timeouts,omitempty"`
	// Deaf decides what an alive but unresponsive worker means during the
	// client: "fail" or "warn".
	Deaf string `yaml:"deaf,omitempty" enum:"fail|warn"`
}

// SlurmSite holds how jobs are asked for.
type SlurmSite struct {
	// Partition (--partition); empty: the cluster's default.
	Partition string `yaml:"partition,omitempty" is:"directive"`
	// Account (--account); empty: the user's default.
	Account string `yaml:"account,omitempty" is:"directive"`
	// QOS (--qos).
	QOS string `yaml:"qos,omitempty" is:"directive"`
	// Reservation (--reservation).
	Reservation string `yaml:"reservation,omitempty" is:"directive"`
	// Constraint (--constraint).
	Constraint string `yaml:"constraint,omitempty" is:"directive"`
	// TimeLimit is the job's wall time.
	TimeLimit Duration `yaml:"time_limit,omitempty" min:"60000000000"`
	// GPURequest is the dialect of the GPU request: "gres" (--gres=gpu:N),
	// "gpus-per-node" (--gpus-per-node=N) or "none".
	GPURequest string `yaml:"gpu_request,omitempty" enum:"gres|gpus-per-node|none"`
	// GPUType is put between gpu: and the count when set.
	GPUType string `yaml:"gpu_type,omitempty" is:"directive"`
	// Exclusive asks for whole nodes.
	Exclusive *Bool `yaml:"exclusive,omitempty"`
	// Memory is --mem; 0 is all of the node, because --exclusive alone gives
	// only the default memory.
	Memory string `yaml:"memory,omitempty" is:"slurm-memory"`
	// SignalLead is how long before the time limit TERM comes; default: what a
	// stop needs.
	SignalLead Duration `yaml:"signal_lead,omitempty" min:"1000000000"`
	// Options are further sbatch options, name without dashes → value.
	Options map[string]string `yaml:"options,omitempty" keys:"sbatch-option" is:"option-value"`
	// StepOptions are further srun options for the agents' step.
	StepOptions map[string]string `yaml:"step_options,omitempty" keys:"srun-option" is:"option-value"`
}

// SSHSite holds how nodes are reached by ssh.
type SSHSite struct {
	// User to log in as; empty: as ssh_config says, else the own name.
	User string `yaml:"user,omitempty" json:"user,omitempty" is:"word"`
	// Port of sshd; zero: as ssh_config says, else 22.
	Port int `yaml:"port,omitempty" json:"port,omitempty" min:"1" max:"65535"`
	// Identity lists private key files; empty: as ssh_config says, and the agent.
	Identity []string `yaml:"identity,omitempty" json:"identity,omitempty" is:"home-path" items:"set"`
	// Config is the ssh_config file; empty: the user's.
	Config string `yaml:"config,omitempty" json:"config,omitempty" is:"home-path"`
	// KnownHosts lists files of host keys; empty: the user's and the system's.
	KnownHosts []string `yaml:"known_hosts,omitempty" json:"known_hosts,omitempty" is:"home-path" items:"set"`
	// ProxyJump is the host to go through, [user@]host[:port], or several with
	// commas.
	ProxyJump string `yaml:"proxy_jump,omitempty" json:"proxy_jump,omitempty" is:"word"`
	// MaxHandshakes is how many connections are being opened to one sshd at once.
	MaxHandshakes int `yaml:"max_handshakes,omitempty" json:"max_handshakes,omitempty" min:"1"`
	// Dir is where the tool puts its binary on a node; empty: /tmp/disagg-<uid>.
	Dir string `yaml:"dir,omitempty" json:"dir,omitempty" is:"plain-path"`
}

// ContainerSite holds how containers run on this site.
type ContainerSite struct {
	// Runtime is docker, podman or none (plain processes).
	Runtime string `yaml:"runtime,omitempty" enum:"docker|podman|none"`
	// Sudo is auto (per node, plain if it works, else sudo -n), never or always.
	Sudo string `yaml:"sudo,omitempty" enum:"auto|never|always"`
	// Privileged gives containers all capabilities and devices.
	Privileged *Bool `yaml:"privileged,omitempty"`
	// Devices are paths or globs; expanded on each node.
	Devices []string `yaml:"devices,omitempty" is:"path" items:"set"`
	// Mounts are host:container[:ro] for every container.
	Mounts []string `yaml:"mounts,omitempty" is:"mount" items:"set"`
	// Ulimits of every container: memlock: "-1", nofile: "1048576:1048576".
	Ulimits map[string]string `yaml:"ulimits,omitempty" keys:"ulimit-name" is:"ulimit"`
	// ShmSize is the size of /dev/shm, such as 128g; with ipc host it is the
	// host's own.
	ShmSize string `yaml:"shm_size,omitempty" is:"size"`
	// IPC is host or private.
	IPC string `yaml:"ipc,omitempty" enum:"host|private"`
	// CapAdd are capabilities to add, such as SYS_PTRACE.
	CapAdd []string `yaml:"cap_add,omitempty" is:"capability" items:"set"`
	// SecurityOpt are the runtime's security options, such as
	// seccomp=unconfined.
	SecurityOpt []string `yaml:"security_opt,omitempty" is:"word" items:"set"`
	// GroupAdd are groups for device access; names are resolved to numbers on
	// each node.
	GroupAdd []string `yaml:"group_add,omitempty" is:"group" items:"set"`
	// User inside the container, name or uid[:gid]; empty: the image's.
	User string `yaml:"user,omitempty" is:"word"`
	// ExtraArgs are further arguments of the runtime's run command.
	ExtraArgs []string `yaml:"extra_args,omitempty" is:"not-empty"`
	// Pull is missing, always or never.
	Pull string `yaml:"pull,omitempty" enum:"missing|always|never"`
}

// NetworkSite names the interface whose address is a node's address.
type NetworkSite struct {
	// Interface is one name, or a comma-separated list of which the first that
	// exists on a node counts; empty: the interface of the default route.
	Interface string `yaml:"interface,omitempty" json:"interface,omitempty" is:"interfaces"`
}

// RDMASite describes the RDMA fabric as the engines use it.
type RDMASite struct {
	// Devices are RDMA device names; empty: discovered on each node.
	Devices []string `yaml:"devices,omitempty" json:"devices,omitempty" is:"device" items:"set"`
	// TrafficClass of KV traffic, 4 × DSCP; empty: derived from the NICs' QoS.
	TrafficClass *int `yaml:"traffic_class,omitempty" json:"traffic_class,omitempty" min:"0" max:"255"`
	// ServiceLevel of KV traffic; empty: derived from the NICs' QoS.
	ServiceLevel *int `yaml:"service_level,omitempty" json:"service_level,omitempty" min:"0" max:"15"`
	// GIDIndex of the RoCEv2 address; empty: the engine's choice.
	GIDIndex *int `yaml:"gid_index,omitempty" json:"gid_index,omitempty" min:"0" max:"255"`
	// NIC is ionic, bnxt or mlx5; empty: discovered.
	NIC string `yaml:"nic,omitempty" json:"nic,omitempty" enum:"ionic|bnxt|mlx5"`
}

// ModelsSite says where weights are found on the nodes.
type ModelsSite struct {
	// SearchPaths are directories that hold models, best first.
	SearchPaths []string `yaml:"search_paths,omitempty" is:"path" items:"set"`
	// Catalog are further catalog directories; their files override the
	// embedded ones. A relative path starts at the site file.
	Catalog []string `yaml:"catalog,omitempty" is:"not-empty" items:"set"`
}

// Exclude is one node list not to be used.
type Exclude struct {
	// Nodes is a host list, such as node[01-04,09].
	Nodes string `yaml:"nodes" json:"nodes" is:"hosts"`
	// Reason says why; it is shown wherever the entry counts.
	Reason string `yaml:"reason" json:"reason" is:"reason"`
	// Since is the date of the entry, YYYY-MM-DD.
	Since string `yaml:"since,omitempty" json:"since,omitempty" is:"date"`
	// Expires is a date; from then on the entry is ignored with a warning.
	Expires string `yaml:"expires,omitempty" json:"expires,omitempty" is:"date"`
	// Engines narrows the entry to these engines.
	Engines []string `yaml:"engines,omitempty" json:"engines,omitempty" enum:"sglang|vllm|atom" items:"some set"`
	// Models narrows the entry to these models.
	Models []string `yaml:"models,omitempty" json:"models,omitempty" is:"word" items:"some set"`
}

// NodeProfile overrides site settings for some nodes.
type NodeProfile struct {
	// Nodes is a host list, or a glob such as gpu-a*.
	Nodes string `yaml:"nodes" json:"nodes" is:"hosts"`
	// Interface replaces network.interface.
	Interface string `yaml:"interface,omitempty" json:"interface,omitempty" is:"interfaces"`
	// RDMA replaces the keys of rdma that it sets.
	RDMA RDMASite `yaml:"rdma,omitempty" json:"rdma,omitempty"`
	// Env sets variables in workers on these nodes; a recipe's win.
	Env EnvMap `yaml:"env,omitempty" json:"env,omitempty" keys:"env-name"`
}
