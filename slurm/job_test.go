package slurm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func TestJobReadsACapturedRow(t *testing.T) {
	t.Parallel()
	call := slurmtest.Captured(t, captured+"job-running")
	c, _ := onFake(t, call)
	id := strings.TrimPrefix(call.Args[2], "--jobs=")
	want := slurm.Job{
		ID: id, Presence: slurm.Present, State: slurm.Running, User: "root", Partition: "main",
		Name: "a name|with bar", Comment: "disagg:one", Script: "/shared/job.slurm",
		Nodes: []string{"node1", "node2", "node3"}, NodeCount: 3,
	}
	got := c.Job(t.Context(), id)
	if got.TimeLeft.Left < 7*time.Hour || !got.TimeLeft.Known || got.TimeLeft.Unlimited {
		t.Errorf("time left %+v", got.TimeLeft)
	}
	got.TimeLeft = slurm.TimeLeft{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJobIsThreeValued(t *testing.T) {
	t.Parallel()
	failed := row("1234", "FAILED", "NonZeroExitCode", "root", "main", "g9", "1", "UNLIMITED", "/j", "n", "(null)")
	tests := map[string]struct {
		calls   []slurmtest.Call
		state   slurm.State
		is      slurm.Presence
		ended   bool
		trouble string
		exit    *slurm.ExitCode
	}{
		"runs": {
			calls: []slurmtest.Call{askJob("1234", runningRow("1234", "root", "x"), "", 0)},
			is:    slurm.Present, state: slurm.Running},
		"ended, with its exit code": {
			calls: []slurmtest.Call{askJob("1234", failed, "", 0), askDetails("1234", "JobId=1234 JobName=Requeue=0\n   Requeue=0 Restarts=0 ExitCode=3:0\n", "", 0)},
			is:    slurm.Present, state: "FAILED", ended: true, exit: &slurm.ExitCode{Code: 3}},
		"ended, exit code not told": {
			calls: []slurmtest.Call{askJob("1234", failed, "", 0), askDetails("1234", "", socketTimeout, 1)},
			is:    slurm.Present, state: "FAILED", ended: true},
		"a state of a later release has not ended": {
			calls: []slurmtest.Call{askJob("1234", row("1234", "POWER_UP_NODE", "", "root", "", "", "0", "", "", "", ""), "", 0)},
			is:    slurm.Present, state: "POWER_UP_NODE"},
		"header of a cluster and noise before the row": {
			calls: []slurmtest.Call{askJob("1234", "CLUSTER: mi355\nmotd\n"+runningRow("1234", "root", "x"), "warning\n", 0)},
			is:    slurm.Present, state: slurm.Running},
		"forgotten, no accounting": {
			calls: []slurmtest.Call{askJob("1234", "", invalidID, 1), askAccounting("1234", "", "Slurm accounting storage is disabled\n", 1)},
			is:    slurm.Gone, ended: true},
		"forgotten, accounting tells": {
			calls: []slurmtest.Call{askJob("1234", "", invalidID, 1),
				askAccounting("1234", "12340|RUNNING|0:0|root|main|g9|n\n1234|CANCELLED by 0|0:15|root|main|g[9-10]|a|b\n", "", 0)},
			is: slurm.Present, state: slurm.Cancelled, ended: true, exit: &slurm.ExitCode{Signal: 15}},
		"forgotten, accounting lags behind": {
			calls: []slurmtest.Call{askJob("1234", "", invalidID, 1), askAccounting("1234", "1234|RUNNING|0:0|root|main|None assigned|n\n", "", 0)},
			is:    slurm.Gone, ended: true},
		"forgotten, accounting knows others": {
			calls: []slurmtest.Call{askJob("1234", "", invalidID, 1), askAccounting("1234", "12340|COMPLETED|0:0|root|main|g9|n\n", "", 0)},
			is:    slurm.Gone, ended: true},
		"timeout": {
			calls: []slurmtest.Call{askJob("1234", "", socketTimeout, 1)},
			is:    slurm.Unknown, trouble: "squeue: exit code 1: slurm_load_jobs error: Socket timed out on send/recv operation"},
		"timeout with exit code 0": {
			calls: []slurmtest.Call{askJob("1234", "", socketTimeout, 0)},
			is:    slurm.Unknown, trouble: "squeue: exit code 0: slurm_load_jobs error: Socket timed out on send/recv operation"},
		"silence": {
			calls: []slurmtest.Call{askJob("1234", "", "", 0), askDetails("1234", "JobId=1234 JobName=n\n", "", 0)},
			is:    slurm.Unknown, trouble: "squeue does not list the job, and nothing says that it is gone"},
		"silence, and scontrol fails too": {
			calls: []slurmtest.Call{askJob("1234", "", "", 0), askDetails("1234", "", socketTimeout, 1)},
			is:    slurm.Unknown, trouble: "squeue does not list the job, and nothing says that it is gone"},
		"silence, but scontrol says no": {
			calls: []slurmtest.Call{askJob("1234", "", "", 0), askDetails("1234", "", invalidID, 1), askAccounting("1234", "", "x\n", 1)},
			is:    slurm.Gone, ended: true},
		"others whose ids hold ours": {
			calls: []slurmtest.Call{askJob("1234", runningRow("912345", "root", "1234")+runningRow("12340", "root", "1234"), "", 0), askDetails("1234", "", socketTimeout, 1)},
			is:    slurm.Unknown, trouble: "squeue does not list the job, and nothing says that it is gone"},
		"a row with nodes that cannot be read": {
			calls: []slurmtest.Call{askJob("1234", row("1234", "RUNNING", "", "root", "", "g[9-", "2", "", "", "", ""), "", 0), askDetails("1234", "", socketTimeout, 1)},
			is:    slurm.Unknown, trouble: "squeue does not list the job, and nothing says that it is gone"},
		"broken configuration": {
			calls: []slurmtest.Call{askJob("1234", "", "squeue: error: x\nsqueue: fatal: Unable to process\x1b[31m configuration file\n", 1)},
			is:    slurm.Unknown, trouble: "squeue: exit code 1: squeue: fatal: Unable to process [31m configuration file"},
		"killed": {
			calls: []slurmtest.Call{askJob("1234", "", "", -1)},
			is:    slurm.Unknown, trouble: "squeue: killed by SIGKILL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := onFake(t, tt.calls...)
			j := c.Job(t.Context(), "1234")
			if j.ID != "1234" || j.Presence != tt.is || j.State != tt.state || j.Ended() != tt.ended || j.Trouble != tt.trouble {
				t.Errorf("got %s %s, ended %v, trouble %q", j.Presence, j.State, j.Ended(), j.Trouble)
			}
			if diff := cmp.Diff(tt.exit, j.Exit); diff != "" {
				t.Errorf("exit code (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobWithoutAProgramOrInTime(t *testing.T) {
	t.Parallel()
	c := &slurm.Client{User: "root", Environ: []string{"PATH=/nonexistent"}}
	if j := c.Job(t.Context(), "7"); j.Presence != slurm.Unknown || !strings.Contains(j.Trouble, "program not found") {
		t.Errorf("without squeue: %+v", j)
	}
	for _, id := range []string{"", "0", "7.0", "7_1", "-1", "7 8", "99999999999", "1\n2"} {
		if j := c.Job(t.Context(), id); j.Presence != slurm.Unknown || !strings.HasSuffix(j.Trouble, "is not a job id") {
			t.Errorf("id %q: %+v", id, j)
		}
	}
	late := askJob("7", runningRow("7", "root", "x"), "", 0)
	late.Delay = time.Minute
	c, _ = onFake(t, late)
	c.QueryTimeout = 500 * time.Millisecond
	if j := c.Job(t.Context(), "7"); j.Presence != slurm.Unknown || !strings.HasPrefix(j.Trouble, "squeue: no answer within ") {
		t.Errorf("late: %+v", j)
	}
}

func TestFindComparesTheWholeMark(t *testing.T) {
	t.Parallel()
	queue := runningRow("23", "root", "disagg:run-1") + runningRow("24", "root", "disagg:run-10") +
		runningRow("25", "alice", "disagg:run-2") + runningRow("26", "root", "")
	find := func(m slurm.Mark) (slurm.Job, error) {
		c, _ := onFake(t, askUser(queue, "", 0))
		return c.Find(t.Context(), m)
	}
	for want, m := range map[string]slurm.Mark{
		"23": {Token: "disagg:run-1"},
		"24": {Token: "disagg:run-10", Script: "/elsewhere"},
		"26": {Token: "disagg:rewritten-by-the-site", Script: "/shared/26/job.slurm"},
	} {
		if j, err := find(m); err != nil || j.ID != want {
			t.Errorf("%+v: got job %s, %v", m, j.ID, err)
		}
	}
	for _, m := range []slurm.Mark{{}, {Token: "disagg:run"}, {Token: "disagg:run-2"}, {Script: "/shared/26"}} {
		if j, err := find(m); !errors.Is(err, slurm.ErrNotFound) {
			t.Errorf("%+v: got job %s, %v", m, j.ID, err)
		}
	}
	c, _ := onFake(t, askUser("", socketTimeout, 0))
	if _, err := c.Find(t.Context(), slurm.Mark{Token: "disagg:run-1"}); err == nil || errors.Is(err, slurm.ErrNotFound) {
		t.Errorf("a failed query: %v", err)
	}
	c, _ = onFake(t, askUser(queue+runningRow("27", "root", "disagg:run-1"), "", 0))
	if _, err := c.Find(t.Context(), slurm.Mark{Token: "disagg:run-1"}); err == nil || err.Error() != "look for the job of this run: jobs 23, 27 all carry its mark" {
		t.Errorf("two of them: %v", err)
	}
}

func TestExplainCaptured(t *testing.T) {
	t.Parallel()
	sinfo := slurmtest.Captured(t, captured+"nodes-invalid-gpus")
	queue := slurmtest.Captured(t, captured+"jobs-pending")
	c, _ := onFake(t, sinfo, queue, queue, queue, queue, queue)
	nodes, err := c.Nodes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const bad = "1 of 4 nodes (node4): inval: gres/gpu count reported lower than configured (7 < 8)"
	for token, want := range map[string]string{
		"disagg:all-nodes": "nodes it needs are down, drained or reserved (Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions); " + bad,
		"disagg:too-many":  "asks for more nodes than the partition has or allows (PartitionNodeLimit); " + bad,
		"disagg:held":      "is held by its owner; release it with scontrol release (JobHeldUser); " + bad,
		"disagg:later":     "may not start yet: it was given a start time, or was put back in the queue after a failed start (BeginTime); " + bad,
		"disagg:one":       "",
	} {
		j, err := c.Find(t.Context(), slurm.Mark{Token: token})
		if err != nil {
			t.Errorf("%s: %v", token, err)
			continue
		}
		if got := slurm.Explain(j, nodes); got != want {
			t.Errorf("%s: got %q, want %q", token, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	job := func(s slurm.State, reason string) slurm.Job {
		return slurm.Job{Presence: slurm.Present, State: s, Reason: reason}
	}
	for want, j := range map[string]slurm.Job{
		"ended with an exit code other than 0 (NonZeroExitCode)":                     job("FAILED", "NonZeroExitCode"),
		"a node it needs is not available (ReqNodeNotAvail, UnavailableNodes:node4)": job(slurm.Pending, "ReqNodeNotAvail, UnavailableNodes:node4"),
		"the limits of its QOS are reached (QOSMaxGRESPerUser)":                      job(slurm.Pending, "QOSMaxGRESPerUser"),
		"SomethingNew": job(slurm.Pending, "SomethingNew"),
	} {
		if got := slurm.Explain(j, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, j := range []slurm.Job{job(slurm.Running, ""), job(slurm.Cancelled, "Priority"), {Presence: slurm.Gone, Reason: "x"}, {}} {
		if got := slurm.Explain(j, nil); got != "" {
			t.Errorf("%+v: got %q", j, got)
		}
	}
}

// TestEnding: while Slurm ends a job, only the reason tells what for.
func TestEnding(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		state        slurm.State
		reason       string
		ending, node bool
	}{
		{"RUNNING", "", false, false},
		{"RUNNING", "NodeDown", false, false},
		{"COMPLETING", "", false, false}, // scancel, preemption
		{"COMPLETING", "NodeDown", true, true},
		{"COMPLETING", "TimeLimit", true, false},
		{"NODE_FAIL", "", true, true},
		{"TIMEOUT", "TimeLimit", true, false},
		{"PREEMPTED", "", true, false},
		{"CANCELLED", "", false, false},
		{"COMPLETED", "", false, false},
	} {
		ending, node := (slurm.Job{Presence: slurm.Present, State: tc.state, Reason: tc.reason}).Ending()
		if ending != tc.ending || node != tc.node {
			t.Errorf("%s (%s): %v, %v; want %v, %v", tc.state, tc.reason, ending, node, tc.ending, tc.node)
		}
	}
	if ending, _ := (slurm.Job{Presence: slurm.Unknown, State: "NODE_FAIL"}).Ending(); ending {
		t.Error("an unknown job is ending")
	}
}

func TestExitOfAScriptThatWasNeverStarted(t *testing.T) {
	t.Parallel()
	for e, want := range map[slurm.ExitCode]string{
		{Signal: 46}: "Slurm could not set up its environment",
		{Signal: 52}: "Slurm could not execute its script",
		{Signal: 53}: "Slurm could not open its log files; runs_dir of the site must be a directory that all nodes share and that you can write to there",
		{Signal: 9}:  "", {Code: 53}: "", {Code: 1, Signal: 53}: "", {}: "",
	} {
		if got := e.NotStarted(); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
