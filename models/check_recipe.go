package models

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// recipeCheck finds the mistakes of one recipe that need no knowledge of the
// model, the engine or the cluster.
type recipeCheck struct {
	doc *yamlx.Document
	r   *Recipe
	// axes are those of the sweep that can be expanded.
	axes []axis
}

func (c *recipeCheck) run(given []SweepAxis) {
	axes := given
	if given == nil {
		axes = c.r.Sweep
	}
	// What a sweep sets need not be set elsewhere.
	for i, a := range axes {
		if msg, _ := sweepKey(a.Key, axes[:i]); msg == "" {
			c.doc.Excuse(a.Key)
		}
	}
	c.doc.Check(c.r, Formats())
	c.sweep(axes, given == nil)
	c.roles()
	c.kvOffload()
	c.env()
	c.commands()
}

func (c *recipeCheck) roles() {
	r := c.r
	has := func(path string, role *Role) bool { return role != nil || c.doc.Failed(path) }
	prefill, decode, aggregate := has("prefill", r.Prefill), has("decode", r.Decode), has("aggregate", r.Aggregate)
	const hint = "write prefill and decode for workers that share a request, or aggregate for workers that do both"
	switch {
	case aggregate && (prefill || decode):
		c.doc.FailKey("aggregate", "aggregate cannot stand beside prefill and decode", hint)
	case aggregate:
	case prefill && !decode:
		c.doc.Fail("decode", "decode is missing; prefill alone answers no request", hint)
	case decode && !prefill:
		c.doc.Fail("prefill", "prefill is missing; decode alone answers no request", hint)
	case !prefill && !decode:
		c.doc.Fail("prefill", "there are no workers", hint)
	}
	c.restarts()
}

// restarts refuses restarts of workers that cannot come back, and those that
// would never happen.
func (c *recipeCheck) restarts() {
	for _, role := range []string{RolePrefill, RoleAggregate} {
		if path := role + ".restarts"; c.doc.Positions.Has(path) {
			c.doc.FailKey(path, path+": only decode workers can be started again",
				"remove it; decode.restarts is for decode workers")
		}
	}
	r := c.r
	if r.Decode == nil || r.Decode.Restarts < 1 || r.Client != nil || r.Evals != nil || c.doc.Failed("client") || c.doc.Failed("evals") {
		return
	}
	c.doc.FailKey("decode.restarts", "decode.restarts is for workers that die while clients run, and the recipe has neither client nor evals", "remove it, or add a client")
}

func (c *recipeCheck) kvOffload() {
	o := c.r.KVOffload
	if o == nil {
		return
	}
	if o.Ratio != "" && o.TotalDRAMGB != 0 {
		c.doc.Fail("kv_offload.total_dram_gb", "kv_offload.total_dram_gb and kv_offload.ratio both size the host pool", "keep one of them")
	}
	l3 := o.Tier == "L3"
	if o.Storage != "" && !l3 && !c.doc.Failed("kv_offload.tier") {
		c.doc.Fail("kv_offload.storage", "kv_offload.storage needs tier L3", "add \"tier: L3\", or remove storage")
	}
	if l3 && o.Storage == "" && !c.doc.Failed("kv_offload.storage") {
		c.doc.Fail("kv_offload.tier", "kv_offload.tier L3 needs a storage", "add \"storage: mooncake\"")
	}
	if o.Mooncake != nil && o.Storage == "" && !c.doc.Failed("kv_offload.storage") {
		c.doc.FailKey("kv_offload.mooncake", "kv_offload.mooncake tunes a store that the recipe does not use", "add \"storage: mooncake\" and \"tier: L3\", or remove mooncake")
	}
}

// env checks the variables of every scope.
func (c *recipeCheck) env() {
	r := c.r
	checkEnv(c.doc, "env", r.Env)
	for path, role := range map[string]*Role{"prefill": r.Prefill, "decode": r.Decode, "aggregate": r.Aggregate} {
		if role != nil {
			checkEnv(c.doc, path+".env", role.Env)
		}
	}
	if r.Router != nil {
		checkEnv(c.doc, "router.env", r.Router.Env)
	}
	if r.Client != nil {
		checkEnv(c.doc, "client.env", r.Client.Env)
	}
	if r.Evals != nil {
		checkEnv(c.doc, "evals.env", r.Evals.Env)
	}
}

func (c *recipeCheck) commands() {
	if r := c.r.Router; r != nil {
		c.program("router.command", r.Command)
	}
	if cl := c.r.Client; cl != nil {
		c.program("client.command", cl.Command)
		c.words("client.command", cl.Command, ClientWords(), EvalWords())
		if c.r.Scenario == ScenarioAgentic && cl.RandomRangeRatio != "" {
			c.doc.FailKey("client.random_range_ratio", "client.random_range_ratio has no meaning with scenario agentic, where the trace decides lengths", "remove it")
		}
	}
	if e := c.r.Evals; e != nil {
		c.program("evals.command", e.Command)
		c.words("evals.command", e.Command, EvalWords(), ClientWords())
	}
}

// program checks that a command has a program to start.
func (c *recipeCheck) program(path string, argv []string) {
	if len(argv) > 0 && strings.TrimSpace(argv[0]) == "" {
		c.doc.Fail(yamlx.Index(path, 0), path+" begins with an empty word, a program was expected", "")
		return
	}
	if len(argv) == 1 && (strings.Contains(argv[0], " -") || strings.Contains(argv[0], " {")) {
		c.doc.Fail(yamlx.Index(path, 0), fmt.Sprintf("%s is one word with blanks in it, and no program has that name", path),
			"make each word an item of its own; for what a shell shall read, write [sh, -c, \"…\"]")
	}
}

// commonWords are the words of both commands.
func commonWords() []string {
	return []string{"url", "host", "port", "model", "model_path", "concurrency", "result_dir"}
}

// ClientWords are the words in braces that the client's command may hold; they are
// replaced at each point.
func ClientWords() []string {
	return append(commonWords(), "isl", "osl", "random_range_ratio", "duration", "num_prompts", "num_warmups")
}

// EvalWords are those that the evaluation's command may hold.
func EvalWords() []string { return append(commonWords(), "limit") }

var bracedWord = regexp.MustCompile(`\$?\{([A-Za-z_-]+)\}`)

// words finds misspelt words in braces, and those that only the other command has.
// Braces with anything else in them are the command's own (JSON, awk, a shell's
// ${name}).
func (c *recipeCheck) words(path string, argv, here, elsewhere []string) {
	hint := "words that are replaced here: {" + strings.Join(here, "} {") + "}"
	for i, arg := range argv {
		for _, m := range bracedWord.FindAllStringSubmatch(arg, -1) {
			if m[0][0] == '$' || slices.Contains(here, m[1]) {
				continue
			}
			near := yamlx.Nearest(m[1], here)
			if ours := strings.ReplaceAll(strings.ToLower(m[1]), "-", "_"); ours != m[1] && ours != near {
				continue // a word of another kind
			}
			if slices.Contains(elsewhere, m[1]) {
				other := map[string]string{"client.command": "evals.command", "evals.command": "client.command"}[path]
				c.doc.Fail(yamlx.Index(path, i), fmt.Sprintf("%s: {%s} is replaced in %s only", path, m[1], other), "write the value itself; "+hint)
			} else if near != "" {
				c.doc.Fail(yamlx.Index(path, i), fmt.Sprintf("%s: {%s} is replaced by nothing; did you mean {%s}?", path, m[1], near), hint)
			}
		}
	}
}
