package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// Origins of variables that no file sets.
const (
	fromForward = "forward"
	fromFlag    = "flag"
	fromDefault = "default"
)

// environment reads NAME=VALUE entries. Of a name given twice the first counts,
// as for getenv.
func environment(entries []string) map[string]string {
	out := make(map[string]string, len(entries))
	for _, e := range entries {
		name, value, ok := strings.Cut(e, "=")
		if _, twice := out[name]; ok && name != "" && !twice {
			out[name] = value
		}
	}
	return out
}

// kind is the first word of an origin: recipe of recipe:FILE:LINE.
func kind(origin string) string {
	word, _, _ := strings.Cut(origin, ":")
	return word
}

// given says whether a person chose the value, not the catalog or an adapter.
func given(origin string) bool {
	switch kind(origin) {
	case "recipe", "site", fromForward, fromFlag:
		return true
	}
	return false
}

// value makes a variable of exact bytes.
func value(name, v, origin string) models.EnvVar {
	out := models.EnvVar{Name: name, Value: v, Origin: origin}
	if !utf8.ValidString(v) {
		out.Value, out.ValueB64 = "", []byte(v)
	}
	return out
}

// text returns the exact value of a variable.
func text(v models.EnvVar) string {
	if v.ValueB64 != nil {
		return string(v.ValueB64)
	}
	return v.Value
}

// shown is a value for people.
func shown(v models.EnvVar) string {
	if v.ValueB64 != nil {
		return fmt.Sprintf("(%d bytes that are not text)", len(v.ValueB64))
	}
	return v.Value
}

// finishEnv puts forwarded variables and those of the command line into every
// process, spells booleans as their readers know them, and takes secrets out.
func (b *builder) finishEnv() {
	for _, p := range b.plan.Processes() {
		b.overlay(p, b.forwarded(p.Scope), true)
		var flags []models.EnvVar
		for _, s := range b.in.Env {
			if s.Scope == p.Scope || s.Scope == "" && env.IsWorker(p.Scope) {
				flags = append(flags, value(s.Name, s.Value, fromFlag))
			}
		}
		b.overlay(p, flags, false)
		for i := range p.Env {
			b.spell(p.Scope, &p.Env[i])
			b.checkLength(p.Scope, p.Env[i])
		}
		slices.SortFunc(p.Env, func(x, y models.EnvVar) int { return strings.Compare(x.Name, y.Name) })
	}
	for _, p := range b.plan.Processes() {
		for i := range p.Env {
			b.hide(p, &p.Env[i])
		}
	}
}

// checkLength refuses, once for each scope, a variable that no process can be
// given.
func (b *builder) checkLength(scope string, v models.EnvVar) {
	n := len(v.Name) + 1 + len(text(v))
	if n <= env.MaxBytes {
		return
	}
	msg := fmt.Sprintf("%s (%s, scope %s) has %d bytes with its name; the kernel takes at most %d for one variable", v.Name, v.Origin, scope, n, env.MaxBytes)
	if !slices.ContainsFunc(b.errs, func(e models.FieldError) bool { return e.Msg == msg }) {
		b.failHere(msg, "put the content into a file that the nodes see, and pass its path")
	}
}

// overlay puts variables over those of a process.
func (b *builder) overlay(p *models.Process, vars []models.EnvVar, warn bool) {
	for _, v := range vars {
		i := slices.IndexFunc(p.Env, func(old models.EnvVar) bool { return old.Name == v.Name })
		if i < 0 {
			p.Env = append(p.Env, v)
		} else {
			old := p.Env[i]
			if warn && kind(old.Origin) == "recipe" && text(old) != text(v) {
				b.warn("%s of the submitting environment is forwarded and replaces the value of %s", v.Name, old.Origin)
			}
			p.Env[i] = v
		}
		b.noteEnv(p.Scope, v)
	}
}

// noteEnv records that a variable now comes from v.
func (b *builder) noteEnv(scope string, v models.EnvVar) {
	key := "env:" + scope + ":" + v.Name
	o := models.Origin{Key: key, Value: shown(v), From: v.Origin}
	for i, old := range b.origins {
		if old.Key != key {
			continue
		}
		if old.From == o.From && old.Value == o.Value {
			return // another rank or worker of the scope
		}
		o.Over = append([]string{old.From + "=" + old.Value}, old.Over...)
		b.origins[i] = o
		return
	}
	b.origins = append(b.origins, o)
}

// spell writes a value that a file or a user gave as its reader knows it.
func (b *builder) spell(scope string, v *models.EnvVar) {
	if v.Expand || v.Prepend || v.ValueB64 != nil || !given(v.Origin) || b.isCustom(scope, v.Name, v.Origin) {
		return
	}
	known, ok := b.known.Lookup(v.Name)
	if !ok {
		return
	}
	if canon, err := known.Canonical(v.Value); err == nil && canon != v.Value {
		written := v.Value
		v.Value = canon
		key := "env:" + scope + ":" + v.Name
		for i := range b.origins {
			if o := &b.origins[i]; o.Key == key && o.Value == written {
				o.Value = canon
				o.Over = append([]string{"as written=" + written}, o.Over...)
			}
		}
	}
}

// isCustom says whether the variable is one that a file marks as its own.
func (b *builder) isCustom(scope, name, origin string) bool {
	for _, m := range b.envMaps() {
		if v, ok := m.vars[name]; ok && bool(v.Custom) && slices.Contains(m.scopes, scope) && kind(origin) == m.document {
			return true
		}
	}
	return false
}
