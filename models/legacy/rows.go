package legacy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// row is what the sweep generator made one job of: a search-space entry, and of
// trace replays one concurrency of it.
type row struct {
	key    string
	config config
	placed
	conc []int
	eval int // concurrency to evaluate at; zero: none
	// evalOnly makes the row an evaluation instead of a measurement.
	evalOnly bool
}

// recipes converts the master files.
func (im *importer) recipes() {
	hosts := im.runners()
	first := map[string]string{}
	for _, f := range im.src.Master {
		m, doc := readMaster(f)
		var rows []row
		for _, key := range sorted(m) {
			at := yamlx.Key("", key)
			if other, twice := first[key]; twice {
				doc.FailKey(at, fmt.Sprintf("the key %q is in %s as well", key, other), "a later file would replace it without a word; keep one of them")
			}
			first[key] = f.Path
			if im.wanted(key) {
				rows = append(rows, rowsOf(key, m[key])...)
			}
		}
		if err := doc.Err(); err != nil {
			im.take(err)
			continue
		}
		slices.SortStableFunc(rows, func(a, b row) int { return doc.Positions.Near(a.at).Line - doc.Positions.Near(b.at).Line })
		chooseEvals(rows)
		names := map[string]int{}
		if im.src.Evals != EvalsOnly {
			for i := range rows {
				im.convertRow(doc, rows[i], names, hosts)
			}
		}
		if im.src.Evals == EvalsOnly || im.src.Evals == EvalsAlso {
			for _, r := range rows {
				if r.eval > 0 {
					r.evalOnly = true
					if r.traces != nil {
						r.conc = []int{r.eval}
					}
					im.convertRow(doc, r, names, hosts)
				}
			}
		}
	}
}

// wanted says whether a key was asked for.
func (im *importer) wanted(key string) bool {
	return len(im.src.Keys) == 0 || slices.ContainsFunc(im.src.Keys, func(glob string) bool {
		ok, err := path.Match(glob, key)
		return ok && err == nil
	})
}

// rowsOf makes the rows of one key.
func rowsOf(key string, c config) []row {
	var out []row
	for _, p := range c.spaces(yamlx.Key("", key)) {
		out = append(out, row{key: key, config: c, placed: p, conc: p.concurrencies()})
	}
	return out
}

// fewestEval is the concurrency below which the generator evaluated nothing.
const fewestEval = 16

// chooseEvals marks the entries that the sweep generator evaluated: of each way
// of running, the one with the highest concurrency, at that concurrency; of
// fixed lengths only 8192 in and 1024 out.
func chooseEvals(rows []row) {
	best := map[string]int{}
	for i, r := range rows {
		if r.lengths != nil && (r.lengths.ISL != 8192 || r.lengths.OSL != 1024) {
			continue
		}
		top := slices.Max(r.conc)
		if top < fewestEval {
			continue
		}
		way := r.way()
		if j, ok := best[way]; !ok || slices.Max(rows[j].conc) < top {
			best[way] = i
		}
	}
	for _, i := range best {
		rows[i].eval = slices.Max(rows[i].conc)
	}
}

// way describes how a row runs, without its concurrencies.
func (r row) way() string {
	s := r.space
	s.List, s.Start, s.End = nil, 0, 0
	return fmt.Sprintf("%s %s %s %v %+v %+v %+v", r.key, r.scenario, r.config.Image, s.TP, deref(s.Prefill), deref(s.Decode), []any{s.Spec, s.EP, s.DPAt, s.Offloading})
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// convertRow makes the recipe of one entry and lists its runs.
func (im *importer) convertRow(doc *yamlx.Document, r row, names map[string]int, hosts map[string]host) {
	points := 1
	if r.traces != nil {
		points = len(r.conc)
	}
	place := doc.Positions.Near(r.at).String()
	leave := func(why string) {
		for range points {
			im.out.Runs = append(im.out.Runs, Run{Key: r.key, LeftOut: why, Place: place})
		}
	}
	if why := r.foreign(); why != "" {
		leave(why)
		return
	}
	c := im.rowRecipe(doc, &r, hosts)
	if len(c.errs) > 0 {
		leave(c.errs[0].Msg)
		return
	}
	rec := c.recipe
	agentic := points > 1
	suffix := ""
	if agentic {
		suffix = "-concurrency" + strconv.Itoa(slices.Max(r.conc))
	}
	rec.Name = r.name(rec, names, len(suffix))
	file := path.Join("recipes", safe(r.key), rec.Name+".yaml")
	if agentic {
		// One run for each concurrency, as the generator made one job of each.
		axis := models.SweepAxis{Key: "client.concurrency"}
		for _, n := range r.conc {
			axis.Values = append(axis.Values, models.Scalar(strconv.Itoa(n)))
		}
		rec.Client.Concurrency, rec.Sweep = r.conc[:1], []models.SweepAxis{axis}
	}
	notes := map[string]string{"": fmt.Sprintf("# %s of %s, %s.", r.key, doc.Positions[""].File, strings.TrimPrefix(r.at, yamlx.Key("", r.key)+"."))}
	data, err := yamlx.Encode(rec, notes)
	im.add(file, data, err)
	for i := range points {
		run := Run{Key: r.key, Name: rec.Name, File: file, Place: place}
		if agentic {
			run.Name += "-concurrency" + strconv.Itoa(r.conc[i])
		}
		im.out.Runs = append(im.out.Runs, run)
	}
}

// foreign says why a row is not one that this project runs; empty: it is.
func (r row) foreign() string {
	_, disagg := engineOf(r.config.Framework)
	switch {
	case r.Recipe != "":
		return "it is run from another launcher's recipe, " + r.Recipe
	case r.Worker != nil:
		return "it has workers over several nodes without disaggregation"
	case r.Prefill != nil && !disagg:
		return fmt.Sprintf("its framework is %s; %s", r.config.Framework, frameworks)
	case r.TP > 0 && r.config.Framework != "sglang":
		return fmt.Sprintf("it is one node without disaggregation on %s; here only sglang does that", r.config.Framework)
	case r.Backend != nil && r.Backend.Name != "hicache":
		return fmt.Sprintf("its KV offload backend is %s; here it is hicache", r.Backend.Name)
	case r.Prefill != nil && r.Prefill.Hardware != r.Decode.Hardware:
		return fmt.Sprintf("prefill and decode are on different hardware, %s and %s", r.Prefill.Hardware, r.Decode.Hardware)
	}
	return ""
}

// name makes a name of how a row runs. Those that are taken get a number.
func (r row) name(rec *models.Recipe, names map[string]int, room int) string {
	b := &strings.Builder{}
	b.WriteString(safe(r.config.ModelPrefix))
	if r.lengths != nil {
		fmt.Fprintf(b, "_%s%s", short(r.lengths.ISL), short(r.lengths.OSL))
	}
	part := func(mark string, x *models.Role) {
		fmt.Fprintf(b, "_%s%dx%d", mark, x.Workers, x.TP)
		if x.EP > 1 {
			fmt.Fprintf(b, "ep%d", x.EP)
		}
		if x.DPAttention {
			b.WriteString("dpa")
		}
	}
	if rec.Aggregate != nil {
		part("a", rec.Aggregate)
	} else {
		part("p", rec.Prefill)
		part("d", rec.Decode)
	}
	if rec.Speculative != nil {
		fmt.Fprintf(b, "_mtp%d", rec.Speculative.Tokens)
	}
	if rec.KVOffload != nil {
		b.WriteString("_" + rec.KVOffload.Backend)
	}
	if r.lengths != nil {
		fmt.Fprintf(b, "_c%d", slices.Min(r.conc))
		if len(r.conc) > 1 {
			fmt.Fprintf(b, "-%d", slices.Max(r.conc))
		}
	}
	if r.evalOnly {
		b.WriteString("_eval")
	}
	name := b.String()
	name = name[:min(len(name), maxName-room-len("-99"))]
	names[r.key+" "+name]++
	if n := names[r.key+" "+name]; n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

// short writes a length as the sweep's names do.
func short(n int) string {
	if n%1024 == 0 {
		return strconv.Itoa(n/1024) + "k"
	}
	return strconv.Itoa(n)
}

// safe makes a text part of a file's name.
func safe(text string) string { return runName(text) }

// rowRecipe converts one row as the scripts would have been called for it.
func (im *importer) rowRecipe(doc *yamlx.Document, r *row, hosts map[string]host) *converter {
	if r.TP > 0 {
		return im.aggregateRow(doc, r, hosts)
	}
	env := map[string]string{
		"FRAMEWORK": r.config.Framework, "MODEL_NAME": r.config.Model[strings.LastIndex(r.config.Model, "/")+1:], "CONTAINER_IMAGE": r.config.Image,
		"MODEL_PREFIX": r.config.ModelPrefix, "PRECISION": r.config.Precision, "SPEC_DECODING": or(r.Spec, "none"),
		"RUNNER_TYPE": r.config.Runner, "DISAGG": strconv.FormatBool(bool(r.config.Disagg)), "KV_P2P_TRANSFER": or(r.Transfer, r.config.Transfer),
		"CONCURRENCIES": joined(r.conc), "REQUEST_RATE": "inf", "RANDOM_RANGE_RATIO": "0.8", "SCENARIO_TYPE": r.scenario,
	}
	if r.evalOnly {
		env["RUN_EVAL"], env["EVAL_ONLY"], env["EVAL_CONC"] = "true", "true", strconv.Itoa(r.eval)
	}
	places := map[string]string{}
	im.roleEnv(doc, r, "PREFILL", r.at+".prefill", r.Prefill, env, places)
	im.roleEnv(doc, r, "DECODE", r.at+".decode", r.Decode, env, places)
	if r.lengths != nil {
		env["ISL"], env["OSL"] = strconv.Itoa(r.lengths.ISL), strconv.Itoa(r.lengths.OSL)
		env["MAX_MODEL_LEN"] = strconv.Itoa(r.lengths.ISL + r.lengths.OSL + 256)
	} else {
		r.agenticEnv(env, hosts)
	}
	rd := newReader(env)
	c := convert(rd, im.src.Catalog)
	im.unknown(doc, r, c)
	im.report(doc, r, rd, places)
	return c
}

// roleEnv sets what the workflow exported for one role: its sizes and, word for
// word, its additional settings.
func (im *importer) roleEnv(doc *yamlx.Document, r *row, role, at string, w *worker, env, places map[string]string) {
	number := func(name string, n int) { env[role+"_"+name] = strconv.Itoa(max(1, n)) }
	number("WORKERS", w.Count)
	number("NUM_WORKERS", w.Count)
	number("TP", w.TP)
	number("EP", w.EP)
	number("PP_SIZE", w.PP)
	number("DCP_SIZE", w.DCP)
	number("PCP_SIZE", w.PCP)
	env[role+"_DP_ATTN"] = strconv.FormatBool(bool(w.DPAt))
	env[role+"_ENABLE_DP"] = env[role+"_DP_ATTN"]
	env[role+"_ENABLE_EP"] = strconv.FormatBool(w.EP > 1)
	for i, s := range w.Settings {
		place := yamlx.Index(at+".additional-settings", i)
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			im.fail(doc, place, fmt.Sprintf("%q is not a setting", s), "write NAME=VALUE")
			continue
		}
		if first, twice := places[name]; twice {
			im.fail(doc, place, fmt.Sprintf("%s is set at %s as well", name, doc.Positions.At(first)), "one of the two would win without a word; keep one")
		}
		env[name], places[name] = value, place
	}
	if env[role+"_NODES"] == "" {
		im.fail(doc, at, fmt.Sprintf("%s has no %s_NODES among its additional-settings", at, role), fmt.Sprintf("add \"%s_NODES=%d\"", role, w.Count))
		env[role+"_NODES"] = strconv.Itoa(w.Count)
	}
	for dim, n := range map[string]int{"pp": w.PP, "dcp-size": w.DCP, "pcp-size": w.PCP} {
		if n > 1 {
			places[role+"_"+strings.ToUpper(strings.TrimSuffix(dim, "-size"))+"_SIZE"] = at + "." + dim
		}
	}
}

func (im *importer) fail(doc *yamlx.Document, at, msg, hint string) {
	p := doc.Positions.Near(at)
	im.errs = append(im.errs, models.FieldError{File: p.File, Line: p.Line, Col: p.Col, Path: at, Msg: msg, Hint: hint})
}

func (im *importer) note(doc *yamlx.Document, at, msg, hint string) {
	p := doc.Positions.Near(at)
	im.notes = append(im.notes, models.FieldError{File: p.File, Line: p.Line, Col: p.Col, Path: at, Msg: msg, Hint: hint})
}

// report gives what the converter found the places of the row, and finds the
// settings that it did not look at.
func (im *importer) report(doc *yamlx.Document, r *row, rd *reader, places map[string]string) {
	where := func(name string) string {
		for _, p := range []string{places[name], map[string]string{"KV_P2P_TRANSFER": yamlx.Key("", r.key) + ".kv-p2p-transfer"}[name]} {
			if p != "" && doc.Positions.Has(p) {
				return p
			}
		}
		return r.at
	}
	for _, e := range rd.errs {
		im.fail(doc, where(e.Path), e.Msg, e.Hint)
	}
	for _, e := range rd.notes {
		im.note(doc, where(e.Path), e.Msg, e.Hint)
	}
	for _, name := range sorted(places) {
		if strings.Contains(places[name], ".additional-settings[") && !rd.seen[name] {
			im.note(doc, places[name], fmt.Sprintf("nothing reads %s: it was exported and dropped before the container", name), "if an engine reads it, write it under env of the recipe")
		}
	}
	mtp := rd.env["DECODE_MTP_SIZE"]
	if r.TP == 0 && (r.Spec == "mtp") != (mtp != "" && mtp != "0") && rd.env["FRAMEWORK"] != "vllm-disagg" {
		im.note(doc, r.at+".spec-decoding", fmt.Sprintf("spec-decoding is %s and DECODE_MTP_SIZE is %s; only the latter was read", or(r.Spec, "none"), or(mtp, "not set")), "make the two agree")
	}
}

// unknown notes a model that the recipe could not be planned with.
func (im *importer) unknown(doc *yamlx.Document, r *row, c *converter) {
	if at := yamlx.Key("", r.key) + ".model"; c.entry == nil {
		im.note(doc, at, fmt.Sprintf("the catalog has no model %s, so recipes of %s cannot be planned yet", c.recipe.Model, r.key), "import its model file with it, or add it to a catalog directory")
	} else if !c.entry.Has(c.recipe.Engine) {
		im.note(doc, at, fmt.Sprintf("the catalog has no settings of %s for %s, so recipes of %s cannot be planned yet", c.recipe.Model, c.recipe.Engine, r.key), "import its model file with it, or add them to a catalog directory")
	}
}

func or(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func joined(list []int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, "x")
}

// agenticEnv is what the workflow and the script for trace replays set.
func (r *row) agenticEnv(env map[string]string, hosts map[string]host) {
	env["IS_AGENTIC"], env["ISL"], env["OSL"], env["DURATION"] = "1", "0", "0", "3600"
	env["KV_OFFLOADING"] = or(r.Offloading, "none")
	if r.Backend != nil {
		env["KV_OFFLOAD_BACKEND"] = r.Backend.Name
	}
	if gb := r.budget(hosts, r.Prefill.Count*r.Prefill.TP, 1); gb > 0 {
		env["TOTAL_CPU_DRAM_GB"] = strconv.Itoa(gb)
	}
	def := func(name, value string) {
		if env[name] == "" {
			env[name] = value
		}
	}
	def("MAX_MODEL_LEN", "1000000")
	if env["KV_OFFLOADING"] == "dram" && env["KV_OFFLOAD_BACKEND"] == "hicache" {
		env["FORCE_HICACHE_RATIO"] = "1"
		def("HICACHE_HOST_POOL_COUNT", "1")
		def("HICACHE_PAGE_SIZE", "256")
		def("HICACHE_RATIO", "3")
		def("HICACHE_MEM_LAYOUT", "page_first")
		def("HICACHE_IO_BACKEND", "direct")
		def("HICACHE_WRITE_POLICY", "write_through")
		def("HICACHE_PREFETCH_POLICY", "best_effort")
		if strings.EqualFold(env["HICACHE_TIER"], "L3") {
			def("HICACHE_STORAGE_BACKEND", "mooncake")
		}
		for name, value := range map[string]string{"MC_MASTER_PORT": "58137", "MC_METADATA_PORT": "8080", "MC_METRICS_PORT": "19003", "MC_MASTER_THREADS": "64",
			"MC_EVICTION_HIGH_WATERMARK": "0.95", "MC_PROTOCOL": "tcp", "MC_GLOBAL_SEG": "64gb"} {
			def(name, value)
		}
	}
	def("MORI_IO_SQ_BACKOFF_TIMEOUT_US", "500000")
	def("PREFILL_ROUTER_POLICY", "consistent_hashing")
	def("ENABLE_METRICS", "1")
	def("DECODE_MTP_SIZE", "0")
}

// aggregateRow converts a row of one node without disaggregation.
func (im *importer) aggregateRow(doc *yamlx.Document, r *row, hosts map[string]host) *converter {
	env := map[string]string{"MODEL_PREFIX": r.config.ModelPrefix}
	c := &converter{reader: newReader(env), known: im.src.Catalog, recipe: &models.Recipe{APIVersion: models.APIVersion, Kind: models.KindRecipe}}
	rec := c.recipe
	rec.Engine, rec.Image, rec.Model = r.config.Framework, r.config.Image, r.config.Model[strings.LastIndex(r.config.Model, "/")+1:]
	rec.Shell = "login"
	c.entry, _ = im.src.Catalog.Lookup(rec.Model)
	rec.Aggregate = &models.Role{Workers: 1, TP: r.TP, EP: r.EP, PP: r.PP, DPAttention: r.DPAt}
	if r.Spec == "mtp" {
		// The depth was the script's own.
		rec.Speculative = &models.Speculative{Tokens: 3}
		im.note(doc, r.at+".spec-decoding", "the depth of multi-token prediction was in the old script; 3 is written", "check speculative.tokens of the recipe")
	}
	if r.Offloading == "dram" {
		rec.KVOffload = &models.KVOffload{Backend: "hicache"}
		if !c.ratioOnly() {
			rec.KVOffload.TotalDRAMGB = r.budget(hosts, r.TP, 1)
		}
	}
	rec.Client = &models.ClientSpec{Concurrency: r.conc, Shell: "login"}
	if r.lengths != nil {
		rec.Client.ISL, rec.Client.OSL, rec.Client.RandomRangeRatio = r.lengths.ISL, r.lengths.OSL, "0.8"
		c.bench(rec.Client, r.TP, 0)
	} else {
		rec.Scenario = models.ScenarioAgentic
		c.env["DURATION"], c.env["FRAMEWORK"] = "3600", r.config.Framework
		c.replay(rec.Client, nil)
	}
	im.unknown(doc, r, c)
	if r.evalOnly {
		c.env["RUN_EVAL"], c.env["EVAL_ONLY"], c.env["EVAL_CONC"] = "true", "true", strconv.Itoa(r.eval)
		c.evals()
	}
	im.report(doc, r, c.reader, nil)
	return c
}
