package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/spf13/cobra"
)

func newRun(a *app) *cobra.Command {
	var in inputs
	var jobid, nodes string
	cmd := &cobra.Command{
		Use:   "run RECIPE",
		Short: "Run now: in the allocation you are in, in another of yours, over ssh, or on this host",
		Long: `Run a recipe from this terminal. Inside salloc the allocation is used; --jobid
names another allocation of yours; --launcher ssh reaches the nodes of --nodes by
ssh, without a scheduler; --launcher local runs everything on this host.

Ctrl-C ends the run in order; a second one skips the grace; a third leaves at
once and prints how to clean up. The command ends with the run's exit code.`,
		Args:              in.args,
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
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
			if jobid == "" {
				jobid = in.job
			}
			w, err := a.nodesFor(cmd.Context(), p.Plan, jobid, nodes)
			if err != nil {
				return err
			}
			dir, err := p.RunDir(a.Now(), false)
			if err != nil {
				return err
			}
			return a.runHere(cmd.Context(), dir, p.Plan, w)
		},
	}
	in.flags(cmd)
	cmd.Flags().VarP(newEnum(&in.launcher, models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal), "launcher", "l", "how agents are started")
	_ = cmd.RegisterFlagCompletionFunc("launcher", cobra.FixedCompletions([]string{models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&jobid, "jobid", "", "Slurm job whose nodes to use (default: the one this shell is in)")
	cmd.Flags().StringVar(&nodes, "nodes", "", "with --launcher ssh: the nodes, in the plan's order; more than it needs are spares")
	return cmd
}

// nodesFor says which nodes a run from this terminal uses.
func (a *app) nodesFor(ctx context.Context, p *models.Plan, jobid, nodes string) (where, error) {
	switch {
	case p.Launcher != models.LauncherSlurm && jobid != "":
		return where{}, usagef("--jobid and --launcher %s exclude each other", p.Launcher)
	case p.Launcher != models.LauncherSSH && nodes != "":
		return where{}, usagef("--nodes is for --launcher ssh; Slurm gives a job its nodes")
	case p.Launcher == models.LauncherSSH:
		return sshNodes(p, nodes)
	case p.Launcher == models.LauncherLocal:
		return where{launcher: models.LauncherLocal, nodes: localNodes(p.Topology.Nodes + p.Topology.Spares)}, nil
	}
	if jobid == "" {
		alloc, err := slurm.FromEnvironment(a.Env)
		if errors.Is(err, slurm.ErrNoAllocation) {
			return where{}, usagef("this shell is in no allocation: start one with salloc, name one with --jobid, run on this host with --launcher local, or use `disagg submit`")
		}
		if err != nil {
			return where{}, orchestrator.WithCode(orchestrator.ExitScheduler, err)
		}
		jobid = alloc.JobID
	}
	return a.fits(ctx, jobid, p)
}

// sshNodes reads the nodes of a run without a scheduler. Those that the site
// excludes are refused: nobody else keeps a run away from them.
func sshNodes(p *models.Plan, list string) (where, error) {
	if list == "" {
		return where{}, usagef("--launcher ssh needs --nodes, such as --nodes gpu-[01-02]")
	}
	nodes, err := hostlist.Validate(list, 0)
	if err != nil {
		return where{}, usageError{fmt.Errorf("--nodes: %w", err)}
	}
	if need := p.Topology.Nodes; len(nodes) < need {
		return where{}, usagef("--nodes %s names %d nodes, the plan needs %d", list, len(nodes), need)
	}
	for _, x := range p.Exclude {
		out, err := hostlist.Expand(x.Nodes)
		if err != nil {
			return where{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read exclusions: %w", err))
		}
		for _, n := range nodes {
			if slices.Contains(out, n) {
				return where{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("the site excludes node %s: %s; leave it out of --nodes, or correct exclude in the site file", n, x.Reason))
			}
		}
	}
	return where{launcher: models.LauncherSSH, nodes: nodes}, nil
}

// runHere carries out a run from this process, showing its events meanwhile, and
// its summary at the end.
func (a *app) runHere(ctx context.Context, dir *rundir.Dir, p *models.Plan, w where) error {
	fmt.Fprintf(a.Err, "run directory: %s\n", dir.Path())
	done := make(chan struct{})
	fctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		if err := events.Follow(fctx, dir.Join(rundir.EventsFile), 100*time.Millisecond, a.newEventPrinter().show); err != nil && fctx.Err() == nil {
			fmt.Fprintf(a.Err, "disagg: follow events: %s\n", err)
		}
	}()
	res, err := a.execute(ctx, dir, p, w)
	// The last events are on disk now; let the printer reach them.
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
	stop()
	<-done
	if perr := a.printResult(dir, &res); perr != nil {
		err = errors.Join(err, perr)
	}
	return ended(res, err)
}

// printResult prints how a run ended.
func (a *app) printResult(dir *rundir.Dir, res *result.Result) error {
	if a.json() {
		return a.printJSON(res)
	}
	return writeResult(a.Out, dir, res)
}
