package preflight

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/nodetest"
)

// soon is by when a fleet with one hanging node must be reported on a machine that
// has nothing else to do; quick is how long a good fleet takes there at most.
const (
	soon  = 10 * time.Second
	quick = 2 * time.Second
)

// hangs says that a tool whose words begin so never ends.
func hangs(words string) func(*nodetest.Node) {
	return func(n *nodetest.Node) {
		for w := range n.Tools {
			if strings.HasPrefix(w, words) {
				n.Tools[w] = nodetest.Answer{Hang: true}
			}
		}
	}
}

// TestHung: one node hangs, in whatever way; the other three are reported in full,
// in time, and what is known of the one that hangs is said.
func TestHung(t *testing.T) {
	f := newFleet(t, 6*time.Second) // the kernel's files have 5 s of it
	job := f.hold()
	limit := soon
	began := time.Now()
	f.report(0, "--jobid", job)
	if good := time.Since(began); good > quick {
		limit += 3 * good
	}
	for _, tc := range []struct {
		name  string
		over  []string // transports
		hang  func() (heal func())
		check string // what says it of node3
		says  string
	}{
		{"a NIC tool sleeps for ever", []string{"--jobid", "--nodes"}, func() func() {
			f.put("node3", broken(hangs("nicctl ")))
			return func() {}
		}, "rdma.tools", "no answer within"},
		{"a GPU probe sleeps for ever", []string{"--nodes"}, func() func() {
			f.put("node3", broken(hangs("rocminfo")))
			return func() {}
		}, "gpu.alive", "rocminfo"},
		{"a driver's file never answers", []string{"--jobid", "--nodes"}, func() func() {
			f.put("node3", broken(func(n *nodetest.Node) {
				p := nodetest.Card(6) + "/mem_info_vram_used"
				delete(n.Files, p)
				n.FIFOs = append(n.FIFOs, p)
			}))
			return func() {}
		}, "gpu.vram", "hangs"},
		{"sshd accepts and says nothing", []string{"--nodes"}, func() func() {
			f.put("node3", healthy())
			return f.freeze("node3", "sshd")
		}, "node.reach", "no answer in time"},
		{"slurmd says nothing", []string{"--jobid"}, func() func() {
			f.put("node3", healthy())
			return f.freeze("node3", "slurmd")
		}, "node.reach", "no answer within"},
	} {
		for _, over := range tc.over {
			t.Run(tc.name+" "+over, func(t *testing.T) {
				heal := tc.hang()
				defer heal()
				place := "node[1-4]"
				if over == "--jobid" {
					place = job
				}
				began := time.Now()
				r := f.report(4, over, place, "--reach", "5s")
				if took := time.Since(began); took > limit {
					t.Errorf("took %s of at most %s", took, limit)
				}
				for _, n := range r.Nodes {
					if n.Node == "node3" {
						continue
					}
					if !n.Fit || len(n.Checks) < 60 || bad(n) != "" {
						t.Errorf("%s: fit %v, %d checks, %s", n.Node, n.Fit, len(n.Checks), bad(n))
					}
				}
				if r.Nodes[2].Fit {
					t.Error("the node that hangs is fit")
				}
				if !said(r, "node3", tc.check, tc.says) {
					t.Errorf("%s does not say %q of node3:\n%s", tc.check, tc.says, trouble(r))
				}
			})
		}
	}
}

// said says whether a check decided against a node with these words.
func said(r preflight.Report, node, check, words string) bool {
	for _, x := range r.Findings {
		if x.Node == node && x.CheckID == check && x.Verdict != preflight.Pass && strings.Contains(x.Observed+x.Remedy, words) {
			return true
		}
	}
	return false
}

// freeze stops a daemon of a node, children and all; heal lets it go on.
func (f *fleet) freeze(node, daemon string) (heal func()) {
	f.t.Helper()
	ps, err := f.Processes(node)
	f.Must(err)
	var pids []string
	for _, p := range ps {
		if p.Name == daemon {
			pids = append(pids, fmt.Sprint(p.PID))
		}
	}
	if len(pids) == 0 {
		f.t.Fatalf("no %s on %s", daemon, node)
	}
	f.MustExec(f.t, node, append([]string{"kill", "-STOP"}, pids...)...)
	return func() { f.MustExec(f.t, node, append([]string{"kill", "-CONT"}, pids...)...) }
}
