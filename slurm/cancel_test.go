package slurm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func scancel(stderr string, exit int, args ...string) slurmtest.Call {
	return slurmtest.Call{Program: "scancel", Args: args, Stderr: stderr, Exit: exit}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ours := askJob("24", runningRow("24", "root", "disagg:tok"), "", 0)
	tests := map[string]struct {
		calls   []slurmtest.Call
		request slurm.CancelRequest
		want    string // error; empty: none
		notOurs bool
	}{
		"the job":           {calls: []slurmtest.Call{ours, scancel("", 0, "24")}},
		"the script":        {calls: []slurmtest.Call{ours, scancel("", 0, "--signal=TERM", "--batch", "24")}, request: slurm.CancelRequest{Signal: "TERM", Batch: true}},
		"all processes":     {calls: []slurmtest.Call{ours, scancel("", 0, "--signal=USR1", "--full", "24")}, request: slurm.CancelRequest{Signal: "USR1", Full: true}},
		"the steps":         {calls: []slurmtest.Call{ours, scancel("", 0, "--signal=KILL", "24")}, request: slurm.CancelRequest{Signal: "KILL"}},
		"gone already":      {calls: []slurmtest.Call{askJob("24", "", invalidID, 1), askAccounting("24", "", "x\n", 1)}},
		"ended in between":  {calls: []slurmtest.Call{ours, scancel("scancel: error: Kill job error on job id 24: Job/step already completing or completed\n", 1, "24")}},
		"purged in between": {calls: []slurmtest.Call{ours, scancel("scancel: error: Kill job error on job id 24: Invalid job id specified\n", 1, "24")}},
		"ended before": {calls: []slurmtest.Call{askJob("24", row("24", "TIMEOUT", "", "root", "", "", "1", "", "", "", "disagg:tok"), "", 0),
			askDetails("24", "", socketTimeout, 1)}},
		"a sibling with the same name": {
			calls: []slurmtest.Call{askJob("24", runningRow("24", "root", "disagg:to"), "", 0)}, notOurs: true,
			want: `cancel job 24: the job is not this run's: user root, comment "disagg:to"`},
		"another user with our comment": {
			calls: []slurmtest.Call{askJob("24", runningRow("24", "alice", "disagg:tok"), "", 0)}, notOurs: true,
			want: `cancel job 24: the job is not this run's: user alice, comment "disagg:tok"`},
		"nobody knows whose": {
			calls: []slurmtest.Call{askJob("24", "", socketTimeout, 1)},
			want:  "cancel job 24: whose it is could not be found out: squeue: exit code 1: slurm_load_jobs error: Socket timed out on send/recv operation"},
		"no answer from scancel": {
			calls: []slurmtest.Call{ours, scancel("scancel: error: Kill job error on job id 24: Socket timed out on send/recv operation\n", 1, "24")},
			want:  "cancel job 24: scancel: exit code 1: scancel: error: Kill job error on job id 24: Socket timed out on send/recv operation"},
		"a complaint with exit code 0": {
			calls: []slurmtest.Call{ours, scancel("scancel: error: Kill job error on job id 24: Access denied\n", 0, "24")},
			want:  "cancel job 24: scancel: exit code 0: scancel: error: Kill job error on job id 24: Access denied"},
		"both targets":      {request: slurm.CancelRequest{Signal: "TERM", Batch: true, Full: true}, want: "cancel job 24: a signal goes to the batch script or to all processes, not both"},
		"target, no signal": {request: slurm.CancelRequest{Batch: true}, want: "cancel job 24: only a signal can go to the batch script, or to all processes"},
		"not a signal":      {request: slurm.CancelRequest{Signal: "TERM 25"}, want: `cancel job 24: "TERM 25" is not the name of a signal`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := onFake(t, tt.calls...)
			err := c.Cancel(t.Context(), "24", slurm.Mark{Token: "disagg:tok"}, tt.request)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || errors.Is(err, slurm.ErrNotOurs) != tt.notOurs {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCancelWithoutAMarkCancelsNothing(t *testing.T) {
	t.Parallel()
	c, _ := onFake(t, askJob("24", runningRow("24", "root", ""), "", 0))
	if err := c.Cancel(t.Context(), "24", slurm.Mark{}, slurm.CancelRequest{}); !errors.Is(err, slurm.ErrNotOurs) {
		t.Errorf("got %v", err)
	}
}

func TestCancelStep(t *testing.T) {
	t.Parallel()
	c, _ := onFake(t, scancel("", 0, "24.3"))
	if err := c.CancelStep(t.Context(), "24.3"); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"24", "24.", "24.batch", ".3", "24.3 25", ""} {
		if err := c.CancelStep(t.Context(), id); err == nil || !strings.HasSuffix(err.Error(), "is not a step id") {
			t.Errorf("%q: %v", id, err)
		}
	}
}
