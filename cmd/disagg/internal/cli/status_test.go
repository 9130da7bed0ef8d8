package cli

import (
	"os"
	"strings"
	"testing"
	"time"

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
		state status.State
		want  string
	}{
		{"gone from this host", here, "", status.Silent, "OOM; there is no result, and its controller is gone; `disagg cleanup "},
		{"on another host", "login9", "", status.Running, "OOM"},
		{"its job has failed", "gpu-04", "FAILED", status.Silent, "OOM; there is no result, and its job 7 ended: FAILED"},
		{"its job runs", "gpu-04", "RUNNING", status.Running, "OOM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := rundir.Create(t.TempDir(), "x", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Claim(rundir.Claim{Host: tt.host, PID: nobody, Time: time.Now()}); err != nil {
				t.Fatal(err)
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
			sum := status.Summary{State: status.Running, Trouble: "OOM", LastSeen: time.Now().Add(-time.Minute)}
			if err := a.alive(t.Context(), dir, &sum); err != nil {
				t.Fatal(err)
			}
			if sum.State != tt.state || !strings.HasPrefix(sum.Trouble, tt.want) {
				t.Errorf("state %s, trouble %q, want %s, %q", sum.State, sum.Trouble, tt.state, tt.want)
			}
		})
	}
}
