package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/render"
	"github.com/spf13/cobra"
)

func newWait(a *app) *cobra.Command {
	var f finder
	var follow bool
	cmd := &cobra.Command{
		Use:   "wait [RUN]",
		Short: "Wait for a run to end; end with its exit code",
		Long: `Wait until a run has ended, print how, and end with its exit code. RUN is a
path, an id, a prefix that only one id has, or "latest" (the default).

An empty queue never counts as success: without a result of the run itself the
command says what the scheduler knows and fails.`,
		Args:              atMostOneRun,
		ValidArgsFunction: f.complete(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.find(a, args)
			if err != nil {
				return err
			}
			return a.await(cmd.Context(), dir, follow)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what happens meanwhile")
	return cmd
}

const (
	waitEvery  = 500 * time.Millisecond // between looks at the run directory
	askEvery   = 5 * time.Second        // between questions to the scheduler
	graceAfter = 15 * time.Second       // a result may be seen late on a network file system
	unseenFor  = 30 * time.Second       // a running job's log may be seen late as well
	silentFor  = 4 * events.AliveEvery  // a controller that says nothing for so long is not there
)

// await waits for the end of a run. Ctrl-C ends the waiting, not the run.
func (a *app) await(ctx context.Context, dir *rundir.Dir, follow bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	w := &waiter{a: a, dir: dir, reader: events.NewReader(dir.Join(rundir.EventsFile)), seen: a.Now()}
	if follow {
		w.printer = a.newEventPrinter()
	}
	sub, err := readSubmission(dir)
	if err != nil {
		return err
	}
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	var asked, endedAt time.Time
	for {
		res, err := w.look()
		if err != nil {
			return err
		}
		if res != nil {
			if err := a.printResult(dir, res); err != nil {
				return err
			}
			return exitWith(orchestrator.ExitCode(res.ExitCode))
		}
		if sub != nil && a.Now().Sub(asked) >= askEvery {
			asked = a.Now()
			job := a.slurm().Job(ctx, sub.JobID)
			w.tell(job)
			if job.Ended() {
				if endedAt.IsZero() {
					endedAt = a.Now()
				} else if a.Now().Sub(endedAt) > graceAfter {
					return w.brokenOff(func() error { return w.noResult(job) })
				}
			}
		}
		if sub == nil && goneHere(dir) {
			if res, err = w.look(); err != nil {
				return err
			}
			if res == nil { // it had no time for a last word
				return w.brokenOff(func() error {
					return orchestrator.WithCode(orchestrator.ExitInternal, fmt.Errorf("run %s has no result, and its controller is gone. `disagg cleanup %s` looks for what it left", dir.ID(), dir.Path()))
				})
			}
			continue
		}
		if sub == nil && a.Now().Sub(w.seen) > silentFor {
			return orchestrator.WithCode(orchestrator.ExitInternal, fmt.Errorf("run %s has no result and its controller has said nothing for %s; it is not there any more. `disagg cleanup %s` looks for what it left", dir.ID(), silentFor, dir.Path()))
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(a.Err, "stopped waiting; the run goes on. `disagg wait %s` waits again, `disagg cancel %s` ends it\n", dir.ID(), dir.ID())
			return exitWith(orchestrator.ExitInterrupted)
		case <-tick.C:
		}
	}
}

// waiter looks at one run directory.
type waiter struct {
	a       *app
	dir     *rundir.Dir
	reader  *events.Reader
	printer *eventPrinter
	seen    time.Time // when the last event was read
	runs    time.Time // when the job was first seen running
	said    string
}

// look shows new events and returns the result when there is one.
func (w *waiter) look() (*result.Result, error) {
	list, err := w.reader.Next()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		w.seen = w.a.Now()
		if w.printer != nil {
			if err := w.printer.show(list); err != nil {
				return nil, err
			}
		}
	}
	return result.Read(w.dir.Join(rundir.ResultFile))
}

// tell says once why a job waits, and that a running one is not seen here.
func (w *waiter) tell(j slurm.Job) {
	if j.Presence != slurm.Present {
		return
	}
	text := ""
	switch j.State {
	case slurm.Pending:
		text = fmt.Sprintf("job %s waits", j.ID)
		if why := slurm.Explain(j, nil); why != "" { // empty until the scheduler has looked at it
			text += ": " + why
		}
	case slurm.Running:
		now := w.a.Now()
		if w.runs.IsZero() {
			w.runs = now
		}
		switch {
		case now.Sub(w.runs) > unseenFor && !w.logged() && len(j.Nodes) > 0:
			text = fmt.Sprintf("job %s runs, but %s", j.ID, w.unseen(j))
		case now.Sub(w.runs) > silentFor && now.Sub(w.seen) > silentFor:
			text = fmt.Sprintf("job %s runs, but its controller has said nothing for %s: it may hang; `disagg cancel --now %s` ends it", j.ID, silentFor, w.dir.Path())
		}
	}
	if text != "" && text != w.said {
		w.said = text
		fmt.Fprintln(w.a.Err, text)
	}
}

// logged says whether the controller's log is here.
func (w *waiter) logged() bool {
	_, err := os.Stat(w.dir.Join(render.ErrorName))
	return !errors.Is(err, os.ErrNotExist)
}

// unseen says where the controller's log is that is not here: Slurm opens it on
// the job's first node, which has another directory under this name, or none.
func (w *waiter) unseen(j slurm.Job) string {
	return fmt.Sprintf("its log %s is not here: Slurm writes it on node %s, where runs_dir of the site must be the same directory", w.dir.Join(render.ErrorName), j.Nodes[0])
}

// brokenOff is the end of a run whose controller never wrote the last word. What
// it wrote when it began to end the run is the next best, and else there is only
// what none says.
func (w *waiter) brokenOff(none func() error) error {
	res, err := result.Read(w.dir.Join(rundir.InterimFile))
	if err != nil {
		return err
	}
	if res == nil {
		return none()
	}
	if err := w.a.printResult(w.dir, res); err != nil {
		return err
	}
	return exitWith(orchestrator.ExitCode(res.ExitCode))
}

// noResult is the end of a job that never wrote how it ended.
func (w *waiter) noResult(j slurm.Job) error {
	err := fmt.Errorf("run %s has no result; %s", w.dir.ID(), jobEnd(j))
	// The job is over and never took them.
	err = errors.Join(err, w.dir.RemoveSecrets())
	out, rerr := lastWords(w.dir.Join(render.ErrorName))
	err = errors.Join(err, rerr)
	for _, l := range out {
		err = fmt.Errorf("%w\n  | %s", err, l)
	}
	if !w.logged() && len(j.Nodes) > 0 && (j.Exit == nil || j.Exit.NotStarted() == "") {
		err = fmt.Errorf("%w\n%s", err, w.unseen(j))
	}
	claim, cerr := w.dir.Claimed()
	return orchestrator.WithCode(endCode(j), fmt.Errorf("%w%s", errors.Join(err, cerr), afterwards(w.dir, claim == nil)))
}

// endCode is the exit code of a run whose job ended without a result.
func endCode(j slurm.Job) orchestrator.ExitCode {
	if j.Presence == slurm.Present {
		switch j.State {
		case slurm.Cancelled, "TIMEOUT", "PREEMPTED", "DEADLINE":
			return orchestrator.ExitTerminated
		}
	}
	return orchestrator.ExitScheduler
}

// jobEnd says how a job ended that no result tells of.
func jobEnd(j slurm.Job) string {
	how := "Slurm does not know it any more"
	if j.Presence == slurm.Present {
		how = string(j.State)
		why := slurm.Explain(j, nil)
		if j.Exit != nil && j.Exit.Signal != 0 {
			// Slurm then also speaks of a failed launch.
			why = cmp.Or(j.Exit.NotStarted(), fmt.Sprintf("its controller was killed by signal %d", j.Exit.Signal))
		}
		if why != "" {
			how += " (" + why + ")"
		}
	}
	return fmt.Sprintf("its job %s ended: %s", j.ID, how)
}

// lastWords are the lines of the controller's log that say why it ended: the last
// ones, or those with which the report of a crash begins, whose end says nothing.
func lastWords(path string) ([]string, error) {
	const most = 10
	lines, err := tailFile(path, tailBlock)
	if err != nil {
		return nil, err
	}
	crash := slices.IndexFunc(lines, func(l string) bool {
		return slices.ContainsFunc([]string{"panic: ", "fatal error: ", "SIGQUIT: "}, func(p string) bool { return strings.HasPrefix(l, p) })
	})
	if crash >= 0 {
		return lines[crash:min(crash+most, len(lines))], nil
	}
	return lines[max(0, len(lines)-most):], nil
}
