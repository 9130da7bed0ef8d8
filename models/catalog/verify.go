package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/formula"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// verify reports what the types of the file cannot say: unknown words, texts
// that are no flag, formulas over names that nothing defines.
func (n *node) verify(c *Catalog) {
	if n.kind == KindEngine {
		v := verifier{node: n, vars: declared([]part{{engine: n.engine.Engine}})}
		v.engine("", n.engine.Engine)
		return
	}
	v := verifier{node: n}
	v.word("limits.attention", n.model.Limits.Attention, []string{AttentionMLA, AttentionGQA, AttentionHybrid})
	for _, name := range sortedKeys(n.model.Engines) {
		path := yamlx.Key("engines", name)
		if c.engines[name] == nil {
			v.fail(path, fmt.Sprintf("there is no engine %q%s", name, meant(name, sortedKeys(c.engines))),
				"engines: "+strings.Join(sortedKeys(c.engines), ", "))
			continue
		}
		v.vars = declared(c.entries[n.name].parts[name])
		v.engine(path, n.model.Engines[name])
	}
	for depth, length := range n.model.Acceptance {
		at := yamlx.Key("acceptance_length", depth)
		if d, err := strconv.Atoi(depth); err != nil || d < 1 {
			v.fail(at, fmt.Sprintf("%q is not a speculative depth, a whole number from 1", depth), "")
		}
		v.decimal(at, length)
	}
}

// declared returns the names that formulas may use.
func declared(parts []part) map[string]bool {
	names := map[string]bool{}
	for name := range Builtins() {
		names[name] = true
	}
	for _, p := range parts {
		for _, l := range p.engine.Layers {
			for name := range l.Vars {
				names[name] = true
			}
		}
	}
	return names
}

type verifier struct {
	*node
	vars map[string]bool
}

func (v verifier) fail(path, msg, hint string) { v.doc.Fail(path, msg, hint) }

func (v verifier) engine(path string, e Engine) {
	key := part{path: path}.key
	v.word(key("shell"), e.Shell, []string{"login"})
	if s := e.Speculative; s != nil {
		if s.Algorithm == "" {
			v.fail(key("speculative.algorithm"), "the algorithm is missing: with depth flags alone an engine takes them and never speculates", "")
		}
		if len(s.Flags) == 0 {
			v.fail(key("speculative.flags"), "flags are missing that turn multi-token prediction on", "")
		}
		v.flags(key("speculative.flags"), s.Flags)
	}
	if o := e.KVOffload; o != nil {
		v.word(key("kv_offload.sizing"), o.Sizing, []string{"any", SizingRatio})
		v.decimal(key("kv_offload.ratio"), o.Ratio)
		v.decimal(key("kv_offload.aggregate_ratio"), o.AggregateRatio)
	}
	for i, l := range e.Layers {
		v.layer(yamlx.Index(key("layers"), i), l)
	}
}

func (v verifier) layer(path string, l Layer) {
	for i, r := range l.When.Role {
		at := yamlx.Index(path+".when.role", i)
		if len(l.When.Role) == 1 {
			at = path + ".when.role"
		}
		v.word(at, r, Roles())
	}
	v.word(path+".when.scenario", l.When.Scenario, Scenarios())
	v.flags(path+".flags", l.Flags)
	for name, f := range l.Vars {
		at := yamlx.Key(path+".vars", name)
		if _, taken := Builtins()[name]; taken {
			v.fail(at, fmt.Sprintf("%s is the name of a built-in value", name), "choose another name")
		}
		names := map[string]bool{}
		for b := range Builtins() {
			names[b] = true
		}
		verifier{node: v.node, vars: names}.formula(at, f)
	}
	for name, val := range l.Env {
		v.variable(yamlx.Key(path+".env", name), name, val.Value)
	}
	for name, val := range l.Prepend {
		v.variable(yamlx.Key(path+".prepend", name), name, val)
	}
	v.decimal(path+".mem_fraction", l.MemFraction)
	v.formula(path+".max_running_requests", l.MaxRunningRequests)
	v.formula(path+".chunked_prefill_size", l.ChunkedPrefillSize)
	v.formula(path+".context_length", l.ContextLength)
	v.formula(path+".page_size", l.PageSize)
	v.formula(path+".cuda_graph_max", l.CudaGraphMax)
	if l.CudaGraphs != "" {
		if _, err := Graphs(l.CudaGraphs); err != nil {
			v.fail(path+".cuda_graphs", err.Error(), "")
		}
	}
}

func (v verifier) flags(path string, list []string) {
	for i, text := range list {
		at := yamlx.Index(path, i)
		f, err := flags.Parse(text)
		if err != nil {
			v.fail(at, err.Error(), "")
			continue
		}
		for _, a := range f.Args {
			v.text(at, a)
		}
	}
}

func (v verifier) variable(path, name, value string) {
	if name == "" || name[0] >= '0' && name[0] <= '9' || strings.Trim(name, nameCharacters) != "" {
		v.fail(path, fmt.Sprintf("%q is not a name of an environment variable", name), "use letters, digits and '_'")
	}
	v.text(path, value)
}

// text checks the formulas in a text, and that it holds no placeholder: those
// are for values that adapters make.
func (v verifier) text(path, text string) {
	if strings.Contains(text, models.PlaceholderOpen) {
		v.fail(path, fmt.Sprintf("%q holds %q, which is kept for facts of a node", text, models.PlaceholderOpen), "")
		return
	}
	list, err := formulas(text)
	if err != nil {
		v.fail(path, err.Error(), "")
	}
	for _, f := range list {
		v.names(path, f)
	}
}

func (v verifier) formula(path, text string) {
	if text == "" {
		return
	}
	list, err := parse(text)
	if err != nil {
		v.fail(path, err.Error(), "")
		return
	}
	for _, f := range list {
		v.names(path, f)
	}
}

func (v verifier) names(path string, f formula.Formula) {
	known := slices.Sorted(maps.Keys(v.vars))
	for _, name := range f.Names() {
		if !v.vars[name] {
			v.fail(path, fmt.Sprintf("formula %q: nothing defines %q%s", f, name, meant(name, known)),
				"names that formulas may use: "+strings.Join(known, ", "))
		}
	}
}

func (v verifier) word(path, word string, allowed []string) {
	if word != "" && !slices.Contains(allowed, word) {
		v.fail(path, fmt.Sprintf("%q is not known here%s", word, meant(word, allowed)), "write one of "+strings.Join(allowed, ", "))
	}
}

// nameCharacters are what names of variables are made of.
const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

func (v verifier) decimal(path, text string) {
	whole, fraction, point := strings.Cut(text, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if text != "" && (!digits(whole) || point && !digits(fraction)) {
		v.fail(path, fmt.Sprintf("%q is not a decimal number", text), "")
	}
}

// Graphs reads a cuda_graphs setting: a range, a list or "off" (nil).
func Graphs(text string) ([]string, error) {
	if text == "off" {
		return nil, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if isRange {
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || a < 1 || b < a || b > 1<<16 {
			return nil, fmt.Errorf("%q is not a range of batch sizes; write 1-128", text)
		}
		var out []string
		for i := a; i <= b; i++ {
			out = append(out, strconv.Itoa(i))
		}
		return out, nil
	}
	list, err := models.ParseIntList(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a range (1-128), a list (1 2 3) nor \"off\"", text)
	}
	var out []string
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return out, nil
}
