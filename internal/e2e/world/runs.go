package world

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// Runs are the run directories of this test, oldest first, as this process
// reaches them.
func (w *World) Runs() []string {
	list, _ := filepath.Glob(filepath.Join(w.HostPath(w.runsDir()), "*"))
	slices.Sort(list)
	return list
}

// Newest is the newest run directory; "" when there is none.
func (w *World) Newest() string {
	list := w.Runs()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// RunPath is the newest run directory as the nodes see it.
func (w *World) RunPath() string { return filepath.Join(w.runsDir(), filepath.Base(w.Newest())) }

// File reads a file of the newest run.
func (w *World) File(name string) string {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join(w.Newest(), name))
	w.Must(err)
	return string(data)
}

// Result reads the newest run's result.
func (w *World) Result() result.Result {
	w.T.Helper()
	var r result.Result
	w.Must(json.Unmarshal([]byte(w.File("result.json")), &r))
	return r
}

// Job is the Slurm job of the newest run.
func (w *World) Job() string {
	w.T.Helper()
	var s struct {
		JobID string `json:"job_id"`
	}
	w.Must(json.Unmarshal([]byte(w.File("submission.json")), &s))
	return s.JobID
}

// Until waits for an event of the newest run; it fails the test when none comes
// in time.
func (w *World) Until(what string, within time.Duration, match func(events.Event) bool) events.Event {
	w.T.Helper()
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) {
		if dir := w.Newest(); dir != "" {
			log, err := events.ReadAll(filepath.Join(dir, "events.jsonl"))
			w.Must(err)
			for _, e := range log.Events {
				if match(e) {
					return e
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.T.Fatalf("waited %s for %s\n%s", within, what, w.Evidence())
	return events.Event{}
}

// ClientRuns waits until the first client point has started.
func (w *World) ClientRuns() {
	w.T.Helper()
	w.Until("the client", 90*time.Second, func(e events.Event) bool {
		return e.Kind == events.ProcessStarted && strings.HasPrefix(e.Process, "client.")
	})
}

// Evidence is what the newest run wrote, for a failed test.
func (w *World) Evidence() string {
	dir := w.Newest()
	if dir == "" {
		return "(no run directory)"
	}
	var b strings.Builder
	for _, pattern := range []string{"events.jsonl", "logs/*"} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, n := range names {
			data, _ := os.ReadFile(n)
			fmt.Fprintf(&b, "--- %s\n%s\n", n, data[max(0, len(data)-1500):])
		}
	}
	return b.String()
}
