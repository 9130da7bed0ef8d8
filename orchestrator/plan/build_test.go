package plan

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

var update = flag.Bool("update", false, "write the golden files")

// entry is the catalog entry of the tests: small, and unlike the shipped
// catalog never tuned.
func entry(t testing.TB) *catalog.Entry {
	t.Helper()
	var files []catalog.File
	for _, name := range []string{"sglang.yaml", "small-moe.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", "catalog", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, catalog.File{Path: name, Data: data})
	}
	c, err := (&catalog.Catalog{}).With(files)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Lookup("small-moe")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// recipe is 1 prefill and 1 decode worker of 8 GPUs with a client, without
// places.
func recipe() *models.Recipe {
	r, _, err := models.LoadRecipe("recipe.yaml", []byte(recipeText))
	if err != nil {
		panic(err)
	}
	return r
}

func site() *models.Site {
	s, _, err := models.LoadSite("site.yaml", []byte(siteText))
	if err != nil {
		panic(err)
	}
	return s
}

const recipeText = `apiVersion: disagg/v1
kind: Recipe
name: tiny
model: small-moe
engine: sglang
image: example.org/sglang:v1
prefill: {workers: 1, tp: 8}
decode: {workers: 1, tp: 8}
client:
  command: [bench, --url, "{url}", --model, "{model}", --concurrency, "{concurrency}", --prompts, "{num_prompts}", --out, "{result_dir}/r.json"]
  concurrency: [8, 64]
  isl: 1024
  osl: 512
`

const siteText = `apiVersion: disagg/v1
kind: Site
name: testsite
gpus_per_node: 8
runs_dir: /shared/runs
models: {search_paths: [/weights]}
slurm: {partition: gpu}
`

// parse loads documents that must be right.
func parse(t testing.TB, in *Inputs, recipe, site string) {
	t.Helper()
	var err error
	if in.Recipe, in.RecipePos, err = models.LoadRecipe("recipe.yaml", []byte(recipe)); err != nil {
		t.Fatal(err)
	}
	if in.Site, in.SitePos, err = models.LoadSite("site.yaml", []byte(site)); err != nil {
		t.Fatal(err)
	}
}

// with puts keys at the end of a document.
func with(text string, more ...string) string { return text + strings.Join(more, "\n") + "\n" }

func inputs(t testing.TB) Inputs {
	return Inputs{Recipe: recipe(), Site: site(), Entry: entry(t), Launcher: models.LauncherSlurm, Date: "2026-06-15", Tool: "v0.0.0-test"}
}

// build is Build that must work.
func build(t testing.TB, in Inputs) Result {
	t.Helper()
	r, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines places keys in a file, for errors and origins.
func lines(file string, keys map[string]int) models.Positions {
	p := models.Positions{"": {File: file, Line: 1, Col: 1}}
	for k, n := range keys {
		p[k] = models.Position{File: file, Line: n, Col: 3}
	}
	return p
}

// messages writes the mistakes of an error, one line each: message, then hint.
func messages(err error) []string {
	var out []string
	errs, ok := err.(models.FieldErrors)
	if err != nil && !ok {
		return []string{"not FieldErrors: " + err.Error()}
	}
	for _, e := range errs {
		out = append(out, e.Msg)
	}
	return out
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; look at it, then run with -update\n%s", name, d)
	}
}

func TestGoldenPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, recipe, site string
		environ            []string
	}{
		{name: "1p1d", recipe: recipeText, site: siteText},
		{
			name: "2p1d",
			recipe: strings.Replace(with(recipeText, "spares: 1", "forward: [HF_TOKEN, NCCL_*]", "env: {SGLANG_LOG_MS: yes}", "time_limit: 4h"),
				"workers: 1, tp: 8}\ndecode", "workers: 2, tp: 8}\ndecode", 1),
			site: with(siteText, "exclude:", "  - {nodes: 'gpu-[01-02]', reason: bad NIC}", "  - {nodes: gpu-09, reason: was slow, expires: 2026-06-01}",
				"  - {nodes: gpu-10, reason: no vLLM there, engines: [vllm]}"),
			environ: []string{"HF_TOKEN=hf_notarealtoken", "NCCL_DEBUG=WARN", "NCCL_IB_HCA=", "HOME=/home/u", "MORI_RDMA_TC=96"},
		},
		{
			name: "multi-node-decode",
			recipe: strings.Replace(with(recipeText, "evals:", "  command: [lm_eval, --url, '{url}', --limit, '{limit}']", "  limit: 100"),
				"decode: {workers: 1, tp: 8}", "decode: {workers: 1, tp: 16, ep: 16, dp_attention: true, restarts: 2}", 1),
			site: siteText,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			parse(t, &in, c.recipe, c.site)
			in.SubmitEnv = c.environ
			r := build(t, in)
			data, err := Encode(r.Plan)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".json", string(data))
			golden(t, c.name+".txt", Table(r.Plan))
			if strings.Contains(string(data), "hf_notarealtoken") {
				t.Error("the plan holds a secret")
			}
			back, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Encode(back)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(data) {
				t.Error("a decoded plan has other bytes")
			}
		})
	}
}

// TestSameBytes: nothing of the order of maps, of the environment or of time
// reaches the plan.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	environ := []string{"HF_TOKEN=hf_notarealtoken"}
	for i := range 40 {
		environ = append(environ, fmt.Sprintf("NCCL_X%d=%d", i, i), fmt.Sprintf("MORI_Y%d=%d", i, i))
	}
	var first string
	for i := range 50 {
		in := inputs(t)
		in.Recipe.Forward = []string{"NCCL_X1*", "HF_TOKEN"}
		in.Recipe.Env = models.EnvMap{}
		in.Recipe.Allow = map[string]string{}
		in.Site.Container.Ulimits = map[string]string{}
		in.Recipe.Preflight.Waive = map[string]string{}
		for k := range 20 {
			k = (k + i) % 20 // another order of insertion each time
			in.Recipe.Env[fmt.Sprintf("MY_%d", k)] = models.EnvValue{Value: fmt.Sprint(k), Custom: true}
			in.Site.Container.Ulimits[fmt.Sprintf("u%d", k)] = "-1"
			in.Recipe.Preflight.Waive[fmt.Sprintf("check.%d", k)] = "reason"
		}
		in.SubmitEnv = slices.Concat(environ[i%len(environ):], environ[:i%len(environ)])
		h, err := Hash(build(t, in).Plan)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = h
		}
		if h != first {
			t.Fatalf("build %d has another hash", i)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	a, err := Hash(build(t, in).Plan)
	if err != nil {
		t.Fatal(err)
	}
	in = inputs(t)
	in.Recipe.Client.OSL = 513
	b, err := Hash(build(t, in).Plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != 64 || a == b {
		t.Errorf("hashes %q and %q", a, b)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, data, want string }{
		{"version", `{"apiVersion":"disagg/v2","tool":"v9"}`, `read plan: apiVersion is "disagg/v2", this build reads "disagg/v1"; it was written by version "v9"`},
		{"no version", `{}`, `read plan: apiVersion is "", this build reads "disagg/v1"; it was written by version ""`},
		{"unknown key", `{"apiVersion":"disagg/v1","tool":"v9","shiny":1}`, `read plan: json: unknown field "shiny"; it was written by version "v9"`},
		{"unknown key inside", `{"apiVersion":"disagg/v1","workers":[{"id":"x","shiny":1}]}`, `read plan: json: unknown field "shiny"; it was written by version ""`},
		{"two plans", `{"apiVersion":"disagg/v1"}{}`, `read plan: invalid character '{' after top-level value`},
		{"not JSON", `plan`, `read plan: invalid character 'p' looking for beginning of value`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Decode([]byte(c.data))
			if err == nil || p != nil || err.Error() != c.want {
				t.Errorf("got %v, %v\nwant %s", p, err, c.want)
			}
		})
	}
}

// TestNamesInJSON: every key of a plan has a name of its own in JSON, in
// snake_case. The plan is read by people and by other programs.
func TestNamesInJSON(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^(apiVersion|[a-z][a-z0-9_]*)$`)
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				f := typ.Field(i)
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !f.Anonymous && !name.MatchString(tag) {
					t.Errorf("%s.%s has the JSON name %q", typ, f.Name, tag)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[models.Plan]())
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// FuzzDecode: whatever a plan.json holds, reading it ends with a plan whose
// bytes are canonical, or with an error.
func FuzzDecode(f *testing.F) {
	// Small seeds: the fuzzer would spend its time making the golden plans smaller.
	f.Add([]byte(`{"apiVersion":"disagg/v1","profiles":[{"env":{"A":{"value":"1","custom":true}}}],"budgets":{"agents":"1s"}}`))
	f.Add([]byte(`{"apiVersion":"disagg/v1","topology":{"nodes":1,"table":[{"node":0,"role":"decode","worker":"decode-0","rank":0,"gpus":[0,1,3]}]},"workers":[{"id":"decode-0","role":"decode","tp":2,"ranks":[{"id":"decode-0.0","argv":["p","-m","x","--a","1","--b=2"],"env":[{"name":"N","value_b64":"/w=="},{"name":"S","secret":true}],"ports":[{"name":"http","number":8000}]}]}],"router":{"id":"router","kind":"sglang","port":30000},"client":{"isl":1,"points":[{"concurrency":8,"id":"client.c8","results":["*"]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			return
		}
		one, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(one)
		if err != nil {
			t.Fatalf("canonical bytes cannot be read: %v", err)
		}
		two, err := Encode(again)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("bytes differ after reading them back (%v)", err)
		}
		Table(p)
		Explain(p)
		if c, err := Diff(p, again); err != nil || len(c) > 0 {
			t.Fatalf("a plan differs from itself: %v, %v", c, err)
		}
	})
}
