// Package env is the one list of environment variables that disagg knows:
// what each means, which program reads it, in which processes that program
// runs, what values it takes, and whether it is a secret.
//
// Planning refuses a variable that no known program reads, forwarding and
// reports hide secrets, and docs/environment.md is written from the same list,
// so the three cannot disagree.
package env

import (
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// Scopes: the kinds of process that a variable can be set in. They are the
// values of models.Process.Scope.
const (
	ScopePrefill   = models.RolePrefill
	ScopeDecode    = models.RoleDecode
	ScopeAggregate = models.RoleAggregate
	ScopeRouter    = "router"
	ScopeService   = "service"
	ScopeClient    = "client"
	ScopeEval      = "eval"
)

// Scopes lists every scope, workers first.
func Scopes() []string {
	return []string{ScopePrefill, ScopeDecode, ScopeAggregate, ScopeRouter, ScopeService, ScopeClient, ScopeEval}
}

// IsWorker says whether a scope is that of an engine worker.
func IsWorker(scope string) bool {
	return scope == ScopePrefill || scope == ScopeDecode || scope == ScopeAggregate
}

// Kind is what the values of a variable look like.
type Kind string

const (
	// String is any text.
	String Kind = "text"
	// Bool is read as 1, 0, true or false.
	Bool Kind = "boolean"
	// Flag01 is a boolean that its reader understands only as 1 or 0.
	Flag01 Kind = "1 or 0"
	// TrueFalse is a boolean that its reader understands only as true or false.
	TrueFalse Kind = "true or false"
	// Int is a whole number.
	Int Kind = "whole number"
	// Number is a decimal number.
	Number Kind = "number"
	// Size is a number of bytes, with or without a unit.
	Size Kind = "size"
	// Path is a file or directory as the process sees it.
	Path Kind = "path"
	// List is several values in one text, in the reader's own notation.
	List Kind = "list"
	// JSON is a JSON value.
	JSON Kind = "JSON"
	// Interface is the name of one network interface: no list, no exclusion.
	Interface Kind = "one interface name"
)

// Var is one variable.
type Var struct {
	Name    string
	Meaning string
	// Readers are the programs that read it.
	Readers []Reader
	Kind    Kind
	// Allowed are the only values its reader knows; empty: any of Kind.
	Allowed []string
	// Default is what the reader does when the variable is not set, as far as
	// that is one value; empty: unknown, or nothing.
	Default string
	// Max is the largest value of an Int; zero: no known limit.
	Max int64
	// Key is the recipe or site key that says the same. The key is what a file
	// must use when no process reads the variable (Reader Launcher).
	Key string
	// Confused are other names that people write for it: reversed, shortened,
	// or of an older version.
	Confused []string
	// Secret values are carried but never shown.
	Secret bool
	// EmptyMeans says what an empty value does, for variables where empty
	// differs from not set; "" when an empty Bool, Int or Number is a mistake.
	EmptyMeans string
	// Only narrows the scopes to fewer than those of the readers.
	Only []string
}

// Scopes lists the scopes in which some reader of v runs, in the order of Scopes.
func (v Var) Scopes() []string {
	if len(v.Only) > 0 {
		return v.Only
	}
	var out []string
	for _, s := range Scopes() {
		if slices.ContainsFunc(v.Readers, func(r Reader) bool { return slices.Contains(r.Scopes(), s) }) {
			out = append(out, s)
		}
	}
	return out
}

// ReadIn says whether some reader of v runs in a process of the given scope
// when the workers run the given engine. An empty engine stands for any.
func (v Var) ReadIn(scope, engine string) bool {
	if len(v.Only) > 0 && !slices.Contains(v.Only, scope) {
		return false
	}
	return slices.ContainsFunc(v.Readers, func(r Reader) bool {
		return slices.Contains(r.Scopes(), scope) && (engine == "" || r.WithEngine(engine))
	})
}

// Table is the list with an index. The zero value is empty; use Known.
type Table struct {
	vars []Var
	at   map[string]int
}

// Known returns the list of known variables. It is built at each call: keep it.
func Known() *Table {
	const some = 1024 // more than there are
	t := &Table{vars: make([]Var, 0, some), at: make(map[string]int, some)}
	for _, g := range groups() {
		for _, v := range g.vars {
			if len(v.Readers) == 0 {
				v.Readers = g.readers
			}
			if v.Kind == "" {
				v.Kind = String
			}
			v.Secret = v.Secret || secretName(v.Name)
			t.at[v.Name] = len(t.vars)
			t.vars = append(t.vars, v)
		}
	}
	return t
}

// All returns every variable, sorted by name.
func (t *Table) All() []Var {
	return slices.SortedFunc(slices.Values(t.vars), func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
}

// Lookup finds a variable by its exact name.
func (t *Table) Lookup(name string) (Var, bool) {
	i, ok := t.at[name]
	if !ok {
		return Var{}, false
	}
	return t.vars[i], true
}

// Lookup finds one variable by its exact name. Callers with many questions use
// Known once.
func Lookup(name string) (Var, bool) { return Known().Lookup(name) }

// Nearest returns up to three names that were probably meant by name, best
// first. Callers with many questions use Known once.
func Nearest(name string) []string { return Known().Nearest(name) }

// MaxBytes is the longest that NAME=VALUE of one variable can be: Linux takes 32
// pages for one string of a program's start, its final NUL among them.
const MaxBytes = 32*4096 - 1

// ValidName says whether name can be an environment variable that every shell
// passes on: letters, digits and '_', not starting with a digit.
func ValidName(name string) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}
