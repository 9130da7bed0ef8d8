package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	code := 3
	at := time.Date(2026, 3, 4, 12, 0, 5, 0, time.UTC)
	want := &Result{
		Run: "x-1", Outcome: Failed, ExitCode: 7, Exit: "workload", Started: at, Finished: at.Add(time.Minute),
		Cause: &Failure{
			Time: at, Stage: "client", What: "prefill-0.0 exited with code 3", Process: "prefill-0.0", Node: "gpu-01",
			Exit: &deploy.Exit{Code: 3}, Log: []string{"a"}, Diagnosis: &Diagnosis{Signature: "oom.load", Line: "a", Meaning: "m", Remedy: "r"},
		},
		Stages: []Stage{{Name: "agents", Status: StageOK, Started: at, Seconds: 1.5}},
		Points: []Point{{Name: "c16", Concurrency: 16, Status: PointFailed, ExitCode: &code}, {Name: "c32", Concurrency: 32, Status: PointMissing}},
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "result.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadWhatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if r, err := Read(filepath.Join(dir, "result.json")); r != nil || err != nil {
		t.Errorf("Read = %v, %v, want nil, nil", r, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(`{"run":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "result.json")); err == nil || !strings.Contains(err.Error(), "unexpected end of JSON") {
		t.Errorf("Read of half a file = %v", err)
	}
}

// TestReadWhatIsNoResult: a file that was emptied or edited is not taken for success.
func TestReadWhatIsNoResult(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "result.json")
	for text, sound := range map[string]bool{
		`{}`:                                 false,
		`{"outcome":"fine"}`:                 false,
		`{"outcome":"ok","exit_code":7}`:     false,
		`{"outcome":"failed"}`:               false,
		`{"outcome":"cancelled"}`:            false,
		`{"outcome":"ok","exit_code":0}`:     true,
		`{"outcome":"failed","exit_code":7}`: true,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); (err == nil) != sound || err != nil && !strings.Contains(err.Error(), "it is none") {
			t.Errorf("Read of %s = %v", text, err)
		}
	}
}

// TestConfigIsThePlans: what labels the results comes from the plan, whatever
// variables the processes were given or lack.
func TestConfigIsThePlans(t *testing.T) {
	t.Parallel()
	worker := func(role string, tp, ep, dp, nodes int) models.Worker {
		w := models.Worker{Role: role, TP: tp, PP: 1, EP: ep, DP: dp, MTP: 2, ContextLength: 9416}
		for range nodes {
			w.Ranks = append(w.Ranks, models.Process{GPUs: make([]int, tp/nodes), Env: []models.EnvVar{
				{Name: "DISAGG", Value: "false"}, {Name: "PREFILL_TP", Value: "0"}, {Name: "TP", Value: "1"},
			}})
		}
		return w
	}
	p := &models.Plan{
		Site: "s", Launcher: "slurm", Engine: "sglang", Scenario: "fixed",
		Model:    models.PlanModel{Key: "DeepSeek-R1-0528", Name: "/models/x"},
		Topology: models.Topology{Disaggregated: true},
		Workers:  []models.Worker{worker("prefill", 8, 8, 8, 1), worker("prefill", 8, 8, 8, 1), worker("decode", 16, 16, 16, 2)},
		Router:   &models.Router{Kind: "sglang"},
		Client:   &models.Client{ISL: 8192, OSL: 1024},
		Files:    []models.InputFile{{Role: "recipe", Path: "r.yaml", SHA256: "ab", Commit: "cd", Modified: true}},
	}
	want := Config{
		Site: "s", Launcher: "slurm", Model: "DeepSeek-R1-0528", Served: "/models/x", Engine: "sglang", Scenario: "fixed", Disaggregated: true,
		Roles: []Role{
			{Role: "prefill", Workers: 2, GPUs: 8, Nodes: 1, TP: 8, PP: 1, EP: 8, DP: 8, MTP: 2, ContextLength: 9416},
			{Role: "decode", Workers: 1, GPUs: 16, Nodes: 2, TP: 16, PP: 1, EP: 16, DP: 16, MTP: 2, ContextLength: 9416},
		},
		Router: "sglang", ISL: 8192, OSL: 1024, Files: p.Files,
	}
	if d := cmp.Diff(want, ConfigOf(p)); d != "" {
		t.Error(d)
	}
	if c := ConfigOf(&models.Plan{}); c.Router != "" || c.Roles != nil {
		t.Errorf("%+v", c)
	}
}
