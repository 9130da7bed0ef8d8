package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disagg/disagg/models"
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
fails, the cause and what to do. Of a run that has ended its result is shown;
--output json has its stages, nodes and processes too. RUN is a path, an id, a
prefix that only one id has, or "latest" (the default). --all lists every run in
one line each.

The answer comes from the run's own event log, and for a run without a result from
the scheduler too. Of a run that nobody leads any more it is what was known when it
was last heard of. The exit code is 0 for a run that goes on or went well, the run's
own when it failed.`,
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
			sum, res, err := a.look(cmd.Context(), dir)
			if err != nil {
				return err
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
				return exitWith(orchestrator.ExitInternal)
			}
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list every run, newest first")
	return cmd
}

// look reads one run's log and result, and asks what became of it when there is no
// result.
func (a *app) look(ctx context.Context, dir *rundir.Dir) (status.Summary, *result.Result, error) {
	now := a.Now()
	sum, res, err := a.summary(dir, now)
	if err != nil || res != nil {
		return sum, res, err
	}
	if err := a.fate(ctx, dir, &sum); err != nil {
		return sum, nil, err
	}
	switch sum.State {
	case status.Dead, status.Cancelled, status.Silent:
		sum.LastKnown(now)
	}
	return sum, nil, nil
}

// summary reads one run's log and result.
func (a *app) summary(dir *rundir.Dir, now time.Time) (status.Summary, *result.Result, error) {
	log, err := events.ReadAll(dir.Join(rundir.EventsFile))
	if err != nil {
		return status.Summary{}, nil, err
	}
	res, err := result.Read(dir.Join(rundir.ResultFile))
	if err != nil {
		return status.Summary{}, nil, err
	}
	sum := status.Of(log.Events, res, now)
	sum.Run = dir.ID()
	// A claim that is just being written cannot be read yet.
	if claim, err := dir.Claimed(); err == nil && claim != nil {
		sum.Controller = fmt.Sprintf("process %d on %s", claim.PID, claim.Host)
	}
	return sum, res, nil
}

// fate looks what becomes of a run that has no result: the log does not say that
// nobody will go on with it. One that has ended without a result gets the outcome
// and the exit code that wait ends with.
func (a *app) fate(ctx context.Context, dir *rundir.Dir, sum *status.Summary) error {
	sub, err := readSubmission(dir)
	if err != nil {
		return err
	}
	gone, code, state := "", orchestrator.ExitInternal, status.Dead
	switch {
	case sub == nil && sum.State != status.Waiting && goneHere(dir):
		gone = "its controller is gone"
	case sub != nil && (sum.State == status.Waiting || a.Now().Sub(sum.LastSeen) > askEvery):
		client := a.slurm()
		j := client.Job(ctx, sub.JobID)
		if j.Ended() {
			gone, code = jobEnd(j), endCode(j)
			if sum.State == status.Waiting && j.State == slurm.Cancelled {
				state = status.Cancelled
			}
		} else if sum.State == status.Waiting {
			sum.Waiting = pending(ctx, client, j)
		}
	}
	if gone == "" {
		return nil
	}
	// It may have written its last word meanwhile.
	if res, err := result.Read(dir.Join(rundir.ResultFile)); err != nil || res != nil {
		return err
	}
	outcome := result.Failed
	if code == orchestrator.ExitTerminated {
		outcome = result.Cancelled
	}
	// What it wrote when it began to end the run is the next best.
	if res, err := result.Read(dir.Join(rundir.InterimFile)); err != nil {
		return err
	} else if res != nil {
		outcome, code = res.Outcome, orchestrator.ExitCode(res.ExitCode)
	}
	what := "there is no result, and " + gone + afterwards(dir, sum.State == status.Waiting)
	if sum.Trouble != "" {
		what = sum.Trouble + "; " + what
	}
	exit := int(code)
	sum.State, sum.Waiting, sum.Trouble, sum.Outcome, sum.ExitCode = state, "", what, outcome, &exit
	return nil
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
	if s.ExitCode != nil {
		fmt.Fprintf(w, "outcome\t%s (%s, exit code %d)\n", s.Outcome, orchestrator.ExitCode(*s.ExitCode), *s.ExitCode)
	}
	if s.Job != "" {
		fmt.Fprintf(w, "job\t%s\n", s.Job)
	}
	if s.Controller != "" {
		fmt.Fprintf(w, "controller\t%s\n", s.Controller)
	}
	led := s.State == status.Running || s.State == status.Ending
	if s.Stage != "" {
		most := ""
		if b := time.Duration(s.StageBudget * float64(time.Second)); b > 0 && led {
			most = ", at most " + models.Duration(b).String()
		}
		fmt.Fprintf(w, "stage\t%s for %s%s%s\n", s.Stage, s.InStage.Round(time.Second), unless(led, " when last heard"), most)
	}
	if s.Waiting != "" {
		fmt.Fprintf(w, "waits for\t%s\n", s.Waiting)
	}
	switch {
	case s.Started.IsZero():
	case led:
		fmt.Fprintf(w, "since\t%s, last heard %s\n", s.Elapsed.Round(time.Second), s.LastSeen.Local().Format(time.TimeOnly))
	default:
		fmt.Fprintf(w, "last heard\t%s, %s after it began\n", s.LastSeen.Local().Format(time.DateTime), s.Elapsed.Round(time.Second))
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
	if len(s.Nodes) > 0 {
		fmt.Fprintln(w, "\nNODE\tADDRESS\tNOTE")
		for _, n := range s.Nodes {
			fmt.Fprintf(w, "%s\t%s\t%s\n", n.Name, n.Addr, cut(n.Lost, 100))
		}
	}
	if len(s.Processes) > 0 {
		fmt.Fprintf(w, "\nPROCESS\tNODE\tSTATE\t%sLAST LINE\n", unless(!led, "SINCE\t"))
		for _, p := range s.Processes {
			state := p.State
			if p.Was != "" {
				state += ", was " + p.Was
			}
			// Of a run that nobody leads no time goes on.
			fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\n", p.ID, p.Node, state, unless(!led, p.Since.Round(time.Second).String()+"\t"), cut(cmp.Or(p.Exit, p.LastLine), 100))
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

// unless is text, or nothing where not applies.
func unless(not bool, text string) string {
	if not {
		return ""
	}
	return text
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
		s, _, err := a.look(ctx, d)
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
