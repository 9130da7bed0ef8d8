package orchestrator

import (
	"net/http"
	"os"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// Options are what a run needs.
type Options struct {
	Dir  *rundir.Dir
	Plan *models.Plan
	// Nodes are the names of the allocation's nodes, in its order.
	Nodes    []string
	Launcher Launcher
	// Scheduler is nil where there is none.
	Scheduler Scheduler
	// Preflight checks nodes; nil: the stage is reported as skipped.
	Preflight Preflight
	// Signals ask the run to end: the first gracefully, the second fast, the third
	// leaves at once.
	Signals <-chan os.Signal
	// Job is the scheduler's job id, for the record.
	Job string
	// Deadline is when the allocation ends; zero: not known. The run ends itself
	// before, in time for its stop.
	Deadline time.Time
	// KillWait is how long the scheduler waits between TERM and KILL when it ends
	// the job; zero: its default.
	KillWait time.Duration
	// Version of the binary, for the record.
	Version string
	// HTTP reaches workers and router; nil: a transport without proxies.
	HTTP http.RoundTripper
	// Pace overrides how often things are asked; zero fields mean the defaults.
	Pace Pace
}

// Pace is how often a run asks, and how long it waits for answers that no stage
// budget covers.
type Pace struct {
	// Fast is the time between polls in the first FastFor of a wait; default
	// 50 ms for 5 s, so that a stage that is quick is noticed at once.
	Fast    time.Duration
	FastFor time.Duration
	// Slow is the time between polls later; default 2 s.
	Slow time.Duration
	// Probe bounds one health request; default 5 s.
	Probe time.Duration
	// Watch is the time between rounds of watching while the client runs;
	// default 5 s.
	Watch time.Duration
	// Deaf is how long a worker may neither answer nor show progress before it
	// counts as deaf; default 60 s. Engines answer late under load, but then
	// their logs move.
	Deaf time.Duration
	// Mute is how long a worker may not answer although its log moves; default
	// 10 min, the health timeout engines use for themselves.
	Mute time.Duration
	// Scheduler is the time between looks at the scheduler's view; default 15 s.
	Scheduler time.Duration
	// Look bounds the search for leftovers; default 10 s. Ports and memory may be
	// free only some seconds after their process.
	Look time.Duration
	// Unwritable is how long writing to the run directory may fail; default 30 s.
	// Somebody may be making room.
	Unwritable time.Duration
	// Visible is how long a file written on another node may take to be seen on a
	// network file system; default 5 s.
	Visible time.Duration
}

func (p Pace) filled() Pace {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&p.Fast, 50*time.Millisecond)
	def(&p.FastFor, 5*time.Second)
	def(&p.Slow, 2*time.Second)
	def(&p.Probe, 5*time.Second)
	def(&p.Watch, 5*time.Second)
	def(&p.Deaf, time.Minute)
	def(&p.Mute, 10*time.Minute)
	def(&p.Scheduler, 15*time.Second)
	def(&p.Look, 10*time.Second)
	def(&p.Unwritable, 30*time.Second)
	def(&p.Visible, 5*time.Second)
	return p
}
