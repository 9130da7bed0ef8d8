package prepare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

const (
	recipeHead = "apiVersion: disagg/v1\nkind: Recipe\nname: t\nimage: x/y:v1\n"
	siteHead   = "apiVersion: disagg/v1\nkind: Site\nname: s\n"
	roles      = "prefill: {workers: 1, tp: 8}\ndecode: {workers: 1, tp: 8}\n"
	known      = "model: DeepSeek-R1-0528\nengine: sglang\n"
	goodSite   = "gpus_per_node: 8\nruns_dir: /shared\nmodels: {search_paths: [/w]}\nslurm: {partition: gpu}\n"
)

// places are file:line:col and the beginning of each mistake's message.
func places(t *testing.T, err error) []string {
	t.Helper()
	var es models.FieldErrors
	if err != nil && !errors.As(err, &es) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		msg, _, _ := strings.Cut(e.Msg, ";")
		msg, _, _ = strings.Cut(msg, " (did you")
		if e.Line > 0 && e.Snippet == "" {
			t.Errorf("%s:%d has no snippet: %s", e.File, e.Line, e.Msg)
		}
		out = append(out, fmt.Sprintf("%s:%d:%d %s", e.File, e.Line, e.Col, msg))
	}
	return out
}

// TestIndependentMistakesShowTogether: what stage finds a mistake does not matter,
// and what only follows from another one is not told.
func TestIndependentMistakesShowTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, recipe, site string
		want               []string
	}{
		{"model and topology", "model: deepseek-r1\nengine: sglang\nprefill: {workers: 1, tp: 3}\ndecode: {workers: 1, tp: 8}\n", goodSite, []string{
			`r:5:8 the catalog has no model "deepseek-r1"`,
			`r:7:27 a prefill worker of 3 GPUs (tp 3) does not divide a node of 8 GPUs evenly`}},
		{"model and variable", "model: nosuch\nengine: sglang\n" + roles + "env: {FOO: x}\n", goodSite, []string{
			`r:5:8 the catalog has no model "nosuch"`, `r:9:12 nothing is known to read FOO`}},
		{"model, engine, value and variable", "model: nosuch\nengine: sglnag\nmetrics: 5\n" + roles + "env: {FOO: x}\n", goodSite, []string{
			`r:5:8 the catalog has no model "nosuch"`, `r:6:9 engine is "sglnag", it must be one of: sglang, vllm, atom`,
			`r:7:10 metrics: "5" is not a boolean`, `r:10:12 nothing is known to read FOO`}},
		{"a variable of one engine, and the engine is wrong", "model: DeepSeek-R1-0528\nengine: sglnag\n" + roles + "env: {SGLANG_DEEPEP_BF16_DISPATCH: 1}\n", goodSite, []string{
			`r:6:9 engine is "sglnag", it must be one of: sglang, vllm, atom`}},
		{"model is misspelt as a key", "modle: DeepSeek-R1-0528\nengine: sglang\n" + roles, goodSite, []string{`r:5:1 unknown key "modle"`}},
		{"a role's size is misspelt", known + "prefill: {workers: 1, tpp: 8}\ndecode: {workers: 1, tp: 8}\nenv: {FOO: x}\n", goodSite, []string{
			`r:7:23 unknown key "tpp" in prefill`, `r:9:12 nothing is known to read FOO`}},
		{"a value that no process sees, and a flag of the plan", known + "metrics: 5\nprefill: {workers: 1, tp: 8, flags: [--tp 8]}\ndecode: {workers: 1, tp: 8}\n", goodSite, []string{
			`r:7:10 metrics: "5" is not a boolean`, `r:8:38 --tp is set by the plan`}},
		{"client and topology", known + "prefill: {workers: 1, tp: 3}\ndecode: {workers: 1, tp: 8}\nclient: {command: [a, \"{isl}\"], concurrency: 8}\n", goodSite, []string{
			`r:7:27 a prefill worker of 3 GPUs (tp 3) does not divide a node of 8 GPUs evenly`, `r:9:23 the command uses {isl}, but client.isl is not set`}},
		{"a length that cannot be read is not missing", known + roles + "client: {command: [a, \"{isl}\"], concurrency: 8, isl: many}\n", goodSite, []string{
			`r:9:54 client.isl: "many" is not a whole number in decimal digits`}},
		{"a client's command is misspelt", known + roles + "client: {comand: [a], concurrency: 8}\n", goodSite, []string{`r:9:10 unknown key "comand" in client`}},
		{"recipe and site", "model: nosuch\nengine: sglang\nmetrics: 5\n" + roles, "gpus_per_node: many\nruns_dir: /shared\nmodels: {search_paths: [/w]}\nslurm: {partition: gpu}\nenv: {FOO: x}\n", []string{
			`r:5:8 the catalog has no model "nosuch"`, `r:7:10 metrics: "5" is not a boolean`,
			`s:4:16 gpus_per_node: "many" is not a whole number in decimal digits`, `s:8:12 nothing is known to read FOO`}},
		{"a site without nodes", known + roles, "runs_dir: /shared\nmodels: {search_paths: [/w]}\nslurm: {partition: gpu}\n", []string{
			`s:1:1 gpus_per_node is missing`}},
		{"a site whose catalog cannot be read", "model: own\nengine: sglang\n" + roles, "gpus_per_node: 8\nruns_dir: /shared\nmodels: {search_paths: [/w], catalog: 5}\nslurm: {partition: gpu}\n", []string{
			`s:6:39 models.catalog must be a list, not the number 5`}},
		{"no site that can be read", "model: nosuch\nengine: sglang\nprefill: {workers: 1, tp: 3}\ndecode: {workers: 1, tp: 8}\nenv: {FOO: x}\n", "a: [\n", []string{
			`r:9:12 nothing is known to read FOO`, `s:4:1 not valid YAML: a value is missing, or a bracket is not closed (did not find expected node content)`}},
		{"no recipe that can be read", "a: 'x\n", goodSite + "env: {FOO: x}\n", []string{
			`r:5:1 not valid YAML: the quote is not closed (found unexpected end of stream)`, `s:8:12 nothing is known to read FOO`}},
		{"an axis and what it would have set", known + "prefill: {workers: 1}\ndecode: {workers: 1, tp: 8}\nenv: {FOO: x}\nsweep: [{key: prefill.tp, values: [8]}, {key: decode.tpp, values: [1]}]\n", goodSite, []string{
			`r:9:12 nothing is known to read FOO`, `r:10:47 "decode.tpp" is not a key of a recipe`}},
		{"a point and the model", "model: nosuch\nengine: sglang\n" + roles + "sweep: [{key: prefill.tp, values: [3, x]}]\n", goodSite, []string{
			`r:5:8 the catalog has no model "nosuch"`, `r:9:36 a prefill worker of 3 GPUs (tp 3) does not divide a node of 8 GPUs evenly`,
			`r:9:39 prefill.tp: "x" is not a whole number in decimal digits`}},
		{"waivers of both files", known + roles + "preflight: {waive: {host.nofle: lab, host.nofile: lab}}\n", goodSite + "preflight: {waive: {rdma.pcf: lab}}\n", []string{
			`r:9:21 there is no check "host.nofle" to waive`, `s:8:21 there is no check "rdma.pcf" to waive`}},
		{"a waiver that is no id is told of once", known + roles + "preflight: {waive: {nofile: lab}}\n", goodSite, []string{
			`r:9:21 the key "nofile" in preflight.waive must be the id of a check, such as rdma.pfc, not "nofile"`}},
		{"times that cannot be added up", known + roles + "time_limit: soon\nclient: {command: [a], concurrency: 8, duration: 100h}\n", goodSite, []string{
			`r:9:13 time_limit: "soon" is not a duration`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := LoadAll(Request{Recipe: "r", RecipeText: []byte(recipeHead + tt.recipe), Site: "s", SiteText: []byte(siteHead + tt.site),
				Launcher: models.LauncherSlurm, Now: time.Unix(0, 0)})
			if d := cmp.Diff(tt.want, places(t, err)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCatalogMistakesShowWithOthers: a mistake in a file of the catalog hides
// none in recipe and site, and the model is not called unknown for it.
func TestCatalogMistakesShowWithOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte("apiVersion: disagg/v1\nkind: Model\nname: own\nnosuch: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadAll(Request{Recipe: "r", RecipeText: []byte(recipeHead + "model: own\nengine: sglang\n" + roles + "env: {FOO: x}\n"),
		Site: "s", SiteText: []byte(siteHead + goodSite), Catalog: []string{dir}, Launcher: models.LauncherSlurm, Now: time.Unix(0, 0)})
	text := fmt.Sprint(err)
	for _, want := range []string{`unknown key "nosuch"`, "nothing is known to read FOO"} {
		if !strings.Contains(text, want) {
			t.Errorf("the mistakes lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "the catalog has no model") {
		t.Errorf("a mistake that follows from another:\n%s", text)
	}
}

// TestNearestCheckIsNamed: an id that is misspelt comes with the right one.
func TestNearestCheckIsNamed(t *testing.T) {
	t.Parallel()
	_, err := LoadAll(Request{Recipe: "r", RecipeText: []byte(recipeHead + known + roles + "preflight: {waive: {host.nofle: lab}}\n"),
		Site: "s", SiteText: []byte(siteHead + goodSite), Launcher: models.LauncherSlurm, Now: time.Unix(0, 0)})
	if want := `there is no check "host.nofle" to waive; did you mean host.nofile?`; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v lacks %q", err, want)
	}
}
