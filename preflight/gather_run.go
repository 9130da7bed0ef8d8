package preflight

import (
	"slices"

	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
)

// during gathers what a run changes on a node: counters of the NICs, sockets, and
// processes that hang in the kernel.
func (g *gathering) during() {
	g.read(readList{Deadline: secondDeadline, Groups: runGroups()})
	if g.spec.Expect.NoRDMA() != "" {
		return
	}
	tasks := []func(){func() {
		g.inOrder(secondDeadline, []command{cmd(facts.RDMAStat, "rdma", "-j", "statistic", "show")})
	}}
	for _, n := range g.view().Rails() {
		if n.Netdev != "" {
			tasks = append(tasks, func() {
				g.inOrder(secondDeadline, []command{cmd(facts.Of(facts.EthtoolStat, n.Netdev), "ethtool", "-S", n.Netdev)})
			})
		}
	}
	all(tasks...)
}

// runGroups is what of the kernel's own files changes while a run is on.
func runGroups() []readGroup {
	kept := slices.DeleteFunc(kernelGroups(), func(g readGroup) bool {
		return g.Name != "rdma" && g.Name != "rdma-counters" && g.Name != "rdma-net"
	})
	return append(kept,
		readGroup{Name: "sockets", Files: []string{checks.Sockstat, checks.PortRange}},
		readGroup{Name: "stuck", Files: []string{"/proc/[0-9]*/stat"}, Stuck: true})
}
