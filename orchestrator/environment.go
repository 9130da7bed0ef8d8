package orchestrator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

// environment gives the planned variables their values on this node. It leaves
// with the process who planned each of them there, and which are not set because
// the node does not tell what they stand for.
func (r *run) environment(p *proc, f *facts) ([]deploy.EnvEntry, error) {
	planned := r.withProfile(p)
	p.origins, p.unset = make(map[string]string, len(planned)), nil
	out := make([]deploy.EnvEntry, 0, len(planned))
	for _, v := range planned {
		p.origins[v.Name] = v.Origin
		e := deploy.EnvEntry{Name: v.Name, Secret: v.Secret, Prepend: v.Prepend, Value: []byte(v.Value)}
		switch {
		case v.Secret:
			value, ok := r.secrets[v.Name]
			if !ok {
				return nil, fmt.Errorf("the value of secret %s of %s is not in the run directory", v.Name, p.ID)
			}
			e.Value = value
		case v.ValueB64 != nil:
			e.Value = v.ValueB64
		case v.Expand:
			text, known, err := f.expand(v.Value)
			if err != nil {
				return nil, fmt.Errorf("resolve variable %s of %s: %w", v.Name, p.ID, err)
			}
			if !known {
				p.unset = append(p.unset, v) // not set at all: an empty value would mean something
				continue
			}
			e.Value = []byte(text)
		}
		out = append(out, e)
	}
	return out, nil
}

// othersSecrets are the secrets of the run that a process with this environment
// is not given. They are kept out of its log all the same.
func (r *run) othersSecrets(env []deploy.EnvEntry) map[string][]byte {
	out := maps.Clone(r.secrets)
	for _, e := range env {
		if e.Secret {
			delete(out, e.Name)
		}
	}
	return out
}

// withProfile puts the variables of the node's profile where the site's stand:
// over the catalog's, below the recipe's and what was forwarded.
func (r *run) withProfile(p *proc) []models.EnvVar {
	prof := r.profile(p.node)
	if prof == nil || len(prof.Env) == 0 || p.worker == nil {
		return p.Env
	}
	out := slices.Clone(p.Env)
	for _, name := range sortedKeys(prof.Env) {
		v := models.EnvVar{Name: name, Value: prof.Env[name].Value, Origin: "site profile " + prof.Nodes}
		i := slices.IndexFunc(out, func(o models.EnvVar) bool { return o.Name == name })
		switch {
		case i < 0:
			out = append(out, v)
		case !strongerThanSite(out[i].Origin):
			out[i] = v
		}
	}
	slices.SortFunc(out, func(a, b models.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func strongerThanSite(origin string) bool {
	for _, o := range []string{"recipe", "forward", "flag"} {
		if origin == o || strings.HasPrefix(origin, o+":") {
			return true
		}
	}
	return false
}
