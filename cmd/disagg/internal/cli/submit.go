package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/spf13/cobra"
)

func newSubmit(a *app) *cobra.Command {
	var in inputs
	var wait, follow bool
	cmd := &cobra.Command{
		Use:   "submit RECIPE",
		Short: "Plan a run, make its directory whole, and hand it to sbatch",
		Long: `Plan a run, write its run directory and submit its job. With --wait the command
waits until the run has ended and ends with the run's exit code; --follow shows
what happens meanwhile.

When sbatch gives no clear answer the job is looked for by the run's own mark;
it is never submitted a second time by guess.`,
		Args:              in.args,
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.launcher = models.LauncherSlurm
			req, err := in.requestOf(a, args)
			if err != nil {
				return err
			}
			p, err := prepare.Load(req)
			if err != nil {
				return err
			}
			a.warn(p.Plan)
			if in.dryRun {
				return a.dry(p)
			}
			if err := in.elsewhere(); err != nil {
				return err
			}
			dir, sub, err := a.submit(cmd.Context(), p)
			if err != nil {
				return err
			}
			if err := a.printSubmission(dir, sub); err != nil {
				return err
			}
			if !wait && !follow {
				return nil
			}
			return a.await(cmd.Context(), dir, follow)
		},
	}
	in.flags(cmd)
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait for the end of the run; end with its exit code")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait, and show what happens")
	return cmd
}

// submit makes the run directory and hands its script to the scheduler.
func (a *app) submit(ctx context.Context, p *prepare.Prepared) (*rundir.Dir, *submission, error) {
	client := a.slurm()
	if err := a.survey(ctx, client, p); err != nil {
		return nil, nil, err
	}
	dir, err := p.RunDir(a.Now(), true)
	if err != nil {
		return nil, nil, err
	}
	if rundir.InMemory(dir.Path()) {
		fmt.Fprintf(a.Err, "warning: %s is in this host's memory (tmpfs), where no node sees it; set runs_dir of the site to a shared file system\n", dir.Path())
	}
	rec := &submission{Token: dir.ID(), Script: dir.Join(rundir.ScriptFile), Time: a.Now().UTC()}
	got, err := client.Submit(ctx, slurm.SubmitRequest{Script: rec.Script, Token: rec.Token})
	rec.JobID, rec.Recovered, rec.Dropped, rec.Notes = got.JobID, got.Recovered, got.Dropped, got.Notes
	if data, jerr := json.MarshalIndent(rec, "", "  "); jerr == nil {
		err = errors.Join(err, dir.Put(submissionFile, append(data, '\n'), 0o600))
	}
	if err != nil {
		next := fmt.Sprintf("nothing was submitted; the run directory %s shows what would have run", dir.Path())
		if errors.Is(err, slurm.ErrSubmitUnknown) {
			next = fmt.Sprintf("look for it yourself before you submit again: squeue --me -o '%%i %%T %%k' | grep %s", rec.Token)
		} else {
			err = errors.Join(err, dir.RemoveSecrets()) // nobody will come for them
		}
		return nil, nil, orchestrator.WithCode(orchestrator.ExitScheduler, fmt.Errorf("%w\n%s", err, next))
	}
	return dir, rec, nil
}

// survey looks at the cluster before anything is written. Nodes that it does not
// have leave the exclusion list, since one of them makes Slurm refuse the whole
// submission; the plan is sealed with what remains and with what was found.
func (a *app) survey(ctx context.Context, client *slurm.Client, p *prepare.Prepared) error {
	job := &p.Plan.Slurm
	excluded, err := hostlist.Expand(job.Exclude)
	if err != nil {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read exclusions: %w", err))
	}
	requested, err := hostlist.Expand(job.Options["nodelist"])
	if err != nil {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read slurm.options.nodelist: %w", err))
	}
	ask := slurm.Ask{
		Partition: job.Partition, Reservation: job.Reservation, Nodes: job.Nodes,
		Requested: requested, Excluded: excluded, Reasons: map[string]string{}, Machine: slurm.Machine(runtime.GOARCH),
	}
	for _, e := range p.Plan.Exclude {
		nodes, err := hostlist.Expand(e.Nodes)
		if err != nil {
			return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read exclusions: %w", err))
		}
		for _, n := range nodes {
			ask.Reasons[n] = e.Reason
		}
	}
	if job.GPURequest != "none" {
		ask.GPUsPerNode = job.GPUsPerNode
	}
	got, err := client.Survey(ctx, ask)
	if err != nil {
		return orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	for _, w := range got.Warnings {
		fmt.Fprintf(a.Err, "warning: %s\n", w)
	}
	if got.Waits != "" {
		fmt.Fprintf(a.Err, "warning: %s\n", got.Waits)
	}
	for _, b := range got.Broken {
		fmt.Fprintf(a.Err, "note: cannot be used now: %s\n", b)
	}
	if len(got.Warnings) == 0 {
		return nil
	}
	job.Exclude = hostlist.Compress(got.Excluded)
	p.Plan.Warnings = append(p.Plan.Warnings, got.Warnings...)
	return p.Reseal()
}

func (a *app) printSubmission(dir *rundir.Dir, s *submission) error {
	if len(s.Dropped) > 0 {
		fmt.Fprintf(a.Err, "note: kept away from sbatch, from a surrounding job: %s\n", strings.Join(s.Dropped, " "))
	}
	if s.Notes != "" {
		fmt.Fprintf(a.Err, "note: sbatch said: %s\n", s.Notes)
	}
	if a.json() {
		return a.printJSON(struct {
			Run   string `json:"run"`
			Dir   string `json:"dir"`
			JobID string `json:"job_id"`
		}{dir.ID(), dir.Path(), s.JobID})
	}
	_, err := fmt.Fprintf(a.Out, "run %s: job %s submitted\nrun directory: %s\n", dir.ID(), s.JobID, dir.Path())
	return err
}
