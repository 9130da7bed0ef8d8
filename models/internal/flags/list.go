package flags

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is one flag with its values.
type Flag struct {
	Name string // with its dashes
	Args []string
	// From says who set it; Over what it replaced, nearest first, as
	// "origin=value".
	From string
	Over []string
}

// Parse reads one flag: "--flag", "--flag value", "--flag=value" or
// "--flag a b c".
func Parse(text string) (Flag, error) {
	words, err := Split(text)
	if err != nil {
		return Flag{}, err
	}
	if len(words) == 0 || !IsName(words[0]) {
		return Flag{}, fmt.Errorf("%q is not a flag; write --name or --name value", text)
	}
	f := Flag{Name: words[0], Args: words[1:]}
	if name, value, ok := strings.Cut(f.Name, "="); ok {
		f.Name, f.Args = name, append([]string{value}, f.Args...)
	}
	for _, a := range f.Args {
		if strings.HasPrefix(a, "--") && IsName(a) {
			return Flag{}, fmt.Errorf("%q holds two flags (%s and %s); write one an entry", text, f.Name, a)
		}
	}
	return f, nil
}

// IsName says whether a word is the name of a flag: one or two dashes and then
// a letter, so that -1 is a value.
func IsName(word string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	if rest == word || rest == "" {
		return false
	}
	c := rest[0] | 0x20
	return c >= 'a' && c <= 'z'
}

// Removal returns the name in "!--name", which takes a flag away.
func Removal(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "!")
	return name, ok && IsName(name) && !strings.ContainsAny(name, " =")
}

// Value is the flag's values as one text, for people.
func (f Flag) Value() string { return strings.Join(f.Args, " ") }

// Same says whether two names are one flag: engines take '_' for '-'.
func Same(a, b string) bool {
	return a == b || strings.ReplaceAll(a, "_", "-") == strings.ReplaceAll(b, "_", "-")
}

// List is flags in order.
type List []Flag

// Set puts a flag in: in the place of the first flag of that name, whose
// successors of the same name go away, or at the end.
func (l *List) Set(f Flag) {
	i := l.index(f.Name)
	if i < 0 {
		*l = append(*l, f)
		return
	}
	for _, old := range *l {
		if Same(old.Name, f.Name) {
			f.Over = append(append(f.Over, old.From+"="+old.Value()), old.Over...)
		}
	}
	(*l)[i] = f
	kept := (*l)[:i+1]
	for _, old := range (*l)[i+1:] {
		if !Same(old.Name, f.Name) {
			kept = append(kept, old)
		}
	}
	*l = kept
}

// Add puts a flag at the end, beside others of the same name.
func (l *List) Add(f Flag) { *l = append(*l, f) }

// Drop removes every flag of that name and says whether there was one.
func (l *List) Drop(name string) bool {
	n := len(*l)
	*l = slices.DeleteFunc(*l, func(f Flag) bool { return Same(f.Name, name) })
	return len(*l) < n
}

// Get returns the last flag of that name, the one that argument parsers obey.
func (l List) Get(name string) (Flag, bool) {
	for i := len(l) - 1; i >= 0; i-- {
		if Same(l[i].Name, name) {
			return l[i], true
		}
	}
	return Flag{}, false
}

// Words returns the list as arguments.
func (l List) Words() []string {
	var out []string
	for _, f := range l {
		out = append(append(out, f.Name), f.Args...)
	}
	return out
}

// Names returns the names of the flags in their order.
func (l List) Names() []string {
	out := make([]string, len(l))
	for i, f := range l {
		out[i] = f.Name
	}
	return out
}

// Clone returns a copy that can be edited alone.
func (l List) Clone() List { return slices.Clone(l) }

func (l List) index(name string) int {
	return slices.IndexFunc(l, func(f Flag) bool { return Same(f.Name, name) })
}
