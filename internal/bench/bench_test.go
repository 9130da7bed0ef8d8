package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/disagg/disagg/internal/lab"
)

// TestRun keeps the benchmark running; the figures are for people.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short leaves the lab out")
	}
	if err := lab.Possible(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	var out bytes.Buffer
	if err := Run(t.Context(), 1, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{started, noticed, begun, gone, planned, agentRSS, shimRSS} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no figure for %q in\n%s", want, out.String())
		}
	}
}
