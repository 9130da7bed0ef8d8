package deploy

import (
	"time"

	"github.com/disagg/disagg/models"
)

// EnvEntry is one variable as it goes to a process: exact bytes, no
// placeholders left. Secret values stay out of every log and report.
type EnvEntry struct {
	Name   string `json:"name"`
	Value  []byte `json:"value"`
	Secret bool   `json:"secret,omitempty"`
	// Prepend puts Value before what the image has under this name, with a colon
	// between; where the image has nothing, Value is all.
	Prepend bool `json:"prepend,omitempty"`
}

// Workload is one process to run on one node, fully resolved.
type Workload struct {
	RunID string `json:"run_id"`
	ID    string `json:"id"` // models.Process.ID
	Role  string `json:"role"`

	Runtime models.Runtime `json:"runtime"`
	Image   string         `json:"image,omitempty"`
	Shell   string         `json:"shell,omitempty"`
	Dir     string         `json:"dir,omitempty"`
	Argv    []string       `json:"argv"`
	Env     []EnvEntry     `json:"env"`
	// Mounts are host:container[:ro], beside the runtime's own.
	Mounts []string `json:"mounts,omitempty"`
	// Own are directories, mounted under the same path, whose files shall belong to
	// the agent's user when the program has ended, whoever it ran as.
	Own []string `json:"own,omitempty"`
	// Accelerated processes get the runtime's devices and groups.
	Accelerated bool `json:"accelerated,omitempty"`
	// LogPath is the file on the node that gets stdout and stderr.
	LogPath string        `json:"log_path"`
	Grace   time.Duration `json:"grace"`
	// Labels are put on the container beside disagg.run and disagg.workload.
	Labels map[string]string `json:"labels,omitempty"`
	// Stdin is what the program reads; empty means /dev/null.
	Stdin []byte `json:"stdin,omitempty"`
	// ReceiptKey keys the sums of secrets in the receipt.
	ReceiptKey []byte `json:"receipt_key,omitempty"`
	// Redact are secrets of the run that the process is not given, name → value.
	// A process may be told one by another and write it, as a router does that
	// logs what clients send.
	Redact map[string][]byte `json:"redact,omitempty"`
}

// EventKind names what happened to a workload.
type EventKind string

const (
	// EventCreated: the container or process group exists and its shim is connected.
	EventCreated EventKind = "created"
	// EventStarted: the program has been exec'ed.
	EventStarted EventKind = "started"
	// EventProgress: the log grew or memory grew since the last report.
	EventProgress EventKind = "progress"
	// EventExited: the program has ended; all its output is on disk.
	EventExited EventKind = "exited"
	// EventGone: the container or process group no longer exists.
	EventGone EventKind = "gone"
	// EventDetached: the node is not heard of at present; its workloads run on
	// until the lease ends. No workload is named.
	EventDetached EventKind = "detached"
	// EventAttached: the node is heard of again; nothing was missed.
	EventAttached EventKind = "attached"
	// EventTerminating: the agent was told to end by somebody else (Slurm sends
	// TERM when a job is cancelled) and is stopping every workload.
	EventTerminating EventKind = "terminating"
)

// Event is something that happened to a workload on a node.
type Event struct {
	Time     time.Time `json:"time"`
	Node     string    `json:"node"`
	Workload string    `json:"workload"`
	Kind     EventKind `json:"kind"`
	// PID on the node of the program (EventStarted), as the node sees it; 0 if unknown.
	PID int `json:"pid,omitempty"`
	// Exit is set with EventExited.
	Exit *Exit `json:"exit,omitempty"`
	// Log is the tail of the log: EventProgress has the last line, EventExited
	// up to 50 lines. Secrets are redacted, control characters neutralised.
	Log []string `json:"log,omitempty"`
	// LogBytes is the size of the log so far, RSSBytes the resident memory of
	// the workload's processes (EventProgress).
	LogBytes int64 `json:"log_bytes,omitempty"`
	RSSBytes int64 `json:"rss_bytes,omitempty"`
	// ReadBytes is what its processes have read from files so far (EventProgress).
	ReadBytes int64 `json:"read_bytes,omitempty"`
	// Detail says why, where the kind alone does not (EventDetached).
	Detail string `json:"detail,omitempty"`
}

// Exit is how a program ended.
type Exit struct {
	Code   int    `json:"code"`             // exit code; -1 when Signal is set or unknown
	Signal string `json:"signal,omitempty"` // SIGKILL, …
	// Asked says that the end was asked for (Stop, or the lease ended).
	Asked bool `json:"asked"`
	// OOM says that the kernel killed it for memory, where that is known.
	OOM bool `json:"oom,omitempty"`
	// Lost says that nobody saw how it ended; Error then says why.
	Lost bool `json:"lost,omitempty"`
	// Error says why the program could not be started at all.
	Error string `json:"error,omitempty"`
}

// Receipt is the environment as the process inside reported it, before it
// became the program. Values of secrets, and of whatever looks like one by name
// or value (models/env), are HMAC-SHA256 sums under the run's receipt key, in hex.
type Receipt struct {
	Workload string       `json:"workload"`
	Env      []ReceiptVar `json:"env"`
}

// Layer is where a variable of a process comes from.
type Layer string

// The layers of a process's environment, each over the one before.
const (
	// LayerBase is what the shim was started with: in a container the image's
	// variables and those of the container runtime, for a plain process what it
	// inherits from the agent.
	LayerBase Layer = "base"
	// LayerShell is what the image's login shell made of it.
	LayerShell Layer = "shell"
	// LayerPlan is what the workload asks for.
	LayerPlan Layer = "plan"
	// LayerTool are the marks by which an independent look finds the process.
	LayerTool Layer = "disagg"
)

// ReceiptVar is one reported variable.
type ReceiptVar struct {
	Name  string `json:"name"`
	Value []byte `json:"value,omitempty"`
	HMAC  string `json:"hmac,omitempty"` // for secrets, instead of Value
	// Layer is the one that won, Over are those that had another value.
	Layer Layer   `json:"layer,omitempty"`
	Over  []Layer `json:"over,omitempty"`
}

// NodeInfo is what an agent says of its node when it connects.
type NodeInfo struct {
	Name string `json:"name"` // the name the launcher uses for the node
	Host string `json:"host"` // the kernel's host name
	// Addr is the node's address on Interface, never loopback or link-local.
	Addr      string `json:"addr"`
	Interface string `json:"interface"`
	// Addrs are all usable addresses, interface → address.
	Addrs   map[string]string `json:"addrs"`
	PID     int               `json:"pid"`
	UID     int               `json:"uid"`
	Arch    string            `json:"arch"`
	BootID  string            `json:"boot_id"`
	Version string            `json:"version"`
	// Docker says how the container runtime is reached: "docker",
	// "sudo -n docker", or "" with DockerError.
	Docker      string `json:"docker,omitempty"`
	DockerError string `json:"docker_error,omitempty"`
	// SlurmProcID is the task rank inside the agents' step; -1 outside Slurm.
	SlurmProcID int `json:"slurm_procid"`
	// RDMA are the node's RDMA device names in natural order.
	RDMA []string `json:"rdma,omitempty"`
	// ReservedPorts is ip_local_port_range, low and high.
	EphemeralPorts [2]int `json:"ephemeral_ports"`
}

// ImageInfo is one container image as a node has it.
type ImageInfo struct {
	ID          string   `json:"id"` // content id, the same for the same bytes
	RepoDigests []string `json:"repo_digests,omitempty"`
	Entrypoint  []string `json:"entrypoint,omitempty"`
	EnvNames    []string `json:"env_names,omitempty"` // of the variables it sets; values may be secrets
	User        string   `json:"user,omitempty"`
	SizeBytes   int64    `json:"size_bytes"`
	Pulled      bool     `json:"pulled,omitempty"` // it was not there and has been pulled
}

// ExecRequest runs one command on a node, outside any container.
type ExecRequest struct {
	Argv    []string      `json:"argv"` // argv[0] "@self" is the disagg binary itself
	Env     []EnvEntry    `json:"env,omitempty"`
	Stdin   []byte        `json:"stdin,omitempty"`
	Timeout time.Duration `json:"timeout"`
	// MaxOutput bounds stdout and stderr each; default 16 MiB.
	MaxOutput int `json:"max_output,omitempty"`
}

// ExecResult is what the command did. A non-zero exit is a result, not an error.
type ExecResult struct {
	Exit      int           `json:"exit"` // -1: killed (TimedOut) or not startable (Error)
	Stdout    []byte        `json:"stdout"`
	Stderr    []byte        `json:"stderr"`
	Duration  time.Duration `json:"duration"`
	TimedOut  bool          `json:"timed_out,omitempty"`
	Truncated bool          `json:"truncated,omitempty"`
	Error     string        `json:"error,omitempty"`
}

// Leftovers is what an independent look at a node found of a run.
type Leftovers struct {
	Node       string   `json:"node"`
	Containers []string `json:"containers,omitempty"` // id name state
	Processes  []string `json:"processes,omitempty"`  // pid command
	Ports      []string `json:"ports,omitempty"`      // planned ports still listened on, with holder
	Files      []string `json:"files,omitempty"`      // scratch files outside the run directory
	// Unverified lists what could not be looked at and why, with the command
	// that would.
	Unverified []string `json:"unverified,omitempty"`
}

// Clean says that everything was looked at and nothing was left.
func (l Leftovers) Clean() bool {
	return len(l.Containers)+len(l.Processes)+len(l.Ports)+len(l.Files)+len(l.Unverified) == 0
}
