package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

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
		if of.role == nil && b.in.RecipeMistakes.At(of.name) {
			workers = append(workers, of.name) // it is meant to be there
		}
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
		hint := "did you mean " + strings.Join(near, " or ") + "? Or,"
		if best, _ := b.known.Lookup(near[0]); best.Key != "" && len(best.Scopes()) == 0 {
			hint = fmt.Sprintf("did you mean %s? In a recipe that is %s;", near[0], best.Key)
		}
		return fmt.Sprintf("nothing is known to read %s", name), hint + " " + custom
	}
	// A site serves every engine, and so may a recipe whose engine is wrong.
	engineName := b.in.Recipe.Engine
	if m.document == "site" || b.in.RecipeMistakes.At("engine") {
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
