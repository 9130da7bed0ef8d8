package output

import (
	"fmt"
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// expanded is how many groups of one trouble show their evidence; further ones,
// such as sixty-four different amounts of memory, have one line each.
const expanded = 3

func writeText(b *strings.Builder, d Document, o Options) {
	colour := green
	if !d.Fit {
		colour = red
	}
	fmt.Fprintf(b, "%s\n\n", paint(o, colour+";"+bold, headline(d)))
	writeMatrix(b, d, o)
	writeDeciding(b, d, o)
	writeOthers(b, "\nwarnings", d, o, func(g preflight.Group) bool { return !g.Decides() && g.Verdict == preflight.Warn && g.Waived == "" })
	writeOthers(b, "\nnot known, and not decisive", d, o, func(g preflight.Group) bool {
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
	var blocked []preflight.Group
	for _, t := range troubles(deciding(d)) {
		if t[0].Verdict == preflight.Blocked {
			blocked = append(blocked, t...)
			continue
		}
		writeTrouble(b, red, t, d, o)
	}
	if len(blocked) > 0 {
		fmt.Fprintf(b, "\n%s\n", paint(o, red, strings.ToUpper(string(preflight.Blocked))))
		writeBlocked(b, blocked)
	}
}

// troubles puts groups together that differ in no more than what was observed of
// which object, such as amounts: one thing is to be done about them.
func troubles(gs []preflight.Group) [][]preflight.Group {
	type trouble struct {
		id               string
		verdict          preflight.Verdict
		image            string
		expected, remedy string
	}
	var out [][]preflight.Group
	at := map[trouble]int{}
	for _, g := range gs {
		k := trouble{g.CheckID, g.Verdict, g.Image, g.Expected, g.Remedy}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], g)
	}
	return out
}

// writeTrouble shows one trouble in full.
func writeTrouble(b *strings.Builder, colour string, gs []preflight.Group, d Document, o Options) {
	first := gs[0]
	onePlace, oneObject := true, true
	for _, g := range gs {
		onePlace = onePlace && place(g) == place(first)
		oneObject = oneObject && objects(g) == objects(first)
	}
	fmt.Fprintf(b, "\n%s %s on %s\n", paint(o, colour, strings.ToUpper(string(first.Verdict))), paint(o, bold, first.CheckID), clean(places(gs, d, o)))
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %-9s %s\n", name, clean(text))
		}
	}
	// which tells a group from the others.
	which := func(g preflight.Group) string {
		var parts []string
		if !onePlace {
			parts = append(parts, place(g))
		}
		if !oneObject && len(g.Objects) > 0 {
			parts = append(parts, objects(g))
		}
		return strings.Join(parts, ", ")
	}
	if oneObject {
		field("object", objects(first))
	}
	name := "observed"
	for _, g := range gs {
		text := g.Observed + g.InImage()
		if w := which(g); w != "" {
			text = w + ": " + text
		}
		field(name, text)
		name = ""
	}
	field("expected", first.Expected)
	shown := map[string]bool{}
	for i, g := range gs {
		if i == expanded {
			break
		}
		for _, e := range g.Evidence {
			source := "$ " + e.Source
			if k := source + "\n" + strings.Join(e.Lines, "\n"); shown[k] {
				continue // the same output says it of several objects
			} else {
				shown[k] = true
			}
			if w := which(g); w != "" {
				source += "   # " + w
			}
			field("evidence", source)
			for _, l := range e.Lines {
				fmt.Fprintf(b, "  %-9s | %s\n", "", clean(l))
			}
		}
	}
	field("remedy", first.Remedy)
}

// places is where a trouble was found, in report order.
func places(gs []preflight.Group, d Document, o Options) string {
	if len(gs) == 1 {
		return place(gs[0])
	}
	on := map[string]bool{}
	for _, g := range gs {
		for _, n := range g.Nodes {
			on[n] = true
		}
	}
	var nodes []string
	for _, n := range d.Nodes {
		if on[n.Node] {
			nodes = append(nodes, n.Node)
		}
	}
	if len(nodes) == 0 {
		return place(gs[0])
	}
	return o.Fold(nodes)
}

// writeBlocked lists what other checks block, those with the same reason in one
// line.
func writeBlocked(b *strings.Builder, gs []preflight.Group) {
	var keys []string
	ids := map[string][]string{}
	for _, g := range gs {
		why := clean(place(g)) + ": "
		if len(g.Objects) > 0 {
			why += clean(objects(g)) + ": "
		}
		why += clean(observed(g))
		if ids[why] == nil {
			keys = append(keys, why)
		}
		ids[why] = append(ids[why], g.CheckID)
	}
	for _, why := range keys {
		fmt.Fprintf(b, "  %s on %s\n", strings.Join(ids[why], " "), why)
	}
}

// observed is what was observed, without the word that the verdict says already.
func observed(g preflight.Group) string {
	s := g.Observed + g.InImage()
	if g.Verdict == preflight.Blocked {
		s = strings.TrimPrefix(s, string(preflight.Blocked)+" ")
	}
	return s
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
	s += clean(observed(g))
	if g.Expected != "" {
		s += " (expected: " + clean(g.Expected) + ")"
	}
	return s
}

// writeOthers prints what makes no node unfit: in one line each, or in full.
func writeOthers(b *strings.Builder, title string, d Document, o Options, pick func(preflight.Group) bool) {
	var gs []preflight.Group
	for _, g := range d.Groups {
		if pick(g) {
			gs = append(gs, g)
		}
	}
	if len(gs) == 0 {
		return
	}
	b.WriteString(title + "\n")
	if o.Full {
		for _, t := range troubles(gs) {
			writeTrouble(b, yellow, t, d, o)
		}
		return
	}
	for _, g := range gs {
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
