package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/orchestrator/status"
	"github.com/disagg/disagg/slurm"
	"github.com/spf13/cobra"
)

func newStatus(a *app) *cobra.Command {
	var f finder
	var all bool
	cmd := &cobra.Command{
		Use:   "status [RUN]",
		Short: "Say how a run is going, or how it ended and why",
		Long: `Show the stages, nodes and processes of a run, what it waits for, and, when it
fails, the cause and what to do. RUN is a path, an id, a prefix that only one id
has, or "latest" (the default). --all lists every run in one line each.

The answer comes from the run's own event log. The exit code is 0 for a run that
goes on or went well, the run's own when it failed.`,
		Args:              atMostOneRun,
		ValidArgsFunction: f.complete(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				if len(args) > 0 {
					return usagef("--all and a run exclude each other")
				}
				return a.listRuns(cmd.Context(), f)
			}
			dir, err := f.find(a, args)
			if err != nil {
				return err
			}
			sum, res, err := a.summary(dir)
			if err != nil {
				return err
			}
			var code orchestrator.ExitCode
			if res == nil {
				if code, err = a.fate(cmd.Context(), dir, &sum); err != nil {
					return err
				}
			}
			if a.json() {
				err = a.printJSON(sum)
			} else if res != nil {
				err = writeResult(a.Out, dir, res)
			} else {
				err = writeSummary(a.Out, dir, sum)
			}
			if err != nil {
				return err
			}
			if sum.ExitCode != nil {
				return exitCode(*sum.ExitCode)
			}
			if sum.State == status.Silent {
				code = orchestrator.ExitInternal
			}
			return exitWith(code)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list every run, newest first")
	return cmd
}

// summary reads one run's log and result.
func (a *app) summary(dir *rundir.Dir) (status.Summary, *result.Result, error) {
	log, err := events.ReadAll(dir.Join(rundir.EventsFile))
	if err != nil {
		return status.Summary{}, nil, err
	}
	res, err := result.Read(dir.Join(rundir.ResultFile))
	if err != nil {
		return status.Summary{}, nil, err
	}
	sum := status.Of(log.Events, res, a.Now())
	sum.Run = dir.ID()
	return sum, res, nil
}

// fate looks what becomes of a run that has no result: the log does not say that
// nobody will go on with it. The code is that of a run that has ended without one.
func (a *app) fate(ctx context.Context, dir *rundir.Dir, sum *status.Summary) (orchestrator.ExitCode, error) {
	sub, err := readSubmission(dir)
	if err != nil {
		return 0, err
	}
	gone, code := "", orchestrator.ExitInternal
	switch {
	case sub == nil && sum.State != status.Waiting && goneHere(dir):
		gone = "its controller is gone"
	case sub != nil && (sum.State == status.Waiting || a.Now().Sub(sum.LastSeen) > askEvery):
		client := a.slurm()
		j := client.Job(ctx, sub.JobID)
		if j.Ended() {
			gone, code = jobEnd(j), endCode(j)
		} else if sum.State == status.Waiting {
			sum.Waiting = pending(ctx, client, j)
		}
	}
	if gone == "" {
		return 0, nil
	}
	// It may have written its last word meanwhile.
	if res, err := result.Read(dir.Join(rundir.ResultFile)); err != nil || res != nil {
		return 0, err
	}
	what := "there is no result, and " + gone + afterwards(dir, sum.State == status.Waiting)
	if sum.Trouble != "" {
		what = sum.Trouble + "; " + what
	}
	sum.State, sum.Waiting, sum.Trouble = status.Dead, "", what
	return code, nil
}

// afterwards is what is left to do about a run that nobody leads any more.
func afterwards(dir *rundir.Dir, neverStarted bool) string {
	if neverStarted {
		return "; nothing of it was ever started"
	}
	return fmt.Sprintf("; `disagg cleanup %s` looks for what it left", dir.Path())
}

// pending says of a job that waits why it does.
func pending(ctx context.Context, client *slurm.Client, j slurm.Job) string {
	text := fmt.Sprintf("job %s: %s", j.ID, jobWord(j))
	nodes, err := client.Nodes(ctx, j.Partition)
	if err != nil {
		nodes = nil // the explanation is only less detailed
	}
	if why := slurm.Explain(j, nodes); why != "" {
		text += ": " + why
	}
	return text
}

func jobWord(j slurm.Job) string {
	if j.Presence != slurm.Present {
		return j.Presence.String()
	}
	return string(j.State)
}

func writeSummary(out io.Writer, dir *rundir.Dir, s status.Summary) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "run\t%s\n", s.Run)
	fmt.Fprintf(w, "state\t%s\n", s.State)
	if s.Job != "" {
		fmt.Fprintf(w, "job\t%s\n", s.Job)
	}
	if s.Stage != "" {
		fmt.Fprintf(w, "stage\t%s for %s\n", s.Stage, s.InStage.Round(time.Second))
	}
	if s.Waiting != "" {
		fmt.Fprintf(w, "waits for\t%s\n", s.Waiting)
	}
	if s.Elapsed > 0 {
		fmt.Fprintf(w, "since\t%s, last heard %s\n", s.Elapsed.Round(time.Second), s.LastSeen.Local().Format(time.TimeOnly))
	}
	if s.Trouble != "" {
		fmt.Fprintf(w, "trouble\t%s\n", s.Trouble)
	}
	if s.Diagnosis != "" {
		fmt.Fprintf(w, "meaning\t%s\nremedy\t%s\n", s.Diagnosis, s.Remedy)
	}
	for _, x := range s.Restarts {
		fmt.Fprintf(w, "restart\t%s\n", restartLine(x.Worker, x.Why, x.Seconds))
		if x.Meaning != "" {
			fmt.Fprintf(w, "\t%s\n", x.Meaning)
		}
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", warning)
	}
	fmt.Fprintf(w, "directory\t%s\n", dir.Path())
	if len(s.Stages) > 0 {
		fmt.Fprintln(w, "\nSTAGE\tSTATUS\tSECONDS\tNOTE")
		for _, st := range s.Stages {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\n", st.Name, st.Status, st.Seconds, st.Note)
		}
	}
	if len(s.Processes) > 0 {
		fmt.Fprintln(w, "\nPROCESS\tNODE\tSTATE\tSINCE\tLAST LINE")
		for _, p := range s.Processes {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.ID, p.Node, p.State, p.Since.Round(time.Second), cut(cmp.Or(p.Exit, p.LastLine), 100))
		}
	}
	if len(s.Points) > 0 {
		fmt.Fprintln(w, "\nPOINT\tSTATUS\tNOTE")
		for _, p := range s.Points {
			fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Status, p.Note)
		}
	}
	return w.Flush()
}

// restartLine says in one line that a worker was started again, why, and what came
// of it.
func restartLine(worker, why string, seconds *float64) string {
	if seconds == nil {
		return fmt.Sprintf("%s, because %s: no tokens have come out through it since", worker, why)
	}
	return fmt.Sprintf("%s, because %s: tokens came out through it again after %.1f s", worker, why, *seconds)
}

// cut shortens a line for a table.
func cut(s string, n int) string {
	s = strings.ReplaceAll(s, "\t", " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// listRuns prints every run in one line.
func (a *app) listRuns(ctx context.Context, f finder) error {
	runs, err := f.runsDir(a)
	if err != nil {
		return err
	}
	dirs, err := rundir.List(runs)
	if err != nil {
		return err
	}
	list := []status.Summary{}
	for _, d := range dirs {
		s, res, err := a.summary(d)
		if err == nil && res == nil {
			_, err = a.fate(ctx, d, &s)
		}
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	if a.json() {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATE\tOUTCOME\tEXIT\tELAPSED\tTROUBLE")
	for _, s := range list {
		exit := ""
		if s.ExitCode != nil {
			exit = fmt.Sprint(*s.ExitCode)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Run, s.State, s.Outcome, exit, s.Elapsed.Round(time.Second), cut(s.Trouble, 80))
	}
	return w.Flush()
}
