package plan

import (
	"maps"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
)

// check looks for combinations of settings that would fail or mislead hours
// later. What the recipe allows stays visible as a warning.
func (b *builder) check(in engine.Input) {
	r := b.asForwarded()
	r.Allow = maps.Clone(r.Allow)
	delete(r.Allow, allowLocalNodes) // a rule of the topology, which engines do not know
	in.Recipe = r
	for _, f := range engine.Check(in) {
		switch {
		case f.Allowed != "":
			b.warn("%s: %s; allowed by the recipe: %s", f.Rule, f.Msg, f.Allowed)
		case f.Severity != engine.Error:
			b.warn("%s: %s; %s", f.Rule, f.Msg, f.WayOut)
		case !b.in.RecipePos.Has(f.Path) && b.in.SitePos.Has(f.Path):
			b.failSite(f.Path, f.Msg, b.wayOut(f))
		default:
			b.fail(f.Path, f.Msg, b.wayOut(f))
		}
	}
}

// wayOut says what to do about a finding. Every rule can be broken knowingly.
func (b *builder) wayOut(f engine.Finding) string {
	for _, name := range engine.Rules() {
		if name == f.Rule {
			return f.WayOut + "; or, if it is meant, allow: {" + f.Rule + ": reason}"
		}
	}
	return f.WayOut + ", " + allowLocalNodes
}

// asForwarded returns the recipe with forwarded variables and those of the
// command line in the env of its roles, so that the rules see what the workers
// will get. Secrets are left out: findings quote values.
func (b *builder) asForwarded() *models.Recipe {
	r := *b.in.Recipe
	over := func(role *models.Role, scope string) *models.Role {
		if role == nil {
			return nil
		}
		next := *role
		next.Env = models.EnvMap{}
		maps.Copy(next.Env, role.Env)
		for _, v := range b.forwarded(scope) {
			if !env.Secret(v.Name) {
				next.Env[v.Name] = models.EnvValue{Value: text(v)}
			}
		}
		for _, s := range b.in.Env {
			if (s.Scope == "" || s.Scope == scope) && !env.Secret(s.Name) {
				next.Env[s.Name] = models.EnvValue{Value: s.Value}
			}
		}
		return &next
	}
	r.Prefill = over(r.Prefill, models.RolePrefill)
	r.Decode = over(r.Decode, models.RoleDecode)
	r.Aggregate = over(r.Aggregate, models.RoleAggregate)
	return &r
}
