package orchestrator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/signature"
)

// failure is one thing that went wrong. It is an error, so that stages return it.
type failure struct {
	at   time.Time
	code ExitCode // zero: the stage's
	what string

	stage   string
	worker  string // whose rank the process is; empty: of none
	process string
	life    int // of the process
	node    string
	exit    *deploy.Exit
	log     []string
	logFile string
	state   []string // of everything, when this was found
	match   *signature.Match
	read    bool // its log is being read, or was

	// weak failures are what a cancellation looks like from outside: a lost node,
	// a process that somebody's TERM ended. A signal that comes with them, or an
	// error that is one, is the better explanation.
	weak bool
	// ended says that the agent itself was told to end.
	ended bool
	// outside failures are told by somebody else, of something that came before.
	outside bool
	// late failures are those of the teardown itself.
	late bool
	// hang is set for what did not come: then everything still stands, and can be
	// looked at.
	hang hang
}

func (f *failure) Error() string { return f.what }

// errHalted ends a stage because the run is ending: a cause is recorded or a
// signal came. errLeave ends everything at once.
var (
	errHalted = errors.New("the run is ending")
	errLeave  = errors.New("asked to leave at once")
)

// skipped is the result of a stage that did not apply or could not be done.
type skipped struct{ why string }

func (s skipped) Error() string { return "skipped: " + s.why }

func skip(format string, args ...any) error { return skipped{fmt.Sprintf(format, args...)} }

func failf(format string, args ...any) *failure { return &failure{what: fmt.Sprintf(format, args...)} }

// fail records a failure. The first one halts the run; all are kept, because
// which of them is the cause is decided when all of them are known.
func (r *run) fail(f *failure) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	if f.hang == "" {
		r.hurryHung()
	}
	f.late = r.stop.begun && !f.weak && !f.outside && f.exit == nil
	st := r.stage
	if r.stop.begun && !f.late {
		st = r.stop.during // it failed by itself, of what the run was doing
	}
	if f.stage == "" && st != nil {
		f.stage = st.name
	}
	if f.code == 0 {
		f.code = beginning
		if st != nil {
			f.code = st.code
		}
	}
	if r.known(f) {
		return
	}
	kind := events.Consequence
	if len(r.failures) == 0 {
		kind = events.Cause
	}
	r.failures = append(r.failures, f)
	r.emit(events.Event{Kind: kind, Stage: f.stage, Node: f.node, Process: f.process, Msg: f.what, Detail: f.detail()})
	if f.process != "" {
		r.diagnose(f)
	}
}

// known merges a second report about the same life of a process into the first: a call
// that failed and the exit that made it fail are one failure.
func (r *run) known(f *failure) bool {
	for _, old := range r.failures {
		if f.process == "" || old.process != f.process || old.life != f.life || old.hang != f.hang {
			continue // a death after a hang is news, and its effect
		}
		if old.exit == nil && f.exit != nil {
			old.exit, old.log, old.what = f.exit, f.log, f.what
			old.weak = old.weak && f.weak
		}
		return true
	}
	return false
}

func (f *failure) detail() map[string]any {
	d := map[string]any{}
	if f.exit != nil {
		d["exit"] = f.exit
	}
	if len(f.log) > 0 {
		d["log"] = f.log
	}
	if f.logFile != "" {
		d["log_file"] = f.logFile
	}
	if len(f.state) > 0 {
		d["state"] = f.state
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

// elect picks the cause: the first failure that is neither the effect of another
// one by its own log, nor what a loss elsewhere looks like; if all are, the first.
// What the teardown could not do is the cause only of a run in which nothing else
// failed.
func elect(fs []*failure) (cause *failure, rest []*failure) {
	if len(fs) == 0 {
		return nil, nil
	}
	pick := 0
	for want := range 4 {
		if i := firstRank(fs, want); i >= 0 {
			pick = i
			break
		}
	}
	pick = killedRank(fs, pick)
	rest = append(rest, fs[:pick]...)
	rest = append(rest, fs[pick+1:]...)
	return fs[pick], rest
}

// rankGap is how much later a rank's death may be reported than the end of the
// ranks that it took along: they notice at once, and each node reports for itself.
const rankGap = 5 * time.Second

// killedRank is the rank of a worker that was killed where another rank of the same
// worker, whose end was reported first, ended by itself: what kills one rank makes
// the others end, and never the other way round.
func killedRank(fs []*failure, pick int) int {
	first := fs[pick]
	if first.worker == "" || first.exit == nil || first.exit.Signal != "" {
		return pick
	}
	for i, f := range fs {
		if f.worker == first.worker && f.rank() == first.rank() && f.exit != nil && f.exit.Signal == "SIGKILL" && f.at.Sub(first.at) < rankGap {
			return i
		}
	}
	return pick
}

func firstRank(fs []*failure, rank int) int {
	for i, f := range fs {
		if f.rank() == rank {
			return i
		}
	}
	return -1
}

// rank is how much a failure explains: 0 by itself, 1 a loss that explains the
// effects seen elsewhere, 2 an effect, 3 nothing that came before it.
func (f *failure) rank() int {
	switch {
	case f.late:
		return 3
	case f.match != nil && f.match.Grade == signature.Effect:
		return 2
	case f.weak:
		return 1
	}
	return 0
}

// record turns a failure into its entry in the result.
func (f *failure) record() result.Failure {
	out := result.Failure{
		Time: f.at.UTC(), Stage: f.stage, What: f.what, Process: f.process, Node: f.node,
		Exit: f.exit, Log: f.log, LogFile: f.logFile, State: f.state,
	}
	if f.match != nil {
		out.Diagnosis = &result.Diagnosis{Signature: f.match.ID, Line: f.match.Text, Peer: named(*f.match), Meaning: f.match.Meaning, Remedy: f.match.Remedy}
	} else if f.exit != nil && f.exit.Signal == "SIGKILL" {
		out.Diagnosis = killedFromOutside(f.exit.OOM)
	} else {
		out.Diagnosis = hung(f)
	}
	return out
}

// killedFromOutside explains the end of a program that had no last word.
func killedFromOutside(oom bool) *result.Diagnosis {
	if oom {
		return &result.Diagnosis{Signature: "exit.oom", Meaning: "The memory of its container, or of the node, was used up.",
			Remedy: "Look at what else runs on the node; lower host caches (kv_offload) or raise the container's and the job's memory."}
	}
	return &result.Diagnosis{Signature: "exit.sigkill", Meaning: "Something outside the program killed it, which leaves no word in its log: the kernel for want of memory, a person, or a watchdog.",
		Remedy: "Look at the node's kernel log (dmesg -T | grep -i kill), and ask who was on the node at that time."}
}

// exitText says how a program ended, as a person would.
func exitText(e *deploy.Exit) string {
	if e == nil {
		return "ended"
	}
	var s string
	switch {
	case e.Lost:
		return "ended, and nobody knows how: " + e.Error
	case e.Error != "":
		return "could not be started: " + e.Error
	case e.Signal != "":
		s = "was killed by " + e.Signal
	default:
		s = fmt.Sprintf("exited with code %d", e.Code)
	}
	if e.OOM {
		s += " (the kernel killed it for memory)"
	}
	return s
}

// looksLikeTerm says that a program ended the way somebody's TERM ends it.
func looksLikeTerm(e *deploy.Exit) bool {
	return e != nil && (e.Asked || e.Signal == "SIGTERM" || e.Code == int(ExitTerminated))
}

// lastLine is the last line of a log that says something.
func lastLine(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(log[i]); s != "" {
			return s
		}
	}
	return ""
}
