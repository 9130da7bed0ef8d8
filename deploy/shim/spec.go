package shim

import (
	"time"

	"github.com/disagg/disagg/deploy"
)

// Names in the directory that agent and shim share. It is mounted at MountDir
// in a container.
const (
	SpecFile   = "spec.json"  // Spec; removed by the shim after reading
	EnvFile    = "env"        // NAME=VALUE, each ended by NUL; removed after reading
	StdinFile  = "stdin"      // what the program reads, if Spec.Stdin
	SocketFile = "agent.sock" // where the agent listens
	ErrorFile  = "error"      // why the shim could not even connect
	execSocket = "exec.sock"  // where the shim waits for the held program
)

// Paths inside a container.
const (
	MountDir    = "/disagg/run"
	MountBinary = "/disagg/bin/disagg"
)

// Variables that mark every process of a run, so that an independent look can
// find it.
const (
	RunVar      = "DISAGG_RUN"
	WorkloadVar = "DISAGG_WORKLOAD"
)

// SelfProgram as first word of a program means the disagg binary itself.
const SelfProgram = "@self"

// Spec is what the shim needs to know; the environment is in EnvFile.
type Spec struct {
	RunID      string   `json:"run_id"`
	Workload   string   `json:"workload"`
	Argv       []string `json:"argv"`
	Shell      string   `json:"shell,omitempty"` // "" or login
	Dir        string   `json:"dir,omitempty"`
	Stdin      bool     `json:"stdin,omitempty"`
	Secrets    []string `json:"secrets,omitempty"` // names of secret variables
	Prepend    []string `json:"prepend,omitempty"` // names of variables that go before what is there
	ReceiptKey []byte   `json:"receipt_key,omitempty"`
	// Redact are secrets that the program is not given: name → value.
	Redact map[string][]byte `json:"redact,omitempty"`
	// Give, unless nil, names whose the program's files shall be.
	Give   *Give         `json:"give,omitempty"`
	Grace  time.Duration `json:"grace"`
	Timing deploy.Timing `json:"timing"`
}

// What agent and shim say to each other.
const (
	// MethodRelease (agent) lets the held program go; the answer comes when it
	// has been started.
	MethodRelease = "release"
	// NoteStop (agent, Stop) ends the program.
	NoteStop = "stop"
	// NoteHeld (shim, Held): the program is held and its environment known.
	NoteHeld = "held"
	// NoteStarted (shim, Started): the program runs.
	NoteStarted = "started"
	// NoteProgress (shim, Progress): its log or memory grew.
	NoteProgress = "progress"
	// NoteExited (shim, Exited): the program has ended.
	NoteExited = "exited"
	// NoteEnded (shim, Ended): nothing below the shim is left, or what is.
	NoteEnded = "ended"
)

// Stop asks for the end of the program.
type Stop struct {
	Grace time.Duration `json:"grace"`
}

// Held is the receipt of the held program.
type Held struct {
	PID     int            `json:"pid"` // as the shim sees it
	Receipt deploy.Receipt `json:"receipt"`
}

// Started says that the program runs.
type Started struct {
	PID int `json:"pid"` // as the shim sees it
}

// Progress is a sign of life.
type Progress struct {
	Last     string `json:"last,omitempty"`
	LogBytes int64  `json:"log_bytes"`
	RSSBytes int64  `json:"rss_bytes"`
	// ReadBytes is what the processes have read from files and pipes so far.
	ReadBytes int64 `json:"read_bytes"`
}

// Exited says how the program ended.
type Exited struct {
	Exit     deploy.Exit `json:"exit"`
	Log      []string    `json:"log,omitempty"`
	LogBytes int64       `json:"log_bytes"`
}

// Ended says what could not be ended; empty: nothing is left.
type Ended struct {
	Survivors []string `json:"survivors,omitempty"`
}
