package orchestrator

import (
	"context"
	"fmt"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/signature"
)

// logStep bounds what is read of one log in one round of watching. A log that
// grows faster is read at its end: the newest lines say how things are.
const logStep = 4 << 20

// logWatch reads a log as it grows and finds known failures in it: engines report
// transfers that time out, line after line, while everything answers and the
// client waits.
type logWatch struct {
	conn    Node
	path    string
	scanner *signature.Scanner
	offset  int64 // -1: not read yet
	told    map[string]int
}

// watchLogs begins to read the logs of workers and router. What happened while
// they started is over: reading begins at the end.
func (r *run) watchLogs(ctx context.Context) {
	for _, p := range r.order {
		if p.worker == nil && p.Scope != "router" {
			continue
		}
		w := &logWatch{conn: p.node.conn, path: p.logPath(), scanner: r.scanner(r.program(p), r.logPeers(p)), offset: -1, told: map[string]int{}}
		r.rounds(ctx, r.pace.Watch, func(ctx context.Context) {
			for _, m := range w.read(ctx) {
				r.post(ctx, func() { r.onLogLine(p, m) })
			}
		})
	}
}

// read takes in what was written since the last round, and returns signatures
// found for the first time, and again at ten, a hundred, … times.
func (w *logWatch) read(ctx context.Context) []signature.Match {
	if w.offset < 0 {
		_, size, err := w.conn.ReadFile(ctx, w.path, 0, 1)
		if err == nil {
			w.offset = size
		}
		return nil
	}
	data, size, err := w.conn.ReadFile(ctx, w.path, w.offset, logStep)
	if err != nil {
		return nil // the node or its file server does not answer: others see to that
	}
	w.offset += int64(len(data))
	_, _ = w.scanner.Write(data)
	if size-w.offset > logStep {
		w.offset = size - logStep
		_, _ = w.scanner.Write([]byte("\n"))
	}
	var out []signature.Match
	for _, m := range w.scanner.Found() {
		if m.Grade != signature.Cause {
			continue
		}
		if next := w.told[m.ID]; m.Count >= max(next, 1) {
			w.told[m.ID] = m.Count * 10
			out = append(out, m)
		}
	}
	return out
}

func (r *run) onLogLine(p *proc, m signature.Match) {
	if r.restarting(p.worker) != nil {
		return // its death has been explained, and how it starts is watched by others
	}
	about := plural(m.Count, "line")
	if peer := named(m); peer != "" {
		about = "they name " + peer
	}
	e := p.event(events.Warning, fmt.Sprintf("%s logs while it serves: %s (%s; the first: %q)", p.where(), m.Meaning, about, m.Text))
	e.Detail = map[string]any{"signature": m.ID, "count": m.Count, "line": m.Text, "meaning": m.Meaning, "remedy": m.Remedy, "peer": named(m)}
	r.warn(e)
}
