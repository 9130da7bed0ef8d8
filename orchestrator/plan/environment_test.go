package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// find returns a variable of a process.
func find(t *testing.T, p *models.Plan, process, name string) (models.EnvVar, bool) {
	t.Helper()
	b := &builder{plan: p}
	for _, x := range b.plan.Processes() {
		if x.ID != process {
			continue
		}
		for _, v := range x.Env {
			if v.Name == name {
				return v, true
			}
		}
		return models.EnvVar{}, false
	}
	t.Fatalf("there is no process %s", process)
	return models.EnvVar{}, false
}

func origin(t *testing.T, p *models.Plan, key string) models.Origin {
	t.Helper()
	for _, o := range p.Origins {
		if o.Key == key {
			return o
		}
	}
	t.Fatalf("%s has no origin", key)
	return models.Origin{}
}

// TestPrecedence: default < catalog < site < recipe < role < forwarded < command
// line, one step more in each case.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	catalogSays := "catalog:sglang.yaml:7=true"
	for _, c := range []struct {
		name                string
		site, recipe, role  string
		forward, flag, want string
		from                string
		over                []string
	}{
		{name: "catalog", want: "true", from: "catalog:sglang.yaml:7"},
		{name: "site", site: "0", want: "0", from: "site:site.yaml:8", over: []string{catalogSays}},
		{name: "recipe", site: "0", recipe: "1", want: "1", from: "recipe:recipe.yaml:14", over: []string{"site:site.yaml:8=0", catalogSays}},
		{name: "role", site: "0", recipe: "1", role: "0", want: "0", from: "recipe:recipe.yaml:8", over: []string{"recipe:recipe.yaml:14=1", "site:site.yaml:8=0", catalogSays}},
		{name: "forwarded", recipe: "1", forward: "0", want: "0", from: "forward", over: []string{"recipe:recipe.yaml:14=1", catalogSays}},
		{name: "command line", recipe: "1", forward: "0", flag: "true", want: "true", from: "flag", over: []string{"forward=0", "recipe:recipe.yaml:14=1", catalogSays}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			r, s := recipeText, siteText
			if c.role != "" {
				r = strings.Replace(r, "decode: {workers: 1, tp: 8}", "decode: {workers: 1, tp: 8, env: {SGLANG_LOG_MS: '"+c.role+"'}}", 1)
			}
			if c.recipe != "" {
				r = with(r, "env: {SGLANG_LOG_MS: '"+c.recipe+"'}")
			}
			if c.site != "" {
				s = with(s, "env: {SGLANG_LOG_MS: '"+c.site+"'}")
			}
			if c.forward != "" {
				r = with(r, "forward: [SGLANG_LOG_MS]")
				in.SubmitEnv = []string{"SGLANG_LOG_MS=" + c.forward}
			}
			if c.flag != "" {
				in.Env = []Setting{{Name: "SGLANG_LOG_MS", Value: c.flag}}
			}
			parse(t, &in, r, s)
			p := build(t, in).Plan
			v, ok := find(t, p, "decode-0.0", "SGLANG_LOG_MS")
			if !ok || v.Value != c.want || v.Origin != c.from {
				t.Errorf("got %+v, want %q from %s", v, c.want, c.from)
			}
			want := models.Origin{Key: "env:decode:SGLANG_LOG_MS", Value: c.want, From: c.from, Over: c.over}
			if d := cmp.Diff(want, origin(t, p, want.Key)); d != "" {
				t.Error(d)
			}
			// The role's variable is decode's alone.
			if v, _ := find(t, p, "prefill-0.0", "SGLANG_LOG_MS"); c.role != "" && v.Value != c.recipe {
				t.Errorf("prefill has %q", v.Value)
			}
		})
	}
}

// TestExactValues: whatever bytes a variable has, the plan carries them, and
// unset and empty stay different.
func TestExactValues(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"NCCL_EMPTY":   "",
		"NCCL_SPACES":  "  a  b ",
		"NCCL_JSON":    "{\n  \"name\": \"hicache\",\n  \"x\": [1, 2]\n}",
		"NCCL_SHELL":   `$(touch x) "quoted" 'single' \ ; & | * ?`,
		"NCCL_EQUALS":  "a=b=c",
		"NCCL_COMMA":   "1,2,3",
		"NCCL_HTML":    "<a&b>\u2028",
		"NCCL_BYTES":   "\xff\xfe\x01",
		"NCCL_AT":      "@{node.0.addr}",
		"NCCL_UNICODE": "größe 大",
		"NCCL_LONG":    strings.Repeat("x", 100_000),
	}
	in := inputs(t)
	in.Recipe.Forward = []string{"NCCL_*", "NCCL_UNSET"}
	for name, v := range values {
		in.SubmitEnv = append(in.SubmitEnv, name+"="+v)
	}
	in.SubmitEnv = append(in.SubmitEnv, "NCCL_EMPTY=second value of the same name", "BASH_FUNC_NCCL_f%%=() { :; }", "=x", "novalue")
	plan := build(t, in).Plan
	data, err := Encode(plan)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*models.Plan{plan, back} {
		for name, want := range values {
			v, ok := find(t, p, "prefill-0.0", name)
			if !ok || text(v) != want || v.Expand || v.Secret {
				t.Errorf("%s: got %.60q, %v", name, text(v), ok)
			}
		}
		if v, ok := find(t, p, "prefill-0.0", "NCCL_UNSET"); ok {
			t.Errorf("an unset variable is set: %+v", v)
		}
	}
	if want := "forward[1]: NCCL_UNSET is not set in the submitting environment, and nothing is known to read it"; !contains(plan.Warnings, want) {
		t.Errorf("no warning of the unset variable: %q", plan.Warnings)
	}
}

// TestNamesNobodyReads: a variable that nothing in the run reads is an error
// with the way out.
func TestNamesNobodyReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, recipe, msg, hint string }{
		{"reversed", "env: {ROUTER_PREFILL_POLICY: cache_aware}",
			"nothing is known to read ROUTER_PREFILL_POLICY",
			"did you mean PREFILL_ROUTER_POLICY? In a recipe that is router.prefill_policy; if something does read it, write ROUTER_PREFILL_POLICY: {value: …, custom: true}"},
		{"a setting of the old scripts", "env: {PREFILL_ROUTER_POLICY: cache_aware}",
			"no process reads PREFILL_ROUTER_POLICY: it was a setting of the old launcher scripts",
			"write router.prefill_policy instead"},
		{"misspelt", "env: {MORI_RDMA_TCC: 104}",
			"nothing is known to read MORI_RDMA_TCC",
			"did you mean MORI_RDMA_TC? Or, if something does read it, write MORI_RDMA_TCC: {value: …, custom: true}"},
		{"unheard of", "env: {ZZ_QQ_WW_VV: 1}",
			"nothing is known to read ZZ_QQ_WW_VV",
			"if something does read it, write ZZ_QQ_WW_VV: {value: …, custom: true}"},
		{"another engine's", "env: {VLLM_USE_V1: 1}",
			"VLLM_USE_V1 is read by vllm, and this recipe's engine is sglang",
			"remove it; if something does read it, write VLLM_USE_V1: {value: …, custom: true}"},
		{"the client's", "env: {AIPERF_EXTRA_INPUTS: x}",
			"AIPERF_EXTRA_INPUTS is read by aiperf, client scripts, which does not run in prefill, decode",
			"put it under the env of client, eval; if something does read it, write AIPERF_EXTRA_INPUTS: {value: …, custom: true}"},
		{"not a boolean", "env: {SGLANG_USE_AITER: ' true'}",
			`SGLANG_USE_AITER is " true", but must be true or false`, ""},
		{"too large", "env: {MORI_RDMA_TC: 300}",
			"MORI_RDMA_TC is 300, but at most 255 is possible", ""},
		{"a mask", "env: {HIP_VISIBLE_DEVICES: '0,1'}",
			"HIP_VISIBLE_DEVICES would hide GPUs from workers whose GPUs this plan chooses",
			"remove it; the plan sets it where workers share a node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			parse(t, &in, with(recipeText, c.recipe), siteText)
			_, err := Build(in)
			errs, ok := err.(models.FieldErrors)
			if !ok || len(errs) != 1 {
				t.Fatalf("got %v", err)
			}
			if errs[0].Msg != c.msg || errs[0].Hint != c.hint {
				t.Errorf("got  %q\n     %q\nwant %q\n     %q", errs[0].Msg, errs[0].Hint, c.msg, c.hint)
			}
			if errs[0].File != "recipe.yaml" || errs[0].Line != 14 {
				t.Errorf("at %s:%d", errs[0].File, errs[0].Line)
			}
		})
	}
	t.Run("custom", func(t *testing.T) {
		t.Parallel()
		in := inputs(t)
		parse(t, &in, with(recipeText, "env:", "  ZZ_QQ_WW_VV: {value: yes, custom: true}", "  SGLANG_USE_AITER: {value: auto, custom: true}"), siteText)
		p := build(t, in).Plan
		for name, want := range map[string]string{"ZZ_QQ_WW_VV": "yes", "SGLANG_USE_AITER": "auto"} {
			if v, _ := find(t, p, "decode-0.0", name); v.Value != want {
				t.Errorf("%s is %q", name, v.Value)
			}
		}
	})
	t.Run("a site serves every engine", func(t *testing.T) {
		t.Parallel()
		in := inputs(t)
		parse(t, &in, recipeText, with(siteText, "env: {VLLM_USE_V1: 1, NCCL_IB_HCAS: rdma0}"))
		_, err := Build(in)
		if d := cmp.Diff([]string{"nothing is known to read NCCL_IB_HCAS"}, messages(err)); d != "" {
			t.Error(d)
		}
	})
}

// TestBooleansHaveOneSpelling: what people write becomes what the reader knows,
// from a file as from the submitting environment.
func TestBooleansHaveOneSpelling(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "  env: {IS_AGENTIC: True}", "  forward: [DISAGG]", "env: {SGLANG_ENABLE_SPEC_V2: on, SGLANG_LOG_GC: false}"),
		with(siteText, "profiles: [{nodes: 'gpu-*', env: {SGLANG_USE_AITER: yes}}]"))
	in.SubmitEnv = []string{"DISAGG=1"}
	p := build(t, in).Plan
	for _, c := range []struct{ process, name, want string }{
		{"client.c8", "IS_AGENTIC", "1"}, {"client.c64", "DISAGG", "true"},
		{"prefill-0.0", "SGLANG_ENABLE_SPEC_V2", "1"}, {"prefill-0.0", "SGLANG_LOG_GC", "false"},
	} {
		if v, _ := find(t, p, c.process, c.name); v.Value != c.want {
			t.Errorf("%s of %s is %q, want %q", c.name, c.process, v.Value, c.want)
		}
	}
	if got := p.Profiles[0].Env["SGLANG_USE_AITER"].Value; got != "1" {
		t.Errorf("the profile has %q", got)
	}
	want := models.Origin{Key: "env:client:IS_AGENTIC", Value: "1", From: "recipe:recipe.yaml:14", Over: []string{"as written=True"}}
	if d := cmp.Diff(want, origin(t, p, want.Key)); d != "" {
		t.Error(d)
	}
}

func TestForwardRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ forward, want string }{
		{"'S*'", `"S*" would carry most of the submitting shell into the run`},
		{"ROCR_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES would hide GPUs from workers whose GPUs this plan chooses"},
		{"SGLANG_USE_AITER", `SGLANG_USE_AITER in the submitting environment is " true", but must be true or false`},
		{"GLOO_SOCKET_IFNAME", `GLOO_SOCKET_IFNAME in the submitting environment is "^lo", but must be one existing interface name: no list, no prefix, no exclusion`},
	} {
		t.Run(c.forward, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			parse(t, &in, with(recipeText, "forward: ["+c.forward+"]"), siteText)
			in.SubmitEnv = []string{"SGLANG_USE_AITER= true", "GLOO_SOCKET_IFNAME=^lo", "ROCR_VISIBLE_DEVICES=0"}
			_, err := Build(in)
			if d := cmp.Diff([]string{c.want}, messages(err)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestForwardWarns(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "env: {MORI_RDMA_TC: 104}", "forward: [MORI_RDMA_TC, PATH, SLURM_JOB_ID, NCCL_DEBUG, 'UCX_*']"), siteText)
	in.SubmitEnv = []string{"MORI_RDMA_TC=96", "PATH=/usr/bin", "SLURM_JOB_ID=7", "HICACHE_RATIO=3", "VLLM_X=1", "HOME=/home/u", "TP=8", "KEEP_LOGS=1", "ROCR_VISIBLE_DEVICES=0,1"}
	in.Understood = []string{"HICACHE_RATIO"}
	p := build(t, in).Plan
	want := []string{
		"forward[1]: PATH of the submitting shell replaces the image's own",
		"forward[2]: SLURM_JOB_ID describes the allocation that is submitted from, not the one that the run gets",
		"forward[3]: NCCL_DEBUG is not set in the submitting environment, so it is not set in the run either",
		"forward[4]: UCX_* matches nothing in the submitting environment",
		"MORI_RDMA_TC of the submitting environment is forwarded and replaces the value of recipe:recipe.yaml:14",
		"set in the submitting environment but not forwarded: KEEP_LOGS, VLLM_X; if they are meant for this run, name them under forward, or the forward of a role, of router, client or evals",
	}
	if d := cmp.Diff(want, p.Warnings); d != "" {
		t.Error(d)
	}
	if v, _ := find(t, p, "decode-0.0", "MORI_RDMA_TC"); v.Value != "96" {
		t.Errorf("MORI_RDMA_TC is %q", v.Value)
	}
	if _, ok := find(t, p, "client.c8", "MORI_RDMA_TC"); ok {
		t.Error("the client has a variable that is forwarded to workers")
	}
}

// TestForwardByRole: a role's own list is for its workers alone.
func TestForwardByRole(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, strings.Replace(with(recipeText, "forward: [NCCL_DEBUG]"), "decode: {workers: 1, tp: 8}", "decode: {workers: 1, tp: 8, forward: [NCCL_ALGO, HF_TOKEN]}", 1), siteText)
	in.SubmitEnv = []string{"NCCL_DEBUG=INFO", "NCCL_ALGO=Ring", "HF_TOKEN=hf_sentinel_1234"}
	r := build(t, in)
	for _, c := range []struct {
		process, name string
		set           bool
	}{
		{"prefill-0.0", "NCCL_DEBUG", true}, {"decode-0.0", "NCCL_DEBUG", true},
		{"prefill-0.0", "NCCL_ALGO", false}, {"decode-0.0", "NCCL_ALGO", true},
		{"prefill-0.0", "HF_TOKEN", false}, {"decode-0.0", "HF_TOKEN", true}, {"client.c8", "HF_TOKEN", false},
	} {
		if v, ok := find(t, r.Plan, c.process, c.name); ok != c.set || ok && v.Origin != "forward" {
			t.Errorf("%s of %s: %+v, %v", c.name, c.process, v, ok)
		}
	}
	if len(r.Plan.Warnings) != 0 || string(r.Secrets["HF_TOKEN"]) != "hf_sentinel_1234" {
		t.Errorf("warnings %q, secrets %q", r.Plan.Warnings, r.Secrets)
	}
}

// TestForwardThatDoesNothing: a name that is set and carried, and that nothing
// reads where it goes, is said.
func TestForwardThatDoesNothing(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "  forward: [MORI_RDMA_TC, MY_OWN_SWITCH]", "forward: [ROUTER_PREFILL_POLICY, PREFILL_ROUTER_POLICY, IS_AGENTIC, VLLM_USE_V1]"), siteText)
	in.SubmitEnv = []string{"ROUTER_PREFILL_POLICY=cache_aware", "PREFILL_ROUTER_POLICY=cache_aware", "IS_AGENTIC=1", "VLLM_USE_V1=1", "MORI_RDMA_TC=104", "MY_OWN_SWITCH=1"}
	p := build(t, in).Plan
	want := []string{
		"forward[0]: nothing is known to read ROUTER_PREFILL_POLICY; did you mean PREFILL_ROUTER_POLICY?",
		"forward[1]: no process reads PREFILL_ROUTER_POLICY, it was a setting of the old launcher scripts; write router.prefill_policy in the recipe or the site instead",
		"forward[2]: IS_AGENTIC is read by client scripts, which does not run in prefill, decode",
		"forward[3]: VLLM_USE_V1 is read by vllm, which does not run in prefill, decode",
		"client.forward[0]: MORI_RDMA_TC is read by mori, which does not run in client",
	}
	if d := cmp.Diff(want, p.Warnings); d != "" {
		t.Error(d)
	}
}

// TestSecrets: the values come beside the plan and are nowhere in it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, strings.Replace(with(recipeText,
		"  forward: [HF_TOKEN, 'OPENAI_*', https_proxy]",
		"  env: {MODAL_X: {value: 'Bearer hf_sentinel_1234', custom: true}}",
		"forward: [HF_TOKEN]",
		"env: {MY_DB_PASSWORD: {value: sentinel-pw, custom: true}}"), "isl: 1024", "isl: 1024", 1), siteText)
	in.SubmitEnv = []string{"HF_TOKEN=hf_sentinel_1234", "OPENAI_API_KEY=sk-\xffsentinel", "https_proxy=http://u:sentinelproxy@proxy:3128", "GITHUB_TOKEN=ghp_sentinel"}
	r := build(t, in)
	data, err := Encode(r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"sentinel", "c2VudGluZWw", "hf_"} {
		if bytes.Contains(data, []byte(s)) || strings.Contains(Table(r.Plan), s) {
			t.Errorf("the plan holds %q", s)
		}
	}
	want := map[string][]byte{
		"HF_TOKEN": []byte("hf_sentinel_1234"), "OPENAI_API_KEY": []byte("sk-\xffsentinel"), "MY_DB_PASSWORD": []byte("sentinel-pw"),
		"https_proxy": []byte("http://u:sentinelproxy@proxy:3128"), "MODAL_X": []byte("Bearer hf_sentinel_1234"),
	}
	if d := cmp.Diff(want, r.Secrets); d != "" {
		t.Error(d)
	}
	for _, c := range []struct{ process, name string }{
		{"prefill-0.0", "HF_TOKEN"}, {"decode-0.0", "HF_TOKEN"}, {"decode-0.0", "MY_DB_PASSWORD"},
		{"client.c8", "HF_TOKEN"}, {"client.c64", "OPENAI_API_KEY"}, {"client.c8", "https_proxy"}, {"client.c8", "MODAL_X"},
	} {
		if v, ok := find(t, r.Plan, c.process, c.name); !ok || !v.Secret || v.Value != "" || v.ValueB64 != nil {
			t.Errorf("%s of %s is %+v, %v", c.name, c.process, v, ok)
		}
	}
	if o := origin(t, r.Plan, "env:prefill:MY_DB_PASSWORD"); o.Value != hidden {
		t.Errorf("the origin shows %q", o.Value)
	}
	if !contains(r.Plan.Warnings, "holds the secret MY_DB_PASSWORD in clear; forward it by name instead") {
		t.Errorf("warnings %q", r.Plan.Warnings)
	}
}

// TestSecretOrigins: a secret that beat another value shows neither.
func TestSecretOrigins(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "env: {HF_TOKEN: sentinel=in=recipe}", "forward: [HF_TOKEN]"), siteText)
	in.SubmitEnv = []string{"HF_TOKEN=sentinel-in-shell"}
	p := build(t, in).Plan
	want := models.Origin{Key: "env:decode:HF_TOKEN", Value: "(secret)", From: "forward", Over: []string{"recipe:recipe.yaml:14=(secret)"}}
	if d := cmp.Diff(want, origin(t, p, want.Key)); d != "" {
		t.Error(d)
	}
	data, err := Encode(p)
	if err != nil || bytes.Contains(data, []byte("sentinel")) {
		t.Errorf("the plan holds the secret (%v)", err)
	}
}

// TestBeatenSecretIsHidden: a value that lost can hold a secret although the one
// that won does not.
func TestBeatenSecretIsHidden(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	parse(t, &in, with(recipeText, "env: {HEADER: {value: 'Bearer hf_sentinel_1234', custom: true}}", "forward: [HF_TOKEN, HEADER]"), siteText)
	in.SubmitEnv = []string{"HF_TOKEN=hf_sentinel_1234", "HEADER=harmless"}
	p := build(t, in).Plan
	want := models.Origin{Key: "env:decode:HEADER", Value: "harmless", From: "forward", Over: []string{"recipe:recipe.yaml:14=(secret)"}}
	if d := cmp.Diff(want, origin(t, p, want.Key)); d != "" {
		t.Error(d)
	}
	data, err := Encode(p)
	if err != nil || bytes.Contains(data, []byte("sentinel")) {
		t.Errorf("the plan holds the secret (%v)", err)
	}
}

// TestLongestVariable: what no process can be given is refused before nodes are
// asked for, and the longest that one can be given is not.
func TestLongestVariable(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Client.Forward = []string{"LONG_*"}
	in.SubmitEnv = []string{"LONG_OK=" + strings.Repeat("x", env.MaxBytes-len("LONG_OK=")), "LONG_BAD=" + strings.Repeat("x", env.MaxBytes-len("LONG_BAD=")+1)}
	_, err := Build(in)
	long := "LONG_BAD (forward, scope client) has 131072 bytes with its name; the kernel takes at most 131071 for one variable"
	if d := cmp.Diff([]string{long}, messages(err)); d != "" {
		t.Error(d)
	}
}

func TestSecretsRefused(t *testing.T) {
	t.Parallel()
	const leak = "the text holds the value of a secret of this run, and it would be shown in the plan and on command lines"
	for _, c := range []struct {
		name, recipe, site string
		want               []string
	}{
		{"flag", strings.Replace(recipeText, "decode: {workers: 1, tp: 8}", "decode: {workers: 1, tp: 8, flags: ['--api-key abc']}", 1), siteText,
			[]string{"the argument --api-key of decode-0.0 carries a secret, and every user of a node can read arguments"}},
		{"value in a command", with(strings.Replace(recipeText, "[bench, --url", "[bench, --header=hf_sentinel_1234, --url", 1), "  forward: [HF_TOKEN]"), siteText,
			[]string{leak}},
		{"value in an argument of the container program", with(recipeText, "forward: [HF_TOKEN]"), with(siteText, "container: {extra_args: ['--env=TOKEN=hf_sentinel_1234']}"),
			[]string{leak}},
		{"value in a path", with(recipeText, "forward: [HF_TOKEN]", "model_path: /weights/hf_sentinel_1234"), siteText, []string{leak}},
		{"value in a profile", with(recipeText, "forward: [HF_TOKEN]"), with(siteText, "profiles: [{nodes: gpu-01, env: {HEADER: {value: 'Bearer hf_sentinel_1234', custom: true}}}]"),
			[]string{"HEADER holds the value of a secret of this run, and a profile is part of the plan"}},
		{"profile", recipeText, with(siteText, "profiles: [{nodes: gpu-01, env: {HF_TOKEN: x}}]"),
			[]string{"HF_TOKEN is a secret, and a profile is part of the plan"}},
		{"two values", with(recipeText, "  env: {HF_TOKEN: client-value}", "forward: [HF_TOKEN]"), siteText,
			[]string{"the secret HF_TOKEN has one value in client and another elsewhere; a run holds one value of a secret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			parse(t, &in, c.recipe, c.site)
			in.SubmitEnv = []string{"HF_TOKEN=hf_sentinel_1234"}
			_, err := Build(in)
			got := messages(err)
			slices.Sort(got)
			slices.Sort(c.want)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if err != nil && strings.Contains(err.Error(), "hf_sentinel") {
				t.Error("the error shows the secret")
			}
		})
	}
}

func TestCommandLineEnv(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Env = []Setting{
		{Name: "NCCL_DEBUG", Value: "INFO"},
		{Scope: "client", Name: "PRECISION", Value: "fp8"},
		{Scope: "decode", Name: "SGLANG_LOG_GC", Value: "yes"},
		{Name: "NCCL_DEBUGG", Value: ""},
	}
	p := build(t, in).Plan
	for _, c := range []struct {
		process, name, want string
		set                 bool
	}{
		{"prefill-0.0", "NCCL_DEBUG", "INFO", true}, {"router", "NCCL_DEBUG", "", false}, {"client.c8", "NCCL_DEBUG", "", false},
		{"client.c8", "PRECISION", "fp8", true}, {"decode-0.0", "PRECISION", "", false},
		{"decode-0.0", "SGLANG_LOG_GC", "1", true}, {"prefill-0.0", "SGLANG_LOG_GC", "", false},
		{"prefill-0.0", "NCCL_DEBUGG", "", true},
	} {
		v, ok := find(t, p, c.process, c.name)
		if ok != c.set || v.Value != c.want {
			t.Errorf("%s of %s: %q, %v", c.name, c.process, v.Value, ok)
		}
	}
	if !contains(p.Warnings, "--env NCCL_DEBUGG: nothing is known to read it; did you mean NCCL_DEBUG?") {
		t.Errorf("warnings %q", p.Warnings)
	}

	in = inputs(t)
	in.Env = []Setting{{Name: "A-B"}, {Scope: "everybody", Name: "NCCL_DEBUG"}, {Name: "MORI_RDMA_TC", Value: "x"}, {Name: "NCCL_ALGO", Value: "a\x00b"}}
	_, err := Build(in)
	want := []string{
		`--env: "A-B" is not a name that a variable can have`, `--env: MORI_RDMA_TC is "x", but must be a whole number`,
		"--env: the value of NCCL_ALGO holds a NUL character", `--env: there is no scope "everybody"`,
	}
	if d := cmp.Diff(want, messages(err)); d != "" {
		t.Error(d)
	}
}

// TestPlaceholdersStayOurs: a user's argument that looks like a placeholder is
// refused; in a variable it is carried as it is.
func TestPlaceholdersStayOurs(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Decode.Flags = []string{"--x @{self.addr}"}
	in.Recipe.Client.Command = append(in.Recipe.Client.Command, "@{node.0.addr}")
	in.Recipe.Transfer = "@{x}"
	in.Recipe.Env = models.EnvMap{"NCCL_ALGO": {Value: "@{carried.as.it.is}"}}
	in.Site.Container.ExtraArgs = []string{"--x\x00"}
	_, err := Build(in)
	want := []string{`"--x @{self.addr}" holds "@{", which this tool replaces on the node`, `"@{node.0.addr}" holds "@{", which this tool replaces on the node`,
		`"@{x}" holds "@{", which this tool replaces on the node`, "the text holds a NUL character, which no argument can carry"}
	got := messages(err)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
