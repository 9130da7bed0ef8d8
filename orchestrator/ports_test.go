package orchestrator

import (
	"slices"
	"testing"

	"github.com/disagg/disagg/models"
)

// TestOwnPorts: only ports of what was begun count as the run's own; the look for
// leftovers must not blame it for a stranger that had a planned port before.
func TestOwnPorts(t *testing.T) {
	t.Parallel()
	here, there := &node{name: "a"}, &node{name: "b"}
	one := func(n *node, ph phase, ports ...int) *proc {
		p := &proc{Process: &models.Process{}, node: n, phase: ph}
		for _, x := range ports {
			p.Ports = append(p.Ports, models.Port{Number: x})
		}
		return p
	}
	r := &run{order: []*proc{
		one(here, running, 8000, 8998), one(here, planned, 30000), one(here, gone, 8100, 8000), one(there, running, 9000),
	}}
	if got, want := r.ownPorts(here), []int{8000, 8100, 8998}; !slices.Equal(got, want) {
		t.Errorf("own ports %v, want %v", got, want)
	}
	if got, want := r.ports(here), []int{8000, 8100, 8998, 30000}; !slices.Equal(got, want) {
		t.Errorf("planned ports %v, want %v", got, want)
	}
}
