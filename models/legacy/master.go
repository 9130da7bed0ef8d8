package legacy

import (
	"fmt"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// master is a master file of a sweep repository: what to measure, by key.
type master map[string]config

// config is one key of a master file.
type config struct {
	Image       string      `yaml:"image" is:"image"`
	Model       string      `yaml:"model" is:"word"`
	ModelPrefix string      `yaml:"model-prefix" is:"word"`
	Runner      string      `yaml:"runner" is:"word"`
	Precision   string      `yaml:"precision" is:"word"`
	Framework   string      `yaml:"framework" is:"word"`
	Multinode   models.Bool `yaml:"multinode"`
	Disagg      models.Bool `yaml:"disagg,omitempty"`
	Router      *component  `yaml:"router,omitempty"`
	Transfer    string      `yaml:"kv-p2p-transfer,omitempty" is:"word"`
	Hardware    *hardware   `yaml:"hardware,omitempty"`
	RecipeDir   string      `yaml:"srt-recipe-dir,omitempty"`
	Scenarios   scenarios   `yaml:"scenarios"`
}

type component struct {
	Name    string `yaml:"name" is:"word"`
	Version string `yaml:"version,omitempty"`
}

type hardware struct {
	Prefill string `yaml:"prefill" is:"word"`
	Decode  string `yaml:"decode" is:"word"`
}

type scenarios struct {
	Fixed   []lengths `yaml:"fixed-seq-len,omitempty" items:"some"`
	Agentic []traces  `yaml:"agentic-coding,omitempty" items:"some"`
}

// lengths is a search space of requests of fixed length.
type lengths struct {
	ISL          int         `yaml:"isl" min:"1"`
	OSL          int         `yaml:"osl" min:"1"`
	RequirePower models.Bool `yaml:"require-power,omitempty"`
	Space        []space     `yaml:"search-space" items:"some"`
}

// traces is a search space of trace replays.
type traces struct {
	TraceSource string         `yaml:"trace-source,omitempty"`
	Utilization *models.Scalar `yaml:"dram-utilization,omitempty" is:"share"`
	Space       []space        `yaml:"search-space" items:"some"`
}

// space is one entry of a search space: one way of running, at some
// concurrencies.
type space struct {
	Spec     string      `yaml:"spec-decoding,omitempty" enum:"none|mtp|draft_model"`
	Start    int         `yaml:"conc-start,omitempty" min:"1" max:"1000000"`
	End      int         `yaml:"conc-end,omitempty" min:"1" max:"1000000"`
	List     []int       `yaml:"conc-list,omitempty" min:"1" items:"some set"`
	Prefill  *worker     `yaml:"prefill,omitempty"`
	Decode   *worker     `yaml:"decode,omitempty"`
	Worker   *worker     `yaml:"worker,omitempty"`
	NumNodes int         `yaml:"num-nodes,omitempty" min:"1"`
	Router   *component  `yaml:"router,omitempty"`
	Transfer string      `yaml:"kv-p2p-transfer,omitempty" is:"word"`
	Power    models.Bool `yaml:"power,omitempty"`
	// Recipe and EvalRecipe are recipes of another launcher.
	Recipe     string `yaml:"srt-recipe,omitempty"`
	EvalRecipe string `yaml:"eval-srt-recipe,omitempty"`

	// One node without disaggregation.
	TP   int         `yaml:"tp,omitempty" min:"1"`
	PP   int         `yaml:"pp,omitempty" min:"1"`
	DCP  int         `yaml:"dcp-size,omitempty" min:"1"`
	PCP  int         `yaml:"pcp-size,omitempty" min:"1"`
	EP   int         `yaml:"ep,omitempty" min:"1"`
	DPAt models.Bool `yaml:"dp-attn,omitempty"`

	Offloading string     `yaml:"kv-offloading,omitempty" enum:"none|dram"`
	Backend    *component `yaml:"kv-offload-backend,omitempty"`
}

// worker is the workers of one role.
type worker struct {
	Count    int         `yaml:"num-worker" min:"1"`
	TP       int         `yaml:"tp" min:"1"`
	PP       int         `yaml:"pp,omitempty" min:"1"`
	DCP      int         `yaml:"dcp-size,omitempty" min:"1"`
	PCP      int         `yaml:"pcp-size,omitempty" min:"1"`
	EP       int         `yaml:"ep" min:"1"`
	DPAt     models.Bool `yaml:"dp-attn"`
	Hardware string      `yaml:"hardware,omitempty" is:"word"`
	Settings []string    `yaml:"additional-settings,omitempty"`
}

// readMaster reads a master file and checks it. What is wrong with it is in the
// document.
func readMaster(f File) (master, *yamlx.Document) {
	doc := yamlx.ParseForeign(f.Path, f.Data)
	m := master{}
	doc.Decode(&m)
	doc.Check(&m, models.Formats())
	for _, key := range sorted(m) {
		at := yamlx.Key("", key)
		if len(m[key].Scenarios.Fixed) == 0 && len(m[key].Scenarios.Agentic) == 0 && !doc.Failed(at+".scenarios") {
			doc.Fail(at+".scenarios", at+".scenarios has nothing to run", "write fixed-seq-len or agentic-coding")
		}
		for _, s := range m[key].spaces(at) {
			checkSpace(doc, s.at, s.space)
		}
		if c := m[key]; c.Disagg && !c.Multinode {
			doc.Fail(at+".disagg", at+".disagg needs multinode", "write multinode: true")
		}
	}
	return m, doc
}

// placed is a search-space entry with its place.
type placed struct {
	at       string
	scenario string
	lengths  *lengths // nil: trace replay
	traces   *traces
	space
}

// spaces lists the search-space entries of a config in order.
func (c config) spaces(at string) []placed {
	var out []placed
	for i := range c.Scenarios.Fixed {
		for j, s := range c.Scenarios.Fixed[i].Space {
			out = append(out, placed{at: yamlx.Index(yamlx.Index(at+".scenarios.fixed-seq-len", i)+".search-space", j), scenario: "fixed-seq-len",
				lengths: &c.Scenarios.Fixed[i], space: s})
		}
	}
	for i := range c.Scenarios.Agentic {
		for j, s := range c.Scenarios.Agentic[i].Space {
			out = append(out, placed{at: yamlx.Index(yamlx.Index(at+".scenarios.agentic-coding", i)+".search-space", j), scenario: "agentic-coding",
				traces: &c.Scenarios.Agentic[i], space: s})
		}
	}
	return out
}

// checkSpace finds what the types cannot say.
func checkSpace(doc *yamlx.Document, at string, s space) {
	if doc.Failed(at) {
		return
	}
	isRange, isList := s.Start > 0 || s.End > 0, len(s.List) > 0
	bad := doc.Failed(at+".conc-list") || doc.Failed(at+".conc-start") || doc.Failed(at+".conc-end")
	switch {
	case bad:
	case isRange && isList:
		doc.Fail(at+".conc-list", at+" has both conc-list and a range", "keep one of them")
	case !isRange && !isList:
		doc.Fail(at, at+" has no concurrency", "write conc-list: [8, 16], or conc-start and conc-end")
	case isRange && (s.Start == 0 || s.End == 0):
		doc.Fail(at, at+" has half a range of concurrencies", "write both conc-start and conc-end")
	case isRange && s.Start > s.End:
		doc.Fail(at+".conc-end", fmt.Sprintf("%s.conc-end %d lies before conc-start %d", at, s.End, s.Start), "")
	}
	pair, one, single := s.Prefill != nil && s.Decode != nil, s.Worker != nil, s.TP > 0
	switch {
	case doc.Failed(at+".prefill") || doc.Failed(at+".decode") || doc.Failed(at+".tp"):
	case !pair && (s.Prefill != nil || s.Decode != nil):
		doc.Fail(at, at+" has prefill or decode, not both", "a request needs both")
	case pair && (one || single) || one && single:
		doc.Fail(at, at+" has more than one kind of workers", "write prefill and decode, or worker, or tp")
	case !pair && !one && !single:
		doc.Fail(at, at+" has no workers", "write prefill and decode, or tp")
	}
	if s.Backend != nil && (s.Offloading == "" || s.Offloading == "none") {
		doc.FailKey(at+".kv-offload-backend", at+".kv-offload-backend has no meaning without kv-offloading", "write kv-offloading: dram, or remove it")
	}
}

// concurrencies lists those of an entry: a range doubles, and its end is always
// one of them.
func (s space) concurrencies() []int {
	if len(s.List) > 0 {
		return s.List
	}
	var out []int
	for n := s.Start; n < s.End; n *= 2 {
		out = append(out, n)
	}
	return append(out, s.End)
}
