package output

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// writeMarkdown prints a page for a ticket or a pull request.
func writeMarkdown(b *strings.Builder, d Document, o Options) {
	fmt.Fprintf(b, "# Preflight: %s\n\n", headline(d))
	cols := columns(d)
	b.WriteString("| nodes | |")
	for _, id := range cols {
		fmt.Fprintf(b, " %s |", id)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(cols)) + "\n")
	for _, r := range rows(d, cols) {
		word := "fit"
		if !r.fit {
			word = "**unfit**"
		}
		fmt.Fprintf(b, "| %s | %s |", md(o.Fold(r.nodes)), word)
		for i := range cols {
			fmt.Fprintf(b, " %s |", verdictOf(r.cells[i]))
		}
		b.WriteString("\n")
	}
	shown := deciding(d)
	if o.Full {
		for _, g := range d.Groups {
			if !g.Decides() && g.Verdict != preflight.Skip && g.Waived == "" {
				shown = append(shown, g)
			}
		}
	}
	for _, g := range shown {
		if g.Verdict == preflight.Blocked {
			continue // the table has it; what blocks it is here
		}
		where := md(place(g))
		if g.Verdict == preflight.Unknown && !g.Decides() {
			where += ", and not decisive"
		}
		fmt.Fprintf(b, "\n## %s: %s on %s\n\n", g.CheckID, g.Verdict, where)
		item := func(name, text string) {
			if text != "" {
				fmt.Fprintf(b, "- %s: %s\n", name, md(text))
			}
		}
		item("object", objects(g))
		item("observed", g.Observed+g.InImage())
		item("expected", g.Expected)
		item("remedy", g.Remedy)
		for _, e := range g.Evidence {
			b.WriteString("\n```\n$ " + fenced(e.Source) + "\n")
			for _, l := range e.Lines {
				b.WriteString(fenced(l) + "\n")
			}
			b.WriteString("```\n")
		}
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(b, "\n## %s\n\n", title)
		for _, l := range lines {
			fmt.Fprintf(b, "- %s\n", md(l))
		}
	}
	plain := Options{Fold: o.Fold}
	var warnings, waived, drift []string
	for _, g := range d.Groups {
		switch {
		case g.Waived != "":
			waived = append(waived, fmt.Sprintf("%s; was %s, waived: %s", line(g, plain), g.Was, g.Waived))
		case o.Full && !g.Decides() && g.Verdict != preflight.Blocked:
		case !g.Decides() && g.Verdict != preflight.Skip:
			warnings = append(warnings, line(g, plain))
		}
	}
	for _, w := range d.Waivers {
		if w.Used == 0 {
			waived = append(waived, fmt.Sprintf("%s: %s; it did nothing", w.CheckID, w.Reason))
		}
	}
	for _, x := range d.Drift {
		drift = append(drift, fmt.Sprintf("%s on %s %s: %s → %s", x.CheckID, x.Node, x.Object, side(x.Before, x.Was), side(x.Now, x.Is)))
	}
	list("Warnings", warnings)
	list("Waivers", waived)
	list("Changed since the baseline", drift)
	if s := Skipped(d.Findings); s != "" {
		list("Skipped", []string{s})
	}
	if o.Drain {
		if cmds := append(notes(d, o.Fold), drains(d, o.Fold)...); len(cmds) > 0 {
			b.WriteString("\n## Commands\n\n```\n" + strings.Join(cmds, "\n") + "\n```\n")
		}
	}
}

func verdictOf(c byte) string {
	for _, v := range []preflight.Verdict{preflight.Pass, preflight.Skip, preflight.Warn, preflight.Blocked, preflight.Unknown, preflight.Fail} {
		if cell(v) == c {
			if v == preflight.Fail || v == preflight.Unknown {
				return "**" + string(v) + "**"
			}
			return string(v)
		}
	}
	return ""
}

// md keeps text from being read as markup.
func md(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "[", `\[`).Replace(clean(s))
}

// fenced keeps text from ending its block.
func fenced(s string) string { return strings.ReplaceAll(clean(s), "```", "'''") }
