package deploy

import "time"

// What controller and agent say to each other. The controller asks; the agent
// answers and tells of events.
const (
	MethodExec        = "exec"         // ExecRequest → ExecAnswer
	MethodCreate      = "create"       // Workload → Receipt
	MethodRelease     = "release"      // WorkloadRef → nothing
	MethodStop        = "stop"         // StopRequest → nothing
	MethodLook        = "look"         // LookRequest → Leftovers
	MethodReap        = "reap"         // ReapRequest → Reaped
	MethodReadFile    = "read-file"    // ReadFileRequest → ReadFileAnswer
	MethodWriteFile   = "write-file"   // WriteFileRequest → nothing
	MethodFetch       = "fetch"        // FetchRequest → StreamRef
	MethodStreamRead  = "stream-read"  // StreamRef → StreamData
	MethodStreamClose = "stream-close" // StreamRef → nothing
	MethodImage       = "image"        // ImageRequest → ImageInfo
	MethodClose       = "close"        // nothing → nothing: stop everything, clean up, end
	NoteEvent         = "event"        // Event
)

// MaxChunk bounds the raw bytes of a file or stream in one message; encoded they
// are a third longer. Small enough that no heartbeat waits long behind one.
const MaxChunk = 1 << 20

// AgentHello is the body of an agent's greeting.
type AgentHello struct {
	RunID string `json:"run_id"`
	Token string `json:"token"`
	// Session tells the agent's conversations apart; the same after a redial.
	Session string   `json:"session"`
	Info    NodeInfo `json:"info"`
	// Unfit says why the node cannot take part; then the agent ends.
	Unfit string `json:"unfit,omitempty"`
}

// ExecAnswer is an ExecResult. Output that is too long for one message is in
// streams, which the controller reads and closes.
type ExecAnswer struct {
	ExecResult
	Out, Err *StreamRef `json:",omitempty"`
}

// WorkloadRef names a workload.
type WorkloadRef struct {
	ID string `json:"id"`
}

// StopRequest asks for the end of a workload.
type StopRequest struct {
	ID    string        `json:"id"`
	Grace time.Duration `json:"grace"`
}

// LookRequest asks for what is left of a run.
type LookRequest struct {
	RunID string `json:"run_id"`
	Ports []int  `json:"ports,omitempty"`
}

// ReadFileRequest asks for a part of a file.
type ReadFileRequest struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Max    int    `json:"max"` // at most MaxChunk
}

// ReadFileAnswer is a part of a file and the size of the whole.
type ReadFileAnswer struct {
	Data []byte `json:"data"`
	Size int64  `json:"size"`
}

// WriteFileRequest carries a part of a file. The file appears under its name
// when the last part has come.
type WriteFileRequest struct {
	Path   string `json:"path"`
	Mode   uint32 `json:"mode"`
	Part   string `json:"part"` // the same for all parts of one file, unlike any other
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
	Last   bool   `json:"last"`
}

// FetchRequest asks for a directory as a tar stream.
type FetchRequest struct {
	Dir string `json:"dir"`
}

// StreamRef names a stream that the agent holds ready.
type StreamRef struct {
	Stream uint64 `json:"stream"`
}

// StreamData is the next part of a stream.
type StreamData struct {
	Data []byte `json:"data"`
	End  bool   `json:"end"`
}

// ImageRequest asks for an image; Pull is the policy (missing, always, never).
type ImageRequest struct {
	Ref  string `json:"ref"`
	Pull string `json:"pull"`
}
