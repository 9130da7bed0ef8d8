package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models/env"
	"github.com/disagg/disagg/orchestrator/receipts"
)

// keepReceipt writes down what a process was to have and what it has, and warns
// of variables that came from nowhere known. The file is written beside the
// owner's loop: a file server that hangs must not stop the supervision.
func (r *run) keepReceipt(p *proc, w deploy.Workload, rec deploy.Receipt) {
	record := r.record(p, w, rec)
	r.warnOfExtras(p, record)
	r.wg.Go(func() {
		if err := r.receipts.Append(record); err != nil {
			r.post(r.bg, func() { r.warn(p.warning(fmt.Sprintf("the environment of %s is not on record: %v", p.ID, err))) })
		}
	})
}

// record puts plan and receipt of one process side by side.
func (r *run) record(p *proc, w deploy.Workload, rec deploy.Receipt) receipts.Record {
	out := receipts.Record{Time: time.Now().UTC(), Process: p.ID, Scope: p.Scope, Node: p.node.name}
	planned := map[string]deploy.EnvEntry{}
	for _, e := range w.Env {
		planned[e.Name] = e
	}
	for _, v := range rec.Env {
		rv := receipts.Var{Name: v.Name, HMAC: v.HMAC, Secret: v.HMAC != ""}
		for _, l := range v.Over {
			rv.Over = append(rv.Over, r.layer(p, v.Name, l))
		}
		if v.HMAC == "" {
			rv.Seen = receipts.NewText(v.Value)
		}
		e, ok := planned[v.Name]
		if !ok {
			rv.State = r.layer(p, v.Name, v.Layer)
			out.Vars = append(out.Vars, rv)
			continue
		}
		delete(planned, v.Name)
		rv.State, rv.Origin = receipts.AsPlanned, p.origins[v.Name]
		if e.Secret {
			rv.Secret, rv.Seen = true, nil
		}
		switch {
		case !arrived(e, v, r.key):
			rv.State = receipts.Changed
			fallthrough
		case e.Prepend:
			if !rv.Secret {
				rv.Planned = receipts.NewText(e.Value)
			}
		}
		out.Vars = append(out.Vars, rv)
	}
	for name, e := range planned {
		rv := receipts.Var{Name: name, State: receipts.Missing, Origin: p.origins[name], Secret: e.Secret || env.Secret(name)}
		if !rv.Secret {
			rv.Planned = receipts.NewText(e.Value)
		}
		out.Vars = append(out.Vars, rv)
	}
	for _, v := range p.unset {
		out.Vars = append(out.Vars, receipts.Var{Name: v.Name, State: receipts.Unset, Origin: v.Origin, Planned: receipts.NewText([]byte(v.Value))})
	}
	slices.SortFunc(out.Vars, func(a, b receipts.Var) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// layer says in the words of the record where a variable comes from that the plan
// did not set.
func (r *run) layer(p *proc, name string, l deploy.Layer) receipts.State {
	plain := r.plan.Runtime.Kind == runtimeNone
	switch {
	case l == deploy.LayerTool:
		return receipts.FromTool
	case l == deploy.LayerShell:
		return receipts.FromShell
	case plain && len(env.ForProcess([]string{name + "="})) > 0:
		return receipts.Inherited
	case plain:
		return receipts.Extra
	case slices.Contains(r.imageEnv[p.Image], name):
		return receipts.FromImage
	case env.RuntimeSets(name):
		return receipts.FromRuntime
	}
	return receipts.Extra
}

// warnOfExtras names variables that a process sees although neither the plan nor
// its image sets them, once for each scope.
func (r *run) warnOfExtras(p *proc, rec receipts.Record) {
	var names []string
	for _, v := range rec.Vars {
		key := p.Scope + " " + v.Name
		if v.State == receipts.Extra && !slices.Contains(r.extras, key) {
			r.extras = append(r.extras, key)
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	effect := ""
	if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, "http_proxy") || strings.EqualFold(n, "all_proxy") }) {
		effect = "requests between router and workers may go through that proxy; "
	}
	r.warn(p.warning(fmt.Sprintf("%s (scope %s) sees variables that neither the plan nor its image sets: %s; %slook at the settings of the container runtime on that node",
		p.where(), p.Scope, strings.Join(names, ", "), effect)))
}
