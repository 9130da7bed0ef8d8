package plan

import (
	"cmp"
	"fmt"
	"maps"
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

// hidden stands for the value of a secret wherever values are shown.
const hidden = "(secret)"

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

// envMap is one place where a file sets variables.
type envMap struct {
	document string // recipe or site
	key      string
	scopes   []string
	vars     models.EnvMap
}

// envMaps lists every place where recipe and site set variables, with the
// scopes that the variables go to.
func (b *builder) envMaps() []envMap {
	r := b.in.Recipe
	var workers []string
	maps := []envMap{}
	for _, of := range []struct {
		name string
		role *models.Role
	}{{models.RolePrefill, r.Prefill}, {models.RoleDecode, r.Decode}, {models.RoleAggregate, r.Aggregate}} {
		if of.role != nil {
			workers = append(workers, of.name)
			maps = append(maps, envMap{"recipe", of.name + ".env", []string{of.name}, of.role.Env})
		}
	}
	maps = append(maps, envMap{"recipe", "env", workers, r.Env}, envMap{"site", "env", workers, b.in.Site.Env})
	if r.Router != nil {
		maps = append(maps, envMap{"recipe", "router.env", []string{env.ScopeRouter}, r.Router.Env})
	}
	if r.Client != nil {
		maps = append(maps, envMap{"recipe", "client.env", []string{env.ScopeClient}, r.Client.Env})
	}
	if r.Evals != nil {
		maps = append(maps, envMap{"recipe", "evals.env", []string{env.ScopeEval}, r.Evals.Env})
	}
	for i, p := range b.in.Site.Profiles {
		maps = append(maps, envMap{"site", fmt.Sprintf("profiles[%d].env", i), workers, p.Env})
	}
	return maps
}

// checkNames refuses variables that nothing in this run reads, and values that
// their readers do not understand.
func (b *builder) checkNames() {
	for _, m := range b.envMaps() {
		fail := b.fail
		if m.document == "site" {
			fail = b.failSite
		}
		for _, name := range slices.Sorted(maps.Keys(m.vars)) {
			at := envKey(m.key, name)
			v := m.vars[name]
			if !env.ValidName(name) {
				fail(at, fmt.Sprintf("%q is not a name that a variable can have", name), "use letters, digits and _, not starting with a digit")
				continue
			}
			if masks(name) && !bool(v.Custom) {
				fail(at, fmt.Sprintf("%s would hide GPUs from workers whose GPUs this plan chooses", name), "remove it; the plan sets it where workers share a node")
				continue
			}
			if strings.HasPrefix(m.key, "profiles[") && (env.Secret(name) || env.SecretValue(v.Value)) {
				fail(at, fmt.Sprintf("%s is a secret, and a profile is part of the plan", name), "forward it by name in the recipe")
				continue
			}
			if bool(v.Custom) {
				continue
			}
			if msg, hint := b.unread(m, name); msg != "" {
				fail(at, msg, hint)
				continue
			}
			known, _ := b.known.Lookup(name)
			if _, err := known.Canonical(v.Value); err != nil {
				fail(at, name+" "+err.Error(), "")
			}
		}
	}
}

// unread says why nothing would read a variable that a file sets, or "".
func (b *builder) unread(m envMap, name string) (msg, hint string) {
	custom := fmt.Sprintf("if something does read it, write %s: {value: …, custom: true}", name)
	v, ok := b.known.Lookup(name)
	if !ok {
		near := b.known.Nearest(name)
		if len(near) == 0 {
			return fmt.Sprintf("nothing is known to read %s", name), custom
		}
		hint := "did you mean " + strings.Join(near, " or ") + "?"
		if best, _ := b.known.Lookup(near[0]); best.Key != "" && len(best.Scopes()) == 0 {
			hint = fmt.Sprintf("did you mean %s? In a recipe that is %s", near[0], best.Key)
		}
		return fmt.Sprintf("nothing is known to read %s", name), hint + "; " + custom
	}
	// A site serves every engine.
	engineName := b.in.Recipe.Engine
	if m.document == "site" {
		engineName = ""
	}
	if slices.ContainsFunc(m.scopes, func(s string) bool { return v.ReadIn(s, engineName) }) || len(m.scopes) == 0 {
		return "", ""
	}
	switch scopes := v.Scopes(); {
	case len(scopes) == 0 && v.Key != "":
		return fmt.Sprintf("no process reads %s: it was a setting of the old launcher scripts", name), "write " + v.Key + " instead"
	case len(scopes) == 0:
		return fmt.Sprintf("no process reads %s: it was a setting of the old launcher scripts", name), "remove it"
	case !slices.ContainsFunc(scopes, func(s string) bool { return v.ReadIn(s, engineName) }):
		return fmt.Sprintf("%s is read by %s, and this recipe's engine is %s", name, readers(v), b.in.Recipe.Engine), "remove it; " + custom
	default:
		return fmt.Sprintf("%s is read by %s, which does not run in %s", name, readers(v), strings.Join(m.scopes, ", ")),
			fmt.Sprintf("put it under the env of %s; %s", strings.Join(scopes, ", "), custom)
	}
}

func readers(v env.Var) string {
	out := make([]string, len(v.Readers))
	for i, r := range v.Readers {
		out[i] = string(r)
	}
	return strings.Join(out, ", ")
}

// masks says whether a variable hides GPUs. Two of them multiply: what one
// leaves is counted anew by the other.
func masks(name string) bool {
	return name == "HIP_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES" || name == "CUDA_VISIBLE_DEVICES"
}

// envKey is the key path of a variable.
func envKey(key, name string) string {
	if env.ValidName(name) {
		return key + "." + name
	}
	return fmt.Sprintf("%s[%q]", key, name)
}

// finishEnv puts forwarded variables and those of the command line into every
// process, spells booleans as their readers know them, and takes secrets out.
func (b *builder) finishEnv() {
	for _, p := range b.processes() {
		b.overlay(p, b.forwards[forwardKey(p.Scope)], true)
		var flags []models.EnvVar
		for _, s := range b.in.Env {
			if s.Scope == p.Scope || s.Scope == "" && env.IsWorker(p.Scope) {
				flags = append(flags, value(s.Name, s.Value, fromFlag))
			}
		}
		b.overlay(p, flags, false)
		for i := range p.Env {
			b.spell(p.Scope, &p.Env[i])
		}
		slices.SortFunc(p.Env, func(x, y models.EnvVar) int { return strings.Compare(x.Name, y.Name) })
	}
	for _, p := range b.processes() {
		for i := range p.Env {
			b.hide(p, &p.Env[i])
		}
	}
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

// shown is a value for people.
func shown(v models.EnvVar) string {
	if v.ValueB64 != nil {
		return fmt.Sprintf("(%d bytes that are not text)", len(v.ValueB64))
	}
	return v.Value
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

// isCustom says whether the variable is one that a file marks as its own.
func (b *builder) isCustom(scope, name, origin string) bool {
	for _, m := range b.envMaps() {
		if v, ok := m.vars[name]; ok && bool(v.Custom) && slices.Contains(m.scopes, scope) && kind(origin) == m.document {
			return true
		}
	}
	return false
}

// shortestSecret is the length from which a secret is recognised inside other
// values. Shorter ones would be found everywhere by chance.
const shortestSecret = 8

// hide takes the value of a secret out of the plan.
func (b *builder) hide(p *models.Process, v *models.EnvVar) {
	val := text(*v)
	known, _ := b.known.Lookup(v.Name)
	if !known.Secret && !env.Secret(v.Name) && !env.SecretValue(val) && !b.holdsSecret(val) {
		return
	}
	if v.Expand {
		return // made by an adapter from facts of the node
	}
	if k := kind(v.Origin); k == "recipe" || k == "site" {
		b.warn("%s holds the secret %s in clear; forward it by name instead", v.Origin, v.Name)
	}
	if old, there := b.result[v.Name]; there && string(old) != val {
		b.failHere(fmt.Sprintf("the secret %s has one value in %s and another elsewhere; a run holds one value of a secret", v.Name, p.Scope), "give it in one place")
	}
	b.result[v.Name] = []byte(val)
	v.Value, v.ValueB64, v.Secret = "", nil, true
}

// holdsSecret says whether a value contains the value of a secret of this run.
func (b *builder) holdsSecret(val string) bool {
	for _, s := range b.secretValues() {
		if strings.Contains(val, s) {
			return true
		}
	}
	return false
}

// secretValues lists the values, long enough to be told from chance, that must
// appear nowhere.
func (b *builder) secretValues() []string {
	if b.secrets == nil {
		b.secrets = []string{}
		add := func(name, val string) {
			if len(val) >= shortestSecret && env.Secret(name) && !slices.Contains(b.secrets, val) {
				b.secrets = append(b.secrets, val)
			}
		}
		for _, list := range b.forwards {
			for _, v := range list {
				add(v.Name, text(v))
			}
		}
		for _, m := range b.envMaps() {
			for name, v := range m.vars {
				add(name, v.Value)
			}
		}
		for _, s := range b.in.Env {
			add(s.Name, s.Value)
		}
		slices.Sort(b.secrets)
	}
	return b.secrets
}

// checkText refuses text of the user that would be taken for a placeholder.
func (b *builder) checkText() {
	for _, w := range b.userWords() {
		for i, word := range w.words {
			if strings.Contains(word, models.PlaceholderOpen) {
				b.fail(fmt.Sprintf("%s[%d]", w.key, i), fmt.Sprintf("%q holds %q, which this tool replaces on the node", word, models.PlaceholderOpen), "write the text another way; values of env may hold it")
			}
			if strings.ContainsRune(word, 0) {
				b.fail(fmt.Sprintf("%s[%d]", w.key, i), "the text holds a NUL character, which no argument can carry", "")
			}
		}
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

func meant(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// words is a list of texts that become arguments.
type words struct {
	key   string
	words []string
}

// userWords lists every text of the recipe that becomes an argument.
func (b *builder) userWords() []words {
	r := b.in.Recipe
	var out []words
	if r.Prefill != nil {
		out = append(out, words{"prefill.flags", r.Prefill.Flags})
	}
	if r.Decode != nil {
		out = append(out, words{"decode.flags", r.Decode.Flags})
	}
	if r.Aggregate != nil {
		out = append(out, words{"aggregate.flags", r.Aggregate.Flags})
	}
	if r.Router != nil {
		out = append(out, words{"router.command", r.Router.Command}, words{"router.flags", r.Router.Flags})
	}
	if r.Client != nil {
		out = append(out, words{"client.command", r.Client.Command})
	}
	if r.Evals != nil {
		out = append(out, words{"evals.command", r.Evals.Command})
	}
	return out
}

// checkArgv refuses secrets on command lines: everybody on the node reads those.
func (b *builder) checkArgv() {
	for _, p := range b.processes() {
		for _, word := range p.Argv {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if strings.HasPrefix(word, "--") && env.Secret(strings.ReplaceAll(name, "-", "_")) {
				b.fail(p.Scope, fmt.Sprintf("the argument --%s of %s carries a secret, and every user of a node can read arguments", name, p.ID), "give it in a variable that is forwarded by name")
			}
			if b.holdsSecret(word) {
				b.fail(p.Scope, fmt.Sprintf("an argument of %s holds the value of a secret, and every user of a node can read arguments", p.ID), "give it in a variable that is forwarded by name")
			}
		}
	}
}

// finishOrigins hides secrets in the origins and sorts them.
func (b *builder) finishOrigins() {
	secret := map[string]bool{}
	for name := range b.result {
		secret[name] = true
	}
	out := []models.Origin{}
	for _, o := range b.origins {
		if kind, rest, _ := strings.Cut(o.Key, ":"); kind == "env" {
			if _, name, _ := strings.Cut(rest, ":"); secret[name] || env.Secret(name) {
				o.Value = hidden
				over := make([]string, len(o.Over))
				for i, old := range o.Over {
					from, _, _ := strings.Cut(old, "=")
					over[i] = from + "=" + hidden
				}
				o.Over = over
			}
		}
		if len(o.Over) == 0 {
			o.Over = nil
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(x, y models.Origin) int { return cmp.Compare(x.Key, y.Key) })
	b.plan.Origins = out
}
