package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// Skipped says in one sentence which checks were not made and why, so that nobody
// takes them for passed; "" where all were made. A check that was made in one image
// of a run, and does not apply in another one, was made.
func Skipped(fs []preflight.Finding) string {
	type skipped struct{ id, why string }
	made, images := map[string]bool{}, map[skipped][]string{}
	for _, f := range fs {
		k := skipped{f.CheckID, f.Observed}
		switch {
		case f.Image == "":
		case f.Verdict != preflight.Skip:
			made[f.CheckID] = true
		case !slices.Contains(images[k], f.Image):
			images[k] = append(images[k], f.Image)
		}
	}
	var reasons []string
	ids := map[string][]string{}
	for _, f := range fs {
		if f.Verdict != preflight.Skip || f.Image != "" && made[f.CheckID] {
			continue
		}
		why := f.Observed
		if list := images[skipped{f.CheckID, f.Observed}]; f.Image != "" {
			why += " (in " + strings.Join(list, ", ") + ")"
		}
		if ids[why] == nil {
			reasons = append(reasons, why)
		}
		if !slices.Contains(ids[why], f.CheckID) {
			ids[why] = append(ids[why], f.CheckID)
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
