package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm"
	"github.com/spf13/cobra"
)

func newCancel(a *app) *cobra.Command {
	var f finder
	var now, wait bool
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run in order: collect, stop, look, leave nothing",
		Long: `Ask a run to end. Its controller collects what there is, stops router and
workers, looks at every node and writes the result; then its job ends.

--now cancels the whole job instead: everything is killed within the cluster's
KillWait, and containers end by their lease.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one run, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: f.complete(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.find(a, args)
			if err != nil {
				return err
			}
			if err := a.cancel(cmd.Context(), dir, now); err != nil {
				return err
			}
			if wait {
				return a.await(cmd.Context(), dir, false)
			}
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "cancel the whole job at once")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait for the end; end with the run's exit code")
	return cmd
}

func (a *app) cancel(ctx context.Context, dir *rundir.Dir, now bool) error {
	res, err := result.Read(dir.Join(rundir.ResultFile))
	if err != nil {
		return err
	}
	if res != nil {
		_, err := fmt.Fprintf(a.Out, "run %s has ended already: %s\n", dir.ID(), res.Outcome)
		return err
	}
	noteCancel(dir)
	if err := a.signal(ctx, dir, now); err != nil {
		_ = os.Remove(dir.Join(rundir.CancelFile)) // nobody was told
		return err
	}
	return nil
}

// signal tells the run's controller, or its job, to end.
func (a *app) signal(ctx context.Context, dir *rundir.Dir, now bool) error {
	sub, err := readSubmission(dir)
	if err != nil {
		return err
	}
	if sub == nil {
		return a.cancelHere(dir)
	}
	client := a.slurm()
	if j := client.Job(ctx, sub.JobID); j.Ended() {
		claim, err := dir.Claimed()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "run %s: %s%s\n", dir.ID(), jobEnd(j), afterwards(dir, claim == nil))
		return errors.Join(err, dir.RemoveSecrets())
	}
	req := slurm.CancelRequest{Signal: "TERM", Batch: true}
	if now {
		req = slurm.CancelRequest{}
	} else if j := client.Job(ctx, sub.JobID); j.Presence == slurm.Present && j.State == slurm.Pending {
		req = slurm.CancelRequest{} // nothing runs yet that could end in order
	}
	if err := client.Cancel(ctx, sub.JobID, slurm.Mark{Token: sub.Token, Script: sub.Script}, req); err != nil {
		return orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	// A controller takes the secrets away itself; one that will never start cannot.
	if err := dir.RemoveSecrets(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "run %s: job %s asked to end\n", dir.ID(), sub.JobID)
	return err
}

// noteCancel leaves word in the run's record of who ends it.
func noteCancel(dir *rundir.Dir) {
	c := rundir.Cancel{User: "uid " + strconv.Itoa(os.Getuid()), Time: time.Now()}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
	}
	c.Host, _ = os.Hostname()
	// Who may signal and may not write here cancels all the same, unnamed.
	_ = dir.NoteCancel(c)
}

// cancelHere signals the controller of a run that was started from a terminal.
func (a *app) cancelHere(dir *rundir.Dir) error {
	c, err := dir.Claimed()
	if err != nil {
		return err
	}
	if c == nil {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("run %s was never started", dir.ID()))
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	if c.Host != host {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("run %s is led by process %d on %s; run there: disagg cancel %s", dir.ID(), c.PID, c.Host, dir.Path()))
	}
	if !isController(c.PID) {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("the controller of run %s (process %d) is gone; `disagg cleanup %s` looks for what it left", dir.ID(), c.PID, dir.Path()))
	}
	if err := syscall.Kill(c.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal controller %d: %w", c.PID, err)
	}
	_, err = fmt.Fprintf(a.Out, "run %s: controller %d asked to end\n", dir.ID(), c.PID)
	return err
}

// goneHere says that the controller of a run that was not submitted was a process
// of this host, and is not there any more.
func goneHere(dir *rundir.Dir) bool {
	c, err := dir.Claimed()
	if err != nil || c == nil {
		return false
	}
	host, err := os.Hostname()
	return err == nil && c.Host == host && !isController(c.PID)
}

// isController says whether a process is one of this tool's that leads a run, so
// that a reused process id never costs a stranger its life.
func isController(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	args := strings.Split(string(data), "\x00")
	return len(args) > 1 && strings.HasSuffix(args[0], "disagg") && (args[1] == "run" || args[1] == "controller" || args[1] == "demo")
}
