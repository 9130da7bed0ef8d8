package preflight

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/preflight/checks"
)

// Explain is what an on-call engineer wants to know of a check, as text. The error
// names the nearest id.
func Explain(id string) (string, error) {
	d, hard, ok := checks.Explain(id)
	if !ok {
		return "", fmt.Errorf("there is no check %q%s", id, nearest(id))
	}
	return fmt.Sprintf("%s\n\nWhat: %s %s\n\nWhy: %s\n\nFix: %s\n", d.ID, d.What, checks.Unknowing(hard), d.Why, d.Fix), nil
}

// Matching lists the ids of an area, such as rdma or rdma.*, or those that begin
// like this; nil where there are none. Those of checks while a run is on come too.
func Matching(prefix string) []string {
	prefix = strings.TrimSuffix(prefix, "*")
	if prefix == "" {
		return nil
	}
	var out []string
	for _, d := range checks.AllDocs() {
		if strings.HasPrefix(d.ID, prefix) {
			out = append(out, d.ID)
		}
	}
	return out
}

// nearest suggests the id that differs in the fewest letters.
func nearest(id string) string {
	best, dist := "", 5
	for _, x := range checks.AllDocs() {
		if d := distance(id, x.ID); d < dist {
			best, dist = x.ID, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of letters to change, add or drop.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
