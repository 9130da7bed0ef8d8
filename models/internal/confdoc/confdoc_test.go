package confdoc_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/confdoc"
	"github.com/disagg/disagg/orchestrator/plan"
)

var update = flag.Bool("update", false, "write docs/schema and the tables of docs/config.md")

const (
	module = "github.com/disagg/disagg"
	root   = "../../.."
)

// documents are the files a user writes: the struct of each, with its defaults.
func documents() []document {
	recipe, site := models.Defaults()
	for _, t := range []*models.Timeouts{&recipe.Timeouts, &site.Timeouts} {
		budgets := reflect.ValueOf(plan.DefaultBudgets())
		v := reflect.ValueOf(t).Elem()
		for i := range v.NumField() {
			v.Field(i).Set(budgets.FieldByName(v.Type().Field(i).Name))
		}
	}
	return []document{
		{"recipe", recipe}, {"site", site}, {"model", &catalog.ModelFile{}}, {"engine", &catalog.EngineFile{}},
	}
}

type document struct {
	name     string
	defaults any
}

func comments(t *testing.T) confdoc.Comments {
	t.Helper()
	c := confdoc.Comments{}
	for _, dir := range []string{"models", "models/catalog"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source in %s: %v", dir, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Add(module+"/"+dir, f, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// same compares a file with what it should hold, or writes it.
func same(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what the types say; run: go test ./models/internal/confdoc -update\n%s", path, d)
	}
}

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	c := comments(t)
	for _, doc := range documents() {
		got, err := confdoc.Schema(reflect.TypeOf(doc.defaults).Elem(), "disagg "+doc.name, c, models.Formats())
		if err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Join(root, "docs/schema", doc.name+".json"), got)
	}
}

func TestReferenceIsThatOfTheTypes(t *testing.T) {
	c := comments(t)
	path := filepath.Join(root, "docs/config.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, doc := range documents() {
		if doc.name == "engine" {
			continue // its keys are those of a model's engines
		}
		begin, end := "<!-- keys of "+doc.name+" -->\n", "<!-- end of "+doc.name+" -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for the keys of a %s", path, doc.name)
		}
		want = head + begin + "\n" + confdoc.Reference(doc.defaults, c, models.Formats()) + end + tail
	}
	same(t, path, []byte(want))
}

// Every key must say what it means.
func TestEveryKeyHasAMeaning(t *testing.T) {
	c := comments(t)
	for _, doc := range documents() {
		for _, missing := range confdoc.Unexplained(reflect.TypeOf(doc.defaults).Elem(), c) {
			t.Errorf("%s: %s has no comment", doc.name, missing)
		}
	}
}
