package e2e

import (
	"strings"
	"testing"
)

// TestTenMistakes: ten errors, each with its place; nothing is submitted.
func TestTenMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Write("recipe.yaml", `apiVersion: disagg/v1
kind: Recipe
name: bad name
model: DeepSeek-R1-0528
engine: sglangg
image: x
prefill: {workers: 0, tp: 8, tpp: 8}
decode: {workers: 1, tp: eight}
metrics: maybe
router: {port: 99999}
client:
  concurrency: 8x0
env:
  1BAD: x
timeouts: {grace: soon}
`)
	before := w.Run("squeue", "--noheader")
	s := w.Disagg("submit", recipe)
	w.Want(s, 3)
	for _, at := range []string{":3:7:", ":5:9:", ":7:20:", ":7:30:", ":8:26:", ":9:10:", ":10:16:", ":12:16:", ":14:3:", ":15:19:"} {
		if !strings.Contains(s.Err, "recipe.yaml"+at) {
			t.Errorf("no error at %s", at)
		}
	}
	if t.Failed() {
		t.Log(s.Err)
	}
	if after := w.Run("squeue", "--noheader"); len(w.Runs()) != 0 || strings.Count(after.Out, "e2e") > strings.Count(before.Out, "e2e") && strings.Contains(after.Out, "bad name") {
		t.Errorf("something was submitted: %s", after.Out)
	}
}
