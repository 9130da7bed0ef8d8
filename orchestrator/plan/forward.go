package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// forwardKeys are the recipe keys of the lists that forward to a scope, the
// closer one last.
func forwardKeys(scope string) []string {
	switch {
	case env.IsWorker(scope):
		return []string{"forward", scope + ".forward"}
	case scope == env.ScopeRouter:
		return []string{"router.forward"}
	case scope == env.ScopeClient:
		return []string{"client.forward"}
	case scope == env.ScopeEval:
		return []string{"evals.forward"}
	}
	return nil
}

// forwarded are the variables that come to a scope from the submitting
// environment.
func (b *builder) forwarded(scope string) []models.EnvVar {
	var out []models.EnvVar
	for _, key := range forwardKeys(scope) {
		out = append(out, b.forwards[key]...)
	}
	return out
}

// forward reads the lists of names to forward and takes the values from the
// submitting environment.
func (b *builder) forward() {
	r := b.in.Recipe
	b.forwards = map[string][]models.EnvVar{}
	var workers []string
	for _, of := range []struct {
		name string
		role *models.Role
	}{{models.RolePrefill, r.Prefill}, {models.RoleDecode, r.Decode}, {models.RoleAggregate, r.Aggregate}} {
		if of.role != nil {
			workers = append(workers, of.name)
			b.forwardList(of.name+".forward", of.role.Forward, of.name)
		}
	}
	b.forwardList("forward", r.Forward, workers...)
	if r.Router != nil {
		b.forwardList("router.forward", r.Router.Forward, env.ScopeRouter)
	}
	if r.Client != nil {
		b.forwardList("client.forward", r.Client.Forward, env.ScopeClient)
	}
	if r.Evals != nil {
		b.forwardList("evals.forward", r.Evals.Forward, env.ScopeEval)
	}
}

func (b *builder) forwardList(key string, patterns []string, scopes ...string) {
	found := map[string]models.EnvVar{}
	for i, pattern := range patterns {
		at := fmt.Sprintf("%s[%d]", key, i)
		var names []string
		if strings.ContainsAny(pattern, "*?[") {
			names = b.matches(at, pattern)
		} else if b.named(at, pattern, scopes) {
			names = []string{pattern}
		}
		for _, name := range names {
			if v, ok := b.carried(at, name); ok {
				found[name] = v
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		b.forwards[key] = append(b.forwards[key], found[name])
	}
}

// matches returns the names of the submitting environment that a glob means.
func (b *builder) matches(at, pattern string) []string {
	if _, err := path.Match(pattern, ""); err != nil {
		b.fail(at, fmt.Sprintf("%q is not a pattern: a bracket is not closed", pattern), "write names, or globs such as NCCL_*")
		return nil
	}
	if n := strings.IndexAny(pattern, "*?["); n < 2 {
		b.fail(at, fmt.Sprintf("%q would carry most of the submitting shell into the run", pattern), "write names, or globs that begin with a prefix, such as NCCL_*")
		return nil
	}
	var names []string
	for name := range b.submit {
		if ok, _ := path.Match(pattern, name); ok && env.ValidName(name) && !masks(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		b.warn("%s: %s matches nothing in the submitting environment", at, pattern)
	}
	slices.Sort(names)
	return names
}

// named says whether a single name can be forwarded, and warns of one that would
// do nothing where it goes.
func (b *builder) named(at, name string, scopes []string) bool {
	switch {
	case !env.ValidName(name):
		b.fail(at, fmt.Sprintf("%q is not a name that a variable can have", name), "write names, or globs such as NCCL_*")
		return false
	case masks(name):
		b.fail(at, fmt.Sprintf("%s would hide GPUs from workers whose GPUs this plan chooses", name), "remove it")
		return false
	}
	_, set := b.submit[name]
	v, known := b.known.Lookup(name)
	near := b.known.Nearest(name)
	switch {
	case !set && known:
		b.warn("%s: %s is not set in the submitting environment, so it is not set in the run either", at, name)
	case !set:
		b.warn("%s: %s is not set in the submitting environment, and nothing is known to read it%s", at, name, meant(near))
	case strings.HasPrefix(name, "SLURM_"):
		b.warn("%s: %s describes the allocation that is submitted from, not the one that the run gets", at, name)
	case shellOwn(name):
		b.warn("%s: %s of the submitting shell replaces the image's own", at, name)
	case !known && len(near) > 0:
		b.warn("%s: nothing is known to read %s%s", at, name, meant(near))
	case known && len(v.Scopes()) == 0 && v.Key != "":
		b.warn("%s: no process reads %s, it was a setting of the old launcher scripts; write %s in the recipe or the site instead", at, name, v.Key)
	case known && len(v.Scopes()) == 0:
		b.warn("%s: no process reads %s, it was a setting of the old launcher scripts", at, name)
	case known && !slices.ContainsFunc(scopes, func(s string) bool { return v.ReadIn(s, b.in.Recipe.Engine) }):
		b.warn("%s: %s is read by %s, which does not run in %s", at, name, readers(v), strings.Join(scopes, ", "))
	}
	return set
}

// shellOwn names what an image needs its own value of.
func shellOwn(name string) bool {
	return slices.Contains([]string{"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "HOME", "SHELL", "VIRTUAL_ENV"}, name)
}

// carried makes the variable that carries a value of the submitting
// environment, exactly.
func (b *builder) carried(at, name string) (models.EnvVar, bool) {
	v := b.submit[name]
	if known, ok := b.known.Lookup(name); ok {
		if _, err := known.Canonical(v); err != nil {
			b.fail(at, fmt.Sprintf("%s in the submitting environment %s", name, err), "set it right, or unset it")
			return models.EnvVar{}, false
		}
	}
	return value(name, v, fromForward), true
}

// unforwarded warns of variables that were probably meant for the run.
func (b *builder) unforwarded() {
	carried := map[string]bool{}
	for _, list := range b.forwards {
		for _, v := range list {
			carried[v.Name] = true
		}
	}
	var left []string
	for name := range b.submit {
		// Slurm sets masks in every allocation; a run never takes them over.
		if b.known.LooksOurs(name) && !carried[name] && !masks(name) && !slices.Contains(b.in.Understood, name) {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		b.warn("set in the submitting environment but not forwarded: %s; if they are meant for this run, name them under forward, or the forward of a role, of router, client or evals", strings.Join(left, ", "))
	}
}
