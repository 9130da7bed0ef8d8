package output

import (
	"fmt"
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight"
)

// row is one line of the matrix: nodes whose verdicts are all equal.
type row struct {
	nodes []string
	fit   bool
	cells string
}

// cell is how a verdict looks in the matrix.
func cell(v preflight.Verdict) byte {
	switch v {
	case preflight.Pass:
		return '.'
	case preflight.Skip:
		return '-'
	case preflight.Warn:
		return 'w'
	case preflight.Blocked:
		return 'b'
	case preflight.Unknown:
		return '?'
	case preflight.Fail:
		return 'X'
	}
	return ' ' // not made
}

// columns are the checks that some node does not simply pass, in report order.
// Those that all pass would only hide them.
func columns(d Document) []string {
	seen := map[string]bool{}
	for _, n := range d.Nodes {
		for id, v := range n.Checks {
			if v != preflight.Pass && v != preflight.Skip {
				seen[id] = true
			}
		}
	}
	return inOrder(seen)
}

// inOrder lists check ids in report order; ids that this program does not know,
// from a report of another version, come last.
func inOrder(ids map[string]bool) []string {
	var out []string
	known := map[string]bool{}
	for _, id := range preflight.IDs() {
		known[id] = true
		if ids[id] {
			out = append(out, id)
		}
	}
	var other []string
	for id := range ids {
		if !known[id] {
			other = append(other, id)
		}
	}
	sort.Strings(other)
	return append(out, other...)
}

// rows folds nodes with equal lines, unfit ones first.
func rows(d Document, cols []string) []row {
	var out []row
	at := map[string]int{}
	for _, n := range d.Nodes {
		cells := make([]byte, len(cols))
		for i, id := range cols {
			cells[i] = cell(n.Checks[id])
		}
		key := fmt.Sprint(n.Fit) + string(cells)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, row{fit: n.Fit, cells: string(cells)})
		}
		out[i].nodes = append(out[i].nodes, n.Node)
	}
	sort.SliceStable(out, func(i, j int) bool { return !out[i].fit && out[j].fit })
	return out
}

// maxNodes is the width of the matrix's first column at most; whole host lists
// follow below it.
const maxNodes = 44

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// writeMatrix prints nodes × checks. The names of the checks stand on a ladder
// above their columns.
func writeMatrix(b *strings.Builder, d Document, o Options) {
	cols := columns(d)
	list := rows(d, cols)
	names := make([]string, len(list))
	width := len("NODES")
	for i, r := range list {
		names[i] = shorten(clean(o.Fold(r.nodes)), maxNodes)
		width = max(width, len([]rune(names[i])))
	}
	indent := strings.Repeat(" ", width+2+len("unfit")+2)
	for i, id := range cols {
		fmt.Fprintf(b, "%s%s┌ %s\n", indent, strings.Repeat("│ ", i), id)
	}
	fmt.Fprintf(b, "%-*s  %-5s  %s\n", width, "NODES", "", strings.TrimRight(strings.Repeat("│ ", len(cols)), " "))
	for i, r := range list {
		word := paint(o, green, "fit  ")
		if !r.fit {
			word = paint(o, red, "unfit")
		}
		pad := strings.Repeat(" ", width-len([]rune(names[i])))
		line := names[i] + pad + "  " + word + "  "
		for _, c := range []byte(r.cells) {
			line += paintCell(o, c) + " "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if len(cols) > 0 {
		b.WriteString("X fail  ? unknown  b blocked  w warn  . pass  - skip\n")
	}
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

func paint(o Options, colour, s string) string {
	if !o.Colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func paintCell(o Options, c byte) string {
	switch c {
	case 'X', '?', 'b':
		return paint(o, red, string(c))
	case 'w':
		return paint(o, yellow, string(c))
	}
	return string(c)
}
