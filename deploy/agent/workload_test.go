package agent

import (
	"errors"
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

// TestEndingAgentCreatesNothing: a refusal for that reason is no fault of the
// workload, and the controller must be able to tell.
func TestEndingAgentCreatesNothing(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*agent{"a stop": {ending: true}, "Slurm's TERM": {terminating: true}} {
		spec := deploy.Workload{RunID: a.boot.RunID, ID: "decode-0.0", Argv: []string{"engine"}}
		_, err := a.create(t.Context(), spec)
		if got := deploy.ClassOf(err); got != deploy.ClassEnding {
			t.Errorf("%s: class %q of %v", name, got, err)
		}
		if got := deploy.ClassOf(deploy.FromWire(deploy.ToWire(err))); got != deploy.ClassEnding {
			t.Errorf("%s: class %q at the controller", name, got)
		}
	}
}

// TestCreationBrokenOffByTheEnd: Slurm's TERM reaches the container command too, and
// what it then says is not the cause.
func TestCreationBrokenOffByTheEnd(t *testing.T) {
	t.Parallel()
	killed := errors.New("start container: killed by SIGTERM")
	if err := (&agent{}).creationError("decode-0.0", killed); !errors.Is(err, killed) || deploy.ClassOf(err) != "" {
		t.Errorf("nobody ends the agent: %v", err)
	}
	if err := (&agent{terminating: true}).creationError("decode-0.0", killed); deploy.ClassOf(err) != deploy.ClassEnding {
		t.Errorf("somebody ends the agent: %v", err)
	}
}
