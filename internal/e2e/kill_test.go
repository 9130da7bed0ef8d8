package e2e

import (
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
)

// TestKillNine: whatever is killed without a word, nothing of the run stays, and
// nobody calls it a success.
func TestKillNine(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []string // of its command line, beside the test's own directory
	}{
		{"controller", []string{"disagg controller"}},
		{"srun", []string{"srun", "--job-name=disagg-"}},
		{"agent", []string{"disagg agent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless)), 0)
			w.ClientRuns()
			node, pid := w.Find(append(c.words, w.Dir)...)
			w.Signal(node, pid, "KILL")
			w.Clean(35 * time.Second)
			if s := w.Disagg("wait", w.Newest()); s.Code == 0 {
				t.Errorf("wait ended with 0 after kill -9 of the %s\n%s%s", c.name, s.Out, s.Err)
			}
		})
	}
}
