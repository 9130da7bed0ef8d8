package output

import (
	"fmt"
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// expanded is how many findings of one check are shown in full; further ones,
// such as sixty-four different amounts of memory, take one line each.
const expanded = 3

func writeText(b *strings.Builder, d Document, o Options) {
	colour := green
	if !d.Fit {
		colour = red
	}
	fmt.Fprintf(b, "%s\n\n", paint(o, colour+";"+bold, headline(d)))
	writeMatrix(b, d, o)
	writeDeciding(b, d, o)
	writeLines(b, "\nwarnings", d, o, func(g preflight.Group) bool { return !g.Decides() && g.Verdict == preflight.Warn && g.Waived == "" })
	writeLines(b, "\nnot known, and not decisive", d, o, func(g preflight.Group) bool {
		return !g.Decides() && (g.Verdict == preflight.Unknown || g.Verdict == preflight.Blocked)
	})
	writeWaivers(b, d, o)
	if s := Skipped(d.Findings); s != "" {
		fmt.Fprintf(b, "\nskipped: %s\n", s)
	}
	writeDrift(b, d)
	writeCommands(b, d, o)
}

// deciding are the groups that make nodes unfit: what is wrong first, then what is
// not known, then what that blocks.
func deciding(d Document) []preflight.Group {
	var out []preflight.Group
	for _, g := range d.Groups {
		if g.Decides() {
			out = append(out, g)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Verdict.Rank() > out[j].Verdict.Rank() })
	return out
}

func writeDeciding(b *strings.Builder, d Document, o Options) {
	shown := map[string]int{}
	for _, g := range deciding(d) {
		if g.Verdict == preflight.Blocked {
			fmt.Fprintf(b, "\n%s\n", line(g, o))
			continue
		}
		if shown[g.CheckID]++; shown[g.CheckID] > expanded {
			fmt.Fprintf(b, "%s\n", line(g, o))
			continue
		}
		fmt.Fprintf(b, "\n%s %s on %s\n", paint(o, red, strings.ToUpper(string(g.Verdict))), paint(o, bold, g.CheckID), clean(place(g)))
		field := func(name, text string) {
			if text != "" {
				fmt.Fprintf(b, "  %-9s %s\n", name, clean(text))
			}
		}
		field("object", objects(g))
		field("observed", g.Observed+g.InImage())
		field("expected", g.Expected)
		for _, e := range g.Evidence {
			field("evidence", "$ "+e.Source)
			for _, l := range e.Lines {
				fmt.Fprintf(b, "  %-9s | %s\n", "", clean(l))
			}
		}
		field("remedy", g.Remedy)
	}
}

// line is a group in one line.
func line(g preflight.Group, o Options) string {
	colour := yellow
	if g.Decides() {
		colour = red
	}
	s := fmt.Sprintf("%s %s on %s: ", paint(o, colour, string(g.Verdict)), g.CheckID, clean(place(g)))
	if len(g.Objects) > 0 {
		s += clean(objects(g)) + ": "
	}
	s += clean(g.Observed + g.InImage())
	if g.Expected != "" {
		s += " (expected: " + clean(g.Expected) + ")"
	}
	return s
}

func writeLines(b *strings.Builder, title string, d Document, o Options, pick func(preflight.Group) bool) {
	for _, g := range d.Groups {
		if !pick(g) {
			continue
		}
		if title != "" {
			b.WriteString(title + "\n")
			title = ""
		}
		fmt.Fprintf(b, "  %s\n", line(g, o))
	}
}

func writeWaivers(b *strings.Builder, d Document, o Options) {
	if len(d.Waivers) == 0 {
		return
	}
	b.WriteString("\nwaivers\n")
	for _, w := range d.Waivers {
		what := fmt.Sprintf("it demoted %d findings", w.Used)
		switch {
		case w.Unknown:
			what = "there is no such check"
		case w.Used == 0:
			what = "it was not needed"
		case w.Used == 1:
			what = "it demoted 1 finding"
		}
		fmt.Fprintf(b, "  %s: %s; %s\n", clean(w.CheckID), clean(w.Reason), what)
		for _, g := range d.Groups {
			if g.CheckID == w.CheckID && g.Waived != "" {
				fmt.Fprintf(b, "    was %s: %s\n", g.Was, line(g, o))
			}
		}
	}
}

func writeDrift(b *strings.Builder, d Document) {
	if len(d.Drift) == 0 {
		return
	}
	b.WriteString("\nchanged since the baseline\n")
	for _, x := range d.Drift {
		where := x.Node
		if where == "" {
			where = "all nodes together"
		}
		if x.Object != "" {
			where += " " + x.Object
		}
		mark := " "
		if x.Worse {
			mark = "!"
		}
		fmt.Fprintf(b, " %s%s on %s: %s → %s\n", mark, x.CheckID, clean(where), side(x.Before, x.Was), side(x.Now, x.Is))
	}
}

func side(v preflight.Verdict, text string) string {
	if text == "" {
		return string(v)
	}
	return string(v) + " (" + clean(text) + ")"
}

// writeCommands prints what a person on call types next. Nothing of it is run.
func writeCommands(b *strings.Builder, d Document, o Options) {
	bad := d.Bad()
	if len(bad) == 0 && d.Fit {
		return
	}
	b.WriteString("\nnext\n")
	for _, id := range inOrder(decidingChecks(d)) {
		fmt.Fprintf(b, "  disagg preflight explain %s\n", id)
	}
	if o.Drain {
		for _, c := range append(notes(d, o.Fold), drains(d, o.Fold)...) {
			fmt.Fprintf(b, "  %s\n", c)
		}
	}
	if good := d.Good(); len(good) > 0 && len(bad) > 0 {
		fmt.Fprintf(b, "good nodes: %s\n", clean(o.Fold(good)))
	}
}

func decidingChecks(d Document) map[string]bool {
	out := map[string]bool{}
	for _, g := range d.Groups {
		if g.Decides() && g.Verdict != preflight.Blocked {
			out[g.CheckID] = true
		}
	}
	return out
}
