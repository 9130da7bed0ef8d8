package nodecheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/output"
)

// shownReasons is how many checks a node's verdict names before it counts.
const shownReasons = 3

// summary is a report as a run acts on it. Of a stage that looks into images only
// their findings count; those of the hosts have been acted on.
func summary(rep preflight.Report, context string) orchestrator.PreflightReport {
	out := orchestrator.PreflightReport{Unfit: map[string]string{}}
	mine := func(id string) bool {
		inside := strings.HasPrefix(id, "image.") && id != imagePresent
		return inside == (context == preflight.ContextImage)
	}
	for _, n := range rep.Nodes {
		if why := reason(n, rep.Findings, mine); why != "" {
			out.Unfit[n.Node] = why
		}
	}
	for _, g := range rep.Groups {
		if !mine(g.CheckID) {
			continue
		}
		switch {
		case g.Waived != "":
			out.Unproven = append(out.Unproven, fmt.Sprintf("%s; waived: %s", line(g), g.Waived))
		case g.Decides() && len(g.Nodes) == 0:
			// About the fleet as a whole: no node can be left out for it.
			for _, n := range rep.Nodes {
				out.Unfit[n.Node] = joinReasons(out.Unfit[n.Node], line(g))
			}
		case g.Decides():
		case g.Verdict == preflight.Warn || g.Verdict == preflight.Fail:
			out.Warnings = append(out.Warnings, line(g))
		case g.Verdict == preflight.Unknown || g.Verdict == preflight.Blocked:
			out.Unproven = append(out.Unproven, line(g))
		}
	}
	here := slices.DeleteFunc(slices.Clone(rep.Findings), func(f preflight.Finding) bool { return !mine(f.CheckID) })
	if s := output.Skipped(here); s != "" {
		out.Unproven = append(out.Unproven, "checks that were skipped: "+s)
	}
	if context == preflight.ContextHost {
		for _, w := range rep.Waivers {
			switch {
			case w.Unknown:
				out.Warnings = append(out.Warnings, fmt.Sprintf("the waiver of %s does nothing: there is no such check", w.CheckID))
			case w.Used == 0 && !strings.HasPrefix(w.CheckID, "image."):
				out.Warnings = append(out.Warnings, fmt.Sprintf("the waiver of %s (%s) was not needed", w.CheckID, w.Reason))
			}
		}
	}
	return out
}

// imagePresent is the one check of images that is made on the host.
const imagePresent = "image.present"

// reason is why a node is unfit, in one line; "" where it is not.
func reason(n preflight.NodeReport, fs []preflight.Finding, mine func(string) bool) string {
	if n.Fit {
		return ""
	}
	var parts []string
	more := 0
	for _, id := range n.Deciding {
		if !mine(id) {
			continue
		}
		if len(parts) == shownReasons {
			more++
			continue
		}
		i := slices.IndexFunc(fs, func(f preflight.Finding) bool { return f.Node == n.Node && f.CheckID == id && f.Decides() })
		parts = append(parts, describe(fs[i], fs[i].Object))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more checks", more))
	}
	if len(n.Checks) == 0 {
		return "nothing was found out about it"
	}
	return strings.Join(parts, "; ")
}

// line is a folded finding in one line.
func line(g preflight.Group) string {
	object := strings.Join(g.Objects, ", ")
	if len(g.Objects) > 4 {
		object = fmt.Sprintf("%s and %d more", strings.Join(g.Objects[:3], ", "), len(g.Objects)-3)
	}
	text := describe(g.Finding, object)
	if g.Hosts != "" {
		text = g.Hosts + ": " + text
	}
	return text
}

// describe is one finding in one line.
func describe(f preflight.Finding, object string) string {
	text := f.CheckID + ": "
	if object != "" {
		text += object + ": "
	}
	text += f.Observed + f.InImage()
	if f.Expected != "" {
		text += " (expected: " + f.Expected + ")"
	}
	if v := f.Verdict; v == preflight.Unknown || v == preflight.Blocked && !strings.HasPrefix(f.Observed, string(v)) {
		text += " (" + string(v) + ")"
	}
	return text
}

func joinReasons(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
