package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
)

// TestNodesThatDoNotReachOneAnother: two nodes are well, and the first's packets
// never come back from the other. The run ends before anything is loaded.
func TestNodesThatDoNotReachOneAnother(t *testing.T) {
	w := newWorld(t)
	node, other := w.Nodes()[2], w.NodeIP(1)
	w.MustExec(t, node, "ip", "route", "add", "blackhole", other+"/32")
	t.Cleanup(func() { w.MustExec(t, node, "ip", "route", "del", "blackhole", other+"/32") })
	s := w.Disagg("submit", w.Recipe("{workers: 2, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4")), "--wait")
	w.Want(s, 4)
	r := w.Result()
	if r.Cause == nil || !strings.Contains(r.Cause.What, "node2 does not reach node3 at ") || !strings.Contains(r.Cause.What, "node3 does not reach node2 at ") ||
		strings.Contains(r.Cause.What, "node1 ") {
		t.Errorf("cause is %+v, want the two nodes and no other", r.Cause)
	}
	w.Clean(time.Second)
}
