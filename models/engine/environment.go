package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// variable is one variable on its way, with what it replaced.
type variable struct {
	catalog.Value
	expand  bool // holds placeholders
	prepend bool // goes before what the image has
}

// environment is variables by name.
type environment map[string]variable

// set sets a plain value over what was there.
func (e environment) set(name, text, from string) {
	v := e[name]
	v.Set(text, from)
	e[name] = variable{Value: v.Value}
}

// fact sets a value with placeholders unless something else is there already:
// facts of the node are what the fabric says when no file says otherwise.
func (e environment) fact(name, text string) {
	if _, there := e[name]; !there {
		e[name] = variable{Value: catalog.Value{Text: text, From: adapter}, expand: true}
	}
}

// list returns the variables sorted by name.
func (e environment) list() []models.EnvVar {
	out := make([]models.EnvVar, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		v := e[name]
		out = append(out, models.EnvVar{Name: name, Value: v.Text, Expand: v.expand, Prepend: v.prepend, Origin: v.From})
	}
	return out
}

// workerEnv merges a worker's variables: facts of the fabric, then catalog,
// site, recipe and the recipe's role; later ones win.
func (c *composer) workerEnv(d *draft, w *models.Worker) {
	c.fabric(d, w)
	c.catalogEnv(d)
	c.given(d.environ, "site", "env", c.in.Site.Env)
	c.given(d.environ, "recipe", "env", c.in.Recipe.Env)
	c.given(d.environ, "recipe", w.Role+".env", c.role(w.Role).Env)
}

// catalogEnv puts the layers' variables over what is there.
func (c *composer) catalogEnv(d *draft) {
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		v := d.Env[name]
		text, err := catalog.Expand(v.Text, d.vars)
		if err != nil {
			c.formulaError(d.scope, "env."+name, fmt.Errorf("%s: %w", v.From, err))
		}
		d.environ.over(name, catalog.Value{Text: text, From: v.From, Over: v.Over}, false)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Prepend)) {
		d.environ.over(name, d.Prepend[name], true)
	}
}

// over puts a value with its own history over what is there.
func (e environment) over(name string, v catalog.Value, prepend bool) {
	if old, there := e[name]; there {
		v.Over = append(slices.Clone(v.Over), append([]string{old.From + "=" + old.Text}, old.Over...)...)
	}
	e[name] = variable{Value: v, prepend: prepend}
}

// given puts a file's variables over what is there.
func (c *composer) given(e environment, document, key string, vars models.EnvMap) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		e.set(name, vars[name].Value, c.where(document, yamlx.Key(key, name)))
	}
}

// fabric sets what the node's network says: device lists, interface, traffic
// class and service level. They are read on each node, never guessed from its
// name, because nodes of one rack can differ.
func (c *composer) fabric(d *draft, w *models.Worker) {
	e := d.environ
	if w.Role == models.RoleAggregate && len(w.Ranks) == 1 {
		return // nothing leaves the node
	}
	if c.in.Recipe.Engine == ATOM {
		return // its KV transfer finds devices and classes itself
	}
	e.fact("NCCL_IB_HCA", "@{self.rdma}")
	e.fact("NCCL_SOCKET_IFNAME", "@{self.if}")
	e.fact("GLOO_SOCKET_IFNAME", "@{self.if}")
	for _, user := range []string{"MORI_RDMA", "MORI_IO"} {
		e.fact(user+"_TC", "@{self.tc}")
		e.fact(user+"_SL", "@{self.sl}")
	}
	if c.in.Recipe.Engine == VLLM {
		e.fact("UCX_NET_DEVICES", "@{self.rdma.0}:1")
		e.fact("UCX_IB_TRAFFIC_CLASS", "@{self.tc}")
		e.fact("UCX_IB_SL", "@{self.sl}")
	}
}
