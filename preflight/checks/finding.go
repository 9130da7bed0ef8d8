package checks

import "strings"

// Verdict is what a check says of one thing.
type Verdict string

// Verdicts, from good to bad as far as they can be ordered.
const (
	// Pass: looked at, and right.
	Pass Verdict = "pass"
	// Skip: does not apply here, for the reason given.
	Skip Verdict = "skip"
	// Warn: works, and should be mended.
	Warn Verdict = "warn"
	// Blocked: could not be judged because another check did not pass.
	Blocked Verdict = "blocked"
	// Unknown: could not be looked at.
	Unknown Verdict = "unknown"
	// Fail: wrong.
	Fail Verdict = "fail"
)

// Rank orders verdicts by how bad they are.
func (v Verdict) Rank() int {
	switch v {
	case Pass:
		return 0
	case Skip:
		return 1
	case Warn:
		return 2
	case Blocked:
		return 3
	case Unknown:
		return 4
	}
	return 5
}

// Finding is what one check says of one object on one node.
type Finding struct {
	CheckID string `json:"check"`
	// Node is empty for a finding about several nodes.
	Node string `json:"node,omitempty"`
	// Image is the image that was looked into, for a check made inside one.
	Image   string  `json:"image,omitempty"`
	Object  string  `json:"object,omitempty"` // NIC, GPU, mount, …
	Verdict Verdict `json:"verdict"`
	// Hard checks decide: a fail, and also an unknown or blocked, makes the node
	// unfit unless waived.
	Hard     bool       `json:"hard,omitempty"`
	Observed string     `json:"observed,omitempty"`
	Expected string     `json:"expected,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// Remedy is what to do, for the person on call.
	Remedy string `json:"remedy,omitempty"`
	// Waived is the reason of the waiver that demoted the finding to a warning;
	// Was is the verdict before.
	Waived string  `json:"waived,omitempty"`
	Was    Verdict `json:"was,omitempty"`
}

// Decides says that the finding makes its node unfit.
func (f Finding) Decides() bool {
	return f.Verdict == Fail || f.Hard && (f.Verdict == Unknown || f.Verdict == Blocked)
}

// InImage is what to add to what was observed, so that the image is named where
// neither the object nor the text does.
func (f Finding) InImage() string {
	if f.Image == "" || f.Object == f.Image || strings.Contains(f.Observed, f.Image) {
		return ""
	}
	return ", in image " + f.Image
}

// Evidence is where a finding comes from: what was read, and the lines.
type Evidence struct {
	// Source is the command as typed, or the file.
	Source string   `json:"source"`
	Lines  []string `json:"lines,omitempty"`
}

// maxEvidence bounds the lines of one piece of evidence; the raw facts hold all.
const maxEvidence = 8

// evidence makes one, cut to a readable length.
func evidence(source string, lines ...string) Evidence {
	if len(lines) > maxEvidence {
		lines = append(append([]string{}, lines[:maxEvidence]...), "…")
	}
	return Evidence{Source: source, Lines: lines}
}

// Worst is the worst verdict among findings; Pass for none.
func Worst(fs []Finding) Verdict {
	w := Pass
	for _, f := range fs {
		if f.Verdict.Rank() > w.Rank() {
			w = f.Verdict
		}
	}
	return w
}
