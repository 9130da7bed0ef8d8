package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// TestReadmeTour runs the README's cluster commands as they stand there, with a
// recipe for the lab under the name they use.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	root, err := lab.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, ok := strings.Cut(string(text), "5. **Run it.**")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(tour)
	if !ok || block == nil {
		t.Fatal("the README's tour was not found")
	}
	w := newWorld(t)
	w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4"))
	ran := 0
	for _, line := range strings.Split(block[1], "\n") {
		line, _, _ = strings.Cut(line, "#")
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		if args[0] != "disagg" {
			t.Fatalf("the tour runs %q, which is not this tool", line)
		}
		s := w.Disagg(args[1:]...)
		w.Want(s, 0)
		if strings.TrimSpace(s.Out) == "" {
			t.Errorf("%q prints nothing", line)
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("ran %d commands of the tour, want at least 3", ran)
	}
	goodRun(w, 1)
}
