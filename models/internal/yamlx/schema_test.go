package yamlx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

const root = "../../.."

func compile(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(root, "docs/schema", kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate checks YAML text as an editor does.
func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(plain(v))
}

// plain gives mappings the type that the validator knows, and keys that YAML
// reads as something else their text.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = plain(x)
		}
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			out[fmt.Sprint(k)] = plain(x)
		}
		return out
	case time.Time: // an editor sees the text
		return v.Format(time.DateOnly)
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	}
	return v
}

func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	for kind, pattern := range map[string]string{
		"recipe": "examples/recipe-*.yaml", "site": "examples/site-*.yaml",
		"model": "models/catalog/models/*.yaml", "engine": "models/catalog/engines/*.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("no file is like %s: %v", pattern, err)
		}
		s := compile(t, kind)
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, s, string(text)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}

// A schema that lets everything pass would be no help.
func TestSchemasFindMistakes(t *testing.T) {
	t.Parallel()
	s := compile(t, "recipe")
	const good = `{apiVersion: disagg/v1, kind: Recipe, name: x, model: m, engine: sglang, prefill: {workers: 1, tp: 8}, decode: {workers: 1, tp: 8}}`
	if err := validate(t, s, good); err != nil {
		t.Error(err)
	}
	for _, change := range []struct{ old, new string }{
		{"engine: sglang", "engine: sglnag"},
		{"engine: sglang", "engine: sglang, scenaro: fixed"},
		{"name: x", "name: -x"},
		{"name: x, ", ""},
		{"kind: Recipe", "kind: Site"},
		{"workers: 1, tp: 8", "workers: 0, tp: 8"},
		{"workers: 1, tp: 8", "workers: 1, tp: eight"},
		{"workers: 1, tp: 8", "workers: 1, tp: 8, env: {2BAD: x}"},
		{"workers: 1, tp: 8", "workers: 1, tp: 8, env: {A: {custm: true}}"},
		{"name: x", "name: x, time_limit: soon"},
		{"name: x", "name: x, client: {concurrency: []}"},
		{"name: x", "name: x, client: {concurrency: a}"},
		{"name: x", "name: x, router: {port: 70000}"},
		{"name: x", "name: x, metrics: maybe"},
	} {
		bad := strings.Replace(good, change.old, change.new, 1)
		if bad == good {
			t.Fatalf("%q is not there", change.old)
		}
		if err := validate(t, s, bad); err == nil {
			t.Errorf("no mistake found in %s", bad)
		}
	}
	for _, more := range []string{"metrics: on", "metrics: true", "time_limit: 08:00:00", "time_limit: 90", "client: {concurrency: 8x16}",
		"client: {concurrency: 8}", "client: {concurrency: [8, 16]}", "env: {A: 1, B: true, C: {value: '', custom: yes}}"} {
		if err := validate(t, s, strings.Replace(good, "name: x", "name: x, "+more, 1)); err != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
}
