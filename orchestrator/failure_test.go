package orchestrator

import (
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
)

// TestKilledRank: the rank that was killed is the cause, although another rank of
// its worker, which ended for want of it, was heard of first.
func TestKilledRank(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	left := func() *failure {
		return &failure{at: at, what: "left", worker: "decode-0", process: "decode-0.0", exit: &deploy.Exit{Code: 1}}
	}
	killed := func(worker string, after time.Duration) *failure {
		return &failure{at: at.Add(after), what: "killed", worker: worker, process: worker + ".1", exit: &deploy.Exit{Code: -1, Signal: "SIGKILL"}}
	}
	for _, tc := range []struct {
		name string
		fs   []*failure
		want string
	}{
		{"reported second", []*failure{left(), killed("decode-0", 300*time.Millisecond)}, "killed"},
		{"reported first", []*failure{killed("decode-0", 0), left()}, "killed"},
		{"of another worker", []*failure{left(), killed("decode-1", 300*time.Millisecond)}, "left"},
		{"much later", []*failure{left(), killed("decode-0", 20*time.Second)}, "left"},
		{"alone", []*failure{left()}, "left"},
	} {
		cause, rest := elect(tc.fs)
		if cause.what != tc.want || len(rest) != len(tc.fs)-1 {
			t.Errorf("%s: cause %q with %d consequences, want %q", tc.name, cause.what, len(rest), tc.want)
		}
	}
}
