package facts

import "time"

// Version is the version of the Facts encoding. A reader refuses another one.
const Version = 1

// Where facts were gathered.
const (
	// ContextHost is the bare node.
	ContextHost = "host"
	// ContextImage is inside the run's container image, with the job's own
	// flags: other libraries, limits and devices than the node has.
	ContextImage = "image"
	// ContextRun is the bare node while a run is on, or just after it: only what a
	// run changes, to be compared with earlier facts of the host.
	ContextRun = "run"
)

// Facts is everything that was gathered on one node in one context.
type Facts struct {
	Version int    `json:"version"`
	Node    string `json:"node"` // the name the launcher uses
	Context string `json:"context"`
	// Image is the image the facts come from, in ContextImage.
	Image string `json:"image,omitempty"`
	// Unreached says why there are no facts at all, in the words of the
	// transport; everything else is then empty.
	Unreached string        `json:"unreached,omitempty"`
	Started   time.Time     `json:"started,omitzero"`
	Duration  time.Duration `json:"duration_ns,omitempty"`
	// Cut says that the hard limit of the gathering ended it early.
	Cut  bool `json:"cut,omitempty"`
	Host Host `json:"host"`

	// Commands by id (see the constants; a command run once for each device
	// has the device behind a slash).
	Commands map[string]Command `json:"commands,omitempty"`
	// Files, Dirs and Paths by absolute path on the node, without the root
	// prefix of a lab.
	Files map[string]File `json:"files,omitempty"`
	Dirs  map[string]Dir  `json:"dirs,omitempty"`
	Paths map[string]Path `json:"paths,omitempty"`
	// Disks by the path that was asked for.
	Disks map[string]Disk `json:"disks,omitempty"`
	// Trees are listings of model directories, by directory.
	Trees map[string]Tree `json:"trees,omitempty"`
	// Samples are values of one file read several times, by path: where memory
	// goes.
	Samples map[string][]int64 `json:"samples,omitempty"`
	// Env are the names of the variables the gathering process saw, sorted;
	// never their values.
	Env []string `json:"env,omitempty"`
}

// Host is what the node's kernel says of itself and of who asked.
type Host struct {
	Name   string `json:"name,omitempty"` // kernel host name
	BootID string `json:"boot_id,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Arch   string `json:"arch,omitempty"` // as images name it: amd64
	UID    int    `json:"uid"`
	User   string `json:"user,omitempty"`
	Groups []int  `json:"groups,omitempty"`
	// Now is the node's clock when the gathering started, in Unix nanoseconds.
	Now int64 `json:"now_ns,omitempty"`
	// Asked is the controller's clock just before it asked; Answered just after
	// the answer came, both in Unix nanoseconds and set by the controller.
	Asked    int64 `json:"asked_ns,omitempty"`
	Answered int64 `json:"answered_ns,omitempty"`
	// Users are the names of the users that other facts give by number.
	Users map[int]string `json:"users,omitempty"`
	// Tools are the absolute paths of the programs that were found, by name.
	Tools map[string]string `json:"tools,omitempty"`
}

// Command is one program that was run, or could not be.
type Command struct {
	Argv     []string      `json:"argv"`
	Exit     int           `json:"exit"`
	Signal   string        `json:"signal,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
	Stdout   string        `json:"stdout,omitempty"`
	Stderr   string        `json:"stderr,omitempty"`
	// TimedOut: no end within its deadline; its group was killed.
	TimedOut bool `json:"timed_out,omitempty"`
	// Missing: the program is not on the node.
	Missing   bool `json:"missing,omitempty"`
	Truncated bool `json:"truncated,omitempty"`
	// Error says why it could not be started, beside Missing.
	Error string `json:"error,omitempty"`
}

// Why a path could not be read.
const (
	// ErrMissing: it does not exist.
	ErrMissing = "missing"
	// ErrDenied: this user may not.
	ErrDenied = "denied"
	// ErrHung: no answer within the deadline; a driver or a file server hangs.
	ErrHung = "hung"
	// ErrStale: the file server no longer knows the handle.
	ErrStale = "stale"
)

// File is one small file.
type File struct {
	Data string `json:"data,omitempty"`
	// Err is empty, one of the Err constants, or the system's own words.
	Err string `json:"err,omitempty"`
	// Target is where it points, for a symbolic link that was asked for as one.
	Target string `json:"target,omitempty"`
}

// Dir is the listing of one directory.
type Dir struct {
	Entries []string `json:"entries,omitempty"` // sorted
	Err     string   `json:"err,omitempty"`     // as File.Err
}

// Path is what stat says of one path, and what this user may do with it.
type Path struct {
	Kind  string `json:"kind,omitempty"` // file, dir, char, block, socket, fifo, link
	Mode  uint32 `json:"mode,omitempty"` // permission bits
	UID   int    `json:"uid"`
	GID   int    `json:"gid"`
	Size  int64  `json:"size,omitempty"`
	Read  bool   `json:"read,omitempty"`
	Write bool   `json:"write,omitempty"`
	Err   string `json:"err,omitempty"` // as File.Err
}

// Disk is the file system a path lies on, in bytes.
type Disk struct {
	Total     int64  `json:"total"`
	Available int64  `json:"available"` // for this user
	Inodes    int64  `json:"inodes,omitempty"`
	InodesOK  int64  `json:"inodes_available,omitempty"`
	ReadOnly  bool   `json:"read_only,omitempty"`
	Type      string `json:"type,omitempty"` // magic number in hex
	Err       string `json:"err,omitempty"`  // as File.Err
}

// Tree is the listing of a model directory.
type Tree struct {
	Entries []Entry `json:"entries,omitempty"` // sorted by name
	Err     string  `json:"err,omitempty"`     // as File.Err
}

// Entry is one name in a model directory, by its path below it.
type Entry struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // of the file a link leads to
	// Link is where a symbolic link points, as written.
	Link string `json:"link,omitempty"`
	// Dangling links lead nowhere.
	Dangling bool `json:"dangling,omitempty"`
	// Head is the beginning of the file, enough to see what it is. Of an index of
	// shards it is the whole, with each shard named once.
	Head []byte `json:"head,omitempty"`
	// Need is how long the file must be by its own header; 0: not known.
	Need int64 `json:"need,omitempty"`
}
