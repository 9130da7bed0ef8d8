package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// Skipped says in one sentence which checks were not made and why, so that nobody
// takes them for passed; "" where all were made.
func Skipped(fs []preflight.Finding) string {
	var reasons []string
	ids := map[string][]string{}
	for _, f := range fs {
		if f.Verdict != preflight.Skip {
			continue
		}
		if ids[f.Observed] == nil {
			reasons = append(reasons, f.Observed)
		}
		if !slices.Contains(ids[f.Observed], f.CheckID) {
			ids[f.Observed] = append(ids[f.Observed], f.CheckID)
		}
	}
	var parts []string
	for _, why := range reasons {
		parts = append(parts, byArea(ids[why])+": "+clean(why))
	}
	return strings.Join(parts, "; ")
}

// byArea names checks, many of one area in one word.
func byArea(ids []string) string {
	var areas []string
	in := map[string][]string{}
	for _, id := range ids {
		area, _, _ := strings.Cut(id, ".")
		if in[area] == nil {
			areas = append(areas, area)
		}
		in[area] = append(in[area], id)
	}
	var parts []string
	for _, a := range areas {
		if list := in[a]; len(list) > 3 {
			parts = append(parts, fmt.Sprintf("%s.* (%d)", a, len(list)))
		} else {
			parts = append(parts, strings.Join(list, ", "))
		}
	}
	return strings.Join(parts, ", ")
}
