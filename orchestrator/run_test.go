package orchestrator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/disagg/disagg/orchestrator/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunToTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		res := s.start()
		if res.Outcome != result.OK || res.ExitCode != 0 || res.Cause != nil {
			t.Fatalf("outcome %s, exit code %d, cause %+v", res.Outcome, res.ExitCode, res.Cause)
		}
		var stages []string
		for _, st := range res.Stages {
			stages = append(stages, st.Name+" "+string(st.Status))
		}
		want := []string{
			"agents ok", "placement ok", "preflight skipped", "ports ok", "image ok", "model skipped", "preflight-image skipped", "services skipped",
			"launch ok", "workers ok", "router ok", "canary ok", "client ok", "eval skipped", "after ok", "stop ok", "collect ok", "look ok", "close ok",
		}
		if diff := cmp.Diff(want, stages); diff != "" {
			t.Errorf("stages (-want +got):\n%s", diff)
		}
		zero := 0
		wantPoints := []result.Point{
			{Name: "c8", Concurrency: 8, Status: result.PointOK, ExitCode: &zero, Seconds: 20, Files: []result.File{{Path: "results/c8/out.json", Bytes: int64(len(goodResult))}}},
			{Name: "c16", Concurrency: 16, Status: result.PointOK, ExitCode: &zero, Seconds: 20, Files: []result.File{{Path: "results/c16/out.json", Bytes: int64(len(goodResult))}}},
		}
		if diff := cmp.Diff(wantPoints, res.Points); diff != "" {
			t.Errorf("points (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"engine:1": "sha256:engine:1", "router:1": "sha256:router:1"}, res.Images); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"gpu-01", "gpu-02", "gpu-03"}, res.Looked); diff != "" || len(res.Leftovers) != 0 || len(s.stillRunning()) != 0 {
			t.Errorf("leftovers %v, running %v, looked (-want +got):\n%s", res.Leftovers, s.stillRunning(), diff)
		}
		if !s.c.closed.Load() {
			t.Error("the launcher was not closed")
		}
		onDisk, err := result.Read(s.dir.Join("result.json"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&res, onDisk); diff != "" {
			t.Errorf("result.json differs (-returned +read):\n%s", diff)
		}
		if took := res.Finished.Sub(res.Started); took < 43*time.Second || took > 60*time.Second {
			t.Errorf("the run took %s", took)
		}
		s.noSecrets()
	})
}
