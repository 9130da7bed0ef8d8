package env

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to three names that were probably meant by name, best
// first. It knows typing errors, names whose words stand in another order
// (ROUTER_PREFILL_POLICY for PREFILL_ROUTER_POLICY), names without their prefix
// and the confusions noted in the list. An exact name is its own answer.
func (t *Table) Nearest(name string) []string {
	type match struct {
		name  string
		score int
	}
	var found []match
	up := strings.ToUpper(name)
	limit := max(2, len(name)/5)
	for _, v := range t.vars {
		score := similarity(up, strings.ToUpper(v.Name))
		for _, c := range v.Confused {
			if strings.EqualFold(c, name) {
				score = 0
			}
		}
		if score <= limit {
			found = append(found, match{v.Name, score})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
	})
	var out []string
	for _, m := range found[:min(len(found), 3)] {
		// A guess that is much worse than the best one only distracts.
		if m.score > found[0].score+1 {
			break
		}
		out = append(out, m.name)
	}
	return out
}

// similarity is a distance: 0 for equal, 1 for the same words in another order,
// else the number of single-character edits, or the cost of missing words.
func similarity(a, b string) int {
	d := edits(a, b)
	wa, wb := strings.Split(a, "_"), strings.Split(b, "_")
	slices.Sort(wa)
	slices.Sort(wb)
	d = min(d, 1+edits(strings.Join(wa, "_"), strings.Join(wb, "_")))
	// One name without a word of the other: QP_MAX_SEND_WR, MORI_QP_MAX_SEND_WR.
	if len(wa) > 1 && len(wb) > 1 && (strings.HasSuffix(b, "_"+a) || strings.HasSuffix(a, "_"+b)) {
		diff := len(wb) - len(wa)
		d = min(d, 1+max(diff, -diff))
	}
	return d
}

// edits counts single-character insertions, deletions, replacements and swaps
// of neighbours between a and b.
func edits(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
