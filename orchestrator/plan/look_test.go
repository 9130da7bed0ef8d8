package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	base := func() *models.Plan { return build(t, inputs(t)).Plan }
	for _, c := range []struct {
		name   string
		change func(*Inputs)
		want   []Change
	}{
		{"nothing", func(*Inputs) {}, nil},
		{"another version planned", func(in *Inputs) { in.Tool = "v9"; in.Files = []models.InputFile{{Role: "recipe", Path: "x"}} }, nil},
		{"the same value from another place", func(in *Inputs) { in.Recipe.Env = models.EnvMap{"SGLANG_USE_AITER": {Value: "1"}} }, nil},
		{"a flag of both roles", func(in *Inputs) {
			in.Recipe.Prefill.Flags = []string{"--watchdog-timeout 3600"}
			in.Recipe.Decode.Flags = []string{"--watchdog-timeout 3600"}
		}, []Change{{Key: "flag --watchdog-timeout", In: []string{"decode-0.0", "prefill-0.0"}, A: "(not set)", B: "3600"}}},
		{"a flag's value", func(in *Inputs) { in.Recipe.Decode.MemFraction = "0.7" },
			[]Change{{Key: "flag --mem-fraction-static", In: []string{"decode-0.0"}, A: "0.8", B: "0.7"}}},
		{"restarts", func(in *Inputs) { in.Recipe.Decode.Restarts = 1 }, []Change{{Key: "restarts", In: []string{"decode-0"}, A: "0", B: "1"}}},
		{"variables", func(in *Inputs) {
			in.Recipe.Env = models.EnvMap{"NCCL_DEBUG": {Value: ""}}
			in.Recipe.Forward = []string{"HF_TOKEN"}
			in.SubmitEnv = []string{"HF_TOKEN=hf_sentinel"}
		}, []Change{
			{Key: "env HF_TOKEN", In: []string{"decode-0.0", "prefill-0.0"}, A: "(not set)", B: "(secret)"},
			{Key: "env NCCL_DEBUG", In: []string{"decode-0.0", "prefill-0.0"}, A: "(not set)", B: ""},
		}},
		{"one more concurrency", func(in *Inputs) {
			in.Recipe.Client.Concurrency = models.IntList{8}
			in.Recipe.Timeouts.Client = minutes(167.5)
		}, []Change{
			{Key: "flag --concurrency", In: []string{"client.c64"}, A: "64", B: "(not set)"},
			{Key: "flag --model", In: []string{"client.c64"}, A: "/models/small-moe", B: "(not set)"},
			{Key: "flag --out", In: []string{"client.c64"}, A: "@{result.dir}/r.json", B: "(not set)"},
			{Key: "flag --prompts", In: []string{"client.c64"}, A: "640", B: "(not set)"},
			{Key: "flag --url", In: []string{"client.c64"}, A: "http://@{node.0.addr}:30000", B: "(not set)"},
			{Key: "env IS_MTP", In: []string{"client.c64"}, A: "false", B: "(not set)"},
			{Key: "image", In: []string{"client.c64"}, A: "example.org/sglang:v1", B: "(not set)"},
			{Key: "plan node", In: []string{"client.c64"}, A: "0", B: "(not set)"},
			{Key: "program", In: []string{"client.c64"}, A: "bench", B: "(not set)"},
		}},
		{"time limit", func(in *Inputs) { in.Recipe.TimeLimit = minutes(600) }, []Change{
			{Key: "budgets.client", A: "2h47m30s", B: "3h47m30s"},
			{Key: "slurm.time_limit", A: "8h0m0s", B: "10h0m0s"},
		}},
		{"one more prefill worker", func(in *Inputs) { in.Recipe.Prefill.Workers = 2 }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			c.change(&in)
			got, err := Diff(base(), build(t, in).Plan)
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "one more prefill worker" {
				// Much follows from it; what counts is that the topology says so.
				for _, want := range []Change{
					{Key: "topology plan node 1", A: "decode-0 rank 0 on GPUs 0-7", B: "prefill-1 rank 0 on GPUs 0-7"},
					{Key: "topology plan node 2", A: "(not set)", B: "decode-0 rank 0 on GPUs 0-7"},
					{Key: "topology.nodes", A: "2", B: "3"},
					{Key: "plan node", In: []string{"decode-0.0"}, A: "1", B: "2"},
					{Key: "flag --prefill", In: []string{"router"}, A: "http://@{node.0.addr}:8000 8998",
						B: "http://@{node.0.addr}:8000 8998 | http://@{node.1.addr}:8000 8998"},
				} {
					if !hasChange(got, want) {
						t.Errorf("no %+v in %+v", want, got)
					}
				}
				return
			}
			for _, want := range c.want {
				if !hasChange(got, want) {
					t.Errorf("no %+v", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func hasChange(list []Change, want Change) bool {
	for _, c := range list {
		if cmp.Equal(c, want) {
			return true
		}
	}
	return false
}

func TestSplitArgv(t *testing.T) {
	t.Parallel()
	program, options := splitArgv([]string{"python3", "-m", "sglang.launch_server", "--model-path", "/m", "--tp=8", "-x", "--cuda-graph-bs", "1", "2",
		"--trust-remote-code", "--json", `{"a": "--b=c"}`, "--offset", "-1"})
	if got := strings.Join(program, " "); got != "python3 -m sglang.launch_server" {
		t.Errorf("program %q", got)
	}
	want := []option{{"--model-path", "/m"}, {"--tp", "8"}, {"-x", ""}, {"--cuda-graph-bs", "1 2"}, {"--trust-remote-code", ""},
		{"--json", `{"a": "--b=c"}`}, {"--offset", "-1"}}
	if d := cmp.Diff(want, options, cmp.AllowUnexported(option{})); d != "" {
		t.Error(d)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, strings.Replace(with(recipeText, "timeouts: {router: 2m}"), "decode: {", "decode: {restarts: 1, ", 1), with(siteText, "timeouts: {router: 3m}"))
	rows := Explain(build(t, in).Plan)
	at := map[string]int{}
	for i, r := range rows {
		at[r.Key] = i
		if r.From == "" {
			t.Errorf("%s comes from nowhere", r.Key)
		}
	}
	if !(at["timeouts.router"] < at["flag:decode:--port"] && at["flag:decode:--port"] < at["env:decode:SGLANG_LOG_MS"]) {
		t.Error("settings, flags and variables are mixed")
	}
	for _, want := range []Row{
		{Key: "timeouts.router", Value: "2m0s", From: "recipe:recipe.yaml:14", Over: []string{"site:site.yaml:8=3m0s", "default=5m0s"}},
		{Key: "prefill.tp", Value: "8", From: "recipe:recipe.yaml:7"},
		{Key: "decode.restarts", Value: "1", From: "recipe:recipe.yaml:8"},
		{Key: "gpus_per_node", Value: "8", From: "site:site.yaml:4"},
		{Key: "flag:decode:--mem-fraction-static", Value: "0.8", From: "catalog:small-moe.yaml:13"},
		{Key: "scenario", Value: "fixed", From: "default"},
		{Key: "container.runtime", Value: "docker", From: "default"},
	} {
		if d := cmp.Diff(want, rows[at[want.Key]]); d != "" {
			t.Error(d)
		}
	}
	// Every variable and every flag of the first worker of each role is there.
	p := build(t, in).Plan
	for _, w := range p.Workers {
		for _, v := range w.Ranks[0].Env {
			if _, ok := at["env:"+w.Role+":"+v.Name]; !ok {
				t.Errorf("%s of %s is not explained", v.Name, w.Role)
			}
		}
		_, options := splitArgv(w.Ranks[0].Argv)
		for _, o := range options {
			if _, ok := at["flag:"+w.Role+":"+o.name]; !ok {
				t.Errorf("%s of %s is not explained", o.name, w.Role)
			}
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-7": {0, 1, 2, 3, 4, 5, 6, 7}, "0-1,4,6-7": {0, 1, 4, 6, 7}} {
		if got := ranges(list); got != want {
			t.Errorf("ranges(%v) = %q", list, got)
		}
	}
}

// TestPorts: further workers on a host get ports of their own, in blocks that
// what the engines derive from them does not cross.
func TestPorts(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Prefill = &models.Role{Workers: 2, TP: 4}
	in.Recipe.Decode = &models.Role{Workers: 4, TP: 2}
	p := build(t, in).Plan
	want := `0 prefill prefill-0 http 8000, bootstrap 8998
0 prefill prefill-1 http 8100, bootstrap 8999
1 decode decode-0 http 8000
1 decode decode-1 http 8100
1 decode decode-2 http 8200
1 decode decode-3 http 8300
`
	var b strings.Builder
	for _, r := range p.Topology.Table {
		b.WriteString(strings.Join([]string{string(rune('0' + r.Node)), r.Role, r.Worker, portsOf(p, r)}, " ") + "\n")
	}
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// TestPortsOfTheRecipe: where the recipe says where a role's ports begin, they
// do, on both sides of the KV bootstrap; a key that nothing would read is refused.
func TestPortsOfTheRecipe(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Prefill = &models.Role{Workers: 2, TP: 4, Port: 9000, BootstrapPort: 9900}
	in.Recipe.Decode = &models.Role{Workers: 1, TP: 8, Port: 9000}
	p := build(t, in).Plan
	var got []int
	for _, w := range p.Workers {
		got = append(got, w.Port, w.BootstrapPort)
	}
	if d := cmp.Diff([]int{9000, 9900, 9100, 9901, 9000, 0}, got); d != "" {
		t.Error(d)
	}
	if argv := strings.Join(p.Router.Argv, " "); !strings.Contains(argv, ":9000 9900") || !strings.Contains(argv, ":9100 9901") {
		t.Errorf("the router does not know the ports: %s", argv)
	}
	in.Recipe.Decode.BootstrapPort = 9900
	_, err := Build(in)
	if d := cmp.Diff([]string{"only prefill workers have a bootstrap port"}, messages(err)); d != "" {
		t.Error(d)
	}
}

// TestPortsOfOthers: a port that the recipe gives to the router or the store is
// not handed out, and two that it gives to both are refused.
func TestPortsOfOthers(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Router = &models.RouterSpec{Port: 8000}
	p := build(t, in).Plan
	if p.Workers[0].Port != 8100 || p.Workers[1].Port != 8000 || p.Router.Port != 8000 {
		t.Errorf("prefill %d, decode %d, router %d", p.Workers[0].Port, p.Workers[1].Port, p.Router.Port)
	}
	in = inputs(t)
	in.Recipe.Router = &models.RouterSpec{Port: 70000}
	_, err := Build(in)
	if d := cmp.Diff([]string{"router (http) has port 70000, which is no port"}, messages(err)); d != "" {
		t.Error(d)
	}
}

// TestRules: a combination that fails late is an error with a way out, and what
// the recipe allows stays visible.
func TestRules(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "speculative: {tokens: 2}"), siteText)
	_, err := Build(in)
	errs, _ := err.(models.FieldErrors)
	if len(errs) != 1 || errs[0].Path != "speculative.tokens" || !strings.HasSuffix(errs[0].Hint, "; or, if it is meant, allow: {mtp-without-algorithm: reason}") {
		t.Fatalf("got %v", err)
	}
	parse(t, &in, with(recipeText, "speculative: {tokens: 2}", "allow: {mtp-without-algorithm: a test}"), siteText)
	p := build(t, in).Plan
	if !contains(p.Warnings, "mtp-without-algorithm: ") || !contains(p.Warnings, "; allowed by the recipe: a test") || p.Allowed["mtp-without-algorithm"] != "a test" {
		t.Errorf("allowed %v, warnings %q", p.Allowed, p.Warnings)
	}
	parse(t, &in, with(recipeText, "allow: {no-such-rule: x}"), siteText)
	if _, err = Build(in); len(messages(err)) != 1 || messages(err)[0] != `there is no rule "no-such-rule"` {
		t.Errorf("got %v", err)
	}
}

// TestRulesSeeForwards: the rules judge what the workers get, not only what the
// files say.
func TestRulesSeeForwards(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "forward: ['MORI_*']"), with(siteText, "rdma: {nic: ionic}"))
	in.SubmitEnv = []string{"MORI_IO_QP_MAX_SEND_WR=40000"}
	_, err := Build(in)
	if got := strings.Join(messages(err), "\n"); !strings.Contains(got, "32767") || !strings.Contains(got, "40000") {
		t.Errorf("got %q", got)
	}
}

func BenchmarkBuild(b *testing.B) {
	in := inputs(b)
	for b.Loop() {
		build(b, in)
	}
}
