package cli

import (
	"fmt"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/slurm"
	"github.com/spf13/cobra"
)

// newController is the batch job's one command.
func newController(a *app) *cobra.Command {
	var run, hash string
	cmd := &cobra.Command{
		Use:    "controller",
		Short:  "Carry out a submitted run inside its job (started by job.slurm)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, p, err := readPlan(run, hash)
			if err != nil {
				return err
			}
			alloc, err := slurm.FromEnvironment(a.Env)
			if err != nil {
				return orchestrator.WithCode(orchestrator.ExitScheduler, err)
			}
			w, err := a.fits(cmd.Context(), alloc.JobID, p)
			if err != nil {
				return err
			}
			res, err := a.execute(cmd.Context(), dir, p, w)
			fmt.Fprintf(a.Out, "run %s: %s (exit code %d)\n", dir.ID(), res.Outcome, res.ExitCode)
			return ended(res, err)
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "run directory")
	cmd.Flags().StringVar(&hash, "plan-hash", "", "hash of the plan that was submitted")
	_ = cmd.MarkFlagRequired("run")
	_ = cmd.MarkFlagRequired("plan-hash")
	return cmd
}
