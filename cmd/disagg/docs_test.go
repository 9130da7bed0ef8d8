package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// fenced is a fenced block of a document, with its language.
var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// onCluster are commands that need a scheduler; they are run on the lab
// (internal/e2e).
var onCluster = regexp.MustCompile(`^disagg (submit|run|sweep (submit|status|wait|cancel)) `)

// TestDocumentedCommands runs every command of the documents on import and on
// sweeps that needs no cluster, in order, with the files that they name.
func TestDocumentedCommands(t *testing.T) {
	for _, doc := range []struct {
		name  string
		least int // commands that must have been found
		setup string
	}{
		{"import.md", 9, `mkdir fork
cp $LEGACY/models.yaml models.yaml
cp $LEGACY/models.yaml fork/my-models.yaml
cp $LEGACY/node_excludes.yaml node_excludes.yaml
cp $LEGACY/runners.yaml runners.yaml
cp $LEGACY/master.yaml master.yaml
cp $LEGACY/master.yaml master-before.yaml
`},
		{"sweeps.md", 1, "env DISAGG_SITE=$EXAMPLES/site-mi355x-ionic.yaml\n"},
	} {
		t.Run(doc.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../docs", doc.name))
			if err != nil {
				t.Fatal(err)
			}
			script, files, found := doc.setup, "", 0
			for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
				if m[1] == "yaml" {
					name := regexp.MustCompile(`(?m)^name: (.*)$`).FindStringSubmatch(m[2])
					files += "-- " + name[1] + ".yaml --\n" + m[2]
				}
				if m[1] != "sh" {
					continue
				}
				for line := range strings.Lines(m[2]) {
					line = strings.TrimSpace(line)
					if vars, ok := strings.CutPrefix(line, "export "); ok {
						script += "env " + vars + "\n"
					} else if !onCluster.MatchString(line + " ") {
						script += "exec " + line + "\nstdout .\n"
						found++
					}
				}
			}
			// It writes files and says nothing.
			script = regexp.MustCompile(`(?m)^(exec disagg import call --dir .*)\nstdout \.$`).ReplaceAllString(script, "$1")
			if found < doc.least {
				t.Fatalf("%d commands were found, want at least %d", found, doc.least)
			}
			const log = "- config-keys: [dsr1-*]\n  description: [x]\n  pr-link: https://example.org/o/r/pull/1\n"
			files += "-- log.yaml --\n" + log + "-- log-before.yaml --\n" + log
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "docs.txtar"), []byte(script+files), 0o600); err != nil {
				t.Fatal(err)
			}
			testscript.Run(t, testscript.Params{Dir: dir, Setup: func(e *testscript.Env) error {
				for name, path := range map[string]string{"EXAMPLES": "../../examples", "LEGACY": "../../models/legacy/testdata"} {
					abs, err := filepath.Abs(path)
					if err != nil {
						return err
					}
					e.Setenv(name, abs)
				}
				e.Setenv("HOME", e.WorkDir)
				return nil
			}})
		})
	}
}
