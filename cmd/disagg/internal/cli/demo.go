package cli

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/disagg/disagg/internal/standin"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

//go:embed demo/*.tmpl
var demoFiles embed.FS

func newDemo(a *app) *cobra.Command {
	var dir, fault string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A whole run on this host with a stand-in engine: no root, no Slurm, no GPU",
		Long: `Plan, launch, prove, measure, stop and verify one prefill and one decode worker
behind a router on this host. The engine and the router are stand-ins that speak
the real ones' HTTP; everything else is what a cluster run does.

The files it uses are left in --dir: recipe.yaml and site.yaml to play with, and
the run directory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := standin.ParseFaults(fault); err != nil {
				return usageError{fmt.Errorf("--fault: %w", err)}
			}
			if err := writeDemo(cmd.Context(), a, dir, fault); err != nil {
				return err
			}
			recipe := filepath.Join(dir, "recipe.yaml")
			p, err := prepare.Load(prepare.Request{
				Recipe: recipe, Site: filepath.Join(dir, "site.yaml"), Launcher: models.LauncherLocal,
				Env: []string{}, Tool: Version(), Now: a.Now(),
			})
			if err != nil {
				return err
			}
			if !a.json() {
				fmt.Fprintf(a.Out, "%s\n", plan.Table(p.Plan))
			}
			w, err := a.nodesFor(cmd.Context(), p.Plan, "", "")
			if err != nil {
				return err
			}
			run, err := p.RunDir(a.Now(), false)
			if err != nil {
				return err
			}
			return a.runHere(cmd.Context(), run, p.Plan, w)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), fmt.Sprintf("disagg-demo-%d", os.Getuid())), "where to put the demo's files")
	cmd.Flags().StringVar(&fault, "fault", "", "make the stand-ins fail, to see what the tool says: crash:phase=load, wrong-model, stall, …; a wrong word lists all")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// writeDemo lays out recipe, site, a model directory and the programs that the
// recipe's commands name.
func writeDemo(ctx context.Context, a *app, dir, fault string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("lay out demo: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("lay out demo: %w", err)
	}
	ports, err := pickPorts(ctx)
	if err != nil {
		return err
	}
	path, _ := a.getenv("PATH")
	render := func(name string) (string, error) {
		t, err := template.New(name).Option("missingkey=error").ParseFS(demoFiles, "demo/"+name)
		if err != nil {
			return "", fmt.Errorf("lay out demo: %w", err)
		}
		var b strings.Builder
		err = t.Execute(&b, struct {
			Dir, Path, Fault string
			Ports            demoPorts
		}{dir, path, fault, ports})
		return b.String(), err
	}
	recipe, err := render("recipe.yaml.tmpl")
	if err != nil {
		return err
	}
	site, err := render("site.yaml.tmpl")
	if err != nil {
		return err
	}
	program := func(name string) []byte {
		return fmt.Appendf(nil, "#!/bin/sh\nexec '%s' standin %s \"$@\"\n", strings.ReplaceAll(self, "'", `'\''`), name)
	}
	files := []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{"recipe.yaml", []byte(recipe), 0o600},
		{"site.yaml", []byte(site), 0o600},
		{"bin/python3", program("python3"), 0o700},
		{"bin/python", program("python"), 0o700},
		{"bin/standin", program("standin"), 0o700},
		{"models/DeepSeek-R1-0528/config.json", []byte("{\"model_type\": \"stand-in\"}\n"), 0o600},
		{"models/DeepSeek-R1-0528/model.safetensors", standin.Weights(), 0o600},
	}
	for _, f := range files {
		to := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("lay out demo: %w", err)
		}
		if err := os.WriteFile(to, f.data, f.mode); err != nil {
			return fmt.Errorf("lay out demo: %w", err)
		}
	}
	return nil
}

// newStandin is what the demo's programs start.
func newStandin(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "standin NAME [ARGS…]",
		Short:              "Play a part of the serving stack that needs a GPU (started by the demo)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name the program to play")
			}
			return exitCode(standin.Main(cmd.Context(), args, a.Out, a.Err))
		},
	}
}
