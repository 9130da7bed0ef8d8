package world

import (
	"path/filepath"
	"strings"

	"github.com/disagg/disagg/internal/lab"
)

// Member is one process of the newest run, as the kernel has it.
type Member struct {
	lab.Process
	Node string
	// Workload is the plan's process id.
	Workload string
	Env      map[string]string
}

// Members are the processes of the newest run on all nodes: those that carry its
// marks, but shims. A program's children count too.
func (w *World) Members() []Member {
	w.T.Helper()
	run := filepath.Base(w.Newest())
	var out []Member
	for _, n := range w.Nodes() {
		list, err := w.Strays(n)
		w.Must(err)
		for _, p := range list {
			m := Member{Process: p, Node: n, Env: map[string]string{}}
			for kv := range strings.SplitSeq(w.environ(n, p.PID), "\x00") {
				if name, value, ok := strings.Cut(kv, "="); ok {
					m.Env[name] = value
				}
			}
			m.Workload = m.Env["DISAGG_WORKLOAD"]
			// The shim of a plain process has the marks too, and nothing else.
			if m.Env["DISAGG_RUN"] == run && !strings.Contains(strings.Join(p.Argv, " "), "shim") {
				out = append(out, m)
			}
		}
	}
	return out
}

// Environments are the environments of the processes of the newest run by the
// plan's process id.
func (w *World) Environments() map[string][]map[string]string {
	w.T.Helper()
	out := map[string][]map[string]string{}
	for _, m := range w.Members() {
		out[m.Workload] = append(out[m.Workload], m.Env)
	}
	return out
}
