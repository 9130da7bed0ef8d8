package env

import (
	"cmp"
	"slices"
	"strings"

	"github.com/disagg/disagg/models/internal/yamlx"
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
	// In a short name two edits make another one.
	limit := max(min(2, len(name)/3), len(name)/5)
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

func edits(a, b string) int { return yamlx.Distance([]rune(a), []rune(b)) }
