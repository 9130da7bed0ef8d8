package legacy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// reader reads the variables of one run and remembers which it looked at, so
// that what nothing reads can be reported.
type reader struct {
	env  map[string]string
	seen map[string]bool
	// errs name the variable as their path.
	errs  []models.FieldError
	notes []models.FieldError
}

func newReader(env map[string]string) *reader {
	return &reader{env: env, seen: map[string]bool{}}
}

// environ reads NAME=value lines; later ones win.
func environ(list []string) map[string]string {
	env := map[string]string{}
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

// get returns a variable, or the default where it is unset or empty: the
// scripts made no difference.
func (r *reader) get(name, or string) string {
	r.seen[name] = true
	if v := r.env[name]; v != "" {
		return v
	}
	return or
}

// word is get for a value that becomes one word: the scripts split it at blanks.
func (r *reader) word(name, or string) string {
	v := r.get(name, or)
	if strings.ContainsAny(v, " \t\n") {
		r.fail(name, fmt.Sprintf("%q holds a blank, at which the scripts cut the value in two", v), "write one word")
		return or
	}
	return v
}

// number reads a whole number of at least low.
func (r *reader) number(name string, or, low int) int {
	v := r.get(name, "")
	if v == "" {
		return or
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low {
		r.fail(name, fmt.Sprintf("%q is not a whole number from %d", v, low), "")
		return or
	}
	return n
}

// truth reads a boolean in any spelling; the scripts had several readers that
// disagreed about all but one.
func (r *reader) truth(name string, or bool) bool {
	v := r.get(name, "")
	if v == "" {
		return or
	}
	b, err := models.ParseBool(v)
	if err != nil {
		r.fail(name, err.Error(), "")
		return or
	}
	return bool(b)
}

// fail reports a mistake in a variable, once.
func (r *reader) fail(name, msg, hint string) {
	r.errs = appendOnce(r.errs, models.FieldError{Path: name, Msg: name + ": " + msg, Hint: hint})
}

// note reports a variable whose value changes nothing.
func (r *reader) note(name, msg, hint string) {
	r.notes = appendOnce(r.notes, models.FieldError{Path: name, Msg: name + ": " + msg, Hint: hint})
}

func appendOnce(list []models.FieldError, e models.FieldError) []models.FieldError {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}
