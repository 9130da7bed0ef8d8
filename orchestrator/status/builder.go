package status

import (
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// Builder takes in events as they come and tells how the run is going at any
// moment, so that a reader that follows a log need not read it again.
type Builder struct {
	sum     Summary
	procs   []*procState
	stageAt time.Time
	ending  bool
	asked   bool // the trouble is that somebody asked for the end
}

type procState struct {
	Process
	at time.Time
}

// Of summarises a whole log.
func Of(log []events.Event, res *result.Result, now time.Time) Summary {
	var b Builder
	b.Add(log...)
	return b.Summary(res, now)
}

// Add takes in events, in their order.
func (b *Builder) Add(log ...events.Event) {
	for _, e := range log {
		b.sum.LastSeen = e.Time
		b.add(e)
	}
}

func (b *Builder) add(e events.Event) {
	switch e.Kind {
	case events.RunStarted:
		b.sum.Started, b.sum.Job, b.sum.Given = e.Time, text(e, "job"), list(e, "nodes")
	case events.StageStarted:
		b.sum.Stage, b.sum.Waiting, b.stageAt = e.Stage, "", e.Time
		b.sum.StageBudget, _ = e.Detail["budget_seconds"].(float64)
		b.sum.Stages = append(b.sum.Stages, Stage{Name: e.Stage, Status: "running"})
	case events.StageWaiting:
		b.sum.Waiting = strings.TrimPrefix(e.Msg, "waiting for ")
	case events.StageDone, events.StageFailed, events.StageSkipped:
		b.endStage(e)
	case events.NodeJoined:
		b.sum.Nodes = append(b.sum.Nodes, Node{Name: e.Node, Host: text(e, "host"), Addr: text(e, "addr")})
	case events.NodeLost:
		for i := range b.sum.Nodes {
			if b.sum.Nodes[i].Name == e.Node {
				b.sum.Nodes[i].Lost = e.Msg
			}
		}
	case events.Point:
		_, note, _ := strings.Cut(strings.TrimPrefix(e.Msg, "point "+text(e, "name")+": "), ": ")
		b.sum.Points = append(b.sum.Points, Point{Name: text(e, "name"), Status: text(e, "status"), Note: note})
	case events.Warning:
		b.sum.Warnings = append(b.sum.Warnings, e.Msg)
	case events.Cause, events.Signal:
		if b.sum.Trouble == "" || b.asked && strings.HasPrefix(e.Msg, "asked to end by ") {
			b.sum.Trouble, b.asked = e.Msg, e.Kind == events.Signal
		}
	case events.Diagnosis:
		b.explain(e)
	case events.Restart:
		b.sum.Restarts = append(b.sum.Restarts, Restart{Worker: text(e, "worker"), Process: e.Process, Why: text(e, "why")})
	case events.Restarted:
		for i := range b.sum.Restarts {
			if took, ok := e.Detail["seconds"].(float64); ok && b.sum.Restarts[i].Worker == text(e, "worker") && b.sum.Restarts[i].Seconds == nil {
				b.sum.Restarts[i].Seconds = &took
			}
		}
	case events.Teardown:
		b.ending = true
	}
	b.addProcess(e)
}

// explain takes what a log line says of a process that died: of one whose worker is
// started again, or of the trouble.
func (b *Builder) explain(e events.Event) {
	for i := range b.sum.Restarts {
		if x := &b.sum.Restarts[i]; b.sum.Trouble == "" && x.Process == e.Process && x.Meaning == "" {
			x.Meaning = text(e, "meaning")
			return
		}
	}
	if b.sum.Diagnosis == "" {
		b.sum.Diagnosis, b.sum.Remedy = e.Msg, text(e, "remedy")
	}
}

func (b *Builder) endStage(e events.Event) {
	i := len(b.sum.Stages) - 1
	if i < 0 || b.sum.Stages[i].Name != e.Stage {
		return
	}
	s := &b.sum.Stages[i]
	s.Seconds, _ = e.Detail["seconds"].(float64)
	switch e.Kind {
	case events.StageDone:
		s.Status = string(result.StageOK)
	case events.StageSkipped:
		s.Status = string(result.StageSkipped)
		s.Note = strings.TrimPrefix(e.Msg, e.Stage+" skipped: ")
	default:
		s.Status = string(result.StageFailed)
		s.Note = strings.TrimPrefix(e.Msg, e.Stage+" failed: ")
		if e.Msg == e.Stage+" cancelled" {
			s.Status, s.Note = string(result.StageCancelled), ""
		}
	}
	b.sum.Waiting = ""
}

// addProcess follows the processes. An event that says less than is known already
// (a program that was quicker than the news of its start) changes nothing; but what
// is created after it has ended lives anew.
func (b *Builder) addProcess(e events.Event) {
	order := []string{"created", "running", "ready", "exited", "gone"}
	to := map[events.Kind]string{
		events.ProcessCreated: "created", events.ProcessEnv: "created", events.ProcessStarted: "running",
		events.ProcessReady: "ready", events.ProcessExited: "exited", events.ProcessGone: "gone",
		events.ProcessProgress: "running",
	}[e.Kind]
	if to == "" {
		return
	}
	p := b.process(e)
	if e.Kind == events.ProcessCreated && (p.State == "exited" || p.State == "gone") {
		*p = procState{Process: Process{ID: p.ID, Node: p.Node, Log: p.Log}}
	}
	if slices.Index(order, to) > slices.Index(order, p.State) {
		p.State, p.at = to, e.Time
	}
	switch e.Kind {
	case events.ProcessStarted:
		p.Log = text(e, "log")
	case events.ProcessProgress:
		p.LastLine = text(e, "line")
		p.LogBytes, p.RSSBytes = count(e, "log_bytes"), count(e, "rss_bytes")
	case events.ProcessExited:
		p.Exit = strings.TrimPrefix(e.Msg, e.Process+" on "+e.Node+" ")
	}
}

func (b *Builder) process(e events.Event) *procState {
	for _, p := range b.procs {
		if p.ID == e.Process {
			return p
		}
	}
	p := &procState{Process: Process{ID: e.Process, Node: e.Node}, at: e.Time}
	b.procs = append(b.procs, p)
	return p
}

// Summary tells how the run is going. res is nil while it has none.
func (b *Builder) Summary(res *result.Result, now time.Time) Summary {
	s := b.sum
	s.Stages, s.Restarts = slices.Clone(b.sum.Stages), slices.Clone(b.sum.Restarts)
	s.State = b.state(res, now)
	for _, p := range b.procs {
		v := p.Process
		v.Since = max(now.Sub(p.at), 0)
		s.Processes = append(s.Processes, v)
	}
	if res != nil {
		s.end(res)
		return s
	}
	if !s.Started.IsZero() {
		s.Elapsed = now.Sub(s.Started)
	}
	if i := len(s.Stages) - 1; i >= 0 && s.Stages[i].Status == "running" {
		s.InStage = max(now.Sub(b.stageAt), 0)
		s.Stages[i].Seconds = s.InStage.Seconds()
	}
	return s
}

func (b *Builder) state(res *result.Result, now time.Time) State {
	switch {
	case res != nil:
		return Ended
	case b.sum.Started.IsZero():
		return Waiting
	case now.Sub(b.sum.LastSeen) > silentAfter:
		return Silent
	case b.ending:
		return Ending
	}
	return Running
}

// end lets the result have the last word.
func (s *Summary) end(res *result.Result) {
	code := res.ExitCode
	s.Run, s.Outcome, s.ExitCode = res.Run, res.Outcome, &code
	s.Stage, s.Waiting = "", ""
	s.Started, s.Elapsed = res.Started, res.Finished.Sub(res.Started)
	s.Warnings = res.Warnings
	s.Points = nil
	for _, p := range res.Points {
		s.Points = append(s.Points, Point{Name: p.Name, Status: string(p.Status), Note: p.Note})
	}
	s.Restarts = nil
	for _, x := range res.Restarts {
		r := Restart{Worker: x.Worker, Process: x.Death.Process, Why: x.Death.What, Seconds: x.Seconds}
		if x.Death.Diagnosis != nil {
			r.Meaning = x.Death.Diagnosis.Meaning
		}
		s.Restarts = append(s.Restarts, r)
	}
	s.Trouble, s.Diagnosis, s.Remedy = "", "", ""
	if c := res.Cause; c != nil {
		s.Trouble = c.What
		if c.Diagnosis != nil {
			s.Diagnosis, s.Remedy = c.Diagnosis.Meaning, c.Diagnosis.Remedy
		}
	}
}

func text(e events.Event, key string) string {
	s, _ := e.Detail[key].(string)
	return s
}

// list is a list of words, read from a file or as it was emitted.
func list(e events.Event, key string) []string {
	switch l := e.Detail[key].(type) {
	case []string:
		return slices.Clone(l)
	case []any:
		var out []string
		for _, x := range l {
			if s, ok := x.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

func count(e events.Event, key string) int64 {
	n, _ := e.Detail[key].(float64)
	return int64(n)
}
