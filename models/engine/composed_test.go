package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

var update = flag.Bool("update", false, "write the composed processes to testdata")

// TestComposedProcesses compares what the recipes in testdata come to with the
// reviewed texts beside them.
func TestComposedProcesses(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/recipes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := load(t, file)
			out, errs := engine.Compose(in)
			got := describe(out, errs, engine.Check(in))
			golden := filepath.Join("testdata", "composed", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("composed otherwise than %s (run with -update to accept):\n%s", golden, d)
			}
		})
	}
}

// load reads a recipe of testdata with the site beside it.
func load(t *testing.T, file string) engine.Input {
	t.Helper()
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	r, recipePos, err := models.LoadRecipe("recipe.yaml", read(file))
	if err != nil {
		t.Fatal(err)
	}
	site, sitePos, err := models.LoadSite("site.yaml", read("testdata/site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := embedded(t)
	entry, err := c.Lookup(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	workers, err := layout(r, site.GPUsPerNode, settings{})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Input{Recipe: r, Site: site, Entry: entry, Layout: workers, Launcher: models.LauncherSlurm,
		ModelPath: "/models/" + r.Model,
		Where: func(document, key string) string {
			pos := map[string]models.Positions{"recipe": recipePos, "site": sitePos}[document]
			if !pos.Has(key) {
				return ""
			}
			return fmt.Sprintf("%s:%d", document, pos[key].Line)
		}}
}

// describe writes an output for people to review: one flag and one variable a
// line, each with its origin.
func describe(out engine.Output, errs []models.FieldError, findings []engine.Finding) string {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "error %s: %s; %s\n", e.Path, e.Msg, e.Hint)
	}
	for _, f := range findings {
		fmt.Fprintf(&b, "%s\n", f)
	}
	for _, w := range out.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	fmt.Fprintf(&b, "model name: %s\n", out.ModelName)
	process := func(p models.Process) {
		fmt.Fprintf(&b, "\n%s on node %d, image %s\n", p.ID, p.Node, p.Image)
		for _, port := range p.Ports {
			fmt.Fprintf(&b, "  port %s %d\n", port.Name, port.Number)
		}
		program, list := flagsOf(p.Argv)
		fmt.Fprintf(&b, "  %s\n", strings.Join(program, " "))
		for _, w := range list {
			fmt.Fprintf(&b, "    %s\n", strings.TrimSpace(w.name+" "+strings.Join(w.args, " ")))
		}
		for _, v := range p.Env {
			mark := ""
			if v.Prepend {
				mark = " before the image's"
			}
			fmt.Fprintf(&b, "  %s=%s%s\n", v.Name, v.Value, mark)
		}
	}
	for _, s := range out.Services {
		process(s)
	}
	for _, w := range out.Workers {
		fmt.Fprintf(&b, "\nworker %s: tp %d, pp %d, ep %d, dp %d, mtp %d, context %d, health %s\n", w.ID, w.TP, w.PP, w.EP, w.DP, w.MTP, w.ContextLength, w.HealthPath)
		for _, r := range w.Ranks {
			process(r)
		}
	}
	if r := out.Router; r != nil {
		fmt.Fprintf(&b, "\nrouter %s on port %d: ready %s, members %s, by ranks %t\n", r.Kind, r.Port, r.ReadyPath, r.MembersPath, r.DPAware)
		process(r.Process)
	}
	if len(out.ClientEnv) > 0 {
		b.WriteString("\nclient\n")
	}
	for _, v := range out.ClientEnv {
		fmt.Fprintf(&b, "  %s=%s\n", v.Name, v.Value)
	}
	b.WriteString("\norigins\n")
	for _, o := range out.Origins {
		fmt.Fprintf(&b, "  %s: %s", o.Key, o.From)
		if len(o.Over) > 0 {
			fmt.Fprintf(&b, " over %s", strings.Join(o.Over, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
