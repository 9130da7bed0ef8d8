package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/orchestrator/sweep"
	"github.com/disagg/disagg/slurm"
	"github.com/spf13/cobra"
)

func newSweep(a *app) *cobra.Command {
	var in inputs
	cmd := &cobra.Command{
		Use:   "sweep RECIPE|DIRECTORY...",
		Short: "List the runs of a sweep; submit them as one set, watch it, end it",
		Long: `List the runs that recipes with axes make, and those of directories of recipes
such as import writes. Every run is planned, so all mistakes of all runs are
shown here; nothing is submitted.

  disagg sweep submit RECIPE... --max 4   submit them, at most 4 at once
  disagg sweep status SET                 how the set is doing; red is not exit code 0
  disagg sweep wait SET                   wait for all of them
  disagg sweep cancel SET                 end all of them in order`,
		Args:              someRecipes,
		ValidArgsFunction: completeRecipe,
		RunE: func(_ *cobra.Command, args []string) error {
			runs, err := a.planSweep(&in, args)
			if err != nil {
				return err
			}
			return a.listSweep(runs)
		},
	}
	in.flags(cmd)
	cmd.AddCommand(newSweepSubmit(a), newSweepStatus(a), newSweepWait(a), newSweepCancel(a))
	return cmd
}

func someRecipes(_ *cobra.Command, args []string) error {
	if len(args) == 0 || slices.Contains(args, "") {
		return usagef("name at least one recipe, or a directory of recipes")
	}
	return nil
}

// sweepRun is one planned run of a sweep.
type sweepRun struct {
	recipe string
	*prepare.Prepared
}

// planSweep plans every run of some recipes.
func (a *app) planSweep(in *inputs, args []string) ([]sweepRun, error) {
	if in.legacy {
		return nil, usagef("--legacy-args is one run; a sweep takes recipes")
	}
	if in.name != "" {
		return nil, usagef("--name names one run; the runs of a sweep have names of their own")
	}
	in.launcher = models.LauncherSlurm
	files, err := a.recipeFiles(args)
	if err != nil {
		return nil, err
	}
	var runs []sweepRun
	var errs models.FieldErrors
	first := map[string]string{}
	for _, file := range files {
		req, err := in.request(a, file)
		if err != nil {
			return nil, err
		}
		all, err := prepare.LoadAll(req)
		if fe, ok := errors.AsType[models.FieldErrors](err); ok {
			errs = append(errs, fe...)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			name := p.Plan.Name
			if other, twice := first[name]; twice {
				errs = append(errs, models.FieldError{File: file, Path: "name", Msg: fmt.Sprintf("the name %s is that of a run of %s as well", name, other),
					Hint: "each result of a set has a name of its own; rename one of them"})
			}
			first[name] = file
			runs = append(runs, sweepRun{file, p})
		}
	}
	// A mistake of the site is in what every recipe says.
	if err := errs.Sort().Err(); err != nil {
		return nil, err
	}
	return runs, nil
}

// recipeFiles lists the recipes that arguments name: files, and the YAML files
// below directories.
func (a *app) recipeFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		st, err := os.Stat(a.path(arg))
		if err != nil || !st.IsDir() {
			files = append(files, arg) // what is wrong with it is said when it is read
			continue
		}
		n := len(files)
		err = filepath.WalkDir(a.path(arg), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read recipes: %w", err))
		}
		if len(files) == n {
			return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read recipes: %s holds no .yaml file", arg))
		}
	}
	return files, nil
}

// pointNames are the results that a plan promises.
func pointNames(p *models.Plan) []string {
	names := []string{}
	if p.Client != nil {
		for _, pt := range p.Client.Points {
			names = append(names, "c"+strconv.Itoa(pt.Concurrency))
		}
	}
	if p.Eval != nil {
		names = append(names, "eval")
	}
	return names
}

func (a *app) listSweep(runs []sweepRun) error {
	if a.json() {
		type row struct {
			Name   string              `json:"name"`
			Recipe string              `json:"recipe"`
			Point  []models.SweepValue `json:"point,omitempty"`
			Nodes  int                 `json:"nodes"`
			Points []string            `json:"points"`
		}
		out := []row{}
		for _, r := range runs {
			out = append(out, row{r.Plan.Name, r.recipe, r.Point, r.Plan.Slurm.Nodes, pointNames(r.Plan)})
		}
		return a.printJSON(out)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tNODES\tTIME LIMIT\tPOINTS\tVALUES")
	nodes := 0
	for _, r := range runs {
		var values []string
		for _, v := range r.Point {
			values = append(values, v.Key+"="+v.Value)
		}
		nodes = max(nodes, r.Plan.Slurm.Nodes)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", r.Plan.Name, r.Plan.Slurm.Nodes, r.Plan.Slurm.TimeLimit, strings.Join(pointNames(r.Plan), " "), dash(strings.Join(values, " ")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%d runs, each of up to %d nodes; nothing was submitted\n", len(runs), nodes)
	return err
}

func newSweepSubmit(a *app) *cobra.Command {
	var in inputs
	var atOnce int
	var setName string
	cmd := &cobra.Command{
		Use:   "submit RECIPE|DIRECTORY...",
		Short: "Submit all runs of a sweep as one set, a few at once",
		Long: `Plan every run, write the record of the set, and submit the runs in their order.
No run is submitted when one of them cannot be planned.

--max says how many may run at once. No process stays to see to it: the runs are
dealt out to as many lanes, and each waits in Slurm for the end of the run before
it in its lane (--dependency=afterany), however that ended.`,
		Args:              someRecipes,
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if atOnce < 1 {
				return usagef("--max %d: at least one run must be allowed at once", atOnce)
			}
			runs, err := a.planSweep(&in, args)
			if err != nil {
				return err
			}
			name := cmp.Or(setName, strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0])))
			return a.submitSweep(cmd.Context(), runs, name, atOnce)
		},
	}
	in.flags(cmd)
	cmd.Flags().IntVar(&atOnce, "max", 1, "how many may run at once")
	cmd.Flags().StringVar(&setName, "set", "", "name of the set (default: that of the first file or directory)")
	return cmd
}

// submitSweep submits planned runs as one set.
func (a *app) submitSweep(ctx context.Context, runs []sweepRun, name string, atOnce int) error {
	var list []sweep.Run
	for _, r := range runs {
		list = append(list, sweep.Run{Name: r.Plan.Name, Recipe: r.recipe, Point: r.Point, Points: pointNames(r.Plan)})
	}
	set, err := sweep.Create(runs[0].Site.RunsDir, name, list, atOnce, Version(), a.Now())
	if err != nil {
		return orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	for i, r := range runs {
		if err = ctx.Err(); err == nil {
			err = a.submitOne(ctx, set, i, r)
		}
		if err != nil {
			set.Runs[i].Error = firstLine(err.Error())
		}
		if serr := set.Save(); serr != nil {
			err = errors.Join(err, serr)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("submit run %d of %d, %s: %w", i+1, len(runs), r.Plan.Name, err),
				fmt.Errorf("%d runs are submitted; `disagg sweep status %s` shows them, `disagg sweep cancel %s` ends them", i, set.ID, set.ID))
		}
	}
	if a.json() {
		return a.printJSON(set)
	}
	_, err = fmt.Fprintf(a.Out, "set %s: %d runs submitted, %d at once\nrecord: %s\n", set.ID, len(runs), min(atOnce, len(runs)), set.Dir())
	return err
}

// submitOne submits one run behind the one before it in its lane.
func (a *app) submitOne(ctx context.Context, set *sweep.Set, i int, r sweepRun) error {
	run := &set.Runs[i]
	if run.After = set.Before(i); run.After != "" {
		options := maps.Clone(r.Plan.Slurm.Options)
		if options == nil {
			options = map[string]string{}
		}
		if own := options["dependency"]; own != "" {
			return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("the site's slurm.options.dependency %q leaves no room for that of the set", own))
		}
		options["dependency"] = "afterany:" + run.After
		r.Plan.Slurm.Options = options
		if err := r.Reseal(); err != nil {
			return err
		}
	}
	a.warn(r.Plan)
	dir, sub, err := a.submit(ctx, r.Prepared)
	if err != nil {
		return err
	}
	run.ID, run.Dir, run.Job = dir.ID(), dir.Path(), sub.JobID
	if !a.json() {
		after := ""
		if run.After != "" {
			after = ", after job " + run.After
		}
		fmt.Fprintf(a.Out, "run %s: job %s submitted%s\n", dir.ID(), sub.JobID, after)
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// findSet opens a set by path, id, unique prefix, or "latest".
func (f *finder) findSet(a *app, args []string) (*sweep.Set, error) {
	ref := rundir.LatestRef
	if len(args) == 1 {
		ref = args[0]
	}
	if ref == "" {
		return nil, usagef("the name of the set is empty")
	}
	if st, err := os.Stat(a.path(ref)); err == nil && st.IsDir() {
		s, err := sweep.Open(a.path(ref))
		return s, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	runs, err := f.runsDir(a)
	if err != nil {
		return nil, err
	}
	s, err := sweep.Resolve(runs, ref)
	return s, orchestrator.WithCode(orchestrator.ExitConfig, err)
}

func atMostOneSet(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("name one set, got %d arguments", len(args))
	}
	return nil
}

func newSweepStatus(a *app) *cobra.Command {
	var f finder
	cmd := &cobra.Command{
		Use:   "status [SET]",
		Short: "Say how the runs of a set are doing; red when a point is missing",
		Long: `Show every run of a set. SET is a path, an id, a prefix that only one id has, or
"latest" (the default).

A set is red when a run failed, was never submitted, ended without a result, or
has no result for one of the points that it was submitted for; the exit code is
0 only while nothing is red.`,
		Args: atMostOneSet,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := f.findSet(a, args)
			if err != nil {
				return err
			}
			states, err := a.setStates(cmd.Context(), set)
			if err != nil {
				return err
			}
			return a.printSet(set, states)
		},
	}
	f.flags(cmd)
	return cmd
}

// setStates asks every run's directory, and the scheduler about those that have
// no result.
func (a *app) setStates(ctx context.Context, set *sweep.Set) ([]sweep.State, error) {
	client := a.slurm()
	out := make([]sweep.State, len(set.Runs))
	for i, r := range set.Runs {
		var res *result.Result
		var job sweep.Job
		if r.Dir != "" {
			var err error
			if res, err = result.Read(filepath.Join(r.Dir, rundir.ResultFile)); err != nil {
				return nil, err
			}
		}
		if r.Job != "" && res == nil {
			j := client.Job(ctx, r.Job)
			job = sweep.Job{Known: j.Presence == slurm.Present || j.Ended(), Ended: j.Ended(), Word: cmp.Or(string(j.State), j.Presence.String())}
		}
		out[i] = sweep.Judge(r, res, job)
	}
	return out, nil
}

func (a *app) printSet(set *sweep.Set, states []sweep.State) error {
	sum := sweep.Add(states)
	if a.json() {
		if err := a.printJSON(struct {
			Set  string        `json:"set"`
			Max  int           `json:"max"`
			Sum  sweep.Sum     `json:"sum"`
			Runs []sweep.State `json:"runs"`
		}{set.ID, set.Max, sum, states}); err != nil {
			return err
		}
		return exitWith(sum.ExitCode)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "set %s: %s\n", set.ID, sum.Colour)
	fmt.Fprintln(w, "RUN\tJOB\tSTATE\tMISSING\tWHY")
	for _, s := range states {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(s.ID, s.Name), dash(s.Job), s.Word, dash(strings.Join(s.Missing, " ")), dash(cut(s.Why, 100)))
	}
	fmt.Fprintf(w, "%d green, %d going, %d red\n", sum.Green, sum.Going, sum.Red)
	if err := w.Flush(); err != nil {
		return err
	}
	return exitWith(sum.ExitCode)
}

func newSweepWait(a *app) *cobra.Command {
	var f finder
	cmd := &cobra.Command{
		Use:   "wait [SET]",
		Short: "Wait until no run of a set goes on; end as status does",
		Args:  atMostOneSet,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := f.findSet(a, args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			tick := time.NewTicker(askEvery)
			defer tick.Stop()
			var ended time.Time // when a job was first seen to have ended without a result
			for {
				states, err := a.setStates(ctx, set)
				if err != nil {
					return err
				}
				late := slices.ContainsFunc(states, func(s sweep.State) bool { return s.Job != "" && s.Word == "missing" && len(s.Missing) > 0 })
				if late && ended.IsZero() {
					ended = a.Now()
				}
				if sweep.Add(states).Going == 0 && (!late || a.Now().Sub(ended) > graceAfter) {
					return a.printSet(set, states)
				}
				select {
				case <-ctx.Done():
					fmt.Fprintf(a.Err, "stopped waiting; the set goes on. `disagg sweep wait %s` waits again\n", set.ID)
					return exitWith(orchestrator.ExitInterrupted)
				case <-tick.C:
				}
			}
		},
	}
	f.flags(cmd)
	return cmd
}

func newSweepCancel(a *app) *cobra.Command {
	var f finder
	var now bool
	cmd := &cobra.Command{
		Use:   "cancel SET",
		Short: "End every run of a set in order, those that wait first",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one set, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := f.findSet(a, args)
			if err != nil {
				return err
			}
			var errs []error
			// From the last: a run that ends would let the one behind it begin.
			for _, r := range slices.Backward(set.Runs) {
				if r.Job == "" {
					continue
				}
				dir, err := rundir.Open(r.Dir)
				if err == nil {
					err = a.cancel(cmd.Context(), dir, now)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("cancel %s: %w", r.ID, err))
				}
			}
			return errors.Join(errs...)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "cancel the whole jobs at once")
	return cmd
}
