// Package signature explains log lines: a table of what engines, collectives,
// network libraries and routers print when they fail, each entry with what it
// means and what to do, and a matcher that finds them in logs as they really
// are: coloured, with carriage returns, with bytes that are no text, with lines
// of megabytes, and with several ranks in one file.
//
// The package is pure: it is given bytes and gives back matches.
package signature

import (
	"maps"
	"slices"
)

// Grade says how much a matched line says about the cause.
type Grade int

// The grades, strongest first.
const (
	// Cause lines name what went wrong where it went wrong.
	Cause Grade = iota
	// Suspect lines often come before a failure, and often before none.
	Suspect
	// Effect lines say that somebody else failed.
	Effect
)

// Phase is how far an engine has come, as its log tells.
type Phase string

// The phases of a starting engine.
const (
	PhaseStart   Phase = "start"
	PhaseLoad    Phase = "load"    // reading weights
	PhaseCapture Phase = "capture" // recording graphs
	PhaseServe   Phase = "serve"   // answering requests
)

// Signature is one entry of the table.
type Signature struct {
	ID string
	// Engine is the program that prints the line: sglang, vllm, atom, router;
	// empty: any.
	Engine string
	// Any lists texts of which one must be in the line. They are compared as they
	// are, before Pattern is tried, which keeps a big log fast.
	Any []string
	// Pattern is a regular expression the line must match too; empty: none.
	Pattern string
	// Phase restricts the entry to one phase; empty: any.
	Phase Phase
	Grade Grade
	// Meaning and Remedy are sentences for the person on call.
	Meaning string
	Remedy  string
	// Source is where the line is known from.
	Source string
}

// Match is a signature found in a log.
type Match struct {
	Signature
	// Line is the first line it was found on, from 1; Text is that line, cleaned
	// and cut to a readable length; Count is on how many lines it was found.
	Line  int
	Text  string
	Count int
	// Peers is on how many of these lines other programs of the run are named.
	Peers map[string]int
}

// Peer is another program of the run.
type Peer struct {
	Name string
	// Texts are the ways in which a log may name it, such as address and port.
	Texts []string
	// Addr is an address that names it by itself, unless a port stands behind it that
	// is none of Ports; empty: there is none.
	Addr  string
	Ports []int
}

// Peer is who is named on most of the lines, and on how many; "" where nobody is.
func (m Match) Peer() (name string, lines int) {
	for _, who := range slices.Sorted(maps.Keys(m.Peers)) {
		if n := m.Peers[who]; n > lines {
			name, lines = who, n
		}
	}
	return name, lines
}
