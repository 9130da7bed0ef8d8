package catalog

import (
	"fmt"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// node is one file of the catalog, read but not yet joined with others.
type node struct {
	kind, name string
	file       string
	doc        *yamlx.Document
	model      ModelFile  // kind Model
	engine     EngineFile // kind Engine
	base       *node      // the model that this one extends
}

// read decodes one file. It returns no node when the file is not one that can
// be joined with others; the document knows why.
func read(f File) (*node, *yamlx.Document) {
	doc := yamlx.Parse(f.Path, f.Data)
	var head struct {
		Kind string `yaml:"kind"`
	}
	yamlx.Parse(f.Path, f.Data).Decode(&head)
	n := &node{kind: models.KindModel, file: f.Path, doc: doc}
	if head.Kind == KindEngine {
		n.kind = KindEngine
	}
	if !doc.Header(models.APIVersion, n.kind) {
		return nil, doc
	}
	if n.kind == KindEngine {
		doc.Decode(&n.engine)
		n.name = n.engine.Name
	} else {
		doc.Decode(&n.model)
		n.name = n.model.Name
	}
	if n.name == "" {
		doc.Fail("name", "name is missing", `add "name: …", the key that recipes use`)
		return nil, doc
	}
	return n, doc
}

// link finds the model that n extends: one of the files read with it, or one
// of the catalog below when the name is its own or the files have none.
func (n *node) link(below, all map[string]*node) {
	want := n.model.Extends
	if want == "" {
		return
	}
	n.base = all[want]
	if want == n.name {
		n.base = below[want]
	}
	if n.base == nil {
		n.doc.Fail("extends", fmt.Sprintf("the catalog has no model %q to extend%s", want, meant(want, sortedKeys(all))), "")
		return
	}
	for b := n.base; b != nil; b = b.base {
		if b == n {
			n.doc.Fail("extends", fmt.Sprintf("%s extends itself through %s", n.name, want), "")
			n.base = nil
			return
		}
	}
}

// lineage returns the nodes that n is made of, the most basic one first.
func (n *node) lineage() []*node {
	if n == nil {
		return nil
	}
	return append(n.base.lineage(), n)
}

// origin says where the value at a key path of the file stands, as
// models.Origin.From.
func (n *node) origin(path string) string {
	return fmt.Sprintf("catalog:%s:%d", n.file, n.doc.Positions.Near(path).Line)
}

// part is one file's share of a model's settings on an engine.
type part struct {
	node   *node
	path   string // key path of the engine in the file; empty: the document
	engine Engine
}

func (p part) key(k string) string {
	if p.path == "" {
		return k
	}
	return p.path + "." + k
}

// resolve joins n with what it extends and with the engines.
func (n *node) resolve(engines map[string]*node) *Entry {
	e := &Entry{Name: n.name, File: n.file, Acceptance: map[string]string{}, parts: map[string][]part{}}
	for _, m := range n.lineage() {
		e.Dirs = firstSet(m.model.Dirs, e.Dirs)
		e.Limits.ContextLength = firstNonZero(m.model.Limits.ContextLength, e.Limits.ContextLength)
		e.Limits.Attention = firstNonZero(m.model.Limits.Attention, e.Limits.Attention)
		e.Limits.VRAMGB = firstNonZero(m.model.Limits.VRAMGB, e.Limits.VRAMGB)
		for k, v := range m.model.Acceptance {
			e.Acceptance[k] = v
		}
		for name, engine := range m.model.Engines {
			if e.parts[name] == nil {
				if d := engines[name]; d != nil {
					e.parts[name] = []part{{node: d, engine: d.engine.Engine}}
				}
			}
			e.parts[name] = append(e.parts[name], part{node: m, path: yamlx.Key("engines", name), engine: engine})
		}
	}
	if len(e.Dirs) == 0 {
		e.Dirs = []string{n.name}
	}
	return e
}

func firstSet[T any](a, b []T) []T {
	if len(a) > 0 {
		return a
	}
	return b
}

func firstNonZero[T comparable](a, b T) T {
	var zero T
	if a != zero {
		return a
	}
	return b
}
