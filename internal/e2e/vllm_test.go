package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/standin"
)

// TestVLLM runs two prefill and one decode worker of vLLM behind the real
// vllm-router, which finds them by their registration.
func TestVLLM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Write("models/gpt-oss-120b/config.json", "{}")
	w.Write("models/gpt-oss-120b/model.safetensors", string(standin.Weights()))
	recipe := w.Write("vllm.yaml", fmt.Sprintf(`apiVersion: disagg/v1
kind: Recipe
name: e2e-vllm
model: gpt-oss-120b
engine: vllm
image: %s
prefill: {workers: 2, tp: 8}
decode: {workers: 1, tp: 8}
router: {image: %s}
%s`, lab.EngineImage, lab.VLLMRouterImage, world.Client(16, "2x4")))
	w.Want(w.Disagg("submit", recipe, "--wait"), 0)
	goodRun(w, 2)
	// The router proved that it has all three, and the plan's words reached it.
	log := logsOf(w, "router")
	for _, want := range []string{"vllm", "moriio"} {
		if !strings.Contains(strings.ToLower(log), want) {
			t.Errorf("the router's log has no %q:\n%s", want, log)
		}
	}
}

// logsOf is the text of the logs of one process of the newest run.
func logsOf(w *world.World, process string) string {
	w.T.Helper()
	s := w.Disagg("logs", w.RunPath(), process, "--lines", "0")
	w.Want(s, 0)
	return s.Out
}
