package agent

import (
	"testing"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
)

// TestWhoAskedForAnEnd: a program that died while a stop was on its way to its shim
// died by itself; one that the agent's own end took along did not.
func TestWhoAskedForAnEnd(t *testing.T) {
	t.Parallel()
	killed := deploy.Exit{Code: -1, Signal: "SIGKILL"}
	for _, tc := range []struct {
		name string
		w    *workload
		exit deploy.Exit
		want bool
	}{
		{"a stop is on its way", &workload{a: &agent{}, asked: true}, killed, false},
		{"the shim was asked", &workload{a: &agent{}}, deploy.Exit{Code: 0, Asked: true}, true},
		{"the agent ends", &workload{a: &agent{ending: true}}, killed, true},
		{"somebody ends the agent", &workload{a: &agent{terminating: true}}, killed, true},
	} {
		tc.w.exit(shim.Exited{Exit: tc.exit})
		if e := tc.w.early; len(e) != 1 || e[0].Exit.Asked != tc.want {
			t.Errorf("%s: %+v, want asked %v", tc.name, e, tc.want)
		}
	}
}
