package cli

import (
	"path/filepath"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

func newRender(a *app) *cobra.Command {
	var in inputs
	cmd := &cobra.Command{
		Use:   "render RECIPE",
		Short: "Print the job.slurm that submit would write",
		Long: `Plan a run and print its batch script. Nothing is submitted and nothing is
written; the name of the run directory, which is made new for every submit, is
shown as RUN.`,
		Args:              in.args,
		ValidArgsFunction: completeRecipe,
		RunE: func(_ *cobra.Command, args []string) error {
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
			script, err := p.Script(filepath.Join(p.Site.RunsDir, "RUN"), "RUN")
			if err != nil {
				return err
			}
			_, err = a.Out.Write(script)
			return err
		},
	}
	in.flags(cmd)
	return cmd
}
