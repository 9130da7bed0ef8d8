package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
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

// tally is what came of the records of one engine.
type tally struct {
	equal, always, byRule, unexplained int
	bothRefuse, noCommand              int
}

// TestParity composes what each golden record asks for and compares. Every
// difference must be one of the rules in parity_rules_test.go; a rule that no
// record needs fails the test.
func TestParity(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	known, rules := env.Known(), parityRules()
	touched := map[string]map[string]bool{} // rule → records
	for _, r := range rules {
		touched[r.id] = map[string]bool{}
	}
	for _, name := range engine.Names() {
		file := goldenPath(t, name)
		t.Run(name, func(t *testing.T) {
			var n tally
			goldenRecords(t, file, func(r *record) { n.count(t, r, c, known, name, rules, touched) })
			t.Logf("%d records equal, %d but for rules that touch every run (*), %d but for other rules, %d unexplained; "+
				"without commands: %d that are refused here too, %d that something else stopped",
				n.equal, n.always, n.byRule, n.unexplained, n.bothRefuse, n.noCommand)
		})
	}
	for _, r := range rules {
		mark := " "
		if r.always {
			mark = "*"
		}
		t.Logf("%4d%s %s: %s", len(touched[r.id]), mark, r.id, r.reason)
		if testing.Verbose() {
			t.Logf("      %s", strings.Join(sorted(touched[r.id]), " "))
		}
		if len(touched[r.id]) == 0 {
			t.Errorf("rule %s touches no record", r.id)
		}
	}
}

// count compares one record and says which rules it needs.
func (n *tally) count(t *testing.T, r *record, c *catalog.Catalog, known *env.Table, name string, rules []rule, touched map[string]map[string]bool) {
	t.Helper()
	cmp := &compared{record: r, golden: r.processes(t)}
	n.sort(t, cmp, cmp.compare(t, c, known, name), rules, touched)
}

// sort says which rules the differences of a record need.
func (n *tally) sort(t *testing.T, cmp *compared, differences []difference, rules []rule, touched map[string]map[string]bool) {
	t.Helper()
	if len(cmp.golden) == 0 {
		if len(differences) == 1 && differences[0].kind == "refused" {
			n.bothRefuse++
		} else {
			n.noCommand++
		}
		return
	}
	others, left := 0, 0
	for _, d := range differences {
		i := slices.IndexFunc(rules, func(rule rule) bool { return rule.match(cmp, d) })
		if i < 0 {
			left++
			t.Errorf("%s: %s", cmp.ID, d)
			continue
		}
		if !rules[i].always {
			others++
		}
		touched[rules[i].id][cmp.ID] = true
	}
	switch {
	case left > 0:
		n.unexplained++
	case others > 0:
		n.byRule++
	case len(differences) > 0:
		n.always++
	default:
		n.equal++
	}
}

// compare composes a record's run and lists the differences.
func (c *compared) compare(t *testing.T, cat *catalog.Catalog, known *env.Table, name string) []difference {
	t.Helper()
	refused := func(err error) []difference {
		return []difference{{process: "plan", kind: "refused", ours: err.Error()}}
	}
	c.in = engine.Input{Recipe: &models.Recipe{Engine: name}, Site: &models.Site{}}
	var err error
	if c.Layer == "host" {
		if c.settings, err = host(c.record); err != nil {
			return refused(err)
		}
	} else {
		c.settings = server(c.record)
	}
	if p := c.containerEnv(t)["MODEL_PATH"]; name == engine.VLLM && p != "" {
		// Which snapshot is there is found out on the nodes.
		c.settings.modelPath = p
	}
	c.in, err = c.settings.input(cat, name)
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
	return c.differences(t, known, name, out)
}

// differences compares what was composed with the record's commands.
func (c *compared) differences(t *testing.T, known *env.Table, name string, out engine.Output) []difference {
	t.Helper()
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
		if c.golden[p].live {
			o.argv[0] = path.Base(o.argv[0])
		}
		list = append(list, compareArgv(p, c.golden[p].argv, o.argv)...)
		if strings.HasPrefix(p, "rank") {
			if g := c.golden[p].role; g != o.role {
				list = append(list, difference{process: p, kind: "process", name: "role", golden: g, ours: o.role})
			}
			list = append(list, compareEnv(p, name, known, c.golden[p], o)...)
		}
	}
	list = append(list, c.compareClient(t, out.ClientEnv)...)
	for _, p := range sorted(ours) {
		// The script of vLLM's workers does not start the router.
		if _, there := c.golden[p]; !there && !(p == "router" && name == engine.VLLM && c.Layer == "server") {
			list = append(list, difference{process: p, kind: "process", golden: absent, ours: strings.Join(ours[p].argv, " ")})
		}
	}
	return list
}

// compareClient compares what the old scripts exported for the client by the
// time it ran.
func (c *compared) compareClient(t *testing.T, ours []models.EnvVar) []difference {
	t.Helper()
	var golden struct{ Set map[string]string }
	raw, ok := c.Outputs["rank0_env_delta_at_bench"]
	if !ok || c.in.Recipe.Engine == engine.VLLM {
		return nil
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	mine := c.facts.resolve(t, models.Process{Env: ours}, "client").env
	var list []difference
	for _, n := range []string{"IS_MTP", "AIPERF_SERVER_METRICS_URLS", "SERVER_FLUSH_URLS_CSV"} {
		g, inGolden := golden.Set[n]
		if o, inOurs := mine[n]; inGolden != inOurs || g != o {
			list = append(list, difference{"client", "env", n, g, o})
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
			return !golden.given[name] && !slices.Contains([]string{"X_STUB_LIFE", "WS_PATH", "NODE0_ADDR"}, name)
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
