package e2e

import (
	"strings"
	"testing"
)

// TestTenMistakes: ten errors, each with its place; nothing is submitted.
func TestTenMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.write("recipe.yaml", `apiVersion: disagg/v1
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
	before := w.run("squeue", "--noheader")
	s := w.disagg("submit", recipe)
	w.want(s, 3)
	for _, at := range []string{":3:7:", ":5:9:", ":7:20:", ":7:30:", ":8:26:", ":9:10:", ":10:16:", ":12:16:", ":14:3:", ":15:19:"} {
		if !strings.Contains(s.err, "recipe.yaml"+at) {
			t.Errorf("no error at %s", at)
		}
	}
	if t.Failed() {
		t.Log(s.err)
	}
	if after := w.run("squeue", "--noheader"); len(w.runs()) != 0 || strings.Count(after.out, "e2e") > strings.Count(before.out, "e2e") && strings.Contains(after.out, "bad name") {
		t.Errorf("something was submitted: %s", after.out)
	}
}
