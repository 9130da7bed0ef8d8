package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/standin"
)

// TestSubmitOnePrefillOneDecode is the main job: plan, sbatch, launch, prove,
// measure, collect, stop, look.
func TestSubmitOnePrefillOneDecode(t *testing.T) {
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2x4"))
	w.Want(w.Disagg("submit", recipe, "--wait"), 0)
	goodRun(w, 2)
}

// TestSubmitTwoPrefillOneWideDecode has a decode worker over two nodes.
func TestSubmitTwoPrefillOneWideDecode(t *testing.T) {
	w := newWorld(t)
	recipe := w.Recipe("{workers: 2, tp: 8}", "{workers: 1, tp: 16, ep: 16, dp_attention: true}", world.Client(16, "4"))
	w.Want(w.Disagg("submit", recipe, "--wait"), 0)
	goodRun(w, 1)
}

// goodRun checks the newest run as a user would, and the nodes as somebody who
// trusts nobody would.
func goodRun(w *world.World, points int) {
	w.T.Helper()
	r := w.Result()
	if r.Outcome != "ok" || r.ExitCode != 0 || len(r.Points) != points || len(r.Leftovers) != 0 {
		w.T.Errorf("result: outcome %s, exit code %d, %d points, leftovers %v", r.Outcome, r.ExitCode, len(r.Points), r.Leftovers)
	}
	for _, p := range r.Points {
		if p.Status != "ok" || len(p.Files) != 1 {
			w.T.Errorf("point %s is %s with files %v", p.Name, p.Status, p.Files)
			continue
		}
		var load standin.LoadResult
		w.Must(json.Unmarshal([]byte(w.File(p.Files[0].Path)), &load))
		if load.Completed != 16 || load.Failed != 0 || load.OutputTokens == 0 {
			w.T.Errorf("point %s measured %+v", p.Name, load)
		}
	}
	w.Clean(5 * time.Second)
}
