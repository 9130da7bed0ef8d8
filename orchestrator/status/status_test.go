package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(sec int, e events.Event) events.Event {
	e.Time = start.Add(time.Duration(sec) * time.Second)
	return e
}

// story is a run up to its client.
func story() []events.Event {
	return []events.Event{
		at(0, events.Event{Kind: events.RunStarted, Msg: "run x", Detail: map[string]any{"job": "4711", "nodes": []any{"gpu-01"}}}),
		at(0, events.Event{Kind: events.StageStarted, Stage: "agents", Msg: "agents"}),
		at(1, events.Event{Kind: events.NodeJoined, Stage: "agents", Node: "gpu-01", Msg: "joined", Detail: map[string]any{"host": "gpu-01", "addr": "10.0.0.1"}}),
		at(2, events.Event{Kind: events.StageDone, Stage: "agents", Msg: "agents done", Detail: map[string]any{"seconds": 2.0}}),
		at(2, events.Event{Kind: events.StageStarted, Stage: "model", Msg: "model"}),
		at(2, events.Event{Kind: events.StageSkipped, Stage: "model", Msg: "model skipped: the plan names no directory for the model", Detail: map[string]any{"seconds": 0.0}}),
		at(3, events.Event{Kind: events.StageStarted, Stage: "workers", Msg: "workers", Detail: map[string]any{"budget_seconds": 3600.0}}),
		at(3, events.Event{Kind: events.ProcessCreated, Process: "prefill-0.0", Node: "gpu-01", Msg: "created"}),
		at(4, events.Event{Kind: events.ProcessStarted, Process: "prefill-0.0", Node: "gpu-01", Msg: "started", Detail: map[string]any{"log": "logs/prefill-0.0.gpu-01.log", "pid": 7.0}}),
		at(9, events.Event{Kind: events.ProcessProgress, Process: "prefill-0.0", Node: "gpu-01", Msg: "m", Detail: map[string]any{"line": "loading shard 7", "log_bytes": 1200.0, "rss_bytes": 5e9}}),
		at(10, events.Event{Kind: events.StageWaiting, Stage: "workers", Msg: "waiting for workers: prefill-0.0 on gpu-01 (connection refused)"}),
		at(11, events.Event{Kind: events.Warning, Msg: "careful"}),
	}
}

func TestRunningSummary(t *testing.T) {
	t.Parallel()
	want := Summary{
		State: Running, Job: "4711", Given: []string{"gpu-01"}, Stage: "workers", InStage: 12 * time.Second, StageBudget: 3600, Waiting: "workers: prefill-0.0 on gpu-01 (connection refused)",
		Started: start, LastSeen: start.Add(11 * time.Second), Elapsed: 15 * time.Second,
		Stages: []Stage{
			{Name: "agents", Status: "ok", Seconds: 2},
			{Name: "model", Status: "skipped", Note: "the plan names no directory for the model"},
			{Name: "workers", Status: "running", Seconds: 12},
		},
		Nodes: []Node{{Name: "gpu-01", Host: "gpu-01", Addr: "10.0.0.1"}},
		Processes: []Process{{
			ID: "prefill-0.0", Node: "gpu-01", State: "running", Since: 11 * time.Second,
			Log: "logs/prefill-0.0.gpu-01.log", LogBytes: 1200, RSSBytes: 5e9, LastLine: "loading shard 7",
		}},
		Warnings: []string{"careful"},
	}
	if diff := cmp.Diff(want, Of(story(), nil, start.Add(15*time.Second))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	ending := append(story(),
		at(20, events.Event{Kind: events.Cause, Stage: "workers", Msg: "prefill-0.0 on gpu-01 exited with code 1"}),
		at(20, events.Event{Kind: events.StageFailed, Stage: "workers", Msg: "workers failed: prefill-0.0 on gpu-01 exited with code 1", Detail: map[string]any{"seconds": 17.0}}),
		at(20, events.Event{Kind: events.Teardown, Msg: "teardown begins"}),
	)
	for _, tc := range []struct {
		name string
		log  []events.Event
		res  *result.Result
		now  int
		want State
	}{
		{"nothing yet", nil, nil, 5, Waiting},
		{"running", story(), nil, 15, Running},
		{"silent just not too long", story(), nil, 101, Running},
		{"silent", story(), nil, 102, Silent},
		{"ending", ending, nil, 21, Ending},
		{"ended", ending, &result.Result{Run: "x"}, 5000, Ended},
	} {
		if got := Of(tc.log, tc.res, start.Add(time.Duration(tc.now)*time.Second)); got.State != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got.State, tc.want)
		}
	}
	s := Of(ending, nil, start.Add(21*time.Second))
	if s.Trouble != "prefill-0.0 on gpu-01 exited with code 1" || s.Stages[2].Status != "failed" || s.Stages[2].Note != s.Trouble {
		t.Errorf("summary: %+v", s)
	}
}

// TestLastKnown: whenever a run that nobody leads is looked at, what is said of it is
// what its last event left.
func TestLastKnown(t *testing.T) {
	t.Parallel()
	log := append(story(),
		at(10, events.Event{Kind: events.ProcessStarted, Process: "router", Node: "gpu-01", Detail: map[string]any{"log": "r"}}),
		at(12, events.Event{Kind: events.ProcessReady, Process: "router", Node: "gpu-01"}),
		at(13, events.Event{Kind: events.ProcessCreated, Process: "client.c1", Node: "gpu-01"}),
		at(14, events.Event{Kind: events.ProcessExited, Process: "client.c1", Node: "gpu-01", Msg: "client.c1 on gpu-01 exited with code 0"}),
		at(20, events.Event{Kind: events.Alive}),
	)
	for _, sec := range []int{20, 25, 120, 86400} {
		now := start.Add(time.Duration(sec) * time.Second)
		s := Of(log, nil, now)
		s.LastKnown(now)
		if s.Elapsed != 20*time.Second || s.InStage != 17*time.Second || s.LastSeen != start.Add(20*time.Second) {
			t.Errorf("after %d s: elapsed %s, in the stage %s, last seen %s", sec, s.Elapsed, s.InStage, s.LastSeen)
		}
		if diff := cmp.Diff(Stage{Name: "workers", Status: "unknown", Seconds: 17}, s.Stages[2]); diff != "" || s.Stages[0].Status != "ok" {
			t.Errorf("after %d s: stages (-want +got):\n%s", sec, diff)
		}
		want := []Process{
			{ID: "prefill-0.0", Node: "gpu-01", State: "unknown", Was: "running", Since: 16 * time.Second,
				Log: "logs/prefill-0.0.gpu-01.log", LogBytes: 1200, RSSBytes: 5e9, LastLine: "loading shard 7"},
			{ID: "router", Node: "gpu-01", State: "unknown", Was: "ready", Since: 8 * time.Second, Log: "r"},
			{ID: "client.c1", Node: "gpu-01", State: "exited", Since: 6 * time.Second, Exit: "exited with code 0"},
		}
		if diff := cmp.Diff(want, s.Processes); diff != "" {
			t.Errorf("after %d s: processes (-want +got):\n%s", sec, diff)
		}
	}
	never := Of(nil, nil, start)
	never.LastKnown(start)
	if diff := cmp.Diff(Summary{State: Waiting}, never); diff != "" {
		t.Errorf("without a log (-want +got):\n%s", diff)
	}
}

func TestProcessesNeverGoBack(t *testing.T) {
	t.Parallel()
	log := []events.Event{
		at(0, events.Event{Kind: events.RunStarted}),
		at(1, events.Event{Kind: events.ProcessExited, Process: "client.c8", Node: "gpu-01", Msg: "client.c8 on gpu-01 exited with code 0"}),
		at(2, events.Event{Kind: events.ProcessStarted, Process: "client.c8", Node: "gpu-01", Detail: map[string]any{"log": "l"}}),
	}
	want := []Process{{ID: "client.c8", Node: "gpu-01", State: "exited", Since: 9 * time.Second, Log: "l", Exit: "exited with code 0"}}
	if diff := cmp.Diff(want, Of(log, nil, start.Add(10*time.Second)).Processes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRestartedWorker: a worker that died and is started again lives anew, and the
// explanation of its death is not that of a trouble.
func TestRestartedWorker(t *testing.T) {
	t.Parallel()
	took := 31.5
	log := append(story(),
		at(20, events.Event{Kind: events.ProcessReady, Process: "prefill-0.0", Node: "gpu-01"}),
		at(30, events.Event{Kind: events.ProcessExited, Process: "prefill-0.0", Node: "gpu-01", Msg: "prefill-0.0 on gpu-01 was killed by SIGKILL"}),
		at(30, events.Event{Kind: events.Restart, Process: "prefill-0.0", Node: "gpu-01", Msg: "worker prefill-0 is started again", Detail: map[string]any{"worker": "prefill-0", "why": "prefill-0.0 on gpu-01 was killed by SIGKILL"}}),
		at(31, events.Event{Kind: events.Diagnosis, Process: "prefill-0.0", Msg: "prefill-0.0 on gpu-01: out of memory", Detail: map[string]any{"meaning": "out of memory", "remedy": "less"}}),
		at(32, events.Event{Kind: events.ProcessGone, Process: "prefill-0.0", Node: "gpu-01"}),
	)
	s := Of(log, nil, start.Add(33*time.Second))
	want := []Restart{{Worker: "prefill-0", Process: "prefill-0.0", Why: "prefill-0.0 on gpu-01 was killed by SIGKILL", Meaning: "out of memory"}}
	if diff := cmp.Diff(want, s.Restarts); diff != "" || s.Trouble != "" || s.Diagnosis != "" || s.Processes[0].State != "gone" {
		t.Errorf("while it is down: %+v\n(-want +got):\n%s", s, diff)
	}
	log = append(log,
		at(33, events.Event{Kind: events.ProcessEnv, Process: "prefill-0.0", Node: "gpu-01"}),
		at(33, events.Event{Kind: events.ProcessCreated, Process: "prefill-0.0", Node: "gpu-01"}),
		at(34, events.Event{Kind: events.ProcessStarted, Process: "prefill-0.0", Node: "gpu-01", Detail: map[string]any{"log": "logs/prefill-0.0.gpu-01.log"}}),
		at(61, events.Event{Kind: events.Restarted, Process: "prefill-0.0", Detail: map[string]any{"worker": "prefill-0", "seconds": took}}),
	)
	want[0].Seconds = &took
	s = Of(log, nil, start.Add(64*time.Second))
	if diff := cmp.Diff(want, s.Restarts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Process{{ID: "prefill-0.0", Node: "gpu-01", State: "running", Since: 30 * time.Second, Log: "logs/prefill-0.0.gpu-01.log"}}, s.Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	res := &result.Result{Run: "x", Restarts: []result.Restart{{Worker: "prefill-0", Seconds: &took, Death: result.Failure{Process: "prefill-0.0", What: want[0].Why, Diagnosis: &result.Diagnosis{Meaning: "out of memory"}}}}}
	if diff := cmp.Diff(want, Of(log, res, start).Restarts); diff != "" {
		t.Errorf("from the result (-want +got):\n%s", diff)
	}
}

func TestResultHasTheLastWord(t *testing.T) {
	t.Parallel()
	seven := 7
	log := append(story(),
		at(20, events.Event{Kind: events.Point, Process: "client.c8", Msg: "point c8: failed: exited: with code 1", Detail: map[string]any{"name": "c8", "status": "failed"}}),
		at(21, events.Event{Kind: events.Cause, Msg: "an effect"}),
		at(21, events.Event{Kind: events.NodeLost, Node: "gpu-01", Msg: "node gpu-01 is lost: gone"}),
		at(22, events.Event{Kind: events.Diagnosis, Msg: "d", Detail: map[string]any{"remedy": "r"}}),
	)
	before := Of(log, nil, start.Add(25*time.Second))
	if diff := cmp.Diff([]Point{{Name: "c8", Status: "failed", Note: "exited: with code 1"}}, before.Points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if before.Diagnosis != "d" || before.Remedy != "r" || before.Nodes[0].Lost != "node gpu-01 is lost: gone" {
		t.Errorf("before the end: %+v", before)
	}
	res := &result.Result{
		Run: "x", Outcome: result.Failed, ExitCode: 7, Started: start, Finished: start.Add(40 * time.Second),
		Cause:  &result.Failure{What: "the cause", Diagnosis: &result.Diagnosis{Meaning: "m", Remedy: "do"}},
		Points: []result.Point{{Name: "c8", Status: result.PointFailed, Note: "n"}, {Name: "c16", Status: result.PointMissing, Note: "never started"}},
	}
	got := Of(log, res, start.Add(time.Hour))
	if got.State != Ended || got.Outcome != result.Failed || *got.ExitCode != seven || got.Elapsed != 40*time.Second || got.Trouble != "the cause" || got.Diagnosis != "m" || got.Remedy != "do" || got.Stage != "" {
		t.Errorf("summary: %+v", got)
	}
	if diff := cmp.Diff([]Point{{Name: "c8", Status: "failed", Note: "n"}, {Name: "c16", Status: "missing", Note: "never started"}}, got.Points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}
