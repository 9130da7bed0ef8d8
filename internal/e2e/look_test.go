package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// left is what the nodes still have of this test's runs: containers by label,
// processes by their command line or environment, and scratch files.
func (w *world) left() []string {
	w.t.Helper()
	var out []string
	for _, n := range w.Nodes() {
		containers, err := w.Containers(n)
		w.must(err)
		for _, c := range containers {
			if w.ours(c.Labels["disagg.run"]) {
				out = append(out, fmt.Sprintf("%s: container %s", n, c))
			}
		}
		strays, err := w.Strays(n)
		w.must(err)
		for _, p := range strays {
			if line := strings.Join(p.Argv, " "); strings.Contains(line, w.dir) {
				out = append(out, fmt.Sprintf("%s: process %d %s", n, p.PID, line))
			}
		}
		files, err := w.Exec(n, "sh", "-c", "ls -d /tmp/* 2>/dev/null || true")
		w.must(err)
		for _, f := range strings.Fields(files) {
			text, _ := w.Exec(n, "sh", "-c", "cat "+f+"/.* 2>/dev/null || true")
			if w.ours(text) {
				out = append(out, fmt.Sprintf("%s: scratch %s", n, f))
			}
		}
	}
	return out
}

// ours says whether text names one of this test's runs.
func (w *world) ours(text string) bool {
	for _, dir := range w.runs() {
		if strings.Contains(text, filepath.Base(dir)) {
			return true
		}
	}
	return false
}

// file reads a file of the newest run.
func (w *world) file(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.newest(), name))
	w.must(err)
	return string(data)
}
