package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/disagg/disagg/cmd/disagg/internal/cli"
)

// TestMain lets the scripts run this very program under its own name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"disagg": func() { os.Exit(int(cli.Main(os.Args[1:], cli.Standard()))) },
	})
}

// TestScripts runs every command line in testdata/script.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	old, err := filepath.Abs("../../models/legacy/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", examples)
			e.Setenv("LEGACY", old)
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
	})
}

// readmeBlock is a fenced block of the README with its language.
var readmeBlock = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$")

// TestReadmeExamples plans the README's recipe and runs its commands that need
// no cluster; those that do are run on the lab (internal/e2e).
func TestReadmeExamples(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var recipe string
	var lines []string
	for _, m := range readmeBlock.FindAllStringSubmatch(string(text), -1) {
		body := regexp.MustCompile(`(?m)^ {3}`).ReplaceAllString(m[2], "")
		switch m[1] {
		case "yaml":
			recipe = body
		case "sh":
			for _, l := range strings.Split(body, "\n") {
				l, _, _ = strings.Cut(l, "#")
				if l = strings.TrimSpace(l); strings.HasPrefix(l, "disagg plan ") || strings.HasPrefix(l, "disagg render ") {
					lines = append(lines, "exec "+l)
				}
			}
		}
	}
	if recipe == "" || len(lines) < 3 {
		t.Fatalf("the README's examples were not found: recipe %q, commands %q", recipe, lines)
	}
	dir := t.TempDir()
	script := "env DISAGG_SITE=$EXAMPLES/site-mi355x-ionic.yaml\n" + strings.Join(lines, "\nstdout .\n") + "\nstdout .\n-- recipe.yaml --\n" + recipe
	if err := os.WriteFile(filepath.Join(dir, "readme.txtar"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: dir, Setup: func(e *testscript.Env) error {
		e.Setenv("EXAMPLES", examples)
		return nil
	}})
}
