package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm/slurmtest"
)

// TestCancelOfARunWhoseJobHasEnded: whoever cancels it reads what is left to do, as
// status and wait say it.
func TestCancelOfARunWhoseJobHasEnded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, state string
		begun       bool
		want        string
	}{
		{"led once", "FAILED", true, "its job 7 ended: FAILED (its controller was killed by signal 9); `disagg cleanup "},
		{"never begun", "CANCELLED", false, "its job 7 ended: CANCELLED; nothing of it was ever started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := rundir.Create(t.TempDir(), "x", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Put(submissionFile, []byte(`{"job_id":"7"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			exit := "0:0"
			if tt.begun {
				exit = "0:9"
				if err := dir.Claim(rundir.Claim{Host: "gpu-04", PID: 1, Time: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			a := &app{Streams: Streams{Out: &out, Now: time.Now, Env: slurmtest.New(t,
				slurmtest.Call{Program: "squeue", Args: []string{"--noheader", "--states=all", "--jobs=7", jobFields},
					Stdout: strings.Join([]string{"7", tt.state, "None", "x", "main", "gpu-04", "1", "1:00", "/x", "x", "x"}, "\x1f") + "\n"},
				slurmtest.Call{Program: "scontrol", Args: []string{"--details", "show", "job", "7"}, Stdout: "JobId=7 JobName=x\n   Requeue=0 Restarts=0 ExitCode=" + exit + "\n"},
			).Environ()}}
			if err := a.cancel(t.Context(), dir, false); err != nil || !strings.HasPrefix(out.String(), "run "+dir.ID()+": "+tt.want) {
				t.Errorf("error %v, said %q, want %q", err, out.String(), tt.want)
			}
		})
	}
}
