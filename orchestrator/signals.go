package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// stopState is who asked the run to end, and how urgently.
type stopState struct {
	signals int
	code    ExitCode // what the first request means; zero: nobody asked
	why     string
	// after says that a failure with a cause of its own came before the request:
	// then the run failed, and was not cancelled.
	after bool
	fast  bool // no grace any more
	leave bool // return at once

	// kill is when the scheduler kills what is left of the job, this process too;
	// zero: nobody has said so.
	kill time.Time

	begun  bool   // teardown has begun: what ends from now on was asked to
	during *stage // in which stage it began

	at     time.Time // when it was asked
	stage  string    // and in which stage
	waited string    // and what for, where that had taken long; clients always do

	ctx      context.Context // of the stop, once it has begun
	deadline time.Time       // when the grace of all is over
	tierAt   time.Time       // when the last tier was asked to end
}

func (s *stopState) asked() bool { return s.code != 0 }

// waitTold is how long a stage must have lasted for what it waits for to be worth
// telling of a run that was cancelled: somebody may have lost patience with it.
const waitTold = 10 * time.Second

// onSignal takes a signal: the first ends the run, the second skips the grace,
// the third leaves.
func (r *run) onSignal(s os.Signal) {
	r.stop.signals++
	switch r.stop.signals {
	case 1:
		code := ExitTerminated
		if s == os.Interrupt || s == syscall.SIGINT {
			code = ExitInterrupted
		}
		r.ask(code, signalText(s))
		if code == ExitTerminated {
			r.askWhy()
			r.askWho(signalText(s))
		}
	case 2:
		r.emit(events.Event{Kind: events.Signal, Msg: signalText(s) + " again: stopping without grace; once more leaves at once"})
		r.stop.fast = true
		r.hurry()
	default:
		r.emit(events.Event{Kind: events.Signal, Msg: signalText(s) + " for the third time: leaving without waiting"})
		r.stop.leave = true
	}
}

// signalText is a signal as people know it.
func signalText(s os.Signal) string {
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
		return s.String()
	case n == syscall.SIGINT:
		return "Ctrl-C"
	}
	return unix.SignalName(n)
}

// askWho names the user of `disagg cancel` in place of the signal, if that is where
// it came from.
func (r *run) askWho(signal string) {
	r.asking++
	call(r.bg, r, func(context.Context) (*rundir.Cancel, error) { return r.Dir.Cancelled() }, func(c *rundir.Cancel, _ error) {
		r.asking--
		if c == nil { // nobody said, or it cannot be read: the signal is what is known
			return
		}
		r.stop.why = strings.Replace(r.stop.why, signal, "disagg cancel ("+c.String()+")", 1)
		r.emit(events.Event{Kind: events.Signal, Msg: "asked to end by disagg cancel (" + c.String() + ")"})
	})
}

// onCancel is the end of the caller's context.
func (r *run) onCancel(cause error) {
	if !r.stop.asked() {
		r.ask(ExitInterrupted, fmt.Sprintf("the caller: %v", cause))
	}
}

// onDeadline is the end of the allocation coming near.
func (r *run) onDeadline() {
	r.ask(ExitTerminated, fmt.Sprintf("the time limit: the allocation ends at %s", r.Deadline.UTC().Format(time.RFC3339)))
}

func (r *run) ask(code ExitCode, why string) {
	r.hurryHung() // a hang that was found before is the cause
	for _, f := range r.failures {
		r.stop.after = r.stop.after || !f.weak && !f.late
	}
	r.stop.code, r.stop.why, r.stop.at, r.stop.stage = code, why, time.Now(), r.stageName()
	if !r.clients && r.stage != nil && time.Since(r.stage.began) >= waitTold {
		r.stop.waited = r.lastWaiting
	}
	if len(r.failures) > 0 && !r.stop.after && r.stop.during != nil {
		r.stop.stage = r.stop.during.name // the agents heard of it before this process did
	}
	r.emit(events.Event{Kind: events.Signal, Msg: "asked to end by " + why + ": stopping gracefully; a second signal skips the grace, a third leaves at once"})
}

// stopTime is how long a stop takes at most: the stages of teardown one after
// the other, and the record.
func (r *run) stopTime() time.Duration {
	return r.plan.Budgets.Grace.D() + stopSlack + r.pace.Look + closePatience
}

const (
	// defaultKillWait is how long Slurm waits between TERM and KILL unless its
	// configuration says otherwise.
	defaultKillWait = 30 * time.Second
	// killMargin is kept free of it, for the record and for a clock that was
	// started earlier.
	killMargin = 1500 * time.Millisecond
)

// killComes notes that the scheduler ends the job, or the agents' step: it sends
// KILL some time after TERM, and by then all must be done and written down.
func (r *run) killComes() {
	if r.Scheduler == nil || !r.stop.kill.IsZero() {
		return
	}
	wait := cmp.Or(r.KillWait, defaultKillWait)
	r.stop.kill = time.Now().Add(max(wait-killMargin, wait/2))
	if r.stop.begun && r.stage != nil && r.stage.timer != nil {
		r.stage.timer.Reset(r.allowed(time.Until(r.stop.kill)))
	}
}

// allowed is how much of a time may be used: what comes after must have its part
// of what is left before the kill.
func (r *run) allowed(d time.Duration) time.Duration {
	if r.stop.kill.IsZero() {
		return d
	}
	return max(min(d, time.Until(r.stop.kill)/2), 0)
}
