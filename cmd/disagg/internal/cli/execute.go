package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/launcher"
	"github.com/disagg/disagg/orchestrator/nodecheck"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm"
)

// where says on which nodes a sealed run is carried out.
type where struct {
	launcher string   // models.Launcher*
	nodes    []string // in the allocation's order
	job      string   // Slurm job id
	deadline time.Time
}

// execute carries out a sealed run from this process and returns how it ended.
func (a *app) execute(ctx context.Context, dir *rundir.Dir, p *models.Plan, w where) (result.Result, error) {
	opts := orchestrator.Options{
		Dir: dir, Plan: p, Nodes: w.nodes, Job: w.job, Deadline: w.deadline, Version: Version(),
		Preflight: &nodecheck.Checker{Plan: p, Dir: dir, Job: w.job, User: userName(a)},
	}
	setup := launcher.Setup(p, dir.ID(), Version())
	switch w.launcher {
	case models.LauncherLocal:
		opts.Launcher = &launcher.Local{Setup: setup}
	case models.LauncherSSH:
		opts.Launcher = &launcher.SSH{Setup: setup, Site: p.SSH}
	case models.LauncherSlurm:
		client := a.slurm()
		opts.Launcher = &launcher.Slurm{
			Setup: setup, Job: w.job, Binary: dir.Join(rundir.BinaryFile),
			Options: p.Slurm.StepOptions, Client: client, Need: p.Topology.Nodes,
		}
		// Without an answer the scheduler's default is counted on.
		opts.KillWait, _ = client.KillWait(ctx)
		opts.Scheduler = &launcher.SlurmView{Client: client, ID: w.job, Nodes: w.nodes}
	default:
		return result.Result{}, usagef("there is no launcher %q", w.launcher)
	}
	// All of them, from the first moment: a signal that nobody waits for would
	// end this process with everything still running.
	sig := make(chan os.Signal, 4)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(sig)
	// The end of a terminal is not the end of a run.
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	opts.Signals = sig
	return orchestrator.Run(ctx, opts)
}

// slurm is the client for this user's jobs.
func (a *app) slurm() *slurm.Client {
	return &slurm.Client{Environ: a.Env, User: userName(a)}
}

// readPlan opens a sealed run and its plan, which must have the given hash when
// one is given.
func readPlan(path, hash string) (*rundir.Dir, *models.Plan, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return nil, nil, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	data, err := dir.Verify(hash)
	if err != nil {
		return nil, nil, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, nil, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	return dir, p, nil
}

// ended turns a finished run into the verb's error: nil, or its exit code.
func ended(res result.Result, err error) error {
	if err != nil {
		return errors.Join(err, exitWith(orchestrator.ExitCode(res.ExitCode)))
	}
	return exitWith(orchestrator.ExitCode(res.ExitCode))
}

// startTime is how much of its time a job may have spent before its controller
// looks.
const startTime = 2 * time.Minute

// fits checks an allocation against a plan, asking the scheduler for what the
// environment does not tell.
func (a *app) fits(ctx context.Context, job string, p *models.Plan) (where, error) {
	alloc, err := a.slurm().Allocation(ctx, job)
	if err != nil {
		return where{}, orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	// Less time than a stop takes is none.
	need := slurm.Need{Nodes: p.Slurm.Nodes, Time: p.Slurm.SignalLead.D(), TimeLimit: p.Slurm.TimeLimit.D()}
	if p.Slurm.GPURequest != "none" {
		need.GPUsPerNode = p.Slurm.GPUsPerNode
	}
	if err := alloc.Check(need); err != nil {
		return where{}, orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	// Too little memory ends workers when they load. That it could not be
	// compared is known from the submission's warnings or is the user's own
	// allocation.
	if nodes, err := a.slurm().Nodes(ctx, alloc.Partition); err == nil {
		if text := alloc.MemoryWarning(nodes); text != "" {
			p.Warnings = append(p.Warnings, text)
			fmt.Fprintf(a.Err, "warning: %s\n", text)
		}
	}
	if left := alloc.TimeLeft; left.Known && !left.Unlimited && left.Left < p.Slurm.TimeLimit.D()-startTime {
		text := fmt.Sprintf("allocation %s has %s left; the plan's time limit is %s, so the run may be ended before it is done",
			alloc.JobID, left.Left.Round(time.Second), p.Slurm.TimeLimit.D())
		p.Warnings = append(p.Warnings, text)
		fmt.Fprintf(a.Err, "warning: %s\n", text)
	}
	w := where{launcher: models.LauncherSlurm, nodes: alloc.Nodes[:p.Slurm.Nodes], job: alloc.JobID}
	if alloc.TimeLeft.Known && !alloc.TimeLeft.Unlimited {
		w.deadline = a.Now().Add(alloc.TimeLeft.Left)
	}
	return w, nil
}

// localNodes names the plan's nodes on this host.
func localNodes(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("local%d", i)
	}
	return out
}
