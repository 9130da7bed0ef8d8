package plan

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/disagg/disagg/internal/redact"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// hidden stands for the value of a secret wherever values are shown.
const hidden = "(secret)"

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
			if len(val) >= shortestSecret && (env.Secret(name) || env.SecretValue(val)) && !slices.Contains(b.secrets, val) {
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

// Redactor hides the secrets in a run's inputs, for messages about them: a mistake
// is shown with the text, and the line of the file, that it is in. Recipe and site
// may be nil.
func Redactor(in Inputs) *redact.Redactor {
	secrets := map[string][]byte{}
	add := func(name, val string) {
		if env.Secret(name) || env.SecretValue(val) {
			secrets[name] = []byte(val)
		}
	}
	for name, val := range environment(in.SubmitEnv) {
		add(name, val)
	}
	if in.Recipe != nil && in.Site != nil {
		for _, m := range (&builder{in: in}).envMaps() {
			for name, v := range m.vars {
				add(name, v.Value)
			}
		}
	}
	for _, s := range in.Env {
		add(s.Name, s.Value)
	}
	return redact.New(secrets)
}

// checkLeaks refuses texts of the files that hold the value of a secret: they
// stand in the plan, on command lines, in job.slurm or in docker inspect.
func (b *builder) checkLeaks() {
	const msg, hint = "the text holds the value of a secret of this run, and it would be shown in the plan and on command lines", "give it in a variable that is forwarded by name"
	for _, doc := range []struct {
		of   any
		fail func(path, msg, hint string)
	}{{b.in.Recipe, b.fail}, {b.in.Site, b.failSite}} {
		eachText(reflect.ValueOf(doc.of), "", func(path, text string) {
			if b.holdsSecret(text) {
				doc.fail(path, msg, hint)
			}
		})
	}
	for i, p := range b.in.Site.Profiles {
		for _, name := range slices.Sorted(maps.Keys(p.Env)) {
			if b.holdsSecret(p.Env[name].Value) && !env.Secret(name) {
				b.failSite(envKey(fmt.Sprintf("profiles[%d].env", i), name), fmt.Sprintf("%s holds the value of a secret of this run, and a profile is part of the plan", name), hint)
			}
		}
	}
}

// checkArgv refuses flags that carry secrets by their meaning: everybody on the
// node reads command lines.
func (b *builder) checkArgv() {
	for _, p := range b.plan.Processes() {
		for _, word := range p.Argv {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if strings.HasPrefix(word, "--") && env.Secret(strings.ReplaceAll(name, "-", "_")) {
				b.fail(p.Scope, fmt.Sprintf("the argument --%s of %s carries a secret, and every user of a node can read arguments", name, p.ID), "give it in a variable that is forwarded by name")
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
			// What lost can hold a secret although what won does not.
			o.Over = slices.Clone(o.Over)
			for i, old := range o.Over {
				if from, val, _ := strings.Cut(old, "="); b.holdsSecret(val) || env.SecretValue(val) {
					o.Over[i] = from + "=" + hidden
				}
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
