package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight"
)

// Document is a report and how it differs from an earlier one. Its JSON is
// described by docs/schema/preflight-report.json.
type Document struct {
	preflight.Report
	// Drift is set when there was a baseline to compare with.
	Drift []preflight.Drift `json:"drift,omitempty"`
}

// Options say how to print.
type Options struct {
	// Fold writes node names as a host list.
	Fold func([]string) string
	// Colour is for terminals.
	Colour bool
	// Full shows evidence and remedy of warnings too, and of what is not known and
	// not decisive; formats for programs have them anyway.
	Full bool
	// Drain prints the commands that take unfit nodes out of Slurm and bring them
	// back.
	Drain bool
	// Now is when the report was made.
	Now time.Time
}

// Formats are the names that Write takes.
func Formats() []string { return []string{"text", "json", "junit", "prom", "markdown"} }

// Write prints a document in one of the formats.
func Write(w io.Writer, format string, d Document, o Options) error {
	var b strings.Builder
	var err error
	switch format {
	case "text":
		writeText(&b, d, o)
	case "json":
		err = writeJSON(&b, d)
	case "junit":
		err = writeJUnit(&b, d, o)
	case "prom":
		writeProm(&b, d, o)
	case "markdown":
		writeMarkdown(&b, d, o)
	default:
		return fmt.Errorf("print report: there is no format %q, only %s", format, strings.Join(Formats(), ", "))
	}
	if err == nil {
		_, err = io.WriteString(w, b.String())
	}
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// headline says in one line how it stands.
func headline(d Document) string {
	n, bad := len(d.Nodes), len(d.Bad())
	switch {
	case n == 0:
		return "no node was checked"
	case bad == 0 && d.Fit:
		return nodes(n) + ", all fit"
	case bad == 0:
		return nodes(n) + ", each fit by itself, but not together"
	case bad == n:
		return nodes(n) + ", none fit"
	}
	return fmt.Sprintf("%s: %d fit, %d unfit", nodes(n), n-bad, bad)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// objects names what a group stands for, the first few of many.
func objects(g preflight.Group) string {
	const most = 4
	if n := len(g.Objects); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(g.Objects[:most-1], ", "), n-most+1)
	}
	return strings.Join(g.Objects, ", ")
}

// place is where a group was found.
func place(g preflight.Group) string {
	if g.Hosts == "" {
		return "all nodes together"
	}
	return g.Hosts
}

// clean takes control characters out of what came from nodes.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
