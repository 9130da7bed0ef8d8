package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/result"
)

func TestSetIsOnDiskBeforeAndAfter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	runs := []Run{{Name: "a", Points: []string{"c1"}}, {Name: "b", Point: []models.SweepValue{{Key: "prefill.tp", Value: "4"}}}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	s, err := Create(dir, "nightly", runs, 2, "test", now)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.ID, "nightly-20261201T020304Z-") {
		t.Errorf("id %s", s.ID)
	}
	got, err := Resolve(dir, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, got, cmpopts.IgnoreUnexported(Set{})); d != "" || got.Dir() != s.Dir() {
		t.Errorf("read back: %s", d)
	}
	var lanes []int
	for _, r := range got.Runs {
		lanes = append(lanes, r.Lane)
	}
	if d := cmp.Diff([]int{0, 1, 0, 1, 0}, lanes); d != "" {
		t.Errorf("lanes: %s", d)
	}
	// A lane goes on behind a run that could not be submitted.
	for i, want := range []string{"", "", "10", "11", "10"} {
		if got := s.Before(i); got != want {
			t.Errorf("run %d waits for %q, want %q", i, got, want)
		}
		s.Runs[i].Job = []string{"10", "11", "", "13", "14"}[i]
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if got, err = Resolve(dir, "latest"); err != nil || got.Runs[4].Job != "14" {
		t.Errorf("%+v %v", got, err)
	}
	if fi, err := os.Stat(filepath.Join(s.Dir(), "set.json")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
}

func TestResolveRefusesWhatIsNotOneSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Resolve(dir, "latest"); err == nil || !strings.Contains(err.Error(), `no set below`) {
		t.Error(err)
	}
	now := time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	for i := range 2 {
		if _, err := Create(dir, "n", []Run{{Name: "a"}}, 1, "test", now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Resolve(dir, "n-2026"); err == nil || !strings.Contains(err.Error(), "is the beginning of several: n-20261201T020304Z-") {
		t.Error(err)
	}
	s, err := Resolve(dir, "latest")
	if err != nil || !strings.Contains(s.ID, "T020305Z") {
		t.Errorf("%v %v", s, err)
	}
	if _, err := Create(dir, "../x", nil, 1, "test", now); err == nil {
		t.Error("a name that leaves the directory was taken")
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), "set.json"), []byte(`{"layout": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Dir()); err == nil || !strings.Contains(err.Error(), "layout 2") {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	run := Run{Name: "a", ID: "a-1", Job: "7", Points: []string{"c8", "c16"}}
	ok := func(names ...string) *result.Result {
		r := &result.Result{Outcome: result.OK}
		for _, n := range names {
			r.Points = append(r.Points, result.Point{Name: n, Status: result.PointOK})
		}
		return r
	}
	for name, tc := range map[string]struct {
		run  Run
		res  *result.Result
		job  Job
		want State
	}{
		"all points": {run, ok("c8", "c16"), Job{}, State{Colour: Green, Word: "ok"}},
		"a point is missing": {run, ok("c8"), Job{Known: true, Ended: true, Word: "COMPLETED"},
			State{Colour: Red, Word: "missing", Missing: []string{"c16"}, Why: "points without a result: c16", ExitCode: 8}},
		"a point was disturbed": {run, &result.Result{Outcome: result.Failed, ExitCode: 8, Cause: &result.Failure{What: "a worker was started again"}, Points: []result.Point{{Name: "c8", Status: result.PointDisturbed}, {Name: "c16", Status: result.PointOK}}}, Job{},
			State{Colour: Red, Word: "failed", Missing: []string{"c8"}, Why: "a worker was started again", ExitCode: 8}},
		"a point failed": {run, &result.Result{Outcome: result.Failed, ExitCode: 7, Cause: &result.Failure{What: "client.c16 exited with code 1"},
			Points: []result.Point{{Name: "c8", Status: result.PointOK}, {Name: "c16", Status: result.PointFailed}}}, Job{},
			State{Colour: Red, Word: "failed", Missing: []string{"c16"}, Why: "client.c16 exited with code 1", ExitCode: 7}},
		"cancelled": {run, &result.Result{Outcome: result.Cancelled, ExitCode: 143}, Job{}, State{Colour: Red, Word: "cancelled", Missing: []string{"c8", "c16"}, ExitCode: 143}},
		"pending":   {run, nil, Job{Known: true, Word: "PENDING"}, State{Colour: Going, Word: "pending"}},
		"no answer": {run, nil, Job{}, State{Colour: Going, Word: "submitted", Why: "the scheduler gives no answer about its job"}},
		"completed without a result": {run, nil, Job{Known: true, Ended: true, Word: "COMPLETED"},
			State{Colour: Red, Word: "missing", Missing: []string{"c8", "c16"}, Why: "job 7 ended (completed) without a result", ExitCode: 5}},
		"not submitted": {Run{Name: "a", Points: []string{"c8"}, Error: "queue full"}, nil, Job{},
			State{Colour: Red, Word: "missing", Missing: []string{"c8"}, Why: "not submitted: queue full", ExitCode: 5}},
		"never reached": {Run{Name: "a"}, nil, Job{}, State{Colour: Red, Word: "missing", Why: "not submitted", ExitCode: 5}},
	} {
		tc.want.Name, tc.want.ID, tc.want.Job = "a", tc.run.ID, tc.run.Job
		if d := cmp.Diff(tc.want, Judge(tc.run, tc.res, tc.job)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	red := func(code orchestrator.ExitCode) State { return State{Colour: Red, ExitCode: int(code)} }
	for _, tc := range []struct {
		states []State
		want   Sum
	}{
		{[]State{{Colour: Green}, {Colour: Green}}, Sum{Colour: Green, Green: 2}},
		{[]State{{Colour: Green}, {Colour: Going}}, Sum{Colour: Going, Green: 1, Going: 1}},
		{[]State{{Colour: Green}, {Colour: Going}, red(8)}, Sum{Colour: Red, Green: 1, Going: 1, Red: 1, ExitCode: 8}},
		{[]State{red(5), red(5)}, Sum{Colour: Red, Red: 2, ExitCode: 5}},
		{[]State{red(5), red(143)}, Sum{Colour: Red, Red: 2, ExitCode: 7}},
	} {
		if d := cmp.Diff(tc.want, Add(tc.states)); d != "" {
			t.Error(d)
		}
	}
}
