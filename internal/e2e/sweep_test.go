package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/sweep"
)

// TestSweep submits three runs as one set, two at once, by the commands of
// docs/sweeps.md. The last one's client fails: the set is red, and the others
// are what they are.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	recipe := func(name, client, more string) {
		w.Write("sweep/"+name+".yaml", fmt.Sprintf(`apiVersion: disagg/v1
kind: Recipe
name: %s
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: {workers: 1, tp: 8}
decode: {workers: 1, tp: 8}
router:
  image: %s
  command: [python3, -m, sglang_router.launch_router]
%s%s`, name, lab.EngineImage, lab.RouterImage, client, more))
	}
	recipe("a", world.Client(16, "2"), "sweep:\n  - {key: client.osl, values: [8, 9]}\n")
	recipe("b", strings.Replace(world.Client(16, "2"), "command: [standin, load,", "command: [standin, nosuch,", 1), "")
	dir := filepath.Join(w.Dir, "sweep")

	s := w.Disagg("sweep", dir)
	w.Want(s, 0)
	for _, want := range []string{"a-osl8 ", "a-osl9 ", "b ", "3 runs, each of up to 2 nodes; nothing was submitted"} {
		if !strings.Contains(s.Out, want) {
			t.Errorf("the list has no %q:\n%s", want, s.Out)
		}
	}
	if list := w.Runs(); len(list) != 0 {
		t.Errorf("listing made %q", list)
	}

	s = w.Disagg("sweep", "submit", "--max", "2", dir)
	w.Want(s, 0)
	if !strings.Contains(s.Out, "3 runs submitted, 2 at once") {
		t.Errorf("submit said\n%s", s.Out)
	}
	s = w.Disagg("sweep", "wait", "latest")
	w.Want(s, 7)
	if !strings.Contains(s.Out, ": red\n") || !strings.Contains(s.Out, "2 green, 0 going, 1 red") {
		t.Errorf("wait said\n%s", s.Out)
	}
	s = w.Disagg("sweep", "status", "-o", "json")
	w.Want(s, 7)
	var said struct {
		Runs []sweep.State
		Sum  sweep.Sum
	}
	w.Must(json.Unmarshal([]byte(s.Out), &said))
	for i, want := range []sweep.Colour{sweep.Green, sweep.Green, sweep.Red} {
		if r := said.Runs[i]; r.Colour != want {
			t.Errorf("run %s is %s (%s), want %s", r.Name, r.Colour, r.Why, want)
		}
	}
	if r := said.Runs[2]; len(r.Missing) != 1 || r.Missing[0] != "c2" {
		t.Errorf("missing of %s are %q", r.Name, r.Missing)
	}

	// The third waited for the first, in the scheduler, and each result has the
	// name of its run.
	records, err := filepath.Glob(filepath.Join(w.HostPath(filepath.Join(w.Dir, "runs")), "sets", "*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q: %v", records, err)
	}
	set, err := sweep.Open(records[0])
	w.Must(err)
	var results []*result.Result
	for _, r := range set.Runs {
		res, err := result.Read(w.HostPath(filepath.Join(r.Dir, "result.json")))
		w.Must(err)
		if res == nil || res.Name != r.Name {
			t.Fatalf("the result of %s is %+v", r.Name, res)
		}
		results = append(results, res)
	}
	if set.Runs[2].After != set.Runs[0].Job || set.Runs[1].After != "" {
		t.Errorf("jobs wait for %q, %q", set.Runs[1].After, set.Runs[2].After)
	}
	if results[2].Started.Before(results[0].Finished) {
		t.Errorf("the third began at %s, the first ended at %s", results[2].Started, results[0].Finished)
	}
	script, err := os.ReadFile(w.HostPath(filepath.Join(set.Runs[2].Dir, "job.slurm")))
	w.Must(err)
	if want := "#SBATCH --dependency=afterany:" + set.Runs[0].Job + "\n"; !strings.Contains(string(script), want) {
		t.Errorf("job.slurm has no %q:\n%s", want, script)
	}
	w.Clean(5 * time.Second)
}

// TestSweepCancel ends a set of which one run runs and one waits for it: neither
// goes on, and the second never starts.
func TestSweepCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recipe := w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless+"sweep:\n  - {key: prefill.context_length, values: [4096, 8192]}\n")
	w.Want(w.Disagg("sweep", "submit", recipe, "--set", "endless"), 0)
	records, err := filepath.Glob(filepath.Join(w.HostPath(filepath.Join(w.Dir, "runs")), "sets", "endless-*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q: %v", records, err)
	}
	set, err := sweep.Open(records[0])
	w.Must(err)
	running(w, set.Runs[0].Job)
	s := w.Disagg("sweep", "status", "endless", "-o", "json")
	w.Want(s, 0)
	if !strings.Contains(s.Out, `"state": "pending"`) || !strings.Contains(s.Out, `"colour": "going"`) {
		t.Errorf("status said\n%s", s.Out)
	}
	w.Want(w.Disagg("sweep", "cancel", "endless"), 0)
	s = w.Disagg("sweep", "wait", "endless")
	if s.Code == 0 || !strings.Contains(s.Out, "0 green, 0 going, 2 red") {
		t.Errorf("wait ended with %d and said\n%s", s.Code, s.Out)
	}
	if res, err := result.Read(w.HostPath(filepath.Join(set.Runs[1].Dir, "result.json"))); err != nil || res != nil {
		t.Errorf("the second run has a result: %+v %v", res, err)
	}
	w.Clean(10 * time.Second)
}
