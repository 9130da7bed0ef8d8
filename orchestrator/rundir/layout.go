package rundir

import (
	"path/filepath"
	"strconv"

	"github.com/disagg/disagg/internal/redact"
)

// Names inside a run directory.
const (
	MarkerFile    = ".disagg"
	PlanFile      = "plan.json"
	ScriptFile    = "job.slurm"
	BinaryFile    = "bin/disagg"
	SecretsFile   = "env/secrets"
	ReceiptsFile  = "env/receipts.jsonl"
	ClaimFile     = "claim.json"
	CancelFile    = "cancel.json" // who asked for the end, if it was `disagg cancel`
	EventsFile    = "events.jsonl"
	PreflightFile = "preflight.json"
	PreflightDir  = "preflight" // the bundle of what was gathered
	ResultFile    = "result.json"
	InterimFile   = "result.interim.json"
	ReserveFile   = ".reserve"
	CountersFile  = "counters.json" // what the nodes' NICs counted during the run
	StateDir      = "state"         // what still stood when something hung, one directory each time
	LogsDir       = "logs"
	ResultsDir    = "results"
	EnvDir        = "env"
)

// layoutVersion is written to the marker; a directory of another version is
// refused, because its files may mean something else.
const layoutVersion = 1

// Dir is one run directory.
type Dir struct {
	path   string
	marker Marker
	red    *redact.Redactor
}

// Redact keeps what red knows out of every file that Put writes from now on.
func (d *Dir) Redact(red *redact.Redactor) { d.red = red }

// ID is the run id: the base name of the directory.
func (d *Dir) ID() string { return filepath.Base(d.path) }

// Path is the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// Marker says who made the directory and from what.
func (d *Dir) Marker() Marker { return d.marker }

// Join gives the absolute path of a name inside the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// LogName is the name, relative to the run directory, of the log of one process
// on one host.
func LogName(process, host string) string {
	return LogsDir + "/" + process + "." + host + ".log"
}

// PointName is the name, relative to the run directory, of the directory that
// gets the client's results at one concurrency.
func PointName(concurrency int) string {
	return ResultsDir + "/c" + strconv.Itoa(concurrency)
}

// EvalName is the name, relative to the run directory, of the directory that
// gets the evaluation's results.
const EvalName = ResultsDir + "/eval"
