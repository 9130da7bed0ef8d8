package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/disagg/disagg/internal/lab"
)

var suite = lab.Lazy{Nodes: 2, Options: []lab.Option{lab.WithImages()}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := suite.Close(); err != nil {
		code = 1
	}
	os.Exit(code)
}

// TestOutfit: what is made for a first run is enough for it.
func TestOutfit(t *testing.T) {
	l := suite.Get(t)
	root, err := lab.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "disagg")
	if err := lab.GoBuild(root, program, "./cmd/disagg"); err != nil {
		t.Fatal(err)
	}
	dir, err := outfit(l, program)
	if err != nil {
		t.Fatal(err)
	}
	const script = `cd "$0" && export DISAGG_SITE=$PWD/site.yaml && timeout 120 ./disagg submit recipe.yaml --wait`
	if out, err := l.Run("sh", "-c", script, dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := l.Run("sh", "-c", `cd "$0" && export DISAGG_SITE=$PWD/site.yaml && timeout 60 ./disagg cleanup latest`, dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "results", "c*", "load.json")); len(files) != 2 {
		t.Errorf("results: %q", files)
	}
}
