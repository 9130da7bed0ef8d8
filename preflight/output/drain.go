package output

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
)

// drains are the commands that take unfit nodes out of Slurm and bring them back
// when they are mended, one pair for nodes with the same trouble. A node that only
// could not be reached is left out: why is not known, and it may be this side.
func drains(d Document, fold func([]string) string) []string {
	var reasons []string
	by := map[string][]string{}
	var all []string
	for _, n := range d.Nodes {
		if n.Fit || len(n.Deciding) == 0 || len(n.Deciding) == 1 && n.Deciding[0] == checks.Reach {
			continue
		}
		why := "disagg preflight: " + strings.Join(firsts(d, n), " ")
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

// firsts are the checks that a node fails by itself, not those blocked by them.
func firsts(d Document, n preflight.NodeReport) []string {
	var out []string
	for _, id := range n.Deciding {
		if n.Checks[id] != preflight.Blocked {
			out = append(out, id)
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
