package models_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/orchestrator/plan"
)

// Every example loads and plans, so that a user who copies one starts from
// something that works.
func TestExamples(t *testing.T) {
	t.Parallel()
	site, sitePos, err := models.LoadSite("site.yaml", read(t, "site-mi355x-ionic.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{
		"recipe-deepseek-r1-1p1d.yaml": 1, "recipe-deepseek-r1-2p1d-wide.yaml": 1, "recipe-deepseek-v4-pro-1p1d-mtp.yaml": 1,
		"recipe-deepseek-v4-pro-2p1d.yaml": 1, "recipe-deepseek-v4-pro-agentic.yaml": 1, "recipe-qwen3.5-1p1d-sweep.yaml": 4,
		"recipe-deepseek-v4-pro-single-node-agentic.yaml": 3, "recipe-deepseek-v4-pro-single-node-eval.yaml": 1,
	}
	nodes := map[string]int{"deepseek-r1-1p1d": 2, "deepseek-r1-2p1d-wide": 4, "deepseek-v4-pro-2p1d": 3, "deepseek-v4-pro-agentic": 2,
		"deepseek-v4-pro-single-concurrency64": 1, "deepseek-v4-pro-single-eval": 1}
	files, err := filepath.Glob("../examples/recipe-*.yaml")
	if err != nil || len(files) != len(runs) {
		t.Fatalf("%d recipes, want %d: %v", len(files), len(runs), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := read(t, name)
			if _, _, err := models.LoadRecipe(name, data); err != nil {
				t.Fatal(err)
			}
			variants, err := models.ExpandSweep(name, data, nil)
			if err != nil || len(variants) != runs[name] {
				t.Fatalf("%d runs, want %d: %v", len(variants), runs[name], err)
			}
			for _, v := range variants {
				entry, err := known.Lookup(v.Recipe.Model)
				if err != nil {
					t.Fatal(err)
				}
				built, err := plan.Build(plan.Inputs{Recipe: v.Recipe, RecipePos: v.Positions, Site: site, SitePos: sitePos, Entry: entry,
					Launcher: models.LauncherSlurm, Date: "2026-12-01", Tool: "test", SubmitEnv: []string{"HF_TOKEN=x"}})
				if err != nil {
					t.Fatalf("%s: %v", v.Name, err)
				}
				if want := nodes[v.Name]; want != 0 && built.Plan.Topology.Nodes != want {
					t.Errorf("%s has %d nodes, want %d", v.Name, built.Plan.Topology.Nodes, want)
				}
				for _, w := range built.Plan.Warnings {
					// Half a node for prefill is what that sweep is about.
					if !strings.HasPrefix(v.Name, "qwen3.5-1p1d-tp4") || !strings.HasSuffix(w, "leaves 4 idle") {
						t.Errorf("%s: warning: %s", v.Name, w)
					}
				}
			}
		})
	}
}

func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	list := string(read(t, "README.md"))
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, f := range files {
		if name := filepath.Base(f); !strings.Contains(list, "]("+name+")") {
			t.Errorf("README.md does not list %s", name)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
