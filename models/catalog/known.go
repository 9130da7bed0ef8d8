package catalog

import (
	"slices"

	"github.com/disagg/disagg/models/internal/flags"
)

// knownFlags are names of flags, sorted.
type knownFlags struct{ workers, router []string }

// KnownFlags lists the flags that some model of the catalog sets on an engine, in
// whatever mode: those of workers, and those of the router. An engine has many
// more.
func (e *Entry) KnownFlags(engine string) (workers, router []string) {
	k := e.known[engine]
	return k.workers, k.router
}

// flags collects the flags of all models by engine.
func (c *Catalog) flags() map[string]knownFlags {
	out := map[string]knownFlags{}
	add := func(list *[]string, texts []string) {
		for _, text := range texts {
			if f, err := flags.Parse(text); err == nil && !slices.Contains(*list, f.Name) {
				*list = append(*list, f.Name)
			}
		}
	}
	for _, name := range c.Names() {
		for engine, parts := range c.entries[name].parts {
			k := out[engine]
			for _, p := range parts {
				for _, l := range p.engine.Layers {
					if slices.Contains(l.When.Role, RoleRouter) {
						add(&k.router, l.Flags)
					} else {
						add(&k.workers, l.Flags)
					}
				}
				if p.engine.Speculative != nil {
					add(&k.workers, p.engine.Speculative.Flags)
				}
			}
			out[engine] = k
		}
	}
	for engine, k := range out {
		slices.Sort(k.workers)
		slices.Sort(k.router)
		out[engine] = k
	}
	return out
}
