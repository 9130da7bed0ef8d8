package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// eventPrinter writes events for people as they come.
type eventPrinter struct {
	out     io.Writer
	verbose bool
	colour  bool
	start   time.Time
}

func (a *app) newEventPrinter() *eventPrinter {
	return &eventPrinter{out: a.Err, verbose: a.verbose, colour: a.Terminal}
}

// quiet events are shown with --verbose only.
func quiet(k events.Kind) bool {
	switch k {
	case events.Alive, events.ProcessProgress, events.ProcessGone, events.ProcessCreated, events.NodeJoined, events.StageStarted:
		return true
	}
	return false
}

// show prints some events; it never fails, since a closed terminal must not end
// a run.
func (p *eventPrinter) show(list []events.Event) error {
	for _, e := range list {
		if p.start.IsZero() {
			p.start = e.Time
		}
		if quiet(e.Kind) && !p.verbose {
			continue
		}
		msg := e.Msg
		if who := cmp.Or(e.Process, e.Node); !strings.Contains(msg, who) {
			msg = who + ": " + msg
		}
		if e.Kind == events.Cause || e.Kind == events.Consequence {
			msg = string(e.Kind) + ": " + msg
		}
		fmt.Fprintf(p.out, "%8.1fs  %-15s %s%s%s\n", e.Time.Sub(p.start).Seconds(), e.Stage, p.paint(e.Kind), msg, p.plain(e.Kind))
	}
	return nil
}

func (p *eventPrinter) paint(k events.Kind) string {
	if !p.colour {
		return ""
	}
	switch k {
	case events.StageFailed, events.Cause, events.NodeLost, events.Leftover:
		return "\x1b[31m"
	case events.Warning, events.Consequence, events.StageSkipped, events.Signal, events.Restart:
		return "\x1b[33m"
	case events.StageDone, events.Canary, events.RunFinished, events.Restarted:
		return "\x1b[32m"
	}
	return ""
}

func (p *eventPrinter) plain(k events.Kind) string {
	if p.paint(k) == "" {
		return ""
	}
	return "\x1b[0m"
}

// writeResult prints how a run ended: the cause first, then what followed, what
// was left, and what to do.
func writeResult(w io.Writer, dir *rundir.Dir, r *result.Result) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "run %s: %s", r.Run, r.Outcome)
	if r.Cause != nil && r.Cause.Stage != "" {
		fmt.Fprintf(b, " in stage %s", r.Cause.Stage)
	}
	if r.ExitCode != 0 {
		fmt.Fprintf(b, " (%s, exit code %d)", r.Exit, r.ExitCode)
	}
	fmt.Fprintf(b, " after %s", r.Finished.Sub(r.Started).Round(100*time.Millisecond))
	if r.Job != "" {
		fmt.Fprintf(b, ", job %s", r.Job)
	}
	b.WriteByte('\n')
	if r.Interim {
		b.WriteString("its controller was ended before it could write the last word; this is what it knew when it began to end the run\n")
	}
	if r.Cause != nil {
		writeFailure(b, "cause", *r.Cause)
	}
	for i, f := range r.Consequences {
		if i == 5 {
			fmt.Fprintf(b, "  … and %d more consequences\n", len(r.Consequences)-i)
			break
		}
		fmt.Fprintf(b, "  consequence: %s\n", f.What)
	}
	for _, p := range r.Points {
		fmt.Fprintf(b, "point %-8s %s", p.Name, p.Status)
		if p.Seconds > 0 {
			fmt.Fprintf(b, "  %.1f s", p.Seconds)
		}
		if n := len(p.Files); n > 0 {
			fmt.Fprintf(b, "  %s", p.Files[0].Path)
			if n > 1 {
				fmt.Fprintf(b, " and %d more", n-1)
			}
		}
		if p.Note != "" {
			fmt.Fprintf(b, "  %s", p.Note)
		}
		b.WriteByte('\n')
	}
	for _, x := range r.Restarts {
		fmt.Fprintf(b, "restart of %s\n", restartLine(x.Worker, x.Death.What, x.Seconds))
		if d := x.Death.Diagnosis; d != nil {
			fmt.Fprintf(b, "  meaning: %s\n  remedy:  %s\n", d.Meaning, d.Remedy)
		}
		if x.Death.LogFile != "" {
			fmt.Fprintf(b, "  log: %s\n", x.Death.LogFile)
		}
	}
	for _, u := range r.Unproven {
		fmt.Fprintf(b, "not proven: %s\n", u)
	}
	for _, u := range r.Warnings {
		fmt.Fprintf(b, "warning: %s\n", u)
	}
	if len(r.Leftovers) == 0 && len(r.Looked) > 0 {
		fmt.Fprintf(b, "left behind: nothing (looked at %s)\n", strings.Join(r.Looked, ", "))
	}
	for _, l := range r.Leftovers {
		for _, line := range leftoverLines(l.Containers, l.Processes, l.Ports, l.Files) {
			fmt.Fprintf(b, "left behind on %s: %s\n", l.Node, line)
		}
		for _, u := range l.Unverified {
			fmt.Fprintf(b, "not looked at on %s: %s\n", l.Node, u)
		}
	}
	for _, n := range r.Next {
		fmt.Fprintf(b, "next: %s\n", n)
	}
	fmt.Fprintf(b, "run directory: %s\n", dir.Path())
	_, err := io.WriteString(w, b.String())
	return err
}

func leftoverLines(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func writeFailure(b *strings.Builder, label string, f result.Failure) {
	fmt.Fprintf(b, "%s: %s\n", label, f.What)
	if d := f.Diagnosis; d != nil {
		fmt.Fprintf(b, "  meaning: %s\n  remedy:  %s\n", d.Meaning, d.Remedy)
		if d.Peer != "" {
			fmt.Fprintf(b, "  names:   %s\n", d.Peer)
		}
	}
	for _, line := range lastLines(f.Log, 10) {
		fmt.Fprintf(b, "  | %s\n", cut(line, logWidth))
	}
	if f.LogFile != "" {
		fmt.Fprintf(b, "  log: %s\n", f.LogFile)
	}
	for _, line := range f.State {
		fmt.Fprintf(b, "  state: %s\n", cut(line, logWidth))
	}
}

// logWidth bounds the lines of a log that are shown beside a cause: engines print
// their whole configuration in one. The log itself has them whole.
const logWidth = 240

func lastLines(list []string, n int) []string { return list[max(0, len(list)-n):] }
