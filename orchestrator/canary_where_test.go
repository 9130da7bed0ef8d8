package orchestrator

import (
	"errors"
	"fmt"
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

// TestLead: where no worker is the suspect, the log to read is that of the only one
// that gave an error; of a single silent pair, decode's.
func TestLead(t *testing.T) {
	t.Parallel()
	silent, refused := fmt.Errorf("%w within 5s", errNoAnswer), errors.New("HTTP 500 KVTransferError")
	two := pairs(testPlan(1, 2).Workers)
	one := two[:1]
	for _, tc := range []struct {
		name string
		ways []pair
		said [][2]error // of each way, prefill's and decode's
		want string
	}{
		{"decode says that it was refused", one, [][2]error{{silent, refused}}, "decode-0"},
		{"prefill gives an error, decode waits", one, [][2]error{{refused, silent}}, "prefill-0"},
		{"both give errors", one, [][2]error{{refused, refused}}, ""},
		{"both are silent", one, [][2]error{{silent, silent}}, "decode-0"},
		{"both decode workers are refused", two, [][2]error{{silent, refused}, {silent, refused}}, ""},
		{"one of two speaks", two, [][2]error{{silent, silent}, {silent, refused}}, "decode-1"},
		{"all are silent", two, [][2]error{{silent, silent}, {silent, silent}}, ""},
	} {
		a := &asking{ways: tc.ways, open: map[string]error{}}
		for i, w := range tc.ways {
			a.open[w.String()] = &pairError{ends: ends{pair: w}, prefillSaid: tc.said[i][0], decodeSaid: tc.said[i][1]}
		}
		got := ""
		if w := a.lead(); w != nil {
			got = w.ID
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
