package standin

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table of faults in CONTRIBUTING.md")

// TestDocumentedFaults: the table in CONTRIBUTING.md has every kind, as this package
// describes it.
func TestDocumentedFaults(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../CONTRIBUTING.md", "| fault | what it does |\n|---|---|\n", "\n\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no table that begins with\n%s", path, begin)
	}
	have, after, _ := strings.Cut(rest, end)
	kinds := FaultKinds()
	var rows []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", k, kinds[k]))
	}
	want := strings.Join(rows, "\n")
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		have = want
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s is not what FaultKinds says; run make generate (-want +got):\n%s", path, diff)
	}
}
