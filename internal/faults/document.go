package faults

import (
	"fmt"
	"slices"
	"strings"
)

const documentHead = `# Reliability

Whatever is killed, hangs, is cut off or filled up: a run ends in bounded time,
with the right exit code, a cause in one sentence, its logs and partial results
kept, and nothing of it left on any node.

This page is printed from the fault matrix (` + "`internal/faults`" + `), and a test compares
the two. ` + "`go test ./internal/faults`" + ` brings every fault below about on a real Slurm
cluster with Docker on one machine, while a client runs, and then looks for itself
at containers, processes, ports, mounts and temporary files on every node; with
` + "`make faults`" + ` three times in a row.

The bounds are those of the test, whose recipe gives programs 5 s between TERM and
KILL, on a busy machine. A recipe with a longer ` + "`timeouts.grace`" + ` adds to them.

- A lost connection counts after 10 s of silence; the other side then has 30 s to
  come back. An agent's end of standard input, and a closed socket, count at once.
- A worker that does not answer counts as deaf after a minute in which its log does
  not move either. ` + "`deaf: warn`" + ` in the site file makes that a warning.
- A worker that died is not started again unless the recipe asks for it: the peers of
  its KV connections, the router's circuit breakers and the measurement itself all
  know of the death, and a number from such a run would be worth nothing. The run
  ends, and says why.
- With ` + "`decode: {restarts: 1}`" + ` a decode worker that dies while clients run is started
  again that often, where it is known that the others take it back: on SGLang, over
  Mooncake or MoRI. All its ranks are stopped and started anew, under the budgets of
  their first start; the router must list it as healthy, and tokens must come out
  through it. Clients go on meanwhile and meet errors. The point that was measured is
  *disturbed*, never ok (exit code 8); result, warnings and status say which worker died, why, and
  for how long it was away. If it does not come back, its death is the cause of the
  run's end.
- "nobody looked" is never "nothing is left": where a node cannot be looked at, the
  run says so, names the command that looks, and does not end with 0.
`

// Document is docs/reliability.md.
func Document() string {
	var b strings.Builder
	b.WriteString(documentHead)
	all := Matrix()
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| fault | what happens | exit | nothing left within | what is said |\n|---|---|---|---|---|\n", g)
		for _, f := range all {
			if f.Group == g {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.ID, cell(sentence(f)), codes(f.Codes), bound(f), said(f))
			}
		}
	}
	b.WriteString("\n## Known failures, and where each is tried\n\nWhat people who run such systems have met, in the order of a run's life.\n\n| failure | tried by |\n|---|---|\n")
	for _, c := range Cases() {
		fmt.Fprintf(&b, "| %s: %s | %s |\n", c.Area, cell(c.What), tried(c))
	}
	return b.String()
}

func sentence(f Fault) string {
	if f.Note == "" {
		return f.What
	}
	return f.What + " (" + f.Note + ")"
}

func codes(list []int) string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprint(c))
	}
	return strings.Join(out, " or ")
}

func bound(f Fault) string {
	if f.Bound == 0 {
		return "the run goes on"
	}
	return fmt.Sprintf("%.0f s", f.Bound.Seconds())
}

func said(f Fault) string {
	if f.Printed == "" {
		return ""
	}
	return "`" + cell(f.Printed) + "`"
}

// tried lists faults and tests of a case, and what cannot be brought about.
func tried(c Case) string {
	var out []string
	for _, id := range c.Faults {
		out = append(out, "fault "+id)
	}
	for _, t := range c.Tests {
		out = append(out, "`"+cell(t)+"`")
	}
	text := strings.Join(slices.Compact(out), ", ")
	if c.Why != "" {
		text += " — " + cell(c.Why)
	}
	return text
}

// cell makes text safe for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
