package models_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/orchestrator/plan"
)

// planned plans one variant on the example site.
func planned(t *testing.T, v models.Variant) *models.Plan {
	t.Helper()
	site, sitePos, err := models.LoadSite("site.yaml", read(t, "site-mi355x-ionic.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := known.Lookup(v.Recipe.Model)
	if err != nil {
		t.Fatal(err)
	}
	built, err := plan.Build(plan.Inputs{Recipe: v.Recipe, RecipePos: v.Positions, Site: site, SitePos: sitePos, Entry: entry,
		Launcher: models.LauncherSlurm, Date: "2026-12-01", Tool: "test"})
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return built.Plan
}

// flagOf returns the value of a flag; absent: false.
func flagOf(argv []string, name string) (string, bool) {
	i := slices.Index(argv, name)
	if i < 0 {
		return "", false
	}
	if i+1 == len(argv) || strings.HasPrefix(argv[i+1], "--") {
		return "", true
	}
	return argv[i+1], true
}

func envOf(vars []models.EnvVar, name string) (string, bool) {
	i := slices.IndexFunc(vars, func(v models.EnvVar) bool { return v.Name == name })
	if i < 0 {
		return "", false
	}
	return vars[i].Value, true
}

// TestSingleNodeDerivations plans the single-node recipe at many concurrencies,
// with and without ranks and speculation: everything that follows from them must.
func TestSingleNodeDerivations(t *testing.T) {
	t.Parallel()
	axes := []models.SweepAxis{
		{Key: "client.concurrency", Values: []models.Scalar{"1", "16", "31", "32", "64", "128", "200"}},
		{Key: "aggregate.dp_attention", Values: []models.Scalar{"true", "false"}},
		{Key: "speculative.tokens", Values: []models.Scalar{"0", "3"}},
		{Key: "aggregate.ep", Values: []models.Scalar{"1", "8"}},
	}
	data := strings.Replace(string(read(t, "recipe-deepseek-v4-pro-single-node-agentic.yaml")), "name: deepseek-v4-pro-single", "name: single", 1)
	variants, err := models.ExpandSweep("recipe.yaml", []byte(data), axes)
	if err != nil || len(variants) != 7*2*2*2 {
		t.Fatalf("%d variants: %v", len(variants), err)
	}
	for _, v := range variants {
		p := planned(t, v)
		worker := p.Workers[0].Ranks[0]
		conc, dp, mtp, ep := v.Recipe.Client.Concurrency[0], bool(v.Recipe.Aggregate.DPAttention), v.Recipe.Speculative.Tokens, v.Recipe.Aggregate.EP
		want := map[string]string{
			"--max-running-requests": strconv.Itoa(min(2*conc, 256)), "--cuda-graph-max-bs": strconv.Itoa(min(2*conc, 128)),
			"--chunked-prefill-size": "8192", "--mem-fraction-static": "0.90", "--page-size": "256", "--served-model-name": "DeepSeek-V4-Pro",
			"--tensor-parallel-size": "8", "--watchdog-timeout": "3600", "--hicache-ratio": "1.2", "--hicache-write-policy": "write_through",
		}
		absent := []string{"--disaggregation-mode", "--dp", "--enable-dp-attention", "--enable-prefill-delayer", "--ep-size", "--speculative-algorithm"}
		present := func(name, value string) {
			want[name] = value
			absent = slices.DeleteFunc(absent, func(s string) bool { return s == name })
		}
		if dp {
			present("--dp", "8")
			present("--enable-dp-attention", "")
			present("--enable-prefill-delayer", "")
			want["--chunked-prefill-size"] = "65536"
		}
		if ep > 1 {
			present("--ep-size", "8")
		}
		if mtp > 0 {
			present("--speculative-algorithm", "EAGLE")
			want["--speculative-num-steps"], want["--speculative-num-draft-tokens"], want["--mem-fraction-static"] = "3", "4", "0.85"
		}
		for name, value := range want {
			if got, ok := flagOf(worker.Argv, name); !ok || got != value {
				t.Errorf("%s: %s is %q (%t), want %q", v.Name, name, got, ok, value)
			}
		}
		for _, name := range absent {
			if _, ok := flagOf(worker.Argv, name); ok {
				t.Errorf("%s: %s is there", v.Name, name)
			}
		}
		length, pinned := envOf(worker.Env, "SGLANG_SIMULATE_ACC_LEN")
		if pinned != (mtp > 0) || pinned && length != "2.49" {
			t.Errorf("%s: acceptance is pinned to %q", v.Name, length)
		}
		client := p.Client.Points[0]
		if grace, ok := envOf(client.Env, "AGENTIC_WARMUP_GRACE_PERIOD"); ok != (conc >= 32) || ok && grace != "3600" {
			t.Errorf("%s: warm-up grace %q", v.Name, grace)
		}
		// Metrics are the engine's, whatever stands before it.
		if url, _ := envOf(client.Env, "AIPERF_SERVER_METRICS_URLS"); url != "http://@{node.0.addr}:8000/metrics" {
			t.Errorf("%s: metrics at %q", v.Name, url)
		}
		if _, ok := envOf(client.Env, "AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID"); ok != dp {
			t.Errorf("%s: turns follow their session: %t, want %t", v.Name, ok, dp)
		}
		if !dp {
			if p.Router != nil {
				t.Errorf("%s: there is a router before one worker without ranks", v.Name)
			}
			continue
		}
		if _, ok := flagOf(p.Router.Argv, "--dp-aware"); !ok || !p.Router.DPAware || p.Workers[0].DP != 8 {
			t.Errorf("%s: router %q, %d ranks", v.Name, p.Router.Argv, p.Workers[0].DP)
		}
		if policy, _ := flagOf(p.Router.Argv, "--policy"); policy != "consistent_hashing" || p.Router.Port == p.Workers[0].Port {
			t.Errorf("%s: router %q, worker at %d", v.Name, p.Router.Argv, p.Workers[0].Port)
		}
	}
}

// TestSingleNodeEvaluation plans the evaluation: nothing is measured, and no
// variable that pins the acceptance of drafts is set, whatever else is asked.
func TestSingleNodeEvaluation(t *testing.T) {
	t.Parallel()
	variants, err := models.ExpandSweep("recipe.yaml", read(t, "recipe-deepseek-v4-pro-single-node-eval.yaml"), []models.SweepAxis{{Key: "evals.only", Values: []models.Scalar{"true"}}, {Key: "speculative.tokens", Values: []models.Scalar{"1", "2", "3"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		p := planned(t, v)
		if p.Client != nil || p.Eval == nil || !p.Eval.Only {
			t.Errorf("%s: client %v, eval %v", v.Name, p.Client, p.Eval)
		}
		for _, e := range p.Workers[0].Ranks[0].Env {
			if strings.HasPrefix(e.Name, "SGLANG_SIMULATE_ACC") {
				t.Errorf("%s: %s=%s", v.Name, e.Name, e.Value)
			}
		}
		if !slices.Contains(p.Eval.Argv, "model=DeepSeek-V4-Pro,base_url=http://@{node.0.addr}:30000/v1/chat/completions,num_concurrent=64,max_retries=5,tokenized_requests=False") {
			t.Errorf("%s: evaluation %q", v.Name, p.Eval.Argv)
		}
	}
}
