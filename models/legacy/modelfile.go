package legacy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// modelFile is a model's new file on its way.
type modelFile struct {
	name    string
	dirs    []string
	engines map[string]catalog.Engine
}

// models converts the model files.
func (im *importer) models() {
	files := map[string]*modelFile{}
	of := func(name string) *modelFile {
		if files[name] == nil {
			files[name] = &modelFile{name: name, engines: map[string]catalog.Engine{}}
		}
		return files[name]
	}
	for _, src := range []struct {
		file *File
		read func(*importer, File, func(string) *modelFile)
	}{{im.src.SGLang, (*importer).sglangModels}, {im.src.VLLM, (*importer).vllmModels}, {im.src.ATOM, (*importer).atomModels}} {
		if src.file != nil {
			src.read(im, *src.file, of)
		}
	}
	if len(im.errs) > 0 {
		return
	}
	for _, name := range sorted(files) {
		im.model(files[name])
	}
	if len(im.added) > 0 {
		next, err := im.src.Catalog.With(im.added)
		if err != nil {
			im.take(err)
			return
		}
		im.src.Catalog = next
	}
}

// model writes one model's file, unless the catalog says the same already.
func (im *importer) model(f *modelFile) {
	known, _ := im.src.Catalog.Lookup(f.name)
	file := catalog.ModelFile{APIVersion: models.APIVersion, Kind: models.KindModel, Name: f.name, Dirs: f.dirs, Engines: f.engines}
	if known != nil {
		// What the old files never held.
		file.Limits, file.Acceptance = known.Limits, known.Acceptance
		if len(file.Dirs) == 0 {
			file.Dirs = known.Dirs
		}
		for _, name := range known.Engines() {
			file.Engines[name] = completed(f.engines[name], known.Own(name), name)
		}
	}
	at := "catalog/" + strings.ToLower(f.name) + ".yaml"
	data, err := yamlx.Encode(file, map[string]string{"": "# Converted from the old model files."})
	if err != nil {
		im.add(at, nil, err)
		return
	}
	next, err := im.src.Catalog.With([]catalog.File{{Path: at, Data: data}})
	if err != nil {
		im.take(err)
		return
	}
	entry, err := next.Lookup(f.name)
	if err == nil && known != nil && same(known, entry, sorted(f.engines)) {
		im.out.Known = append(im.out.Known, f.name)
		return
	}
	im.added = append(im.added, catalog.File{Path: at, Data: data})
	im.add(at, data, err)
}

// completed puts into an engine's settings what the old file did not hold and
// the catalog knows: everything for workers that do prefill and decode, the KV
// tier, and for sglang the variables, which stood in a script. An engine that
// the old files have nothing of is the catalog's.
func completed(x, known catalog.Engine, name string) catalog.Engine {
	if len(x.Layers) == 0 && x.Speculative == nil {
		return known
	}
	x.MixedTP, x.DecodeRestart, x.KVOffload, x.Shell = known.MixedTP, known.DecodeRestart, known.KVOffload, known.Shell
	for _, l := range known.Layers {
		pd, aggregate := rolesOf(l.When, models.RolePrefill, models.RoleDecode), rolesOf(l.When, models.RoleAggregate)
		other := rolesOf(l.When, catalog.RoleRouter, catalog.RoleClient)
		if len(l.When.Role) == 0 {
			pd, aggregate, other = []string{models.RolePrefill, models.RoleDecode}, []string{models.RoleAggregate}, nil
		}
		if vars := (catalog.Layer{When: l.When, Vars: l.Vars, Env: l.Env, Prepend: l.Prepend, Unset: l.Unset}); name == "sglang" && len(pd) > 0 &&
			len(l.Vars)+len(l.Env)+len(l.Prepend)+len(l.Unset) > 0 {
			vars.When.Role = pd
			x.Layers = append(x.Layers, vars)
		}
		if rest := append(aggregate, other...); len(rest) > 0 {
			l.When.Role = rest
			x.Layers = append(x.Layers, l)
		}
	}
	return x
}

func rolesOf(w catalog.When, roles ...string) []string {
	var out []string
	for _, r := range w.Role {
		if slices.Contains(roles, r) {
			out = append(out, r)
		}
	}
	return out
}

// same says whether two entries set the same on some engines, in every mode.
func same(a, b *catalog.Entry, engines []string) bool {
	if !slices.Equal(a.Dirs, b.Dirs) {
		return false
	}
	for _, engine := range engines {
		if a.Has(engine) != b.Has(engine) || a.Transfer(engine).Text != b.Transfer(engine).Text || a.Shell(engine) != b.Shell(engine) {
			return false
		}
		s, _ := a.Speculative(engine)
		t, _ := b.Speculative(engine)
		if (s == nil) != (t == nil) || s != nil && (s.Algorithm != t.Algorithm || !sameTexts(s.Flags, t.Flags)) {
			return false
		}
		for _, m := range modes(slices.Concat(a.Own(engine).Layers, b.Own(engine).Layers)) {
			if !sameSettings(a.Settings(engine, m), b.Settings(engine, m)) {
				return false
			}
		}
	}
	return true
}

// dimension is one thing that layers can be chosen by.
type dimension struct {
	named func(catalog.When) bool
	set   func(*catalog.Mode)
}

func dimensions() []dimension {
	return []dimension{
		{func(w catalog.When) bool { return w.EP != nil }, func(m *catalog.Mode) { m.EP = true }},
		{func(w catalog.When) bool { return w.DP != nil }, func(m *catalog.Mode) { m.DP = true }},
		{func(w catalog.When) bool { return w.MTP != nil }, func(m *catalog.Mode) { m.MTP = true }},
		{func(w catalog.When) bool { return w.Eval != nil }, func(m *catalog.Mode) { m.Eval = true }},
		{func(w catalog.When) bool { return w.Offload != nil }, func(m *catalog.Mode) { m.Offload = true }},
		{func(w catalog.When) bool { return w.Decode != nil && w.Decode.EP != nil }, func(m *catalog.Mode) { m.DecodeEP = true }},
		{func(w catalog.When) bool { return w.Decode != nil && w.Decode.DP != nil }, func(m *catalog.Mode) { m.DecodeDP = true }},
	}
}

// modes lists the modes that some layers tell apart: every combination of what
// they name, each with all of the rest off and on.
func modes(layers []catalog.Layer) []catalog.Mode {
	var named, rest []dimension
	for _, d := range dimensions() {
		if slices.ContainsFunc(layers, func(l catalog.Layer) bool { return d.named(l.When) }) {
			named = append(named, d)
		} else {
			rest = append(rest, d)
		}
	}
	var out []catalog.Mode
	for _, role := range catalog.Roles() {
		for _, scenario := range catalog.Scenarios() {
			for bits := range 1 << (len(named) + 1) {
				m := catalog.Mode{Role: role, Scenario: scenario, Aggregate: role == models.RoleAggregate}
				for i, d := range named {
					if bits>>i&1 == 1 {
						d.set(&m)
					}
				}
				for _, d := range rest {
					if bits>>len(named) == 1 {
						d.set(&m)
					}
				}
				out = append(out, m)
			}
		}
	}
	return out
}

func sameSettings(a, b catalog.Settings) bool {
	texts := func(s catalog.Settings) map[string]string {
		out := map[string]string{}
		for _, f := range s.Flags {
			out["flag "+strings.ReplaceAll(f.Name, "_", "-")] = f.Value()
		}
		for kind, m := range map[string]map[string]catalog.Value{"env": s.Env, "prepend": s.Prepend, "var": s.Vars} {
			for name, v := range m {
				out[kind+" "+name] = v.Text
			}
		}
		for key, v := range map[string]catalog.Value{"mem": s.MemFraction, "running": s.MaxRunningRequests, "chunk": s.ChunkedPrefillSize, "context": s.ContextLength,
			"page": s.PageSize, "graphmax": s.CudaGraphMax, "graphs": s.CudaGraphs} {
			out["number "+key] = v.Text
		}
		return out
	}
	x, y := texts(a), texts(b)
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func sameTexts(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// flagLine reads a line of flags of an old file.
func (im *importer) flagLine(doc *yamlx.Document, at, line string) flags.List {
	if i := strings.IndexAny(line, "$`"); i >= 0 {
		im.fail(doc, at, fmt.Sprintf("%s: the scripts had a shell run what follows the %q", at, line[i]), "write the value itself")
		return nil
	}
	words, err := flags.Split(line)
	if err != nil {
		im.fail(doc, at, at+": "+err.Error(), "")
		return nil
	}
	var out flags.List
	for _, w := range words {
		switch {
		case flags.IsName(w):
			name, value, joined := strings.Cut(w, "=")
			f := flags.Flag{Name: name}
			if joined {
				f.Args = []string{value}
			}
			out.Add(f)
		case len(out) == 0:
			im.fail(doc, at, fmt.Sprintf("%s begins with %q, which belongs to no flag", at, w), "")
			return nil
		default:
			out[len(out)-1].Args = append(out[len(out)-1].Args, w)
		}
	}
	return out
}

// cut takes the flags of a name out of a list and returns the value that counted.
func cut(list *flags.List, name string) (value string, ok bool) {
	f, ok := list.Get(name)
	if ok {
		list.Drop(name)
	}
	return f.Value(), ok
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,=+@%^-]+$`)

// texts writes flags as a catalog file has them. A flag twice counted once, as
// its last.
func texts(list flags.List) []string {
	var out []string
	for i, f := range list {
		if last, _ := list.Get(f.Name); i < len(list)-1 && last.Name == f.Name && later(list[i+1:], f.Name) {
			continue
		}
		words := []string{f.Name}
		for _, a := range f.Args {
			switch {
			case plainWord.MatchString(a):
			case strings.Contains(a, "'"):
				a = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a) + `"`
			default:
				a = "'" + a + "'"
			}
			words = append(words, a)
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func later(list flags.List, name string) bool {
	return slices.ContainsFunc(list, func(f flags.Flag) bool { return flags.Same(f.Name, name) })
}

// variables reads a line of NAME=value words.
func (im *importer) variables(doc *yamlx.Document, at, line string) models.EnvMap {
	out := models.EnvMap{}
	for _, w := range strings.Fields(line) {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			im.fail(doc, at, fmt.Sprintf("%s: %q is not NAME=value", at, w), "")
			continue
		}
		if _, twice := out[name]; twice {
			im.fail(doc, at, fmt.Sprintf("%s sets %s twice", at, name), "keep one of them")
		}
		out[name] = models.EnvValue{Value: value}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
