package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/legacy"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

// args is the argument rule of verbs that plan: one recipe, or with
// --legacy-args whatever the old submit script took.
func (in *inputs) args(cmd *cobra.Command, args []string) error {
	if in.legacy {
		return nil
	}
	return oneRecipe(cmd, args)
}

// requestOf turns flags and arguments into what package prepare takes.
func (in *inputs) requestOf(a *app, args []string) (prepare.Request, error) {
	if !in.legacy {
		return in.request(a, args[0])
	}
	set, err := settings(in.setEnv)
	if err != nil {
		return prepare.Request{}, err
	}
	sub, base, err := in.convert(a, args)
	if err != nil {
		return prepare.Request{}, err
	}
	if in.launcher == "" {
		in.launcher = models.LauncherSlurm
	}
	in.job, in.dryRun = sub.Job, sub.DryRun
	return prepare.Request{
		Recipe: "arguments", RecipeText: sub.Recipe, Site: base, SiteText: sub.Site, Catalog: in.catalog, Launcher: in.launcher,
		Env: a.Env, Set: set, Understood: sub.Understood, Name: in.name, Tool: Version(), Now: a.Now(),
	}, nil
}

// convert makes recipe and site of a call of the old submit script. The site
// that would be used otherwise lies under what the call says; without any it is
// what the scripts had built in.
func (in *inputs) convert(a *app, args []string) (*legacy.Submission, string, error) {
	call := legacy.Call{Args: args, Env: a.Env, Dir: a.Dir}
	name := "environment"
	path, _, err := prepare.SiteFile(a.path(in.site), a.getenv)
	switch {
	case err == nil:
		if call.Site, _, _, err = prepare.Site(path); err != nil {
			return nil, "", err
		}
		name = path + "+environment"
	case !errors.Is(err, prepare.ErrNoSite):
		return nil, "", err
	}
	var dirs []string
	if call.Site != nil {
		dirs = call.Site.Models.Catalog
	}
	if call.Catalog, _, err = prepare.Catalog(filepath.Dir(name), append(append([]string(nil), dirs...), in.catalog...)); err != nil {
		return nil, "", err
	}
	sub, err := legacy.Submit(call)
	if err != nil {
		return nil, "", err
	}
	if !a.json() {
		for _, n := range sub.Notes {
			fmt.Fprintf(a.Err, "note: %s\n", n)
		}
	}
	return sub, name, nil
}

// dry prints the plan instead of starting it, as DRY_RUN asks.
func (a *app) dry(p *prepare.Prepared) error {
	if a.json() {
		_, err := a.Out.Write(p.JSON)
		return err
	}
	fmt.Fprintln(a.Err, "DRY_RUN is set: this is the plan, and nothing was started")
	_, err := fmt.Fprint(a.Out, plan.Table(p.Plan))
	return err
}

// elsewhere refuses a submit that the old script would have run inside an
// allocation.
func (in *inputs) elsewhere() error {
	if in.job == "" {
		return nil
	}
	return orchestrator.WithCode(orchestrator.ExitUsage, fmt.Errorf("SLURM_REUSE_JOBID is set: the run belongs into job %s, and submit makes a new one\nuse `disagg run --legacy-args` with the same arguments, or unset it", in.job))
}
