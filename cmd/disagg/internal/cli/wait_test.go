package cli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm/render"
	"github.com/disagg/disagg/slurm/slurmtest"
)

// TestWaitForARunWhoseLogIsElsewhere: the run directory is not the same on the
// job's node, so the log that Slurm writes there never comes here.
func TestWaitForARunWhoseLogIsElsewhere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		state []string // what squeue says, one after the other
		log   string   // of the controller; empty: there is none
		exit  string   // of the job, as Slurm writes it
		want  []string
		not   string
	}{
		{"dead without a log", []string{"RUNNING", "FAILED"}, "", "1:0", []string{"its job 7 ended: FAILED (ended with an exit code other than 0 (NonZeroExitCode))", "is not here: Slurm writes it on node gpu-04, where runs_dir"}, "runs, but"},
		{"runs without a log", []string{"RUNNING", "RUNNING", "RUNNING", "FAILED"}, "", "1:0", []string{"job 7 runs, but its log ", "is not here: Slurm writes it on node gpu-04"}, "waits"},
		{"waits without a reason yet", []string{"PENDING", "FAILED"}, "", "1:0", []string{"job 7 waits\n"}, "waits:"},
		{"a controller that is silent", append(slices.Repeat([]string{"RUNNING"}, 9), "FAILED"), "started\n", "1:0", []string{"job 7 runs, but its controller has said nothing for 2m0s", "disagg cancel --now "}, "is not here"},
		{"killed", []string{"RUNNING", "FAILED"}, "started\n", "0:9", []string{"its job 7 ended: FAILED (its controller was killed by signal 9)"}, "runs_dir"},
		{"its log could not be opened", []string{"RUNNING", "FAILED"}, "", "0:53", []string{"its job 7 ended: FAILED (Slurm could not open its log files; runs_dir of the site must be a directory that all nodes share", "; nothing of it was ever started"}, "signal"},
		{"its log could not be opened, so it is not there", []string{"RUNNING", "FAILED"}, "", "0:53", nil, "is not here"},
		{"its script could not be executed", []string{"RUNNING", "FAILED"}, "", "0:52", []string{"its job 7 ended: FAILED (Slurm could not execute its script)"}, "signal"},
		{"dead with a log", []string{"RUNNING", "FAILED"}, "bash: bin/disagg: cannot execute binary file: Exec format error\n", "1:0", []string{"its job 7 ended: FAILED", "  | bash: bin/disagg: cannot execute binary file: Exec format error"}, "is not here"},
		{"dead of a crash", []string{"RUNNING", "FAILED"}, "warning: x\npanic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:\n" + strings.Repeat("main.f()\n", 500) + "rflags 0x246\n", "1:0",
			[]string{"  | panic: runtime error: index out of range [3]"}, "rflags"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls []slurmtest.Call
			for i, state := range tt.state {
				reason := "None"
				if state == "FAILED" {
					reason = "NonZeroExitCode"
				}
				calls = append(calls, slurmtest.Call{
					Program: "squeue", Args: []string{"--noheader", "--states=all", "--jobs=7", jobFields},
					Stdout: strings.Join([]string{"7", state, reason, "x", "main", "gpu-[04-05]", "2", "1:00", "/x", "x", "x"}, "\x1f") + "\n",
				})
				if i == len(tt.state)-1 {
					calls[i].Times = -1
				}
			}
			calls = append(calls, slurmtest.Call{Program: "scontrol", Args: []string{"--details", "show", "job", "7"}, Stdout: "JobId=7 JobName=x\n   Requeue=0 Restarts=0 ExitCode=" + tt.exit + "\n", Times: -1})
			fake := slurmtest.New(t, calls...)
			dir, err := rundir.Create(t.TempDir(), "x", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Put(submissionFile, []byte(`{"job_id":"7"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.log != "" {
				if err := os.WriteFile(dir.Join(render.ErrorName), []byte(tt.log), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs bytes.Buffer
			now := time.Unix(1_800_000_000, 0)
			a := &app{Streams: Streams{Out: &out, Err: &errs, Env: fake.Environ(), Now: func() time.Time {
				now = now.Add(6 * time.Second)
				return now
			}}}
			err = a.await(t.Context(), dir, false)
			text := fmt.Sprintf("%s%v", errs.String(), err)
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("%q is missing", w)
				}
			}
			if strings.Contains(text, tt.not) {
				t.Errorf("%q is said", tt.not)
			}
			if got := codeOf(err); got != orchestrator.ExitScheduler {
				t.Errorf("exit code %v", got)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

const jobFields = "--format=%A\x1f%T\x1f%r\x1f%u\x1f%P\x1f%N\x1f%D\x1f%L\x1f%o\x1f%j\x1f%k"
