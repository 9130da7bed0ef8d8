package faults

import (
	"slices"
	"time"
)

// Fault is one thing that goes wrong, and what must come of it.
type Fault struct {
	// ID names the fault; it does not change.
	ID string
	// Group is the heading it stands under.
	Group Group
	// What happens, as a sentence without its full stop.
	What string
	// Codes are the exit codes with which the run may end.
	Codes []int
	// Cause is a regular expression for what the tool says of it: the cause, or
	// what `disagg wait` says where the run could not record one. Empty: the run
	// is not harmed.
	Cause string
	// Printed is an example of that, as it was printed.
	Printed string
	// Bound is how long after the fault nothing of the run may be left on any
	// node. A run that is not harmed has none: zero.
	Bound time.Duration
	// Kept is what must be there afterwards.
	Kept Kept
	// Note says what else should be known; may be empty.
	Note string
}

// Group is a kind of fault.
type Group string

// The groups, in the order in which they are printed.
const (
	Killed    Group = "Killed (kill -9)"
	Stopped   Group = "Stopped (SIGSTOP), as if hung"
	Network   Group = "Network and power"
	Disk      Group = "Full disks"
	Scheduler Group = "The scheduler ends the job"
	Person    Group = "A person ends the run"
	Programs  Group = "Programs that misbehave"
	Twice     Group = "Two faults at once"
)

// Groups are all groups in their order.
func Groups() []Group {
	return []Group{Killed, Stopped, Network, Disk, Scheduler, Person, Programs, Twice}
}

// Kept says what of a run must be there after a fault.
type Kept struct {
	// Result: result.json names outcome and cause.
	Result bool
	// Logs: a log of every process that was started.
	Logs bool
	// Events: the event log can be read to its end.
	Events bool
}

// everything is kept whenever the controller lives and has a disk to write to.
func everything() Kept { return Kept{Result: true, Logs: true, Events: true} }

// Matrix is every fault that is tried on the lab.
func Matrix() []Fault {
	return slices.Concat(killed(), stopped(), network(), disks(), scheduler(), persons(), programs(), twice())
}
