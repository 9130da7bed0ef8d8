package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// Change is one thing in which two plans differ.
type Change struct {
	// Key names the thing: a setting, "flag --page-size", "env MORI_RDMA_TC",
	// "topology plan node 1".
	Key string `json:"key"`
	// In lists the processes that it is about; empty: the plan as a whole.
	In []string `json:"in,omitempty"`
	// A and B are its values; absent is "(not set)".
	A string `json:"a"`
	B string `json:"b"`
}

// absent stands for a value that a plan does not have.
const absent = "(not set)"

// Diff lists what two plans differ in by meaning: settings, topology, and the
// flags, other arguments and variables of each process. The order of flags,
// where values come from and which program planned do not count. Processes that
// differ in the same way are listed together.
func Diff(a, b *models.Plan) ([]Change, error) {
	fa, err := facts(a)
	if err != nil {
		return nil, err
	}
	fb, err := facts(b)
	if err != nil {
		return nil, err
	}
	keys := map[fact]bool{}
	for k := range fa {
		keys[k] = true
	}
	for k := range fb {
		keys[k] = true
	}
	var out []Change
	at := map[[3]string]int{} // where a change is in out
	for _, k := range slices.SortedFunc(maps.Keys(keys), compareFacts) {
		va, inA := fa[k]
		vb, inB := fb[k]
		if inA == inB && va == vb {
			continue
		}
		if !inA {
			va = absent
		}
		if !inB {
			vb = absent
		}
		id := [3]string{k.key, va, vb}
		i, seen := at[id]
		if !seen {
			i = len(out)
			at[id] = i
			out = append(out, Change{Key: k.key, A: va, B: vb})
		}
		if k.process != "" {
			out[i].In = append(out[i].In, k.process)
		}
	}
	return out, nil
}

// fact names one thing that a plan says.
type fact struct {
	process string
	key     string
}

// compareFacts orders settings before processes.
func compareFacts(a, b fact) int {
	if (a.process == "") != (b.process == "") {
		if a.process == "" {
			return -1
		}
		return 1
	}
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	return strings.Compare(a.process, b.process)
}

// facts takes a plan apart.
func facts(p *models.Plan) (map[fact]string, error) {
	out := map[fact]string{}
	rest := *p
	// Processes are taken apart below; the others say nothing of what runs.
	rest.Tool, rest.Files, rest.Origins, rest.Warnings = "", nil, nil, nil
	rest.Workers, rest.Services, rest.Router, rest.Client, rest.Eval = nil, nil, nil, nil, nil
	rest.Topology.Table = nil
	data, err := json.Marshal(rest)
	if err != nil {
		return nil, fmt.Errorf("compare plans: %w", err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("compare plans: %w", err)
	}
	flatten(out, "", tree)
	for _, row := range p.Topology.Table {
		k := fact{key: fmt.Sprintf("topology plan node %d", row.Node)}
		out[k] = strings.TrimPrefix(out[k]+"; "+place(row), "; ")
	}
	b := &builder{plan: p}
	for _, x := range b.plan.Processes() {
		processFacts(out, x)
	}
	for _, w := range p.Workers {
		k := func(key string) fact { return fact{process: w.ID, key: key} }
		out[k("health")] = fmt.Sprintf("plan node %d port %d %s", w.Node, w.Port, w.HealthPath)
		out[k("context length")] = fmt.Sprint(w.ContextLength)
		out[k("speculative depth")] = fmt.Sprint(w.MTP)
		out[k("restarts")] = fmt.Sprint(w.Restarts)
	}
	if r := p.Router; r != nil {
		out[fact{process: r.ID, key: "ready"}] = fmt.Sprintf("%s port %d %s", r.Kind, r.Port, r.ReadyPath)
	}
	if c := p.Client; c != nil {
		out[fact{key: "client lengths"}] = fmt.Sprintf("%d in, %d out", c.ISL, c.OSL)
	}
	if e := p.Eval; e != nil {
		out[fact{key: "evaluation only"}] = fmt.Sprint(e.Only)
	}
	return out, nil
}

// place writes one row of the topology.
func place(row models.TopologyRow) string {
	return fmt.Sprintf("%s rank %d on GPUs %s", row.Worker, row.Rank, ranges(row.GPUs))
}

// flatten lists the scalars of a JSON tree by path.
func flatten(out map[fact]string, path string, tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for k, v := range t {
			at := k
			if path != "" {
				at = path + "." + k
			}
			flatten(out, at, v)
		}
	case []any:
		texts := make([]string, len(t))
		for i, v := range t {
			if m, ok := v.(map[string]any); ok {
				flatten(out, fmt.Sprintf("%s[%d]", path, i), m)
				continue
			}
			texts[i] = fmt.Sprint(v)
		}
		if s := strings.Trim(strings.Join(texts, " "), " "); s != "" {
			out[fact{key: path}] = s
		}
	case nil:
	default:
		out[fact{key: path}] = fmt.Sprint(t)
	}
}

// processFacts takes one process apart.
func processFacts(out map[fact]string, p *models.Process) {
	put := func(key, value string) {
		k := fact{process: p.ID, key: key}
		if old, twice := out[k]; twice {
			value = old + " | " + value // a flag that is repeated, such as --prefill
		}
		out[k] = value
	}
	put("plan node", fmt.Sprint(p.Node))
	put("image", p.Image)
	if p.Shell != "" {
		put("shell", p.Shell)
	}
	if p.Dir != "" {
		put("directory", p.Dir)
	}
	for _, q := range p.Ports {
		put("port "+q.Name, fmt.Sprint(q.Number))
	}
	program, flags := splitArgv(p.Argv)
	put("program", strings.Join(program, " "))
	for _, f := range flags {
		put("flag "+f.name, f.value)
	}
	for _, v := range p.Env {
		val := shown(v)
		if v.Secret {
			val = hidden
		}
		if v.Prepend {
			val += ":…"
		}
		put("env "+v.Name, val)
	}
}

// option is one flag of a command line.
type option struct{ name, value string }

// splitArgv takes a command line apart: the words before the first flag, and
// each flag with the words up to the next one.
func splitArgv(argv []string) (program []string, flags []option) {
	for _, w := range argv {
		name, value, eq := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "--") && eq && !strings.ContainsAny(name, " {"):
			flags = append(flags, option{name, value})
		case strings.HasPrefix(w, "-") && len(w) > 1 && (w[1] < '0' || w[1] > '9') && !strings.ContainsAny(w, " {") && (len(program) > 0) && !isModule(argv, w):
			flags = append(flags, option{w, ""})
		case len(flags) == 0:
			program = append(program, w)
		default:
			f := &flags[len(flags)-1]
			f.value = strings.TrimPrefix(f.value+" "+w, " ")
		}
	}
	return program, flags
}

// isModule says whether w is the -m or -c of an interpreter, which belongs to
// the program.
func isModule(argv []string, w string) bool {
	return (w == "-m" || w == "-c" || w == "-lc") && slices.Index(argv, w) == 1
}
