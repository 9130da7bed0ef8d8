package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/standin"
)

// TestSubmitOnePrefillOneDecode is the main job: plan, sbatch, launch, prove,
// measure, collect, stop, look.
func TestSubmitOnePrefillOneDecode(t *testing.T) {
	w := newWorld(t)
	recipe := w.recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", client(16, "2x4"))
	w.want(w.disagg("submit", recipe, "--wait"), 0)
	w.goodRun(2)
}

// TestSubmitTwoPrefillOneWideDecode has a decode worker over two nodes.
func TestSubmitTwoPrefillOneWideDecode(t *testing.T) {
	w := newWorld(t)
	recipe := w.recipe("{workers: 2, tp: 8}", "{workers: 1, tp: 16, ep: 16, dp_attention: true}", client(16, "4"))
	w.want(w.disagg("submit", recipe, "--wait"), 0)
	w.goodRun(1)
}

// goodRun checks the newest run as a user would, and the nodes as somebody who
// trusts nobody would.
func (w *world) goodRun(points int) {
	w.t.Helper()
	dir := w.newest()
	r := w.result(dir)
	if r.Outcome != "ok" || r.ExitCode != 0 || len(r.Points) != points || len(r.Leftovers) != 0 {
		w.t.Errorf("result: outcome %s, exit code %d, %d points, leftovers %v", r.Outcome, r.ExitCode, len(r.Points), r.Leftovers)
	}
	for _, p := range r.Points {
		if p.Status != "ok" || len(p.Files) != 1 {
			w.t.Errorf("point %s is %s with files %v", p.Name, p.Status, p.Files)
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, p.Files[0].Path))
		w.must(err)
		var load standin.LoadResult
		w.must(json.Unmarshal(data, &load))
		if load.Completed != 16 || load.Failed != 0 || load.OutputTokens == 0 {
			w.t.Errorf("point %s measured %+v", p.Name, load)
		}
	}
	w.clean(5 * time.Second)
}

// clean fails the test unless nothing of its runs is on any node.
func (w *world) clean(within time.Duration) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	var left []string
	for {
		left = w.left()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("left on the nodes after %s: %q\n%s", within, left, w.evidence())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
