package engine_test

import (
	"errors"
	"maps"
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

// TestLegacyParity plans each golden record of the host layer from the old submit
// script's own arguments and environment, and compares the commands of the plan.
func TestLegacyParity(t *testing.T) {
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
				// The job script has no arguments of its own.
				if r.Layer == "host" && r.Tags.Group != "job-slurm" {
					cmp := &compared{record: r, golden: r.processes(t)}
					n.sort(t, cmp, cmp.submitted(t, c, known, name), rules, touched)
				}
			})
			t.Logf("%d records equal, %d but for rules that touch every run (*), %d but for other rules, %d unexplained; "+
				"without commands: %d that are refused here too, %d that something else stopped",
				n.equal, n.always, n.byRule, n.unexplained, n.bothRefuse, n.noCommand)
		})
	}
	for _, r := range legacyRules() {
		t.Logf("%4d  %s: %s", len(touched[r.id]), r.id, r.reason)
		if len(touched[r.id]) == 0 {
			t.Errorf("rule %s touches no record", r.id)
		}
	}
}

// legacyRules are the differences that only plans have.
func legacyRules() []rule {
	return []rule{
		{id: "ports-of-the-plan", reason: "the plan gives workers their ports, so that no two meet on a host; PREFILL_PORT, DECODE_PORT and HANDSHAKE_PORT are reported and not taken over", match: func(c *compared, d difference) bool {
			return c.settings.env["PREFILL_PORT"] != "" && slices.Contains([]string{"--server-port", "--prefill", "--decode", "--kv-transfer-config"}, d.name)
		}},
		{id: "weights-under-one-name", reason: "processes see the weights under the model's name, whichever directory of a node holds them; the old vLLM script used the path of the first it found", match: func(c *compared, d difference) bool {
			return d.name == "program" && c.in.Recipe.Engine == engine.VLLM && d.ours == "vllm serve /models/"+c.in.Recipe.Model
		}},
		{id: "worker-does-not-fill", reason: "a worker that is no whole number of nodes is refused; the old division rounded and started another size", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "does not fill whole nodes")
		}},
		{id: "nic-named", reason: "a kind of NIC that is not known was taken for one that needs nothing; it is refused", match: func(c *compared, d difference) bool {
			return d.kind == "refused" && strings.Contains(d.ours, "rdma.nic is") && c.settings.env["MORI_NIC_TYPE"] != ""
		}},
	}
}

// submitted plans the call of a record and lists the differences.
func (c *compared) submitted(t *testing.T, cat *catalog.Catalog, known *env.Table, name string) []difference {
	t.Helper()
	c.in = engine.Input{Recipe: &models.Recipe{Engine: name}, Site: &models.Site{}}
	c.settings, _ = host(c.record)
	built, err := c.plan(cat)
	if err != nil {
		var errs models.FieldErrors
		if !errors.As(err, &errs) {
			t.Fatalf("%s: %v", c.ID, err)
		}
		return []difference{{process: "plan", kind: "refused", ours: errs[0].Error()}}
	}
	p := built.Plan
	out := engine.Output{Workers: p.Workers, Services: p.Services, Router: p.Router}
	if p.Client != nil {
		out.ClientEnv = p.Client.Points[0].Env
	} else if p.Eval != nil {
		out.ClientEnv = p.Eval.Env
	}
	c.in.Layout = p.Workers
	return c.differences(t, known, name, out)
}

// plan goes from the call to the plan.
func (c *compared) plan(cat *catalog.Catalog) (plan.Result, error) {
	call := legacy.Call{Args: c.Inputs.Args, Dir: "/gh/ws/benchmarks/multi_node/amd_utils", Catalog: cat}
	vars := maps.Clone(c.Inputs.Env)
	if len(call.Args) == 0 && strings.HasSuffix(c.Inputs.Script, ".sh") {
		// What launcher and recipe script do before the submit script.
		s := settings{env: vars}
		call.Args = s.recipeScript(c.record)
		for name, v := range map[string]string{"SLURM_ACCOUNT": "ci", "SLURM_PARTITION": "compute", "TIME_LIMIT": "08:00:00",
			"MODEL_PATH": "/it-share/data", "CONTAINER_IMAGE": vars["IMAGE"]} {
			vars[name] = v
		}
	}
	for _, name := range sorted(vars) {
		call.Env = append(call.Env, name+"="+vars[name])
	}
	sub, err := legacy.Submit(call)
	if err != nil {
		return plan.Result{}, err
	}
	recipe, recipePos, err := models.LoadRecipe("call", sub.Recipe)
	if err != nil {
		return plan.Result{}, err
	}
	// A tuning call has prompts that its context cannot hold; what it composes counts.
	if recipe.Allow == nil {
		recipe.Allow = map[string]string{}
	}
	recipe.Allow["client-lengths"] = "as the call says"
	site, sitePos, err := models.LoadSite("environment", sub.Site)
	if err != nil {
		return plan.Result{}, err
	}
	entry, err := cat.Lookup(recipe.Model)
	if err != nil {
		return plan.Result{}, models.FieldErrors{{Msg: err.Error()}}
	}
	c.in.Recipe, c.in.Site, c.in.Entry = recipe, site, entry
	return plan.Build(plan.Inputs{Recipe: recipe, RecipePos: recipePos, Site: site, SitePos: sitePos, Entry: entry,
		Launcher: models.LauncherSlurm, SubmitEnv: call.Env, Understood: sub.Understood, Date: "2026-08-22", Tool: "test"})
}
