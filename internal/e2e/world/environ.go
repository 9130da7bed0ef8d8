package world

import (
	"path/filepath"
	"strings"
)

// Environments are the environments of the processes of the newest run, as the
// kernel has them, by the plan's process id. A process and its children count
// each.
func (w *World) Environments() map[string][]map[string]string {
	w.T.Helper()
	run := filepath.Base(w.Newest())
	out := map[string][]map[string]string{}
	for _, n := range w.Nodes() {
		list, err := w.Strays(n)
		w.Must(err)
		for _, p := range list {
			vars := map[string]string{}
			for kv := range strings.SplitSeq(w.environ(n, p.PID), "\x00") {
				if name, value, ok := strings.Cut(kv, "="); ok {
					vars[name] = value
				}
			}
			// The shim of a plain process has the marks too, and nothing else.
			if vars["DISAGG_RUN"] == run && !strings.Contains(strings.Join(p.Argv, " "), "shim") {
				out[vars["DISAGG_WORKLOAD"]] = append(out[vars["DISAGG_WORKLOAD"]], vars)
			}
		}
	}
	return out
}
