package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// TestHiCacheWithMooncake runs with a KV tier behind host memory: the real
// Mooncake master is a service of the run, up before the workers that need it
// and gone with them.
func TestHiCacheWithMooncake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(lab.Mooncake(w.HostPath(filepath.Join(w.Dir, "mooncake"))))
	site, err := os.ReadFile(filepath.Join(w.Dir, "site.yaml"))
	w.Must(err)
	w.Write("site.yaml", strings.Replace(string(site), "  runtime: docker\n", fmt.Sprintf("  runtime: docker\n  mounts: [%s/mooncake:/usr/local:ro]\n", w.Dir), 1))
	recipe := w.Recipe("{workers: 2, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2")+`kv_offload:
  backend: hicache
  tier: L3
  storage: mooncake
  mooncake: {threads: 4, metrics_port: 19003}
`)
	w.Want(w.Disagg("submit", recipe, "--wait"), 0)
	goodRun(w, 1)
	log := logsOf(w, "mooncake-master")
	for _, want := range []string{"Master service started on port 50061", "metrics_port=19003", "rpc_thread_num=4", "HTTP metadata server started on 0.0.0.0:8080", "Shutdown signal received"} {
		if !strings.Contains(log, want) {
			t.Errorf("the master's log has no %q:\n%s", want, log)
		}
	}
	// Prefill workers found the store, and decode has none.
	for process, want := range map[string]bool{"prefill-0": true, "prefill-1": true, "decode-0": false} {
		if got := strings.Contains(logsOf(w, process), "Mooncake store setup successfully: segment mooncake/ram/"); got != want {
			t.Errorf("%s has a segment of the store: %t, want %t", process, got, want)
		}
	}
}

// TestHiCacheWithoutItsMaster has an image without the master: it is seen before
// anything is started.
func TestHiCacheWithoutItsMaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2")+`kv_offload:
  backend: hicache
  tier: L3
  storage: mooncake
`)
	w.Want(w.Disagg("submit", recipe, "--wait"), 4)
	if r := w.Result(); r.Cause == nil || !strings.Contains(r.Cause.What, "image.tools: mooncake_master: not in the image") {
		t.Errorf("the cause is %+v", r.Cause)
	}
}
