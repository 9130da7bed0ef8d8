package catalog

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

//go:embed engines/*.yaml models/*.yaml
var files embed.FS

// File is one catalog file as its reader found it.
type File struct {
	Path string // as it shall appear in messages and origins
	Data []byte
}

// Catalog is models and engines by name.
type Catalog struct {
	models  map[string]*node
	engines map[string]*node
	entries map[string]*Entry
}

// Embedded returns the catalog that is compiled in.
func Embedded() (*Catalog, error) {
	var list []File
	for _, dir := range []string{"engines", "models"} {
		names, err := files.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("read embedded catalog: %w", err)
		}
		for _, n := range names {
			data, err := files.ReadFile(path.Join(dir, n.Name()))
			if err != nil {
				return nil, fmt.Errorf("read embedded catalog: %w", err)
			}
			list = append(list, File{Path: n.Name(), Data: data})
		}
	}
	return (&Catalog{}).With(list)
}

// With returns the catalog with further files over it: a model or an engine of
// the same name is replaced; a model may extend the one that it replaces. The
// error is models.FieldErrors and holds every mistake of every file.
func (c *Catalog) With(list []File) (*Catalog, error) {
	next := &Catalog{models: clone(c.models), engines: clone(c.engines), entries: map[string]*Entry{}}
	var added []*node
	var docs []*yamlx.Document
	first := map[string]string{} // kind and name → file
	for _, f := range list {
		n, doc := read(f)
		docs = append(docs, doc)
		if n == nil {
			continue
		}
		key := n.kind + " " + n.name
		if other, twice := first[key]; twice {
			doc.Fail("name", fmt.Sprintf("%s is in %s as well", n.name, other), "remove or rename one of the two")
			continue
		}
		first[key] = f.Path
		added = append(added, n)
		if n.kind == KindEngine {
			next.engines[n.name] = n
		} else {
			next.models[n.name] = n
		}
	}
	for _, n := range added {
		n.link(c.models, next.models)
	}
	for _, name := range sortedKeys(next.models) {
		next.entries[name] = next.models[name].resolve(next.engines)
	}
	known := next.flags()
	for _, e := range next.entries {
		e.known = known
	}
	for _, n := range added {
		n.verify(next)
	}
	var errs models.FieldErrors
	for _, doc := range docs {
		if fields, ok := errors.AsType[models.FieldErrors](doc.Err()); ok {
			errs = append(errs, fields...)
		}
	}
	if err := errs.Sort().Err(); err != nil {
		return nil, err
	}
	return next, nil
}

// Names returns the model names, sorted.
func (c *Catalog) Names() []string { return sortedKeys(c.entries) }

// Lookup finds a model by its exact name. The error names the nearest one and
// lists them all.
func (c *Catalog) Lookup(name string) (*Entry, error) {
	if e, ok := c.entries[name]; ok {
		return e, nil
	}
	return nil, fmt.Errorf("the catalog has no model %q%s; models: %s", name, meant(name, c.Names()), strings.Join(c.Names(), ", "))
}

func meant(word string, names []string) string {
	if near := yamlx.Nearest(word, names); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func clone[V any](m map[string]V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
