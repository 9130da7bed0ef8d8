package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/flags"
)

// adapter is the origin of values that follow from how an engine works.
const adapter = "adapter"

// composer is one call of Compose.
type composer struct {
	in   Input
	out  Output
	errs []models.FieldError
}

// fail reports a mistake at a key of the recipe.
func (c *composer) fail(path, msg, hint string) {
	e := models.FieldError{Path: path, Msg: msg, Hint: hint}
	if !slices.Contains(c.errs, e) {
		c.errs = append(c.errs, e)
	}
}

// warnOnce warns unless the same was said before.
func (c *composer) warnOnce(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.out.Warnings, text) {
		c.out.Warnings = append(c.out.Warnings, text)
	}
}

// where says where a key of the recipe or the site is set.
func (c *composer) where(document, key string) string {
	if c.in.Where != nil {
		if at := c.in.Where(document, key); at != "" {
			return at
		}
	}
	return document
}

// role returns what the recipe says of a role.
func (c *composer) role(name string) *models.Role {
	r := map[string]*models.Role{
		models.RolePrefill:   c.in.Recipe.Prefill,
		models.RoleDecode:    c.in.Recipe.Decode,
		models.RoleAggregate: c.in.Recipe.Aggregate,
	}[name]
	if r == nil {
		return &models.Role{}
	}
	return r
}

// scenario returns the recipe's scenario, fixed by default.
func (c *composer) scenario() string {
	if c.in.Recipe.Scenario == "" {
		return catalog.ScenarioFixed
	}
	return c.in.Recipe.Scenario
}

// evaluates says whether an evaluation will ask the workers for right answers.
func (c *composer) evaluates() bool { return c.in.Recipe.Evals != nil }

// mtp returns the speculative depth; zero: off.
func (c *composer) mtp() int {
	if c.in.Recipe.Speculative == nil {
		return 0
	}
	return c.in.Recipe.Speculative.Tokens
}

// offloads says whether the recipe asks for a KV tier in host memory.
func (c *composer) offloads() bool { return c.in.Recipe.KVOffload != nil }

// concurrency returns the largest number of requests that client or evaluation
// have under way, or zero when the recipe has neither. The client counts even
// when only the evaluation runs: what is evaluated must be what is measured.
func concurrency(r *models.Recipe) int {
	list := models.IntList{0}
	if r.Client != nil {
		list = append(list, r.Client.Concurrency...)
	}
	if r.Evals != nil {
		list = append(list, r.Evals.Concurrency...)
	}
	return slices.Max(list)
}

// first returns the first worker of a role.
func (c *composer) first(role string) *models.Worker {
	for i := range c.in.Layout {
		if c.in.Layout[i].Role == role {
			return &c.in.Layout[i]
		}
	}
	return nil
}

// mode says which layers apply to a worker.
func (c *composer) mode(w *models.Worker) catalog.Mode {
	m := c.commonMode(w.Role)
	m.EP, m.DP = w.EP > 1, w.DP > 1
	return m
}

// commonMode is the part of a mode that all processes of the run share.
func (c *composer) commonMode(role string) catalog.Mode {
	m := catalog.Mode{Role: role, Scenario: c.scenario(), MTP: c.mtp() > 0, Eval: c.evaluates(), Offload: c.offloads(),
		Aggregate: c.first(models.RoleAggregate) != nil}
	if d := c.first(models.RoleDecode); d != nil {
		m.DecodeEP, m.DecodeDP = d.EP > 1, d.DP > 1
	}
	return m
}

// anyDP says whether some worker has data-parallel attention ranks.
func (c *composer) anyDP() bool {
	return slices.ContainsFunc(c.in.Layout, func(w models.Worker) bool { return w.DP > 1 })
}

// builtins are the named integers of formulas; see catalog.Builtins.
func (c *composer) builtins(w *models.Worker) map[string]int64 {
	vars := map[string]int64{"mtp": int64(c.mtp()), "gpus_per_node": int64(c.in.Site.GPUsPerNode)}
	if w != nil {
		vars["tp"], vars["pp"], vars["ep"], vars["dp"] = int64(w.TP), int64(max(1, w.PP)), int64(max(1, w.EP)), int64(max(1, w.DP))
	}
	n := concurrency(c.in.Recipe)
	if n == 0 {
		return vars
	}
	vars["concurrency"] = int64(n)
	if w != nil {
		vars["concurrency_per_rank"] = int64(roundUp(n, w.TP))
	}
	if d := c.first(models.RoleDecode); d != nil {
		vars["decode_concurrency_per_rank"] = int64(roundUp(n, d.TP))
	}
	return vars
}

// roundUp divides so that what is to be shared fits: the old truncation gave
// buffers for zero tokens when the concurrency was below the number of ranks.
func roundUp(n, by int) int { return (n + by - 1) / max(1, by) }

// draft is one process on its way.
type draft struct {
	scope   string
	vars    map[string]int64
	args    flags.List
	environ environment
	catalog.Settings
}

// draft starts a worker's process: the catalog's settings with the recipe's
// over them, formulas computed.
func (c *composer) draft(w *models.Worker) *draft {
	d := &draft{scope: w.Role, environ: environment{}, Settings: c.in.Entry.Settings(c.in.Recipe.Engine, c.mode(w))}
	vars, err := catalog.Evaluate(d.Vars, c.builtins(w))
	if err != nil {
		c.formulaError(w.Role, "vars", err)
	}
	d.vars = vars
	r := c.role(w.Role)
	over := func(v *catalog.Value, key, text string, isSet bool) {
		if isSet {
			v.Set(text, c.where("recipe", w.Role+"."+key))
		}
	}
	over(&d.MemFraction, "mem_fraction", r.MemFraction, r.MemFraction != "")
	over(&d.MaxRunningRequests, "max_running_requests", strconv.Itoa(r.MaxRunningRequests), r.MaxRunningRequests != 0)
	over(&d.ChunkedPrefillSize, "chunked_prefill_size", r.ChunkedPrefillSize, r.ChunkedPrefillSize != "")
	over(&d.ContextLength, "context_length", strconv.Itoa(r.ContextLength), r.ContextLength != 0)
	for _, v := range []struct {
		key   string
		value *catalog.Value
	}{
		{"max_running_requests", &d.MaxRunningRequests},
		{"chunked_prefill_size", &d.ChunkedPrefillSize},
		{"context_length", &d.ContextLength},
		{"page_size", &d.PageSize},
		{"cuda_graph_max", &d.CudaGraphMax},
	} {
		c.compute(d, v.key, v.value)
	}
	if w.ContextLength != 0 && !d.ContextLength.IsSet() {
		d.ContextLength.Set(strconv.Itoa(w.ContextLength), adapter)
	}
	d.Flags = c.expandFlags(d, d.Flags)
	return d
}

// compute replaces a formula by its value, which must be above zero.
func (c *composer) compute(d *draft, key string, v *catalog.Value) {
	if !v.IsSet() {
		return
	}
	n, err := catalog.Eval(v.Text, d.vars)
	if err != nil {
		c.formulaError(d.scope, key, fmt.Errorf("%s: %w", v.From, err))
		return
	}
	if n < 1 {
		c.formulaError(d.scope, key, fmt.Errorf("%s: %s is %d, which is not above zero", v.From, v.Text, n))
		return
	}
	v.Text = strconv.FormatInt(n, 10)
}

// formulaError reports a formula that has no value.
func (c *composer) formulaError(scope, key string, err error) {
	hint := ""
	if strings.Contains(err.Error(), "concurrency") && concurrency(c.in.Recipe) == 0 {
		hint = "the settings of this model depend on the concurrency; give client.concurrency, or set " + scope + "." + key
	}
	c.fail(scope+"."+key, "compute "+key+" of "+scope+": "+err.Error(), hint)
}

// expandFlags computes the formulas in flags.
func (c *composer) expandFlags(d *draft, list flags.List) flags.List {
	out := list.Clone()
	for i := range out {
		out[i].Args = slices.Clone(out[i].Args)
		for j, arg := range out[i].Args {
			text, err := catalog.Expand(arg, d.vars)
			if err != nil {
				c.formulaError(d.scope, out[i].Name, fmt.Errorf("%s: %w", out[i].From, err))
			}
			out[i].Args[j] = text
		}
	}
	return out
}

// flag puts a flag in, in the place of one of the same name.
func (d *draft) flag(from, name string, args ...string) {
	d.args.Set(flags.Flag{Name: name, Args: args, From: from})
}

// value puts in the flag that carries a setting, when it is set.
func (d *draft) value(name string, v catalog.Value) {
	if v.IsSet() {
		d.args.Set(flags.Flag{Name: name, Args: []string{v.Text}, From: v.From, Over: v.Over})
	}
}

// add puts a flag at the end, beside others of the same name.
func (d *draft) add(name string, args ...string) {
	d.args.Add(flags.Flag{Name: name, Args: args, From: adapter})
}

// take puts in the flags of a list, each in the place of one of the same name.
func (d *draft) take(list flags.List) {
	for _, f := range list {
		d.args.Set(f)
	}
}

// texts puts in flags that a file gives as texts at a key.
func (c *composer) texts(d *draft, list []string, key, from string) {
	for i, text := range list {
		if name, ok := flags.Removal(text); ok {
			if !d.args.Drop(name) {
				hint := ""
				if near := meantFlag(name, d.args.Names()); near != "" {
					hint = "did you mean !" + near + "?"
				}
				c.fail(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%s takes a flag away that nothing sets", text), hint)
			}
			continue
		}
		f, err := flags.Parse(text)
		if err != nil {
			c.fail(fmt.Sprintf("%s[%d]", key, i), err.Error(), "")
			continue
		}
		f.From = from
		if from == "" {
			f.From = c.where("recipe", fmt.Sprintf("%s[%d]", key, i))
		}
		for j, arg := range f.Args {
			if f.Args[j], err = catalog.Expand(arg, d.vars); err != nil {
				c.fail(fmt.Sprintf("%s[%d]", key, i), err.Error(), "")
			}
		}
		d.args.Set(f)
	}
}

// speculate puts in the flags of multi-token prediction. They go to every
// worker: the draft layers take part in the KV of prefill too, so a role
// without them hands over another number of layers.
func (c *composer) speculate(d *draft) {
	if c.mtp() == 0 {
		return
	}
	s, from := c.in.Entry.Speculative(c.in.Recipe.Engine)
	if s != nil {
		c.texts(d, s.Flags, "speculative.tokens", from)
	}
}

// fill returns the worker with its processes complete. ranked gives the flags
// of one rank beyond those of the worker.
func (c *composer) fill(w models.Worker, d *draft, program []string, ranked func(rank int, d *draft)) models.Worker {
	r := c.role(w.Role)
	c.texts(d, r.Flags, w.Role+".flags", "")
	c.workerEnv(d, &w)
	w.Ranks = slices.Clone(w.Ranks)
	w.MTP = c.mtp()
	if d.ContextLength.IsSet() {
		w.ContextLength, _ = strconv.Atoi(d.ContextLength.Text)
	}
	for i := range w.Ranks {
		rank := &w.Ranks[i]
		one := &draft{scope: d.scope, vars: d.vars, args: d.args.Clone(), environ: maps.Clone(d.environ), Settings: d.Settings}
		if ranked != nil {
			ranked(i, one)
		}
		c.masked(one, &w, rank)
		rank.Argv = append(slices.Clone(program), one.args.Words()...)
		rank.Env = one.environ.list()
		rank.Scope = w.Role
		rank.Image = firstText(rank.Image, c.in.Recipe.Image)
		rank.Shell = firstText(rank.Shell, c.in.Recipe.Shell, c.in.Entry.Shell(c.in.Recipe.Engine))
		rank.Accelerated = true
		if i == 0 && w.Index == 0 {
			c.origins(w.Role, one)
		}
	}
	return w
}

// masked hides the GPUs of other workers from one that does not start at the
// node's first: engines count devices from the first they see.
func (c *composer) masked(d *draft, w *models.Worker, rank *models.Process) {
	if len(rank.GPUs) > 0 && rank.GPUs[0] != 0 {
		ids := make([]string, len(rank.GPUs))
		for i, g := range rank.GPUs {
			ids[i] = strconv.Itoa(g)
		}
		d.environ.set("HIP_VISIBLE_DEVICES", strings.Join(ids, ","), adapter)
	}
}

// origins records where the flags and variables of a scope come from.
func (c *composer) origins(scope string, d *draft) {
	for _, f := range d.args {
		c.out.Origins = append(c.out.Origins, models.Origin{
			Key: "flag:" + scope + ":" + f.Name, Value: f.Value(), From: f.From, Over: f.Over})
	}
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		v := d.environ[name]
		c.out.Origins = append(c.out.Origins, models.Origin{
			Key: "env:" + scope + ":" + name, Value: v.Text, From: v.From, Over: v.Over})
	}
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// addr is the placeholder of a plan node's address.
func addr(node int) string { return fmt.Sprintf("@{node.%d.addr}", node) }

// url is the address of a worker's or router's HTTP server.
func url(node, port int) string { return fmt.Sprintf("http://%s:%d", addr(node), port) }

// port returns the number of a rank's port by name, or the default.
func port(p models.Process, name string, or int) int {
	for _, q := range p.Ports {
		if q.Name == name {
			return q.Number
		}
	}
	return or
}
