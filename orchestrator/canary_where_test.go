package orchestrator

import (
	"errors"
	"testing"
)

// TestSuspect: the worker to look at first is the one that all failing pairs have in
// common; a pair that has not answered yet says nothing of its workers.
func TestSuspect(t *testing.T) {
	t.Parallel()
	bad := errors.New("no answer within 20s")
	ways := pairs(testPlan(2, 2).Workers)
	for _, tc := range []struct {
		name string
		open map[string]error
		want string
	}{
		{"one prefill worker", map[string]error{"prefill-1 → decode-0": bad, "prefill-1 → decode-1": bad}, "prefill-1"},
		{"one decode worker", map[string]error{"prefill-0 → decode-1": bad, "prefill-1 → decode-1": bad}, "decode-1"},
		{"one pair", map[string]error{"prefill-1 → decode-1": bad}, ""},
		{"all", map[string]error{"prefill-0 → decode-0": bad, "prefill-0 → decode-1": bad, "prefill-1 → decode-0": bad, "prefill-1 → decode-1": bad}, ""},
		{"one has not answered", map[string]error{"prefill-1 → decode-0": bad, "prefill-1 → decode-1": nil}, "prefill-1"},
		{"most have not answered", map[string]error{"prefill-0 → decode-0": nil, "prefill-0 → decode-1": nil, "prefill-1 → decode-0": bad, "prefill-1 → decode-1": nil}, ""},
		{"none", nil, ""},
	} {
		got := ""
		if w := (&asking{ways: ways, open: tc.open}).suspect(); w != nil {
			got = w.ID
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
