// Package result is the record of how a run ended: result.json. It is written
// once, by the controller, after the last look at the nodes.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

// Outcome is how a run ended, in one word.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled" // a signal, scancel, the time limit
)

// Result is the whole record.
type Result struct {
	Run      string  `json:"run"`
	Name     string  `json:"name"`
	Tool     string  `json:"tool"`
	Job      string  `json:"job,omitempty"` // scheduler's job id
	PlanHash string  `json:"plan_sha256"`
	Outcome  Outcome `json:"outcome"`
	// ExitCode is the exit status of the controller, Exit its name.
	ExitCode int    `json:"exit_code"`
	Exit     string `json:"exit"`

	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`

	// Interim says that this was written when the run began to end, and nothing
	// after it: the controller was ended before its last word.
	Interim bool `json:"interim,omitempty"`

	// Cause is the first failure that is not the effect of another one.
	Cause *Failure `json:"cause,omitempty"`
	// Consequences are the failures that came with it.
	Consequences []Failure `json:"consequences,omitempty"`

	Stages []Stage `json:"stages"`
	// Points are the requested client points and the evaluation, each of them,
	// whatever became of it.
	Points []Point `json:"points,omitempty"`
	// Restarts are the workers that died while clients ran and were started again,
	// as the recipe allows.
	Restarts []Restart `json:"restarts,omitempty"`
	Nodes    []Node    `json:"nodes,omitempty"`

	// Config and Topology are the plan's, never derived again from an environment.
	Config   Config          `json:"config"`
	Topology models.Topology `json:"topology"`
	// Images are image references and the digest every node ran.
	Images map[string]string `json:"images,omitempty"`

	// Looked names the nodes that were looked at after the stop.
	Looked []string `json:"looked,omitempty"`
	// Leftovers are the nodes on which something was left or could not be
	// looked for. Empty with every node in Looked: nothing was left.
	Leftovers []deploy.Leftovers `json:"leftovers,omitempty"`

	// Unproven lists what this run did not check, and why.
	Unproven []string `json:"unproven,omitempty"`
	// Waivers are checks demoted by the recipe, with its reasons; Allowed are
	// consistency rules it knowingly broke.
	Waivers  map[string]string `json:"waivers,omitempty"`
	Allowed  map[string]string `json:"allowed,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	// Next are commands worth running now.
	Next []string `json:"next,omitempty"`
}

// Failure is one thing that went wrong.
type Failure struct {
	Time  time.Time `json:"time"`
	Stage string    `json:"stage"`
	// What happened, one sentence.
	What    string `json:"what"`
	Process string `json:"process,omitempty"`
	Node    string `json:"node,omitempty"`
	// Exit is set when a process ended.
	Exit *deploy.Exit `json:"exit,omitempty"`
	// Log are the last lines of the process, LogFile where the rest is.
	Log       []string   `json:"log,omitempty"`
	LogFile   string     `json:"log_file,omitempty"`
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`
	// State is what workers, router and nodes said of themselves when something was
	// found to hang, a line each; the last names the directory that holds all of it.
	State []string `json:"state,omitempty"`
}

// Diagnosis explains a log line.
type Diagnosis struct {
	Signature string `json:"signature"`
	Line      string `json:"line"`
	// Peer is whom the lines name, of the run's other programs, and how many of them.
	Peer    string `json:"peer,omitempty"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// StageStatus is how a stage ended.
type StageStatus string

// The ways a stage ends.
const (
	StageOK        StageStatus = "ok"
	StageFailed    StageStatus = "failed"
	StageSkipped   StageStatus = "skipped" // not done; Note says why
	StageCancelled StageStatus = "cancelled"
)

// Stage is one stage of the run.
type Stage struct {
	Name    string      `json:"name"`
	Status  StageStatus `json:"status"`
	Started time.Time   `json:"started"`
	Seconds float64     `json:"seconds"`
	Note    string      `json:"note,omitempty"`
}

// PointStatus is what became of one requested point.
type PointStatus string

// The states of a point.
const (
	PointOK      PointStatus = "ok"
	PointFailed  PointStatus = "failed"
	PointMissing PointStatus = "missing" // never ran, or broke off
	// PointDisturbed is a point that would be ok, but a worker was started again
	// while it was measured: for some of its time there was less to measure than
	// was planned, and its requests met errors. Its numbers hold no steady state.
	// The run goes on with the next point and ends with exit code 8.
	PointDisturbed PointStatus = "disturbed"
)

// Point is one client point, or the evaluation.
type Point struct {
	Name        string      `json:"name"` // c16, eval
	Concurrency int         `json:"concurrency,omitempty"`
	Status      PointStatus `json:"status"`
	ExitCode    *int        `json:"exit_code,omitempty"` // nil: it never exited
	Seconds     float64     `json:"seconds,omitempty"`
	Files       []File      `json:"files,omitempty"`
	Note        string      `json:"note,omitempty"`
}

// Restart is one time that a worker which had died was started again.
type Restart struct {
	Worker string `json:"worker"`
	// Point is what was measured meanwhile; empty: nothing was.
	Point string `json:"point,omitempty"`
	// Death is why: the end of the rank that explains the others'.
	Death Failure `json:"death"`
	// Seconds are those from the death until tokens came out through the worker
	// again; nil: they did not.
	Seconds *float64 `json:"seconds,omitempty"`
}

// File is one result file, relative to the run directory.
type File struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// Node is one node of the run.
type Node struct {
	Name string `json:"name"`
	Host string `json:"host,omitempty"`
	Addr string `json:"addr,omitempty"`
	// Plan are the plan nodes it stood for; empty: a spare that was not needed.
	Plan []int  `json:"plan,omitempty"`
	Note string `json:"note,omitempty"` // lost, unfit
}

// Read reads a result. A run that has not ended has none: nil, nil.
func Read(path string) (*Result, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read result %s: %w; events.jsonl beside it says how the run went", path, err)
	}
	if !r.sound() {
		return nil, fmt.Errorf("read result %s: it is none: outcome %q with exit code %d; events.jsonl beside it says how the run went", path, r.Outcome, r.ExitCode)
	}
	return &r, nil
}

// sound says that outcome and exit code are there and agree: nobody may take a file
// that was emptied or edited for success.
func (r *Result) sound() bool {
	switch r.Outcome {
	case OK:
		return r.ExitCode == 0
	case Failed, Cancelled:
		return r.ExitCode != 0
	}
	return false
}

// Encode gives the file's bytes.
func (r *Result) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	return append(data, '\n'), nil
}
