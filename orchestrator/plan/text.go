package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// checkText refuses text that a process could not be given, and text that would
// be taken for a placeholder.
func (b *builder) checkText() {
	for _, doc := range []struct {
		of   any
		fail func(path, msg, hint string)
	}{{b.in.Recipe, b.fail}, {b.in.Site, b.failSite}} {
		eachText(reflect.ValueOf(doc.of), "", func(path, text string) {
			if strings.Contains(text, models.PlaceholderOpen) {
				doc.fail(path, fmt.Sprintf("%q holds %q, which this tool replaces on the node", text, models.PlaceholderOpen), "write the text another way; values of env may hold it")
			}
			if strings.ContainsRune(text, 0) {
				doc.fail(path, "the text holds a NUL character, which no argument can carry", "")
			}
		})
	}
	for _, m := range b.envMaps() {
		for _, name := range slices.Sorted(maps.Keys(m.vars)) {
			if strings.ContainsRune(m.vars[name].Value, 0) {
				b.fail(envKey(m.key, name), fmt.Sprintf("the value of %s holds a NUL character, which no variable can carry", name), "")
			}
		}
	}
	for _, s := range b.in.Env {
		switch {
		case !env.ValidName(s.Name):
			b.failHere(fmt.Sprintf("--env: %q is not a name that a variable can have", s.Name), "write --env NAME=VALUE")
		case s.Scope != "" && !slices.Contains(env.Scopes(), s.Scope):
			b.failHere(fmt.Sprintf("--env: there is no scope %q", s.Scope), "scopes: "+strings.Join(env.Scopes(), ", "))
		case strings.ContainsRune(s.Value, 0):
			b.failHere(fmt.Sprintf("--env: the value of %s holds a NUL character", s.Name), "")
		default:
			if known, ok := b.known.Lookup(s.Name); !ok {
				b.warn("--env %s: nothing is known to read it%s", s.Name, meant(b.known.Nearest(s.Name)))
			} else if _, err := known.Canonical(s.Value); err != nil {
				b.failHere("--env: "+s.Name+" "+err.Error(), "")
			}
		}
	}
}

// eachText calls f with every text of a document but the values of variables,
// which are carried as they are, whatever they hold.
func eachText(v reflect.Value, path string, f func(path, text string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), path, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			eachText(v.Field(i), strings.TrimPrefix(path+"."+key, "."), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[models.EnvMap]() {
			return
		}
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			eachText(v.MapIndex(k), path+"."+k.String(), f)
		}
	case reflect.String:
		f(path, v.String())
	}
}

func meant(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
