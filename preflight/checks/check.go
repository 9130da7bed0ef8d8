package checks

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
)

// Check is one named judgement.
type Check struct {
	// ID is stable; documents, waivers and reports name it.
	ID string
	// Hard says whether not knowing is as bad as being wrong. It is set where the
	// answer can be had on every node that is set up right.
	Hard bool
	// Context is where the facts must come from: facts.ContextHost or
	// facts.ContextImage.
	Context string
	// Needs names a check that must have passed on the node; otherwise this one
	// is blocked by it.
	Needs string
	// Node judges one node. nil for a check that only compares nodes.
	Node func(*View) []Finding
	// Fleet compares nodes; it is only called with two or more. nil for a check
	// that looks at one node at a time.
	Fleet func([]*View) []Finding
}

// Run judges one node. It always says something, and a fault in a judge is
// reported as not knowing instead of ending the whole report.
func (c Check) Run(v *View) (out []Finding) {
	defer func() {
		if r := recover(); r != nil {
			out = c.own(v, []Finding{{Verdict: Unknown, Observed: fmt.Sprintf("the check itself failed: %v", r), Remedy: "report this with the facts bundle of the node"}})
		}
	}()
	fs := c.Node(v)
	if len(fs) == 0 {
		fs = []Finding{{Verdict: Unknown, Observed: "the check came to no conclusion"}}
	}
	return c.own(v, fs)
}

// own fills in what is the same for all findings of a check on a node.
func (c Check) own(v *View, fs []Finding) []Finding {
	for i := range fs {
		fs[i].CheckID, fs[i].Node, fs[i].Hard, fs[i].Image = c.ID, v.Facts.Node, c.Hard, v.Facts.Image
	}
	return fs
}

// RunFleet compares nodes.
func (c Check) RunFleet(vs []*View) (out []Finding) {
	defer func() {
		if r := recover(); r != nil {
			out = []Finding{{CheckID: c.ID, Hard: c.Hard, Verdict: Unknown, Observed: fmt.Sprintf("the comparison itself failed: %v", r), Remedy: "report this with the facts bundles"}}
		}
	}()
	out = c.Fleet(vs)
	for i := range out {
		out[i].CheckID, out[i].Hard = c.ID, c.Hard
	}
	return out
}

// Findings, made short.

func pass(observed string, ev ...Evidence) Finding {
	return Finding{Verdict: Pass, Observed: observed, Evidence: ev}
}

func skip(reason string) Finding { return Finding{Verdict: Skip, Observed: reason} }

func fail(object, observed, expected, remedy string, ev ...Evidence) Finding {
	return Finding{Verdict: Fail, Object: object, Observed: observed, Expected: expected, Remedy: remedy, Evidence: ev}
}

func warn(object, observed, expected, remedy string, ev ...Evidence) Finding {
	return Finding{Verdict: Warn, Object: object, Observed: observed, Expected: expected, Remedy: remedy, Evidence: ev}
}

func unknown(object, observed, remedy string, ev ...Evidence) Finding {
	return Finding{Verdict: Unknown, Object: object, Observed: observed, Remedy: remedy, Evidence: ev}
}

// orPass is fs, or one pass where fs is empty.
func orPass(fs []Finding, observed string, ev ...Evidence) []Finding {
	if len(fs) == 0 {
		return []Finding{pass(observed, ev...)}
	}
	return fs
}

// odd compares one value over nodes: it names the nodes whose value is not the
// majority's. value returns "" for a node that has none. With no majority every
// node is named.
func odd(vs []*View, what string, value func(*View) string) (fs []Finding, common string) {
	counts := map[string]int{}
	for _, v := range vs {
		if x := value(v); x != "" {
			counts[x]++
		}
	}
	best, tie := "", false
	for _, x := range sortedKeys(counts) {
		switch {
		case counts[x] > counts[best]:
			best, tie = x, false
		case counts[x] == counts[best]:
			tie = true
		}
	}
	if len(counts) < 2 {
		return nil, best
	}
	expected := fmt.Sprintf("%s as on %d other nodes", best, counts[best])
	if tie {
		expected = "the same on all nodes; here no value has a majority"
	}
	for _, v := range vs {
		x := value(v)
		if x == "" || x == best && !tie {
			continue
		}
		fs = append(fs, Finding{Node: v.Facts.Node, Verdict: Fail, Object: what, Observed: x, Expected: expected})
	}
	return fs, best
}

// softly turns fails into warnings.
func softly(fs []Finding) []Finding {
	for i := range fs {
		if fs[i].Verdict == Fail {
			fs[i].Verdict = Warn
		}
	}
	return fs
}

// remedy sets the remedy of findings that have none.
func remedy(fs []Finding, text string) []Finding {
	for i := range fs {
		if fs[i].Remedy == "" {
			fs[i].Remedy = text
		}
	}
	return fs
}

// typed writes a command as one types it.
func typed(c facts.Command) string { return strings.Join(c.Argv, " ") }
