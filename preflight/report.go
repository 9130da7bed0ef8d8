package preflight

import "github.com/disagg/disagg/preflight/checks"

// ReportVersion is the version of the Report encoding.
const ReportVersion = 1

// Report is the outcome of a preflight.
type Report struct {
	Version int `json:"version"`
	// Fit says that every node is fit and nothing about the fleet decides
	// against it.
	Fit   bool         `json:"fit"`
	Nodes []NodeReport `json:"nodes"` // in the order the facts came in
	// Findings are all findings, sorted by check, node and object.
	Findings []Finding `json:"findings"`
	// Groups are the findings that are not a pass, equal ones folded over nodes.
	Groups []Group `json:"groups"`
	// Waivers are the waivers in force, each with what it did.
	Waivers []Waiver `json:"waivers,omitempty"`
}

// NodeReport is one node in one line.
type NodeReport struct {
	Node string `json:"node"`
	Fit  bool   `json:"fit"`
	// Worst is the worst verdict of all checks.
	Worst Verdict `json:"worst"`
	// Checks is the worst verdict of each check, by id.
	Checks map[string]Verdict `json:"checks"`
	// Deciding lists the checks that make the node unfit, in report order.
	Deciding []string `json:"deciding,omitempty"`
}

// Group is one finding as it stands on several nodes and objects. Its evidence is
// that of the first.
type Group struct {
	Finding
	// Objects are all objects it stands for; Finding.Object is the first.
	Objects []string `json:"objects,omitempty"`
	Nodes   []string `json:"nodes"` // in report order
	// Hosts is the same as a host list.
	Hosts string `json:"hosts"`
}

// Waiver is a check that may fail, and why.
type Waiver struct {
	CheckID string `json:"check"`
	Reason  string `json:"reason"`
	// Used counts the findings it demoted.
	Used int `json:"used"`
	// Unknown says that there is no such check.
	Unknown bool `json:"unknown,omitempty"`
}

// Good lists the nodes that are fit, in order.
func (r Report) Good() []string { return r.pick(true) }

// Bad lists the nodes that are not, in order.
func (r Report) Bad() []string { return r.pick(false) }

func (r Report) pick(fit bool) []string {
	var out []string
	for _, n := range r.Nodes {
		if n.Fit == fit {
			out = append(out, n.Node)
		}
	}
	return out
}

// Count counts the findings of each verdict.
func (r Report) Count() map[Verdict]int {
	out := map[Verdict]int{}
	for _, f := range r.Findings {
		out[f.Verdict]++
	}
	return out
}

// IDs lists the ids of all checks in report order.
func IDs() []string {
	var out []string
	for _, c := range checks.All() {
		out = append(out, c.ID)
	}
	return out
}
