package output

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
)

// drains are the commands that take unfit nodes out of Slurm and bring them back
// when they are mended, one pair for nodes with the same trouble. A node that only
// could not be reached is left out: why is not known, and it may be this side. So
// is what draining does not mend, because its cause is the recipe, the site file
// or the image; notes says that.
func drains(d Document, fold func([]string) string) []string {
	var reasons []string
	by := map[string][]string{}
	var all []string
	common := everywhere(d)
	for _, n := range d.Nodes {
		if n.Fit || len(n.Deciding) == 1 && n.Deciding[0] == checks.Reach {
			continue
		}
		ids := own(d, n, common)
		if len(ids) == 0 {
			continue
		}
		why := "disagg preflight: " + strings.Join(ids, " ")
		if by[why] == nil {
			reasons = append(reasons, why)
		}
		by[why] = append(by[why], n.Node)
		all = append(all, n.Node)
	}
	var out []string
	for _, why := range reasons {
		out = append(out, fmt.Sprintf("scontrol update nodename=%s state=drain reason=%s", word(fold(by[why])), word(why)))
	}
	if len(all) > 0 {
		out = append(out, fmt.Sprintf("scontrol update nodename=%s state=resume   # when mended, and checked again", word(fold(all))))
	}
	return out
}

// notes say where to look for causes that are no node's own, as comments beside
// the commands.
func notes(d Document, fold func([]string) string) []string {
	common := everywhere(d)
	same, images := map[string]bool{}, map[string]bool{}
	at := map[string][]string{} // check of an image → nodes
	for _, n := range d.Nodes {
		for _, f := range decidingOf(d, n.Node) {
			switch {
			case common[wayOf(f)]:
				same[f.CheckID] = true
			case ofImage(f.CheckID):
				images[f.CheckID] = true
				if l := at[f.CheckID]; len(l) == 0 || l[len(l)-1] != n.Node {
					at[f.CheckID] = append(l, n.Node)
				}
			}
		}
	}
	var out []string
	if len(same) > 0 {
		out = append(out, "# "+strings.Join(inOrder(same), " ")+": the same on all nodes: look at the site file or the recipe first")
	}
	for _, id := range inOrder(images) {
		out = append(out, fmt.Sprintf("# %s on %s: look at the image, the recipe or the site file first; draining mends none of them", id, clean(fold(at[id]))))
	}
	return out
}

// own are the checks that a node fails for a cause of its own: neither those of
// images, nor what is the same on all nodes, nor what other checks block, unless
// there is nothing else.
func own(d Document, n preflight.NodeReport, common map[string]bool) []string {
	var first, blocked []string
	caused := false // something is wrong or not known by itself
	for _, f := range decidingOf(d, n.Node) {
		list := &first
		if f.Verdict == preflight.Blocked {
			list = &blocked
		} else {
			caused = true
		}
		if !ofImage(f.CheckID) && !common[wayOf(f)] && !slices.Contains(*list, f.CheckID) {
			*list = append(*list, f.CheckID)
		}
	}
	if caused {
		return first
	}
	return blocked
}

// ofImage says that a check is about an image and not about the node it is on.
func ofImage(id string) bool { return strings.HasPrefix(id, "image.") }

// everywhere is what decides against all nodes that could be asked in the same
// way. Of one node nobody can say that.
func everywhere(d Document) map[string]bool {
	counts, asked := map[string]int{}, 0
	for _, n := range d.Nodes {
		if v := n.Checks[checks.Reach]; v == preflight.Unknown || v == preflight.Fail {
			continue
		}
		asked++
		seen := map[string]bool{}
		for _, f := range decidingOf(d, n.Node) {
			if w := wayOf(f); !seen[w] {
				seen[w] = true
				counts[w]++
			}
		}
	}
	out := map[string]bool{}
	for w, n := range counts {
		if n == asked && asked > 1 {
			out[w] = true
		}
	}
	return out
}

// freeRoom is an amount that differs from node to node even where what is wrong
// is how much was asked for.
var freeRoom = regexp.MustCompile(`^[0-9.]+ [KMGT]iB free`)

// wayOf is how a check decides, without where.
func wayOf(f preflight.Finding) string {
	return strings.Join([]string{f.CheckID, string(f.Verdict), f.Object, freeRoom.ReplaceAllString(f.Observed, "free"), f.Expected}, "\x00")
}

// decidingOf are the findings that make a node unfit.
func decidingOf(d Document, node string) []preflight.Finding {
	var out []preflight.Finding
	for _, f := range d.Findings {
		if f.Node == node && f.Decides() {
			out = append(out, f)
		}
	}
	return out
}

// word is s as one word of a shell: names and ids need nothing, anything else
// single quotes.
func word(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/@%+-") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(clean(s), "'", `'\''`) + "'"
}
