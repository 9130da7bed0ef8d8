package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// TestEveryModelPlans: what the shipped catalog offers can be planned, on every
// engine, for every scenario and with every launcher, without anything meeting
// on a port or a GPU.
func TestEveryModelPlans(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	base := inputs(t)
	planned := 0
	for _, model := range c.Names() {
		entry, err := c.Lookup(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range entry.Engines() {
			for _, scenario := range catalog.Scenarios() {
				for _, launcher := range []string{models.LauncherSlurm, models.LauncherLocal} {
					in := base
					in.Recipe, in.Site, in.Entry, in.Launcher = recipe(), site(), entry, launcher
					in.Recipe.Model, in.Recipe.Engine, in.Recipe.Scenario = model, name, scenario
					if launcher == models.LauncherLocal {
						in.Recipe.Prefill = &models.Role{Workers: 2, TP: 2}
						in.Recipe.Decode = &models.Role{Workers: 2, TP: 2}
					}
					r, err := Build(in)
					if err != nil {
						t.Errorf("%s on %s, %s, %s: %v", model, name, scenario, launcher, err)
						continue
					}
					planned++
					checkPlacement(t, r.Plan)
				}
			}
		}
	}
	if planned < 40 {
		t.Errorf("only %d combinations were planned", planned)
	}
}

// TestLaunchersDefaultsNeverBeatTheRecipe: what the old launcher put into every
// container as if the user had said it is neither a variable here, nor stronger
// than the recipe, also where it is left over in the submitting shell.
func TestLaunchersDefaultsNeverBeatTheRecipe(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string][3]string{ // engine → flags for block size, memory and requests
		"sglang": {"--page-size", "--mem-fraction-static", "--max-running-requests"},
		"vllm":   {"--block-size", "--gpu-memory-utilization", "--max-num-seqs"},
		"atom":   {"--block-size", "--gpu-memory-utilization", "--max-num-seqs"},
	}
	old := []string{"BLOCK_SIZE=16", "MEM_FRAC_STATIC=0.85", "MAX_NUM_SEQS=256", "KV_CACHE_DTYPE=fp8"}
	planned := map[string]bool{}
	for _, model := range c.Names() {
		entry, err := c.Lookup(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range entry.Engines() {
			flags := asked[name]
			in := inputs(t)
			in.Entry, in.SubmitEnv = entry, old
			in.Recipe.Model, in.Recipe.Engine = model, name
			in.Recipe.Decode = &models.Role{Workers: 1, TP: 8, MemFraction: "0.61", MaxRunningRequests: 77, Flags: []string{flags[0] + " 128"}}
			in.Recipe.Prefill.Flags = in.Recipe.Decode.Flags // both sides have pages of one size
			r, err := Build(in)
			if err != nil {
				continue // the model has a limit of its own for one of these
			}
			planned[name] = true
			rank := r.Plan.Workers[len(r.Plan.Workers)-1].Ranks[0]
			for i, want := range []string{"128", "0.61", "77"} {
				at := slices.Index(rank.Argv, flags[i])
				if at < 0 || at+1 >= len(rank.Argv) || rank.Argv[at+1] != want || slices.Contains(rank.Argv[at+1:], flags[i]) {
					t.Errorf("%s on %s: %s is not %s once: %q", model, name, flags[i], want, rank.Argv)
				}
			}
			for _, p := range r.Plan.Processes() {
				for _, v := range p.Env {
					if v.Origin == fromDefault || slices.ContainsFunc(old, func(kv string) bool { return strings.HasPrefix(kv, v.Name+"=") }) {
						t.Errorf("%s on %s: %s has %s=%s from %s", model, name, p.ID, v.Name, v.Value, v.Origin)
					}
				}
			}
			if !contains(r.Plan.Warnings, "set in the submitting environment but not forwarded: BLOCK_SIZE, KV_CACHE_DTYPE, MAX_NUM_SEQS, MEM_FRAC_STATIC") {
				t.Errorf("%s on %s: warnings %q", model, name, r.Plan.Warnings)
			}
		}
	}
	for name := range asked {
		if !planned[name] {
			t.Errorf("no model could be planned on %s", name)
		}
	}
}
