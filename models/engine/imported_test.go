package engine_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
	"github.com/disagg/disagg/models/legacy"
	"github.com/disagg/disagg/orchestrator/plan"
)

// matrixRow is a row of the sweep generator's output.
type matrixRow struct {
	Image      string         `json:"image"`
	Model      string         `json:"model"`
	Prefix     string         `json:"model-prefix"`
	Precision  string         `json:"precision"`
	Framework  string         `json:"framework"`
	Runner     string         `json:"runner"`
	ISL        int            `json:"isl"`
	OSL        int            `json:"osl"`
	Spec       string         `json:"spec-decoding"`
	Prefill    map[string]any `json:"prefill"`
	Decode     map[string]any `json:"decode"`
	Conc       []int          `json:"conc"`
	Scenario   string         `json:"scenario-type"`
	Transfer   string         `json:"kv-p2p-transfer"`
	Offloading string         `json:"kv-offloading"`
	Backend    map[string]any `json:"kv-offload-backend"`
	DRAM       int            `json:"total-cpu-dram-gb"`
	RunEval    bool           `json:"run-eval"`
	EvalOnly   bool           `json:"eval-only"`
	EvalConc   int            `json:"eval-conc"`
	key        string
}

// masterOf writes the master file that the generator made rows of. JSON is YAML.
// The rows of one entry of a trace search space follow one another.
func masterOf(t *testing.T, rows []matrixRow) legacy.File {
	t.Helper()
	configs := map[string]map[string]any{}
	var last *matrixRow
	var open map[string]any // the entry that the last row belongs to
	for i := range rows {
		r := &rows[i]
		agentic := r.Scenario == "agentic-coding"
		if agentic && last != nil && last.key == r.key && reflect.DeepEqual([]any{last.Prefill, last.Decode, last.Offloading}, []any{r.Prefill, r.Decode, r.Offloading}) {
			open["conc-list"] = append(open["conc-list"].([]int), r.Conc...)
			continue
		}
		last = r
		c := configs[r.key]
		if c == nil {
			c = map[string]any{"image": r.Image, "model": r.Model, "model-prefix": r.Prefix, "precision": r.Precision, "framework": r.Framework,
				"runner": r.Runner, "multinode": true, "disagg": true, "scenarios": map[string]any{}}
			if r.Transfer != "" {
				c["kv-p2p-transfer"] = r.Transfer
			}
			configs[r.key] = c
		}
		open = map[string]any{"spec-decoding": r.Spec, "conc-list": r.Conc, "prefill": r.Prefill, "decode": r.Decode}
		kind, group := "fixed-seq-len", map[string]any{"isl": r.ISL, "osl": r.OSL}
		if agentic {
			kind, group = r.Scenario, map[string]any{"dram-utilization": 0.8}
			if r.Offloading != "" {
				open["kv-offloading"] = r.Offloading
			}
			if r.Backend != nil {
				open["kv-offload-backend"] = r.Backend
			}
		}
		scenarios := c["scenarios"].(map[string]any)
		groups, _ := scenarios[kind].([]map[string]any)
		if n := len(groups); n == 0 || groups[n-1]["isl"] != group["isl"] || groups[n-1]["osl"] != group["osl"] {
			group["search-space"] = []map[string]any{}
			groups = append(groups, group)
		}
		g := groups[len(groups)-1]
		g["search-space"] = append(g["search-space"].([]map[string]any), open)
		scenarios[kind] = groups
	}
	data, err := json.MarshalIndent(configs, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return legacy.File{Path: "master.yaml", Data: data}
}

// TestImportedMatrix imports a master file made of the generator's rows: there
// are as many runs as rows, evaluated where the generator did.
func TestImportedMatrix(t *testing.T) {
	t.Parallel()
	extra := filepath.Join(filepath.Dir(goldenPath(t, engine.SGLang)), "extra")
	read := func(name string) []matrixRow {
		data, err := os.ReadFile(filepath.Join(extra, "sweep_matrix_amd_master_"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var rows []matrixRow
		if err := json.Unmarshal(data, &rows); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			// Rows do not name their key; what a key says once tells them apart.
			r := &rows[i]
			r.key = strings.NewReplacer("/", "-", ":", "-").Replace(r.Model + " " + r.Image + " " + r.Framework + " " + r.Scenario + " " + r.Spec)
		}
		return rows
	}
	rows := read("throughput")
	if len(rows) != 48 {
		t.Fatalf("%d rows, want 48", len(rows))
	}
	master := masterOf(t, rows)
	// The generator marks rows to be evaluated; the workflow makes jobs of their
	// own of them.
	measured := slices.Clone(rows)
	for i := range measured {
		measured[i].RunEval = false
	}
	for _, tc := range []struct {
		mode legacy.EvalMode
		rows []matrixRow
	}{{legacy.EvalsNone, measured}, {legacy.EvalsOnly, read("evals_only")}, {legacy.EvalsAlso, append(measured, read("evals_only")...)}} {
		got, err := legacy.Import(legacy.Sources{Master: []legacy.File{master}, Evals: tc.mode, Catalog: embedded(t)})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Runs) != len(tc.rows) {
			t.Errorf("%s: %d runs, want %d", tc.mode, len(got.Runs), len(tc.rows))
		}
		want, have := map[evaluated]int{}, map[evaluated]int{}
		for _, r := range tc.rows {
			e := evaluated{model: r.Model[strings.LastIndex(r.Model, "/")+1:], image: r.Image, only: r.EvalOnly}
			if r.RunEval {
				e.conc = r.EvalConc
			}
			want[e]++
		}
		files := map[string]int{}
		for _, r := range got.Runs {
			if r.LeftOut != "" {
				t.Errorf("%s at %s is left out: %s", r.Key, r.Place, r.LeftOut)
			}
			files[r.File]++
		}
		points := 0
		for _, f := range got.Files {
			if !strings.HasPrefix(f.Path, "recipes/") {
				continue
			}
			variants, err := models.ExpandSweep(f.Path, f.Data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(variants) != files[f.Path] {
				t.Errorf("%s expands to %d runs, %d are listed", f.Path, len(variants), files[f.Path])
			}
			for _, v := range variants {
				points++
				e := evaluated{model: v.Recipe.Model, image: v.Recipe.Image}
				if v.Recipe.Evals != nil {
					e.only, e.conc = bool(v.Recipe.Evals.Only), v.Recipe.Evals.Concurrency[0]
				}
				have[e]++
			}
		}
		if points != len(tc.rows) {
			t.Errorf("%s: recipes expand to %d runs, want %d", tc.mode, points, len(tc.rows))
		}
		if !maps.Equal(want, have) {
			t.Errorf("%s: evaluated are %v, want %v", tc.mode, have, want)
		}
	}
}

// evaluated tells rows apart by what is evaluated of them.
type evaluated struct {
	model, image string
	only         bool
	conc         int
}

// TestImportedParity imports the row of each record that was made of one, and
// compares the commands of the imported recipe's plan.
func TestImportedParity(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	known, rules := env.Known(), append(legacyRules(), parityRules()...)
	touched := map[string]map[string]bool{}
	for _, r := range rules {
		touched[r.id] = map[string]bool{}
	}
	for _, name := range engine.Names() {
		file := goldenPath(t, name)
		t.Run(name, func(t *testing.T) {
			var n tally
			goldenRecords(t, file, func(r *record) {
				// The live twin of a row is the same row again.
				if len(r.Tags.Row) > 0 && !strings.HasSuffix(r.Tags.Group, "-live") {
					cmp := &compared{record: r, golden: r.processes(t)}
					n.sort(t, cmp, cmp.imported(t, c, known, name), rules, touched)
				}
			})
			if n.equal+n.always+n.byRule == 0 {
				t.Error("no record was made of a row")
			}
			t.Logf("%d records equal, %d but for rules that touch every run, %d but for other rules, %d unexplained; without commands: %d refused here too, %d that something else stopped",
				n.equal, n.always, n.byRule, n.unexplained, n.bothRefuse, n.noCommand)
		})
	}
}

// imported plans the imported row of a record and lists the differences.
func (c *compared) imported(t *testing.T, cat *catalog.Catalog, known *env.Table, name string) []difference {
	t.Helper()
	c.in = engine.Input{Recipe: &models.Recipe{Engine: name}, Site: &models.Site{}}
	c.settings, _ = host(c.record)
	var row matrixRow
	if err := json.Unmarshal(c.Tags.Row, &row); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	row.key = "key"
	mode := legacy.EvalsNone
	if row.EvalOnly {
		mode = legacy.EvalsOnly
	}
	got, err := legacy.Import(legacy.Sources{Master: []legacy.File{masterOf(t, []matrixRow{row})}, Evals: mode, Catalog: cat})
	if err != nil || len(got.Runs) != 1 {
		return []difference{{process: "plan", kind: "refused", ours: errorText(err)}}
	}
	var site, recipe legacy.File
	for _, f := range got.Files {
		if f.Path == "site.yaml" {
			site = f
		} else {
			recipe = f
		}
	}
	variants, err := models.ExpandSweep(recipe.Path, recipe.Data, nil)
	if err != nil || len(variants) != 1 {
		t.Fatalf("%s: %d runs: %v", c.ID, len(variants), err)
	}
	s, sitePos, err := models.LoadSite(site.Path, site.Data)
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	c.in.Recipe, c.in.Site = variants[0].Recipe, s
	entry, err := cat.Lookup(c.in.Recipe.Model)
	if err != nil {
		return []difference{{process: "plan", kind: "refused", ours: err.Error()}}
	}
	c.in.Entry = entry
	built, err := plan.Build(plan.Inputs{Recipe: variants[0].Recipe, RecipePos: variants[0].Positions, Site: s, SitePos: sitePos, Entry: entry,
		Launcher: models.LauncherSlurm, Date: "2026-08-22", Tool: "test"})
	if err != nil {
		return []difference{{process: "plan", kind: "refused", ours: err.Error()}}
	}
	p := built.Plan
	out := engine.Output{Workers: p.Workers, Services: p.Services, Router: p.Router}
	if p.Client != nil {
		out.ClientEnv = p.Client.Points[0].Env
	}
	c.in.Layout = p.Workers
	return c.differences(t, known, name, out)
}

func errorText(err error) string {
	if err == nil {
		return "more than one run"
	}
	return err.Error()
}
