package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
)

// difference is one thing in which a composed process differs from the record.
type difference struct {
	process string // rank0, router, mooncake
	kind    string // "argv", "env", "process", "refused"
	name    string // flag or variable
	golden  string
	ours    string
}

func (d difference) String() string {
	return fmt.Sprintf("%s %s %s: golden %.160q, ours %.160q", d.process, d.kind, d.name, d.golden, d.ours)
}

const absent = "(absent)"

// compared is a record with what came of it here.
type compared struct {
	*record
	settings settings
	in       engine.Input
	facts    facts
	golden   map[string]process
	findings []engine.Finding
}

// TestParity composes what each golden record asks for and compares. Every
// difference must be one of the rules in parity_rules_test.go; a rule that no
// record needs fails the test.
func TestParity(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known := env.Known()
	for _, name := range engine.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := rulesOf(name)
			touched := make([]map[string]bool, len(rules))
			for i := range touched {
				touched[i] = map[string]bool{}
			}
			var equal, byRule, always, empty, bothRefuse, unexplained int
			goldenRecords(t, goldenPath(t, name), func(r *record) {
				cmp := &compared{record: r, golden: r.processes(t)}
				differences := cmp.compare(t, c, known, name)
				if len(cmp.golden) == 0 {
					if len(differences) == 1 && differences[0].kind == "refused" {
						bothRefuse++
					} else {
						empty++
					}
					return
				}
				used, left := 0, 0
				for _, d := range differences {
					i := slices.IndexFunc(rules, func(rule rule) bool { return rule.match(cmp, d) })
					if i < 0 {
						left++
						t.Errorf("%s: %s", r.ID, d)
						continue
					}
					if !rules[i].always {
						used++
					}
					touched[i][r.ID] = true
				}
				switch {
				case left > 0:
					unexplained++
				case used > 0:
					byRule++
				case len(differences) > 0:
					always++
				default:
					equal++
				}
			})
			var b strings.Builder
			fmt.Fprintf(&b, "%s: %d records equal, %d but for rules that touch every run (*), %d but for other rules, %d unexplained; without commands: %d refused here too, %d stopped by something that is not composition\n",
				name, equal, always, byRule, unexplained, bothRefuse, empty)
			for i, r := range rules {
				mark := " "
				if r.always {
					mark = "*"
				}
				fmt.Fprintf(&b, "  %4d%s %s: %s\n", len(touched[i]), mark, r.id, r.reason)
				if len(touched[i]) == 0 {
					t.Errorf("rule %s touches no record", r.id)
				}
			}
			t.Log(b.String())
			if testing.Verbose() {
				for i, r := range rules {
					t.Logf("%s touches: %s", r.id, strings.Join(sorted(touched[i]), " "))
				}
			}
		})
	}
}

// compare composes a record's run and lists the differences.
func (c *compared) compare(t *testing.T, cat *catalog.Catalog, known *env.Table, name string) []difference {
	t.Helper()
	refused := func(err error) []difference {
		return []difference{{process: "plan", kind: "refused", ours: err.Error()}}
	}
	var err error
	if c.Layer == "host" {
		if c.settings, err = host(c.record); err != nil {
			return refused(err)
		}
	} else {
		c.settings = server(c.record)
	}
	c.in, err = c.settings.input(cat, name, c.Inputs.Fixture)
	if errors.Is(err, errRefused) {
		return refused(err)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	out, errs := engine.Compose(c.in)
	if len(errs) > 0 {
		return refused(errs[0])
	}
	c.findings = engine.Check(c.in)
	container := c.containerEnv(t)
	c.facts = facts{fixture: c.Inputs.Fixture, site: c.in.Site, addrs: strings.Split(container["IPADDRS"], ","),
		image: map[string]string{"PATH": "$PATH", "PYTHONPATH": container["PYTHONPATH"], "LD_LIBRARY_PATH": container["LD_LIBRARY_PATH"]}}
	ours := c.facts.composed(t, out)
	var list []difference
	for _, p := range sorted(c.golden) {
		o, there := ours[p]
		if !there {
			list = append(list, difference{process: p, kind: "process", golden: strings.Join(c.golden[p].argv, " "), ours: absent})
			continue
		}
		list = append(list, compareArgv(p, c.golden[p].argv, o.argv)...)
		if strings.HasPrefix(p, "rank") {
			if g := c.golden[p].role; g != o.role {
				list = append(list, difference{process: p, kind: "process", name: "role", golden: g, ours: o.role})
			}
			list = append(list, compareEnv(p, name, known, c.golden[p], o)...)
		}
	}
	for _, p := range sorted(ours) {
		if _, there := c.golden[p]; !there {
			list = append(list, difference{process: p, kind: "process", golden: absent, ours: strings.Join(ours[p].argv, " ")})
		}
	}
	return list
}

// compareArgv compares two commands: the program with its positional words,
// and for each flag its values in their order. The order of different flags
// means nothing to the engines.
func compareArgv(process string, golden, ours []string) []difference {
	var list []difference
	gp, gf := flagsOf(golden)
	op, of := flagsOf(ours)
	if !slices.Equal(gp, op) {
		list = append(list, difference{process, "argv", "program", strings.Join(gp, " "), strings.Join(op, " ")})
	}
	g, o := byName(gf), byName(of)
	for _, n := range sorted(g) {
		if _, there := o[n]; !there {
			list = append(list, difference{process, "argv", n, strings.Join(g[n], "\n"), absent})
		} else if !slices.EqualFunc(g[n], o[n], sameValue) {
			list = append(list, difference{process, "argv", n, strings.Join(g[n], "\n"), strings.Join(o[n], "\n")})
		}
	}
	for _, n := range sorted(o) {
		if _, there := g[n]; !there {
			list = append(list, difference{process, "argv", n, absent, strings.Join(o[n], "\n")})
		}
	}
	return list
}

// sameValue compares the values of a flag; JSON by what it means.
func sameValue(a, b string) bool {
	var x, y map[string]any
	if json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil {
		return reflect.DeepEqual(x, y)
	}
	return a == b
}

// compareEnv compares the variables that some program in the worker's process
// reads. The old scripts' own variables, which no such program reads, are left
// out by the table of known variables.
func compareEnv(proc, engineName string, known *env.Table, golden, ours process) []difference {
	reads := func(name string) bool {
		v, ok := known.Lookup(name)
		if !ok {
			return !golden.given[name] && name != "X_STUB_LIFE"
		}
		return v.ReadIn(golden.role, engineName)
	}
	var list []difference
	for _, n := range sorted(golden.env) {
		v, isKnown := known.Lookup(n)
		switch o, there := ours.env[n]; {
		case !reads(n) || isKnown && v.Secret:
		case !there:
			list = append(list, difference{proc, "env", n, golden.env[n], absent})
		case o != golden.env[n]:
			list = append(list, difference{proc, "env", n, golden.env[n], o})
		}
	}
	for _, n := range sorted(ours.env) {
		if _, there := golden.env[n]; !there {
			list = append(list, difference{proc, "env", n, absent, ours.env[n]})
		}
	}
	return list
}
