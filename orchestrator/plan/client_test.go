package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

func TestClientWords(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, strings.Replace(recipeText, "  command: ", strings.Join([]string{
		"  random_range_ratio: 0.8", "  prompts_per_concurrency: 4", "  duration: 30m", "  image: example.org/client:v2", "  shell: login", "  results: ['*.json', 'log/*']",
		"  command: [run, '{host}', '{port}', '{url}/v1', '{model}', '{model_path}', '{concurrency}x{isl}x{osl}', '{num_prompts}', '{random_range_ratio}', '{duration}', '{result_dir}', '{\"a\": 1}', '${HOME}', '{whatever}']",
		"#"}, "\n"), 1), siteText)
	p := build(t, in).Plan
	want := []models.ClientPoint{
		{Concurrency: 8, Results: []string{"*.json", "log/*"}, Process: models.Process{
			ID: "client.c8", Scope: "client", Image: "example.org/client:v2", Shell: "login",
			Argv: []string{"run", "@{node.0.addr}", "30000", "http://@{node.0.addr}:30000/v1", "/models/small-moe", "/models/small-moe",
				"8x1024x512", "32", "0.8", "1800", "@{result.dir}", `{"a": 1}`, "${HOME}", "{whatever}"},
			Env: []models.EnvVar{{Name: "IS_MTP", Value: "false", Origin: "adapter"}}}},
		{Concurrency: 64, Results: []string{"*.json", "log/*"}, Process: models.Process{
			ID: "client.c64", Scope: "client", Image: "example.org/client:v2", Shell: "login",
			Argv: []string{"run", "@{node.0.addr}", "30000", "http://@{node.0.addr}:30000/v1", "/models/small-moe", "/models/small-moe",
				"64x1024x512", "256", "0.8", "1800", "@{result.dir}", `{"a": 1}`, "${HOME}", "{whatever}"},
			Env: []models.EnvVar{{Name: "IS_MTP", Value: "false", Origin: "adapter"}}}},
	}
	if d := cmp.Diff(want, p.Client.Points); d != "" {
		t.Error(d)
	}
	if p.Client.ISL != 1024 || p.Client.OSL != 512 {
		t.Errorf("lengths %d, %d", p.Client.ISL, p.Client.OSL)
	}
	if n := len(p.Warnings); n != 1 || !strings.HasPrefix(p.Warnings[0], "client.command[13]: {whatever} is none of the words that are replaced (concurrency, duration, host,") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestFewestPrompts: a low concurrency is not measured by a handful of requests.
func TestFewestPrompts(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Client.Command = []string{"{num_prompts}"}
	in.Recipe.Client.Concurrency = models.IntList{1, 2}
	p := build(t, in).Plan
	if a, b := p.Client.Points[0].Argv[0], p.Client.Points[1].Argv[0]; a != "16" || b != "20" {
		t.Errorf("%s and %s prompts", a, b)
	}
}

func TestClientRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*models.Recipe)
		want   []string
	}{
		{"no command", func(r *models.Recipe) { r.Client.Command = nil }, []string{"client.command is missing: no load is invented"}},
		{"no concurrency", func(r *models.Recipe) { r.Client.Concurrency = nil }, []string{"client.concurrency is missing"}},
		{"concurrency twice", func(r *models.Recipe) { r.Client.Concurrency = models.IntList{8, 16, 8} },
			[]string{"concurrency 8 is there twice, and both would write to one result directory"}},
		{"length not set", func(r *models.Recipe) { r.Client.Command = []string{"x", "{isl}"}; r.Client.ISL = 0 },
			[]string{"the command uses {isl}, but client.isl is not set"}},
		{"no eval command", func(r *models.Recipe) { r.Evals = &models.EvalSpec{} }, []string{"evals.command is missing: no evaluation is invented"}},
		{"eval limit not set", func(r *models.Recipe) { r.Evals = &models.EvalSpec{Command: []string{"e", "{limit}"}} },
			[]string{"the command uses {limit}, but evals.limit is not set"}},
		{"nothing stands for all workers", func(r *models.Recipe) { r.Router = &models.RouterSpec{Kind: "none"} },
			[]string{"there is no router, and 2 workers: nothing stands for all of them"}},
		{"no image", func(r *models.Recipe) { r.Image = "" }, []string{"image is missing, and the site runs containers with docker"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			c.change(in.Recipe)
			_, err := Build(in)
			if d := cmp.Diff(c.want, messages(err)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBracesAfterADollarStay: they are a shell's.
func TestBracesAfterADollarStay(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Client.Concurrency = models.IntList{8}
	in.Recipe.Client.Command = []string{"sh", "-c", "isl={isl}; echo ${isl} ${osl} ${nosuch} {nosuch}"}
	p := build(t, in).Plan
	if got, want := p.Client.Points[0].Argv[2], "isl=1024; echo ${isl} ${osl} ${nosuch} {nosuch}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "client.command[2]: {nosuch} is none of the words that are replaced (concurrency, ") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestPointsThatAreTheSame: a command that no concurrency reaches runs as often as
// there are points, and they measure one thing.
func TestPointsThatAreTheSame(t *testing.T) {
	t.Parallel()
	const want = "client.command does not use {concurrency}: the same command runs for each of 2 values of client.concurrency"
	for _, c := range []struct {
		command []string
		list    models.IntList
		warned  bool
	}{
		{[]string{"bench"}, models.IntList{8, 16}, true},
		{[]string{"bench"}, models.IntList{8}, false},
		{[]string{"bench", "-c={concurrency}"}, models.IntList{8, 16}, false},
		{[]string{"sh", "-c", "bench {num_prompts}"}, models.IntList{8, 16}, false},
	} {
		in := inputs(t)
		in.Recipe.Client.Command, in.Recipe.Client.Concurrency = c.command, c.list
		if got := contains(build(t, in).Plan.Warnings, want); got != c.warned {
			t.Errorf("%q of %v: warned %t", c.command, c.list, got)
		}
	}
}

// TestExcludedModels: an exclusion for a misspelt model does nothing.
func TestExcludedModels(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Models = []string{"DeepSeek-R1", "small-moe"}
	in.Site.Exclude = []models.Exclude{{Nodes: "gpu-1", Reason: "x", Models: []string{"deepseek-r1", "small-moe", "DeepSeek-R2", "another"}}}
	want := []string{`exclude[0].models[0]: the catalog has no model "deepseek-r1"; did you mean "DeepSeek-R1"? As it is written, gpu-1 is not excluded for that one`}
	if d := cmp.Diff(want, build(t, in).Plan.Warnings); d != "" {
		t.Error(d)
	}
}

// TestServeOnly: no client is invented.
func TestServeOnly(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Client = nil
	p := build(t, in).Plan
	if p.Client != nil || p.Eval != nil {
		t.Error("a client was invented")
	}
	if !contains(p.Warnings, "the recipe has no client and no evals: the run serves until it is stopped or its time is up") {
		t.Errorf("warnings %q", p.Warnings)
	}
	if !strings.Contains(Table(p), "none: serves until stopped") {
		t.Error("the table does not say it")
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "evals:", "  command: [lm_eval, '{url}', '{concurrency}', '{limit}', '{result_dir}']", "  limit: 0.5", "  env: {EVAL_TASKS_DIR: /t}", "  only: yes"), siteText)
	p := build(t, in).Plan
	if p.Client != nil {
		t.Error("an evaluation alone has a client")
	}
	want := &models.Eval{Only: true, ClientPoint: models.ClientPoint{Concurrency: 64, Results: []string{}, Process: models.Process{
		ID: "eval", Scope: "eval", Image: "example.org/sglang:v1",
		Argv: []string{"lm_eval", "http://@{node.0.addr}:30000", "64", "0.5", "@{result.dir}"},
		Env: []models.EnvVar{{Name: "EVAL_TASKS_DIR", Value: "/t", Origin: "recipe:recipe.yaml:17"},
			{Name: "IS_MTP", Value: "false", Origin: "adapter"}},
	}}}
	if d := cmp.Diff(want, p.Eval); d != "" {
		t.Error(d)
	}
}

func TestModelPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, recipePath, runtime string
		search                    []string
		hosts                     []string
		path                      string
		want                      []string
	}{
		{name: "search", search: []string{"/a", "/b"}, hosts: []string{"/a/small-moe-fp8", "/a/small-moe", "/b/small-moe-fp8", "/b/small-moe"}, path: "/models/small-moe"},
		{name: "given", recipePath: "/w/x/", search: []string{"/a"}, hosts: []string{"/w/x"}, path: "/models/small-moe"},
		{name: "hub", recipePath: "hf:org/name", hosts: []string{}, path: "org/name"},
		{name: "plain processes", runtime: "none", search: []string{"/a"}, hosts: []string{"/a/small-moe-fp8"}, path: "/a/small-moe-fp8"},
		{name: "relative", recipePath: "x", want: []string{`model_path "x" is not absolute`}},
		{name: "nowhere", want: []string{"there is no place to look for weights"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			in.Recipe.ModelPath, in.Site.Models.SearchPaths = c.recipePath, c.search
			in.Site.Container.Runtime = or(c.runtime, "docker")
			r, err := Build(in)
			if len(c.want) > 0 || err != nil {
				if d := cmp.Diff(c.want, messages(err)); d != "" {
					t.Error(d)
				}
				return
			}
			if m := r.Plan.Model; m.Path != c.path || !cmp.Equal(m.HostPaths, c.hosts) {
				t.Errorf("%s, %q", m.Path, m.HostPaths)
			}
		})
	}
}

func TestExclusions(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Site.Exclude = []models.Exclude{
		{Nodes: "gpu-[03,01]", Reason: "bad NIC"},
		{Nodes: "gpu-05", Reason: "slow", Expires: "2026-06-15"}, // today: no longer in force
		{Nodes: "gpu-06", Reason: "slow", Expires: "2026-06-16"},
		{Nodes: "gpu-07", Reason: "vllm only", Engines: []string{"vllm"}},
		{Nodes: "gpu-08", Reason: "this model", Models: []string{"small-moe"}, Engines: []string{"vllm", "sglang"}},
	}
	p := build(t, in).Plan
	if p.Slurm.Exclude != "gpu-[03,01,06,08]" {
		t.Errorf("exclude %q", p.Slurm.Exclude)
	}
	if len(p.Exclude) != 3 || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "exclusion of gpu-05 (slow) expired on 2026-06-15 and is ignored") {
		t.Errorf("%d in force, warnings %q", len(p.Exclude), p.Warnings)
	}
	if want := "gpu-[03,01] (bad NIC), site; gpu-06 (slow), site; gpu-08 (this model), site"; !strings.Contains(Table(p), want) {
		t.Errorf("the table lacks %q:\n%s", want, Table(p))
	}

	in = inputs(t)
	in.Site.Exclude = []models.Exclude{{Nodes: "gpu-[01", Reason: "x"}}
	in.Site.Profiles = []models.NodeProfile{{Nodes: "gpu-[3-1]"}, {Nodes: "gpu-*"}}
	_, err := Build(in)
	if got := messages(err); len(got) != 2 || !strings.HasPrefix(got[0], "exclude[0].nodes: ") || !strings.HasPrefix(got[1], "profiles[0].nodes: ") {
		t.Errorf("got %q", got)
	}
}

// TestRunsDirOfOneNode: a job starts from the run directory; ssh copies it.
func TestRunsDirOfOneNode(t *testing.T) {
	t.Parallel()
	for launcher, want := range map[string][]string{
		models.LauncherSlurm: {"Slurm starts the job's script and programs from runs_dir on every node, and shared_fs says that it is not the same there"},
		models.LauncherSSH:   nil,
	} {
		in := inputs(t)
		no := models.Bool(false)
		in.Launcher, in.Site.SharedFS = launcher, &no
		_, err := Build(in)
		if got := messages(err); !cmp.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", launcher, got, want)
		}
	}
}
