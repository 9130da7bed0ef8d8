package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/orchestrator/status"
)

// TestRestartsAreShown: while a run goes on and when it has ended, whether the worker
// came back or not.
func TestJobAndRestartsAreShown(t *testing.T) {
	t.Parallel()
	dir, err := rundir.Create(t.TempDir(), "x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	took := 31.04
	var running, ended strings.Builder
	sum := status.Summary{Run: "x", State: status.Running, Job: "4711", Stage: "canary", InStage: 105 * time.Second, StageBudget: 600, Restarts: []status.Restart{
		{Worker: "decode-0", Why: "decode-0.0 on gpu-02 was killed by SIGKILL", Seconds: &took},
		{Worker: "decode-1", Why: "decode-1.0 on gpu-03 exited with code 3", Meaning: "A GPU ran out of memory."},
	}}
	if err := writeSummary(&running, dir, sum); err != nil {
		t.Fatal(err)
	}
	res := &result.Result{Run: "x", Job: "4711", Outcome: result.OK, Restarts: []result.Restart{
		{Worker: "decode-0", Seconds: &took, Death: result.Failure{What: "decode-0.0 on gpu-02 was killed by SIGKILL"}},
		{Worker: "decode-1", Death: result.Failure{What: "decode-1.0 on gpu-03 exited with code 3", LogFile: "logs/decode-1.0.gpu-03.log",
			Diagnosis: &result.Diagnosis{Meaning: "A GPU ran out of memory.", Remedy: "Lower mem_fraction."}}},
	}}
	if err := writeResult(&ended, dir, res); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ got, want string }{
		{running.String(), "stage      canary for 1m45s, at most 10m0s\n"},
		{running.String(), "job        4711\n"},
		{ended.String(), "run x: ok after 0s, job 4711\n"},
		{running.String(), "restart    decode-0, because decode-0.0 on gpu-02 was killed by SIGKILL: tokens came out through it again after 31.0 s\n"},
		{running.String(), "restart    decode-1, because decode-1.0 on gpu-03 exited with code 3: no tokens have come out through it since\n           A GPU ran out of memory.\n"},
		{ended.String(), "restart of decode-0, because decode-0.0 on gpu-02 was killed by SIGKILL: tokens came out through it again after 31.0 s\n"},
		{ended.String(), "restart of decode-1, because decode-1.0 on gpu-03 exited with code 3: no tokens have come out through it since\n  meaning: A GPU ran out of memory.\n  remedy:  Lower mem_fraction.\n  log: logs/decode-1.0.gpu-03.log\n"},
	} {
		if !strings.Contains(tc.got, tc.want) {
			t.Errorf("got\n%s\nwant in it\n%s", tc.got, tc.want)
		}
	}
}
