package output

import (
	"fmt"
	"strings"
)

// writeProm prints gauges for the textfile collector of a node exporter, or for a
// push from cron.
func writeProm(b *strings.Builder, d Document, o Options) {
	gauge := func(name, help string) { fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	if !o.Now.IsZero() {
		gauge("disagg_preflight_time_seconds", "When the nodes were checked, in Unix time.")
		fmt.Fprintf(b, "disagg_preflight_time_seconds %d\n", o.Now.Unix())
	}
	gauge("disagg_preflight_fit", "1 when all nodes are fit, by themselves and together.")
	fmt.Fprintf(b, "disagg_preflight_fit %d\n", bit(d.Fit))
	gauge("disagg_preflight_node_fit", "1 for a node that is fit.")
	for _, n := range d.Nodes {
		fmt.Fprintf(b, "disagg_preflight_node_fit{node=\"%s\"} %d\n", label(n.Node), bit(n.Fit))
	}
	gauge("disagg_preflight_check", "The worst verdict of a check on a node; the value is always 1.")
	for _, n := range d.Nodes {
		ids := map[string]bool{}
		for id := range n.Checks {
			ids[id] = true
		}
		for _, id := range inOrder(ids) {
			fmt.Fprintf(b, "disagg_preflight_check{node=\"%s\",check=\"%s\",verdict=\"%s\"} 1\n", label(n.Node), label(id), label(string(n.Checks[id])))
		}
	}
	gauge("disagg_preflight_waived_findings", "Findings that a waiver demoted to warnings.")
	for _, w := range d.Waivers {
		fmt.Fprintf(b, "disagg_preflight_waived_findings{check=\"%s\"} %d\n", label(w.CheckID), w.Used)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func label(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "?"))
}
