package preflight_test

import (
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/nodetest"
)

// throughProcesses names the faults that are about processes and time, and so are
// gathered for real. The others change what was gathered of a healthy node: that
// is the same for the judges, and much faster.
func throughProcesses(name string) bool {
	switch name {
	case "amd-smi hangs", "reading GPU memory hangs", "GPU memory held by a process", "nicctl not installed":
		return true
	}
	return false
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range nodetest.Faults() {
		t.Run(strings.ReplaceAll(fault.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			n := nodetest.Healthy()
			fault.Break(n)
			f, s := gatheredOnce(t)
			if throughProcesses(fault.Name) {
				s = specOf(t, n, "n1")
				started := time.Now()
				f = gathered(t, s)
				if d := time.Since(started); d > 40*time.Second {
					t.Errorf("gathering took %s", d)
				}
			} else {
				f = changed(f, n)
			}
			r := preflight.Judge([]preflight.Facts{f}, s, fold)
			if got := string(r.Nodes[0].Checks[fault.Check]); got != fault.Verdict {
				t.Errorf("%s says %s, want %s", fault.Check, got, fault.Verdict)
				for _, g := range r.Groups {
					t.Logf("%s %s %v: %s", g.Verdict, g.CheckID, g.Objects, g.Observed)
				}
			}
			if unfit := fault.Verdict == "fail" || fault.Verdict == "unknown"; r.Fit == unfit {
				t.Errorf("fit is %v", r.Fit)
			}
		})
	}
}

// changed is what would have been gathered on n, made from the facts of a healthy
// node.
func changed(f preflight.Facts, n *nodetest.Node) preflight.Facts {
	h := nodetest.Healthy()
	f.Commands, f.Files, f.Dirs = maps.Clone(f.Commands), maps.Clone(f.Files), maps.Clone(f.Dirs)
	for id, c := range f.Commands {
		words := strings.Join(c.Argv, " ")
		old, known := h.Tools[words]
		now, there := n.Tools[words]
		switch {
		case !known || there && now == old:
		case !there:
			f.Commands[id] = facts.Command{Argv: c.Argv, Exit: -1, Missing: true}
		default:
			c.Stdout, c.Stderr, c.Exit = now.Stdout, now.Stderr, now.Exit
			f.Commands[id] = c
		}
	}
	for p, data := range n.Files {
		if h.Files[p] != data {
			if strings.HasSuffix(p, "/config") {
				data = hex.EncodeToString([]byte(data))
			}
			for _, fp := range seenAs(h, p) {
				f.Files[fp] = facts.File{Data: data}
			}
		}
	}
	gone := map[string]bool{}
	for p := range h.Files {
		if _, ok := n.Files[p]; !ok {
			for _, fp := range seenAs(h, p) {
				gone[fp] = true
			}
		}
	}
	for l := range h.Links {
		if _, ok := n.Links[l]; !ok {
			for fp := range f.Files {
				if fp == l || strings.HasPrefix(fp, l+"/") {
					gone[fp] = true
				}
			}
		}
	}
	for fp := range gone {
		delete(f.Files, fp)
	}
	// A directory of which nothing is left is not listed any more.
	for d, listing := range f.Dirs {
		listing.Entries = slices.DeleteFunc(slices.Clone(listing.Entries), func(e string) bool {
			was := false
			for fp := range gone {
				was = was || strings.HasPrefix(fp, path.Join(d, e)+"/") || fp == path.Join(d, e)
			}
			for fp, file := range f.Files {
				was = was && (file.Err != "" || !strings.HasPrefix(fp, path.Join(d, e)+"/"))
			}
			return was
		})
		f.Dirs[d] = listing
	}
	return f
}

// seenAs lists the paths under which a file is gathered: by its own, and by the
// links that lead to it.
func seenAs(n *nodetest.Node, p string) []string {
	out := []string{p}
	for l, target := range n.Links {
		if rest, ok := strings.CutPrefix(p, target+"/"); ok {
			out = append(out, l+"/"+rest)
		}
	}
	return out
}
