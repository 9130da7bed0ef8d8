package legacy

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/formula"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// sglangModel is an entry of models.yaml.
type sglangModel struct {
	Base    string        `yaml:"base_flags"`
	MTP     string        `yaml:"mtp_flags,omitempty"`
	DP      string        `yaml:"dp_flags,omitempty"`
	EP      string        `yaml:"ep_flags,omitempty"`
	Dir     string        `yaml:"hf_dir,omitempty" is:"word"`
	Prefill sglangPrefill `yaml:"prefill"`
	Decode  sglangDecode  `yaml:"decode"`
}

type sglangPrefill struct {
	Mem     models.Scalar `yaml:"mem_fraction_static,omitempty" is:"share"`
	NoRadix *models.Bool  `yaml:"disable_radix_cache,omitempty"`
	NoGraph models.Bool   `yaml:"disable_cuda_graph,omitempty"`
	DP      prefillMode   `yaml:"dp,omitempty"`
	NoDP    prefillMode   `yaml:"no_dp,omitempty"`
}

type prefillMode struct {
	Running    int           `yaml:"max_running_requests,omitempty" min:"1"`
	Chunk      models.Scalar `yaml:"chunked_prefill_size,omitempty"`
	Graphs     models.Scalar `yaml:"cuda_graph_bs,omitempty"`
	GraphRange string        `yaml:"cuda_graph_bs_range,omitempty"`
	Context    int           `yaml:"context_length,omitempty" min:"1"`
	MaxTokens  int           `yaml:"max_total_tokens,omitempty" min:"1"`
	TwoBatch   models.Bool   `yaml:"enable_two_batch_overlap,omitempty"`
}

type sglangDecode struct {
	Mem        models.Scalar `yaml:"mem_fraction_static,omitempty" is:"share"`
	RoundRobin *models.Bool  `yaml:"prefill_round_robin_balance,omitempty"`
	Radix      models.Bool   `yaml:"disagg_decode_enable_radix_cache,omitempty"`
	DP         decodeMode    `yaml:"dp,omitempty"`
	EPOnly     decodeMode    `yaml:"ep_only,omitempty"`
	NoDP       decodeMode    `yaml:"no_dp,omitempty"`
}

type decodeMode struct {
	Running    int           `yaml:"max_running_requests,omitempty" min:"1"`
	Chunk      models.Scalar `yaml:"chunked_prefill_size,omitempty"`
	GraphRange string        `yaml:"cuda_graph_bs_range,omitempty"`
	Context    int           `yaml:"context_length,omitempty" min:"1"`
}

// sglangModels converts models.yaml. Entries NAME-DI and NAME-AgentX are one
// model's for fixed lengths and for trace replay.
func (im *importer) sglangModels(f File, of func(string) *modelFile) {
	doc := yamlx.ParseForeign(f.Path, f.Data)
	entries := map[string]sglangModel{}
	doc.Decode(&entries)
	doc.Check(&entries, models.Formats())
	if err := doc.Err(); err != nil {
		im.take(err)
		return
	}
	for _, key := range sorted(entries) {
		name, scenario := key, ""
		if n, ok := strings.CutSuffix(key, "-DI"); ok {
			name, scenario = n, models.ScenarioFixed
		} else if n, ok := strings.CutSuffix(key, "-AgentX"); ok {
			name, scenario = n, models.ScenarioAgentic
		}
		c := sglangConverter{importer: im, doc: doc, at: yamlx.Key("", key), scenario: scenario, model: name}
		x := c.convert(entries[key])
		m := of(name)
		if dir := entries[key].Dir; dir != "" {
			m.dirs = []string{dir, name}
		}
		have, twice := m.engines["sglang"]
		if !twice {
			m.engines["sglang"] = x
			continue
		}
		if !reflect.DeepEqual(have.Speculative, x.Speculative) {
			im.fail(doc, c.at+".mtp_flags", fmt.Sprintf("%s.mtp_flags are other than those of the model's other entry", c.at), "a model has one way to speculate here; make them equal")
		}
		if have.Transfer != x.Transfer {
			im.fail(doc, c.at+".base_flags", fmt.Sprintf("%s moves KV with %s, the model's other entry with %s", c.at, x.Transfer, have.Transfer), "a model has one transfer backend here; make them equal")
		}
		have.Layers = append(have.Layers, x.Layers...)
		m.engines["sglang"] = have
	}
}

// sglangConverter converts one entry.
type sglangConverter struct {
	*importer
	doc      *yamlx.Document
	at       string
	scenario string // empty: all
	model    string
	out      catalog.Engine
}

// layer adds what holds for a role and a mode.
func (c *sglangConverter) layer(w catalog.When, l catalog.Layer) {
	if w.Scenario == "" {
		w.Scenario = c.scenario
	}
	if len(w.Role) == 0 {
		w.Role = catalog.Names{models.RolePrefill, models.RoleDecode}
	}
	l.When = w
	c.out.Layers = append(c.out.Layers, l)
}

func is(on bool) *models.Bool {
	b := models.Bool(on)
	return &b
}

func (c *sglangConverter) line(key, text string) flags.List {
	// The scripts put the text between double quotes of a shell.
	text = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text)
	return c.flagLine(c.doc, c.at+"."+key, text)
}

func (c *sglangConverter) convert(m sglangModel) catalog.Engine {
	base := c.line("base_flags", m.Base)
	c.out.Transfer, _ = cut(&base, "--disaggregation-transfer-backend")
	first := catalog.Layer{}
	first.PageSize, _ = cut(&base, "--page-size")
	first.ContextLength, _ = cut(&base, "--context-length")
	first.Flags = texts(base)
	c.layer(catalog.When{}, first)
	c.speculative(m.MTP)
	ep := c.line("ep_flags", m.EP)
	if f, ok := ep.Get("--ep-dispatch-algorithm"); ok && f.Value() == "fake" {
		// Right for throughput, wrong answers in an evaluation.
		ep.Drop(f.Name)
		c.layer(catalog.When{EP: is(true), Eval: is(false)}, catalog.Layer{Flags: texts(flags.List{f})})
	}
	if len(ep) > 0 {
		c.layer(catalog.When{EP: is(true)}, catalog.Layer{Flags: texts(ep)})
	}
	if dp := c.line("dp_flags", m.DP); len(dp) > 0 {
		c.layer(catalog.When{DP: is(true)}, catalog.Layer{Flags: texts(dp)})
	}
	c.prefill(m.Prefill)
	c.decode(m.Decode)
	return c.out
}

// speculative reads mtp_flags, to which the scripts added the depth.
func (c *sglangConverter) speculative(line string) {
	mtp := c.line("mtp_flags", line)
	if len(mtp) == 0 {
		return
	}
	algorithm, ok := mtp.Get("--speculative-algorithm")
	if !ok {
		c.fail(c.doc, c.at+".mtp_flags", c.at+".mtp_flags name no --speculative-algorithm", "depth flags without one are taken and ignored; add it, or remove mtp_flags")
		return
	}
	c.out.Speculative = &catalog.Speculative{Algorithm: algorithm.Value(),
		Flags: append(texts(mtp), "--speculative-num-steps ${mtp}", "--speculative-num-draft-tokens ${mtp + 1}")}
}

func (c *sglangConverter) prefill(p sglangPrefill) {
	role := catalog.Names{models.RolePrefill}
	c.layer(catalog.When{Role: role}, catalog.Layer{MemFraction: or(string(p.Mem), "0.8")})
	if (p.NoRadix == nil || bool(*p.NoRadix)) && c.scenario != models.ScenarioAgentic {
		c.layer(catalog.When{Role: role, Scenario: models.ScenarioFixed}, catalog.Layer{Flags: []string{"--disable-radix-cache"}})
	}
	for _, mode := range []struct {
		key    string
		dp     bool
		m      prefillMode
		graphs string
		run    int
	}{
		{"no_dp", false, p.NoDP, batches(p.NoDP.GraphRange, "1-128"), 128},
		{"dp", true, p.DP, or(string(p.DP.Graphs), "1 2 3"), 24},
	} {
		at := c.at + ".prefill." + mode.key
		l := catalog.Layer{MaxRunningRequests: number(mode.m.Running, mode.run), ChunkedPrefillSize: c.expression(at+".chunked_prefill_size", string(mode.m.Chunk), "PREFILL"),
			CudaGraphs: mode.graphs, ContextLength: number(mode.m.Context, 0)}
		if p.NoGraph {
			l.CudaGraphs = "off"
		}
		if mode.m.MaxTokens > 0 {
			l.Flags = append(l.Flags, fmt.Sprintf("--max-total-tokens %d", mode.m.MaxTokens))
		}
		if mode.m.TwoBatch {
			if mode.dp {
				l.Flags = append(l.Flags, "--enable-two-batch-overlap")
				l.Env = models.EnvMap{"MORI_ENABLE_SDMA": {Value: "true"}}
			} else {
				c.unread(at+".enable_two_batch_overlap", "it counted under dp only")
			}
		}
		c.layer(catalog.When{Role: role, DP: is(mode.dp)}, l)
		for key, set := range map[string]bool{".cuda_graph_bs": !mode.dp && mode.m.Graphs != "", ".cuda_graph_bs_range": mode.dp && mode.m.GraphRange != ""} {
			if set {
				c.unread(at+key, "the other of cuda_graph_bs (dp) and cuda_graph_bs_range (no_dp) counted")
			}
		}
	}
	c.layer(catalog.When{Role: role, EP: is(true), DP: is(true)}, catalog.Layer{MaxRunningRequests: "concurrency"})
}

func (c *sglangConverter) decode(d sglangDecode) {
	role := catalog.Names{models.RoleDecode}
	all := catalog.Layer{MemFraction: or(string(d.Mem), "0.85")}
	if d.RoundRobin == nil || bool(*d.RoundRobin) {
		all.Flags = append(all.Flags, "--prefill-round-robin-balance")
	}
	if d.Radix {
		all.Flags = append(all.Flags, "--disaggregation-decode-enable-radix-cache")
	}
	c.layer(catalog.When{Role: role}, all)
	for _, mode := range []struct {
		key    string
		ep, dp *models.Bool
		m      decodeMode
		graphs string
		run    int
	}{
		{"no_dp", is(false), is(false), d.NoDP, "1-128", 128},
		{"ep_only", is(true), is(false), d.EPOnly, "1-256", 256},
		{"dp", nil, is(true), d.DP, "1-160", 0},
	} {
		at := c.at + ".decode." + mode.key
		graphs := batches(mode.m.GraphRange, mode.graphs)
		l := catalog.Layer{CudaGraphs: graphs, MaxRunningRequests: number(mode.m.Running, mode.run), ContextLength: number(mode.m.Context, 0)}
		if mode.key == "dp" {
			// As many as there are graphs for on every rank.
			_, last, _ := strings.Cut(graphs, "-")
			l.MaxRunningRequests = last + " * tp"
			if mode.m.Running > 0 {
				c.unread(at+".max_running_requests", "the end of cuda_graph_bs_range times the ranks counted")
			}
		}
		if mode.m.Chunk != "" {
			c.unread(at+".chunked_prefill_size", "decode workers prefill nothing, and it was never passed on")
		}
		c.layer(catalog.When{Role: role, EP: mode.ep, DP: mode.dp}, l)
	}
	c.layer(catalog.When{Role: role, EP: is(true), DP: is(true)}, catalog.Layer{MaxRunningRequests: "concurrency"})
}

// unread notes a setting that nothing read.
func (c *sglangConverter) unread(at, why string) {
	c.note(c.doc, at, fmt.Sprintf("nothing reads %s: %s", at, why), "")
}

var formulaName = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// expression turns arithmetic over the scripts' variables into a formula.
func (c *sglangConverter) expression(at, text, role string) string {
	if text == "" {
		return "262144"
	}
	unknown := ""
	out := formulaName.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := map[string]string{role + "_TP_SIZE": "tp", "GPUS_PER_NODE": "gpus_per_node", "DECODE_MTP_SIZE": "mtp",
			// The script for all models set these before the file was read.
			"MORI_MAX_DISPATCH_TOKENS_PREFILL": "8192", "MORI_MAX_DISPATCH_TOKENS_DECODE": "512"}[name]; ok {
			return v
		}
		unknown = name
		return name
	})
	if unknown != "" {
		c.fail(c.doc, at, fmt.Sprintf("%s: %s has no value here; the scripts passed the text on when it had none", at, unknown), "write a number, or a formula over tp, gpus_per_node and mtp")
		return "1"
	}
	if _, err := formula.Parse(out); err != nil {
		c.fail(c.doc, at, fmt.Sprintf("%s: %v", at, err), "")
	}
	return out
}

// batches returns a range of batch sizes; what is no range was the default's.
func batches(text, or string) string {
	if first, last, ok := strings.Cut(text, "-"); ok && first != "" && last != "" {
		return text
	}
	return or
}

// number writes a number, or the default; nothing for zero.
func number(n, or int) string {
	if n == 0 {
		n = or
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
