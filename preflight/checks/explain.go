package checks

import (
	"fmt"
	"strings"
)

// Explain says what a check is about; ok is false for an id that does not exist.
func Explain(id string) (d Doc, hard bool, ok bool) {
	for _, x := range AllDocs() {
		if x.ID == id {
			d, ok = x, true
		}
	}
	for _, c := range All() {
		if c.ID == id {
			hard = c.Hard
		}
	}
	return d, hard, ok
}

// Unknowing says what not knowing means for a check.
func Unknowing(hard bool) string {
	if hard {
		return "Where it cannot be looked at, the node is unfit too, unless the check is waived with a reason."
	}
	return "Where it cannot be looked at, that is said and decides nothing."
}

// Markdown is the documentation of all checks, one section an id.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Preflight checks

Each check has an id that never changes. A finding says pass, warn, fail, unknown
(could not be looked at), blocked (by another check) or skip (does not apply).
A fail makes the node unfit. A waiver (preflight.waive, id → reason) turns what
makes a node unfit into a warning; it is printed and stored with every result.

They are made on every node of a run before anything is launched there, and by
disagg preflight: --local on this host, --jobid N or inside an allocation beside
whatever runs there, --nodes HOSTLIST over ssh. With a recipe the run decides what
matters, without one the site file does. Exit code 4 says that a node is unfit.

- --output json is described by schema/preflight-report.json; junit, prom and
  markdown are for CI, monitoring and tickets.
- --bundle DIR keeps everything that was gathered; --from DIR judges it again
  anywhere. A run keeps both: preflight.json and preflight/ in its directory,
  which --from takes too.
- What makes a node unfit is shown with evidence and remedy; warnings are so with
  -v and with --from.
- Commands to drain are printed for what is a node's own trouble. What lies in an
  image, or is the same on all nodes asked, is first a matter of recipe and site.
- --baseline FILE shows what changed since an earlier report.
- --exclude-bad prints the host list of the good nodes; a run with spares leaves
  the bad ones out by itself.

This file is written from the checks' own data: go test ./preflight -update.
`)
	area := ""
	for _, d := range AllDocs() {
		a, _, _ := strings.Cut(d.ID, ".")
		if a != area {
			area = a
			fmt.Fprintf(&b, "\n## %s\n", map[string]string{"node": "Reaching the node", "rdma": "RDMA", "gpu": "GPU", "host": "Host", "storage": "Storage", "container": "Containers", "image": "Images", "run": "While a run is on"}[a])
		}
		_, hard, _ := Explain(d.ID)
		fmt.Fprintf(&b, "\n### %s\n\n**What.** %s %s\n\n**Why.** %s\n\n**Fix.** %s\n", d.ID, d.What, Unknowing(hard), d.Why, d.Fix)
	}
	return b.String()
}
