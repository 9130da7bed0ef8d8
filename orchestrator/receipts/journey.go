package receipts

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// NoReport: the process was never created, so nothing is known.
const NoReport State = "no report"

// Row is one step of a variable's journey: processes of one scope for which it
// was set by the same hand to the same value, and saw the same.
type Row struct {
	Name  string `json:"name"`
	Scope string `json:"scope"`
	// From says who set it, as models.EnvVar.Origin; empty: nobody planned it.
	From string `json:"from,omitempty"`
	// Over is what it beat: other values of the plan, nearest first, as
	// "origin=value", then what the image and its login shell had.
	Over   []string `json:"over,omitempty"`
	Secret bool     `json:"secret,omitempty"`
	// Planned is nil for secrets and for what nobody planned.
	Planned *Text `json:"planned,omitempty"`
	State   State `json:"state"`
	// Seen is nil for secrets, and where it was not there.
	Seen      *Text    `json:"seen,omitempty"`
	Processes []string `json:"processes"` // in the plan's order
	Nodes     []string `json:"nodes,omitempty"`
}

// Journeys puts a plan and the receipts of its run side by side: the planned
// variables and those that differ from the plan or come from nowhere known, by
// name and scope. all adds what images, shells and runtimes set.
func Journeys(p *models.Plan, records []Record, all bool) []Row {
	last := map[string]Record{}
	for _, r := range records {
		last[r.Process] = r
	}
	over := map[string]models.Origin{}
	for _, o := range p.Origins {
		over[o.Key] = o
	}
	var rows []Row
	for _, proc := range p.Processes() {
		rec, reported := last[proc.ID]
		for _, v := range proc.Env {
			row := plannedRow(proc, v, over["env:"+proc.Scope+":"+v.Name])
			switch {
			case !reported:
				row.State = NoReport
			default:
				row.see(rec)
			}
			rows = merge(rows, row)
		}
		for _, v := range rec.Vars {
			known := slices.ContainsFunc(proc.Env, func(e models.EnvVar) bool { return e.Name == v.Name })
			if known && v.State.Planned() || !v.State.Planned() && v.State != Extra && !all {
				continue
			}
			row := Row{Name: v.Name, Scope: proc.Scope, From: v.Origin, Secret: v.Secret, Planned: v.Planned, Processes: []string{proc.ID}}
			row.State = v.State
			row.take(v, rec.Node)
			rows = merge(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Scope, b.Scope))
	})
	return rows
}

// plannedRow is what the plan says of one variable of one process.
func plannedRow(p *models.Process, v models.EnvVar, o models.Origin) Row {
	row := Row{Name: v.Name, Scope: p.Scope, From: v.Origin, Secret: v.Secret, Processes: []string{p.ID}}
	if o.From == v.Origin {
		row.Over = slices.Clone(o.Over)
	}
	switch {
	case v.Secret:
	case v.ValueB64 != nil:
		row.Planned = NewText(v.ValueB64)
	default:
		row.Planned = NewText([]byte(v.Value))
	}
	return row
}

// see adds what the process reported of the row's variable.
func (r *Row) see(rec Record) {
	r.State = Missing // a planned variable that the record does not name
	for _, v := range rec.Vars {
		if v.Name != r.Name || !v.State.Planned() {
			continue
		}
		r.State = v.State
		if v.Origin != r.From && v.Origin != "" {
			// The node's profile has another value.
			lost := r.From + "="
			if r.Planned != nil {
				lost += string(*r.Planned)
			}
			r.From, r.Over = v.Origin, append([]string{lost}, r.Over...)
			if r.Planned = v.Planned; r.Planned == nil {
				r.Planned = v.Seen
			}
		}
		r.take(v, rec.Node)
		return
	}
	r.Nodes = []string{rec.Node}
}

// take adds what was seen, and what that beat inside.
func (r *Row) take(v Var, node string) {
	r.Seen, r.Secret, r.Nodes = v.Seen, r.Secret || v.Secret, []string{node}
	if r.Secret {
		r.Seen, r.Planned = nil, nil
	}
	for _, s := range v.Over {
		r.Over = append(r.Over, beaten(s))
	}
}

// beaten names the value that a layer inside had.
func beaten(s State) string {
	switch s {
	case FromImage:
		return "the image's own value"
	case FromShell:
		return "the value that the login shell gave it"
	case Inherited:
		return "the inherited value"
	}
	return "the container runtime's value"
}

// merge adds a row, to an equal one of another process if there is one.
func merge(rows []Row, row Row) []Row {
	for i := range rows {
		if o := &rows[i]; o.Name == row.Name && o.Scope == row.Scope && o.From == row.From && o.State == row.State &&
			o.Secret == row.Secret && same(o.Planned, row.Planned) && same(o.Seen, row.Seen) && slices.Equal(o.Over, row.Over) {
			o.Processes = append(o.Processes, row.Processes...)
			for _, n := range row.Nodes {
				if !slices.Contains(o.Nodes, n) {
					o.Nodes = append(o.Nodes, n)
				}
			}
			return rows
		}
	}
	return append(rows, row)
}

func same(a, b *Text) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(*a, *b)
}
