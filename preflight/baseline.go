package preflight

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/checks"
)

// Drift is what changed on a node since an earlier report.
type Drift struct {
	CheckID string  `json:"check"`
	Node    string  `json:"node"`
	Object  string  `json:"object,omitempty"`
	Was     string  `json:"was"`
	Is      string  `json:"is"`
	Before  Verdict `json:"before"`
	Now     Verdict `json:"now"`
	// Worse says that the verdict got worse.
	Worse bool `json:"worse,omitempty"`
}

// Compare lists what changed between an earlier report and this one: other
// verdicts, and other observations under the same verdict, such as a firmware
// version. A node that is in only one of them is left out; so is what changes by
// itself, such as how long asking took.
func Compare(before, now Report) []Drift {
	type key struct{ check, node, object string }
	index := func(r Report) map[key]Finding {
		out := map[key]Finding{}
		for _, f := range r.Findings {
			k := key{f.CheckID, f.Node, f.Object}
			if old, ok := out[k]; !ok || f.Verdict.Rank() > old.Verdict.Rank() {
				out[k] = f
			}
		}
		return out
	}
	common := map[string]bool{"": true}
	for _, n := range before.Nodes {
		if slices.ContainsFunc(now.Nodes, func(x NodeReport) bool { return x.Node == n.Node }) {
			common[n.Node] = true
		}
	}
	a, b := index(before), index(now)
	var out []Drift
	for _, f := range now.Findings {
		k := key{f.CheckID, f.Node, f.Object}
		if b[k].Observed != f.Observed || !common[f.Node] || f.CheckID == checks.Reach && f.Verdict == Pass {
			continue
		}
		old, ok := a[k]
		switch {
		case !ok:
			// A pass is one finding without an object; what it turned into has one.
			old, ok = a[key{f.CheckID, f.Node, ""}]
			if !ok {
				old = Finding{Verdict: Pass}
			}
			out = append(out, Drift{f.CheckID, f.Node, f.Object, old.Observed, f.Observed, old.Verdict, f.Verdict, f.Verdict.Rank() > old.Verdict.Rank()})
		case old.Verdict != f.Verdict || old.Observed != f.Observed && steady(f.CheckID):
			out = append(out, Drift{f.CheckID, f.Node, f.Object, old.Observed, f.Observed, old.Verdict, f.Verdict, f.Verdict.Rank() > old.Verdict.Rank()})
		}
	}
	return slices.CompactFunc(out, func(x, y Drift) bool { return x == y })
}

// steady says that an observation of this check is a setting or a version, which
// does not change by itself.
func steady(id string) bool {
	area, _, _ := strings.Cut(id, ".")
	switch id {
	case "rdma.counters", "rdma.flaps", "rdma.idle", "rdma.bandwidth", "gpu.vram", "gpu.holders", "gpu.throttle", "gpu.busy", "gpu.kernel-log", "gpu.smi":
		return false
	}
	return area == "rdma" || area == "gpu" || id == "host.kernel" || id == "host.memory"
}

// LoadReport reads a report that was saved as JSON.
func LoadReport(path string) (Report, error) {
	var r Report
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("load report: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("load report %s: %w", path, err)
	}
	if r.Version != ReportVersion {
		return r, fmt.Errorf("load report %s: it is of version %d, this program reads version %d", path, r.Version, ReportVersion)
	}
	return r, nil
}
