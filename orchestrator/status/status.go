// Package status tells how a run is going, from its event log and, once it has
// ended, its result. It is pure: the same log, result and time give the same
// summary.
package status

import (
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// State is where a run is, in one word.
type State string

// The states of a run.
const (
	Waiting State = "waiting" // no controller has taken it yet
	Running State = "running"
	Ending  State = "ending" // the teardown has begun
	Ended   State = "ended"  // there is a result
	// Silent: the controller has said nothing for longer than it ever does. It is
	// gone, or cannot write; the run has no result.
	Silent State = "silent"
	// Dead: nobody leads the run any more, and it has no result: its job has ended,
	// or its controller's process. Only who can ask for that knows.
	Dead State = "dead"
	// Cancelled: the run's job was cancelled before a controller took it. Who can
	// ask the scheduler knows.
	Cancelled State = "cancelled"
)

// silentAfter is how long a controller that is there never is silent.
const silentAfter = 3 * events.AliveEvery

// Summary is how a run is going.
type Summary struct {
	Run   string `json:"run,omitempty"`
	State State  `json:"state"`
	Job   string `json:"job,omitempty"` // scheduler's job id
	// Controller says which process on which host took the run.
	Controller string `json:"controller,omitempty"`
	// Stage is the stage that runs and Waiting what it waits for.
	Stage   string        `json:"stage,omitempty"`
	InStage time.Duration `json:"-"` // in_stage_seconds
	// StageBudget is how long the stage may take, in seconds; 0: as long as the run.
	StageBudget float64       `json:"stage_budget_seconds,omitempty"`
	Waiting     string        `json:"waiting,omitempty"`
	Started     time.Time     `json:"started,omitzero"`
	LastSeen    time.Time     `json:"last_seen,omitzero"`
	Elapsed     time.Duration `json:"-"` // elapsed_seconds

	Stages []Stage `json:"stages,omitempty"`
	// Given are the nodes that the controller was to use, whether or not they joined.
	Given     []string  `json:"given,omitempty"`
	Nodes     []Node    `json:"nodes,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Points    []Point   `json:"points,omitempty"`
	// Restarts are the workers that died while clients ran and are, or were,
	// started again.
	Restarts []Restart `json:"restarts,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
	// Trouble is why the run is ending, or ended, badly; empty: it is not.
	Trouble string `json:"trouble,omitempty"`
	// Diagnosis explains the trouble, where a log line did.
	Diagnosis string `json:"diagnosis,omitempty"`
	Remedy    string `json:"remedy,omitempty"`

	Outcome  result.Outcome `json:"outcome,omitempty"`
	ExitCode *int           `json:"exit_code,omitempty"` // nil: not ended
}

// Stage is one stage that has begun.
type Stage struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"` // running, ok, failed, skipped, cancelled, unknown
	Seconds float64 `json:"seconds"`
	Note    string  `json:"note,omitempty"`
}

// Node is one node that has joined, or was lost.
type Node struct {
	Name string `json:"name"`
	Host string `json:"host,omitempty"`
	Addr string `json:"addr,omitempty"`
	Lost string `json:"lost,omitempty"` // why
}

// Process is one process that has been created.
type Process struct {
	ID       string        `json:"id"`
	Node     string        `json:"node"`
	State    string        `json:"state"`         // created, running, ready, exited, gone, unknown
	Was      string        `json:"was,omitempty"` // last state that was heard of, when State is unknown
	Since    time.Duration `json:"-"`             // in this state, or in Was; since_seconds
	Log      string        `json:"log,omitempty"`
	LogBytes int64         `json:"log_bytes,omitempty"`
	RSSBytes int64         `json:"rss_bytes,omitempty"`
	LastLine string        `json:"last_line,omitempty"`
	Exit     string        `json:"exit,omitempty"` // how it ended
}

// Restart is one time that a worker which had died was started again.
type Restart struct {
	Worker string `json:"worker"`
	// Process is the rank that died, Why says how; Meaning explains it, where a log
	// line did.
	Process string `json:"process"`
	Why     string `json:"why"`
	Meaning string `json:"meaning,omitempty"`
	// Seconds are those from the death until tokens came out again; nil: they have
	// not yet, or never did.
	Seconds *float64 `json:"seconds,omitempty"`
}

// Point is one client point, or the evaluation, that has ended.
type Point struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Note   string `json:"note,omitempty"`
}
