package standin

import (
	"strconv"
	"strings"
)

// flags are the options of a command line that is read leniently: every option
// is accepted, because the real programs have hundreds.
type flags map[string][]string

// parseFlags reads "--name value…", "--name=value" and bare "--name". Words up
// to the next option are its values; a repeated option collects.
func parseFlags(args []string) flags {
	f := flags{}
	name := ""
	for _, a := range args {
		if isOption(a) {
			opt, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
			name = opt
			if _, seen := f[name]; !seen {
				f[name] = nil
			}
			if has {
				f[name] = append(f[name], value)
			}
			continue
		}
		if name != "" {
			f[name] = append(f[name], a)
		}
	}
	return f
}

// isOption says whether a word is an option, "--name" or "-tp", and no negative
// number.
func isOption(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil
}

// has says whether one of the names was given.
func (f flags) has(names ...string) bool {
	for _, n := range names {
		if _, ok := f[n]; ok {
			return true
		}
	}
	return false
}

// text is the last value of the first name that was given, else def.
func (f flags) text(def string, names ...string) string {
	for _, n := range names {
		if v := f[n]; len(v) > 0 {
			return v[len(v)-1]
		}
	}
	return def
}

// number is text as a number; what is no number counts as not given.
func (f flags) number(def int, names ...string) int {
	n, err := strconv.Atoi(f.text("", names...))
	if err != nil {
		return def
	}
	return n
}
