package preflight

import (
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
)

// Judge judges the facts of nodes. A node may have facts of the host and of the
// image; both belong to the node. fold writes node names as a host list. The
// report depends on nothing else.
func Judge(all []Facts, s Spec, fold func([]string) string) Report {
	r := Report{Version: ReportVersion}
	list := checks.All()
	order := map[string]int{}
	for i, c := range list {
		order[c.ID] = i
	}

	hosts, byContext := views(all, s)
	for _, c := range list {
		vs := byContext[c.Context]
		if c.Node != nil {
			for _, v := range vs {
				if v.Facts.Unreached == "" || c.ID == checks.Reach || c.ID == checks.ImageStart {
					r.Findings = append(r.Findings, c.Run(v)...)
				}
			}
		}
		if c.Fleet != nil {
			var reached []*checks.View
			for _, v := range vs {
				if v.Facts.Unreached == "" {
					reached = append(reached, v)
				}
			}
			if len(reached) > 1 {
				r.Findings = append(r.Findings, c.RunFleet(reached)...)
			}
		}
	}
	r.Waivers = waive(r.Findings, s.Waive, order)
	sort.SliceStable(r.Findings, func(i, j int) bool { return less(r.Findings[i], r.Findings[j], order) })

	r.Fit = len(hosts) > 0
	for _, f := range r.Findings {
		r.Fit = r.Fit && !(f.Node == "" && f.Decides())
	}
	for _, node := range hosts {
		n := nodeReport(node, r.Findings)
		r.Fit = r.Fit && n.Fit
		r.Nodes = append(r.Nodes, n)
	}
	r.Groups = groups(r.Findings, hosts, fold)
	return r
}

// views prepares the facts, and lists the nodes in the order they first appear.
func views(all []Facts, s Spec) (hosts []string, by map[string][]*checks.View) {
	by = map[string][]*checks.View{}
	seen := map[string]bool{}
	for i := range all {
		f := &all[i]
		if !seen[f.Node] {
			seen[f.Node] = true
			hosts = append(hosts, f.Node)
		}
		context := f.Context
		if context == "" {
			context = facts.ContextHost
		}
		e := &s.Expect
		if context == facts.ContextImage {
			inside := s.Expect.Inside(f.Image)
			e = &inside
		}
		by[context] = append(by[context], checks.NewView(f, e))
	}
	return hosts, by
}

// waive demotes the findings of waived checks to warnings, and says what each
// waiver did.
func waive(fs []Finding, waivers map[string]string, known map[string]int) []Waiver {
	var out []Waiver
	for _, id := range sortedKeys(waivers) {
		w := Waiver{CheckID: id, Reason: waivers[id]}
		if _, ok := known[id]; !ok {
			w.Unknown = true
		}
		for i := range fs {
			if fs[i].CheckID == id && fs[i].Decides() {
				fs[i].Was, fs[i].Verdict, fs[i].Waived = fs[i].Verdict, Warn, waivers[id]
				w.Used++
			}
		}
		out = append(out, w)
	}
	return out
}

func less(a, b Finding, order map[string]int) bool {
	if x, y := order[a.CheckID], order[b.CheckID]; x != y {
		return x < y
	}
	if a.Node != b.Node {
		return checks.NaturalLess(a.Node, b.Node)
	}
	if a.Verdict != b.Verdict {
		return a.Verdict.Rank() > b.Verdict.Rank()
	}
	if a.Object != b.Object {
		return checks.NaturalLess(a.Object, b.Object)
	}
	return a.Observed < b.Observed
}

func nodeReport(node string, fs []Finding) NodeReport {
	n := NodeReport{Node: node, Fit: true, Worst: Pass, Checks: map[string]Verdict{}}
	for _, f := range fs {
		if f.Node != node {
			continue
		}
		if old, ok := n.Checks[f.CheckID]; !ok || outweighs(f, old) {
			n.Checks[f.CheckID] = f.Verdict
		}
		if f.Verdict.Rank() > n.Worst.Rank() {
			n.Worst = f.Verdict
		}
		if f.Decides() {
			n.Fit = false
			if l := len(n.Deciding); l == 0 || n.Deciding[l-1] != f.CheckID {
				n.Deciding = append(n.Deciding, f.CheckID)
			}
		}
	}
	// A node nothing was found out about is not fit.
	if len(n.Checks) == 0 {
		n.Fit, n.Worst = false, Unknown
	}
	return n
}

// outweighs says that a finding counts for more than what the check said before.
// What does not apply in one image takes nothing from what was found in another.
func outweighs(f Finding, old Verdict) bool {
	if f.Image != "" && (f.Verdict == Skip || old == Skip) {
		return old == Skip
	}
	return f.Verdict.Rank() > old.Rank()
}

// groups folds equal findings: first over the objects of a node, then over the
// nodes that have them on the same objects.
func groups(fs []Finding, hosts []string, fold func([]string) string) []Group {
	text := func(f Finding) string {
		return strings.Join([]string{f.CheckID, string(f.Verdict), f.Image, f.Observed, f.Expected, f.Remedy, f.Waived}, "\x00")
	}
	var perNode []Group
	at := map[string]int{}
	for _, f := range fs {
		if f.Verdict == Pass {
			continue
		}
		key := f.Node + "\x00" + text(f)
		i, ok := at[key]
		if !ok {
			i = len(perNode)
			at[key] = i
			perNode = append(perNode, Group{Finding: f})
		}
		if f.Object != "" {
			perNode[i].Objects = append(perNode[i].Objects, f.Object)
		}
	}
	pos := map[string]int{}
	for i, h := range hosts {
		pos[h] = i
	}
	var out []Group
	at = map[string]int{}
	for _, g := range perNode {
		key := text(g.Finding) + "\x00" + strings.Join(g.Objects, "\x00")
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, g)
		}
		if g.Node != "" {
			out[i].Nodes = append(out[i].Nodes, g.Node)
		}
	}
	for i := range out {
		ns := out[i].Nodes
		sort.SliceStable(ns, func(a, b int) bool { return pos[ns[a]] < pos[ns[b]] })
		out[i].Hosts, out[i].Node = fold(ns), ""
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
