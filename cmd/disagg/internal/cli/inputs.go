package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

// inputs are the flags that say what to plan from; every verb that takes a
// recipe has them.
type inputs struct {
	site     string
	catalog  []string
	name     string
	setEnv   []string
	launcher string
	legacy   bool // arguments and environment are the old submit script's
	// job is the allocation that the old interface asks to run in, and dryRun
	// says that it asks to start nothing.
	job    string
	dryRun bool
}

func (in *inputs) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.site, "site", "", "site file (default: $"+prepare.SiteEnv+", then the user's, then the machine's)")
	f.StringArrayVar(&in.catalog, "catalog", nil, "directory with catalog files over the site's; may be given again")
	f.StringVar(&in.name, "name", "", "name of the run instead of the recipe's")
	f.StringArrayVarP(&in.setEnv, "env", "e", nil, "set a variable: NAME=VALUE for every worker, SCOPE:NAME=VALUE for one scope ("+strings.Join(env.Scopes(), ", ")+"); wins over everything")
	f.BoolVar(&in.legacy, "legacy-args", false, "take the arguments and the environment of the old submit script instead of a recipe")
	_ = cmd.MarkFlagFilename("site", "yaml", "yml")
	_ = cmd.MarkFlagDirname("catalog")
}

// request turns flags and a recipe path into what package prepare takes.
func (in *inputs) request(a *app, recipe string) (prepare.Request, error) {
	site, _, err := prepare.SiteFile(a.path(in.site), a.getenv)
	if err != nil {
		return prepare.Request{}, err
	}
	if in.name != "" {
		if f := models.Formats()["name"]; f.Check(in.name) != nil {
			return prepare.Request{}, usagef("--name must be %s, not %q", f.Doc, in.name)
		}
	}
	set, err := settings(in.setEnv)
	if err != nil {
		return prepare.Request{}, err
	}
	launcher := in.launcher
	if launcher == "" {
		launcher = models.LauncherSlurm
	}
	return prepare.Request{
		Recipe: a.path(recipe), Site: site, Catalog: in.catalog, Launcher: launcher,
		Env: a.Env, Set: set, Name: in.name, Tool: Version(), Now: a.Now(),
	}, nil
}

// settings reads --env flags.
func settings(list []string) ([]plan.Setting, error) {
	var out []plan.Setting
	for _, kv := range list {
		name, value, ok := cutEnv(kv)
		if !ok {
			return nil, usagef("--env %q: write NAME=VALUE or SCOPE:NAME=VALUE", kv)
		}
		scope := ""
		if s, n, ok := strings.Cut(name, ":"); ok {
			scope, name = s, n
		}
		out = append(out, plan.Setting{Scope: scope, Name: name, Value: value})
	}
	return out, nil
}

// path makes a relative path absolute against the streams' directory only where
// the process's own directory is another one (tests); messages keep what the
// user typed.
func (a *app) path(p string) string {
	if p == "" || filepath.IsAbs(p) || a.Dir == "" || a.here {
		return p
	}
	return filepath.Join(a.Dir, p)
}

// oneRecipe is the argument rule of verbs that take a recipe.
func oneRecipe(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("name one recipe file, got %d arguments", len(args))
	}
	return nil
}

// completeRecipe completes YAML files.
func completeRecipe(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// warn prints the plan's warnings on standard error.
func (a *app) warn(p *models.Plan) {
	if a.json() {
		return // they are in the JSON
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(a.Err, "warning: %s\n", w)
	}
}
