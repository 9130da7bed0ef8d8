package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
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
