package preflight

import (
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
)

// Facts is everything that was gathered on one node.
type Facts = facts.Facts

// Finding is what one check says of one object on one node.
type Finding = checks.Finding

// Verdict is what a check says of one thing.
type Verdict = checks.Verdict

// Expect is what facts are compared with.
type Expect = checks.Expect

// Choice is how KV traffic should be marked on a node.
type Choice = checks.Choice

// Verdicts, and the contexts of facts.
const (
	Pass    = checks.Pass
	Skip    = checks.Skip
	Warn    = checks.Warn
	Blocked = checks.Blocked
	Unknown = checks.Unknown
	Fail    = checks.Fail

	ContextHost  = facts.ContextHost
	ContextImage = facts.ContextImage
	ContextRun   = facts.ContextRun
)

// DeriveQoS reads from a node's facts how KV traffic should be marked there: the
// lossless priority with the largest share and a DSCP that every rail maps to it.
// The error says why the NICs give no single answer; then nothing must be
// guessed.
func DeriveQoS(f *Facts, e *Expect) (Choice, error) {
	return checks.NewView(f, e).Derive()
}

// Rails names the RDMA devices of a node that carry the run's data, in natural
// order.
func Rails(f *Facts, e *Expect) []string {
	var out []string
	for _, n := range checks.NewView(f, e).Rails() {
		out = append(out, n.Name)
	}
	return out
}
