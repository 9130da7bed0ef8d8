package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/spf13/cobra"
)

// finder is the flags that say where runs are.
type finder struct{ site, runs string }

func (f *finder) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "site file that says where runs are (default as for plan)")
	cmd.Flags().StringVar(&f.runs, "runs", "", "directory of runs, instead of the site's")
	_ = cmd.MarkFlagFilename("site", "yaml", "yml")
	_ = cmd.MarkFlagDirname("runs")
}

// find opens a run by path, id, unique prefix of the id, or "latest".
func (f *finder) find(a *app, args []string) (*rundir.Dir, error) {
	ref := rundir.LatestRef
	if len(args) == 1 {
		ref = args[0]
	}
	if ref == "" {
		return nil, usagef("the name of the run is empty")
	}
	if st, err := os.Stat(a.path(ref)); err == nil && st.IsDir() {
		d, err := rundir.Open(a.path(ref))
		return d, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	runs, err := f.runsDir(a)
	if err != nil {
		return nil, err
	}
	d, err := rundir.Resolve(runs, ref)
	if errors.Is(err, rundir.ErrNotRun) && !strings.ContainsRune(ref, filepath.Separator) {
		err = noRun(runs, ref, err)
	}
	return d, orchestrator.WithCode(orchestrator.ExitConfig, err)
}

// noRun says that a word names no run, and what there is.
func noRun(runs, ref string, err error) error {
	there, lerr := rundir.List(runs)
	if lerr != nil {
		return lerr
	}
	if _, serr := os.Lstat(filepath.Join(runs, ref)); serr == nil {
		return err // something has that very name, and is no run
	}
	if len(there) == 0 {
		return noRunError{fmt.Errorf("there is no run yet in %s; `disagg submit` or `disagg run` makes one, and --runs or --site names another place", runs)}
	}
	return noRunError{fmt.Errorf("no run in %s has an id that begins with %q; `disagg status --all` lists those that there are, and \"latest\" is the newest", runs, ref)}
}

// noRunError says that a word names no run; what verb was meant with it may be
// known better by who asked.
type noRunError struct{ error }

// complete completes the run, the first argument.
func (f *finder) complete(a *app) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		runs, err := f.runsDir(a)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault // a path still names a run
		}
		dirs, err := rundir.List(runs)
		if err != nil || len(dirs) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ids := []string{rundir.LatestRef}
		for _, d := range dirs {
			ids = append(ids, d.ID())
		}
		return ids, cobra.ShellCompDirectiveDefault
	}
}

// runsDir is the directory of runs: the given one, else the site's.
func (f *finder) runsDir(a *app) (string, error) {
	if f.runs != "" {
		return a.path(f.runs), nil
	}
	path, _, err := prepare.SiteFile(a.path(f.site), a.getenv)
	if err != nil {
		return "", err
	}
	site, _, _, err := prepare.Site(path)
	if err != nil {
		return "", err
	}
	return site.RunsDir, nil
}

// atMostOneRun is the argument rule of verbs that take a run.
func atMostOneRun(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("name one run, got %d arguments", len(args))
	}
	return nil
}

// submissionFile is where submit writes down what it asked of the scheduler.
const submissionFile = "submission.json"

// submission is the record of a submit.
type submission struct {
	JobID string `json:"job_id"`
	// Token is the job's mark and Script the batch script's path.
	Token     string    `json:"token"`
	Script    string    `json:"script"`
	Recovered bool      `json:"recovered,omitempty"`
	Dropped   []string  `json:"dropped_env,omitempty"`
	Notes     string    `json:"notes,omitempty"`
	Time      time.Time `json:"time"`
}

// readSubmission reads the record; nil: the run was not submitted.
func readSubmission(dir *rundir.Dir) (*submission, error) {
	data, err := os.ReadFile(dir.Join(submissionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read submission: %w", err)
	}
	s := &submission{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read submission: %w", err)
	}
	return s, nil
}
