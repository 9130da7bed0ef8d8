package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
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
		how   result.Outcome
	}{
		{"gone from this host", here, "", true, status.Dead, "OOM; there is no result, and its controller is gone; `disagg cleanup ", orchestrator.ExitInternal, result.Failed},
		{"on another host", "login9", "", true, status.Running, "OOM", 0, ""},
		{"its job has failed", "gpu-04", "FAILED", true, status.Dead, "OOM; there is no result, and its job 7 ended: FAILED; `disagg cleanup ", orchestrator.ExitScheduler, result.Failed},
		{"its job was cancelled while it ran", "gpu-04", "CANCELLED", true, status.Dead, "OOM; there is no result, and its job 7 ended: CANCELLED; `disagg cleanup ", orchestrator.ExitTerminated, result.Cancelled},
		{"its job was cancelled before it ran", "", "CANCELLED", false, status.Cancelled, "there is no result, and its job 7 ended: CANCELLED; nothing of it was ever started", orchestrator.ExitTerminated, result.Cancelled},
		{"its job runs", "gpu-04", "RUNNING", true, status.Running, "OOM", 0, ""},
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
			if err := a.fate(t.Context(), dir, &sum); err != nil {
				t.Fatal(err)
			}
			var code orchestrator.ExitCode
			if sum.ExitCode != nil {
				code = orchestrator.ExitCode(*sum.ExitCode)
			}
			if code != tt.code || sum.State != tt.state || sum.Outcome != tt.how || !strings.HasPrefix(sum.Trouble, tt.want) {
				t.Errorf("code %d, state %s, outcome %q, trouble %q, want %s, %q", code, sum.State, sum.Outcome, sum.Trouble, tt.state, tt.want)
			}
		})
	}
}

// TestStatusOfADeadRunStandsStill: whenever a run is looked at whose controller was
// killed, the answer is what its last event left; and it ends as wait does.
func TestStatusOfADeadRunStandsStill(t *testing.T) {
	t.Parallel()
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	runs := t.TempDir()
	begin := time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)
	dir, err := rundir.Create(runs, "x", begin)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.WritePlan([]byte("{}")), dir.Seal()); err != nil {
		t.Fatal(err)
	}
	if err := dir.Claim(rundir.Claim{Host: here, PID: 1 << 30, Time: begin}); err != nil {
		t.Fatal(err)
	}
	log := ""
	for _, e := range []events.Event{
		{Time: begin, Kind: events.RunStarted},
		{Time: begin, Kind: events.StageStarted, Stage: "client"},
		{Time: begin, Kind: events.NodeJoined, Node: "gpu-01", Detail: map[string]any{"addr": "10.0.0.1"}},
		{Time: begin.Add(time.Second), Kind: events.ProcessReady, Process: "decode-0.0", Node: "gpu-01"},
		{Time: begin.Add(74 * time.Second), Kind: events.Alive},
	} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		log += string(line) + "\n"
	}
	if err := os.WriteFile(dir.Join(rundir.EventsFile), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Duration{75 * time.Second, 10 * time.Minute, 48 * time.Hour} {
		var out, errs bytes.Buffer
		streams := Streams{Out: &out, Err: &errs, Now: func() time.Time { return begin.Add(now) }, Dir: runs}
		if code := Main([]string{"status", "--runs", runs}, streams); code != orchestrator.ExitInternal {
			t.Errorf("after %s: exit code %d", now, code)
		}
		got := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{
			"state dead outcome failed (internal, exit code 1) controller process 1073741824 on " + here + " stage client for 1m14s when last heard last heard 2026-03-04 12:01:14, 1m14s after it began",
			"client unknown 74.0", "gpu-01 10.0.0.1", "PROCESS NODE STATE LAST LINE decode-0.0 gpu-01 unknown, was ready",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("after %s: no %q in\n%s", now, want, out.String())
			}
		}
		out.Reset()
		if code := Main([]string{"status", "--all", "--runs", runs}, streams); code != 0 {
			t.Errorf("after %s: --all: exit code %d: %s", now, code, errs.String())
		}
		if got, want := strings.Join(strings.Fields(out.String()), " "), dir.ID()+" dead failed 1 1m14s there is no result"; !strings.Contains(got, want) {
			t.Errorf("after %s: no %q in\n%s", now, want, out.String())
		}
		if code := Main([]string{"wait", "--runs", runs}, streams); code != orchestrator.ExitInternal {
			t.Errorf("after %s: wait: exit code %d", now, code)
		}
	}
	// A controller that was killed while it ended the run left word.
	res := result.Result{Run: dir.ID(), Outcome: result.Cancelled, ExitCode: 143, Exit: "terminated", Interim: true}
	data, err := res.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Put(rundir.InterimFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "wait"} {
		var out, errs bytes.Buffer
		streams := Streams{Out: &out, Err: &errs, Now: func() time.Time { return begin.Add(time.Hour) }, Dir: runs}
		if code := Main([]string{verb, "--runs", runs}, streams); code != orchestrator.ExitTerminated || !strings.Contains(out.String(), "cancelled (terminated, exit code 143)") {
			t.Errorf("%s: exit code %d\n%s%s", verb, code, out.String(), errs.String())
		}
	}
}
