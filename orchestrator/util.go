package orchestrator

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/disagg/disagg/orchestrator/rundir"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// markerBytes is what a node must read to prove that it sees the run directory.
func (r *run) markerBytes() ([]byte, error) {
	data, err := os.ReadFile(r.Dir.Join(rundir.MarkerFile))
	if err != nil {
		return nil, failf("read the run directory's marker: %v", err)
	}
	return data, nil
}

// shownMost bounds lists in messages.
const shownMost = 12

// joinMost joins the first of many texts and counts the rest.
func joinMost(texts []string) string {
	if len(texts) <= shownMost {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:shownMost], ", "), len(texts)-shownMost)
}
