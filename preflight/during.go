package preflight

import (
	"fmt"
	"sort"

	"github.com/disagg/disagg/preflight/checks"
)

// Growth is by how much the counters of one rail grew between two moments.
type Growth = checks.Growth

// RunReport is what happened on nodes since they were checked before a run.
type RunReport struct {
	Version int `json:"version"`
	// Growth is what grew on each rail, nodes and rails in their order.
	Growth []Growth `json:"growth,omitempty"`
	// Findings explain what is not as it should be, nodes in their order.
	Findings []Finding `json:"findings,omitempty"`
}

// During compares facts that were gathered while a run was on, or just after it,
// with those of the same nodes from before. Of nodes that could not be asked it says
// so.
func During(before, after []Facts, s Spec) RunReport {
	r := RunReport{Version: ReportVersion}
	old := map[string]*Facts{}
	for i := range before {
		if f := &before[i]; f.Context == ContextHost && f.Unreached == "" {
			old[f.Node] = f
		}
	}
	var spans []checks.Span
	order := map[string]int{}
	for i := range after {
		f := &after[i]
		order[f.Node] = i
		unknown := func(why string) {
			r.Findings = append(r.Findings, Finding{CheckID: checks.RunCounters, Node: f.Node, Verdict: Unknown, Observed: why, Remedy: fmt.Sprintf("look at %s by hand: rdma statistic show", f.Node)})
		}
		if f.Unreached != "" {
			unknown("it could not be looked at again: " + f.Unreached)
			continue
		}
		span := checks.Span{After: checks.NewView(f, &s.Expect)}
		switch {
		case old[f.Node] != nil:
			span.Before = checks.NewView(old[f.Node], &s.Expect)
		case len(old) > 0 && s.Expect.NoRDMA() == "": // of a run without preflight it is known that nothing is compared
			unknown("there is nothing from before the run to compare with")
		}
		spans = append(spans, span)
	}
	grown, found := checks.During(spans)
	r.Growth, r.Findings = grown, append(r.Findings, found...)
	sort.SliceStable(r.Findings, func(i, j int) bool { return order[r.Findings[i].Node] < order[r.Findings[j].Node] })
	return r
}
