package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/orchestrator/status"
	"github.com/disagg/disagg/slurm/slurmtest"
)

// TestStatusOfARunThatNobodyLeads: the log of a run ends with a worker that loads;
// status knows whether somebody still waits for it.
func TestStatusOfARunThatNobodyLeads(t *testing.T) {
	t.Parallel()
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 1 << 30 // more than a kernel gives out
	for _, tt := range []struct {
		name  string
		host  string
		job   string // squeue's word; empty: the run was not submitted
		begun bool
		state status.State
		want  string
		code  orchestrator.ExitCode
	}{
		{"gone from this host", here, "", true, status.Dead, "OOM; there is no result, and its controller is gone; `disagg cleanup ", orchestrator.ExitInternal},
		{"on another host", "login9", "", true, status.Running, "OOM", 0},
		{"its job has failed", "gpu-04", "FAILED", true, status.Dead, "OOM; there is no result, and its job 7 ended: FAILED; `disagg cleanup ", orchestrator.ExitScheduler},
		{"its job was cancelled before it ran", "", "CANCELLED", false, status.Dead, "there is no result, and its job 7 ended: CANCELLED; nothing of it was ever started", orchestrator.ExitTerminated},
		{"its job runs", "gpu-04", "RUNNING", true, status.Running, "OOM", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := rundir.Create(t.TempDir(), "x", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			sum := status.Summary{State: status.Waiting}
			if tt.begun {
				if err := dir.Claim(rundir.Claim{Host: tt.host, PID: nobody, Time: time.Now()}); err != nil {
					t.Fatal(err)
				}
				sum = status.Summary{State: status.Running, Trouble: "OOM", LastSeen: time.Now().Add(-time.Minute)}
			}
			a := &app{Streams: Streams{Now: time.Now}}
			if tt.job != "" {
				if err := dir.Put(submissionFile, []byte(`{"job_id":"7"}`), 0o600); err != nil {
					t.Fatal(err)
				}
				a.Env = slurmtest.New(t,
					slurmtest.Call{Program: "squeue", Args: []string{"--noheader", "--states=all", "--jobs=7", jobFields},
						Stdout: strings.Join([]string{"7", tt.job, "None", "x", "main", "gpu-04", "1", "1:00", "/x", "x", "x"}, "\x1f") + "\n"},
					slurmtest.Call{Program: "scontrol", Args: []string{"--details", "show", "job", "7"}, Stdout: "JobId=7 ExitCode=1:0\n", Times: -1},
				).Environ()
			}
			code, err := a.fate(t.Context(), dir, &sum)
			if err != nil {
				t.Fatal(err)
			}
			if code != tt.code || sum.State != tt.state || !strings.HasPrefix(sum.Trouble, tt.want) {
				t.Errorf("code %d, state %s, trouble %q, want %s, %q", code, sum.State, sum.Trouble, tt.state, tt.want)
			}
		})
	}
}
