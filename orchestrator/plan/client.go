package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// Defaults of the client.
const (
	defaultPromptsPerConcurrency = 10
	// fewestPrompts keeps a low concurrency from being measured by a handful
	// of requests.
	fewestPrompts = 16
	// warmupsPerConcurrency fills every slot once while graphs are captured and
	// once more when they are.
	warmupsPerConcurrency = 2
	// resultDir is replaced on the node: the run directory does not exist yet.
	resultDir = "@{result.dir}"
)

// evalOnly says whether the allocation is for the evaluation alone.
func (b *builder) evalOnly() bool {
	e := b.in.Recipe.Evals
	return e != nil && bool(e.Only)
}

// checkClients refuses clients that no place of the workers makes right.
func (b *builder) checkClients() {
	if c := b.in.Recipe.Client; c != nil && !b.evalOnly() {
		switch {
		case len(c.Command) == 0:
			b.fail("client", "client.command is missing: no load is invented", "write the command as a list of words, with {url}, {model}, {concurrency}, {result_dir} where they belong; or remove client to only serve")
		case len(c.Concurrency) == 0:
			b.fail("client", "client.concurrency is missing", "write at least one number, such as concurrency: [8, 16]")
		default:
			b.checkWords("client.command", c.Command, models.ClientWords(), b.clientWords(0, 0, c.Concurrency[0]))
			// Words that follow from the concurrency tell the points apart too.
			if len(c.Concurrency) > 1 && !slices.ContainsFunc(c.Command, func(text string) bool {
				return strings.Contains(text, "{concurrency}") || strings.Contains(text, "{num_prompts}") || strings.Contains(text, "{num_warmups}")
			}) {
				b.warn("client.command does not use {concurrency}: the same command runs for each of %d values of client.concurrency", len(c.Concurrency))
			}
		}
		for i, conc := range c.Concurrency {
			if slices.Contains(c.Concurrency[:i], conc) {
				b.fail(fmt.Sprintf("client.concurrency[%d]", i), fmt.Sprintf("concurrency %d is there twice, and both would write to one result directory", conc), "remove one of them")
			}
		}
	}
	if e := b.in.Recipe.Evals; e != nil {
		if len(e.Command) == 0 {
			b.fail("evals", "evals.command is missing: no evaluation is invented", "write the command as a list of words, with {url}, {model}, {concurrency}, {limit}, {result_dir} where they belong")
			return
		}
		b.checkWords("evals.command", e.Command, models.EvalWords(), b.evalWords(0, 0))
	}
}

// clients plans the load and the evaluation.
func (b *builder) clients() {
	r := b.in.Recipe
	if r.Client != nil && !b.evalOnly() {
		b.client()
	}
	if r.Evals != nil {
		b.eval()
	}
	if b.plan.Client == nil && b.plan.Eval == nil {
		b.warn("the recipe has no client and no evals: the run serves until it is stopped or its time is up")
	}
}

// front returns where clients send their requests: the router, or the only
// worker when there is no router.
func (b *builder) front(key string) (node, port int, ok bool) {
	if b.plan.Router != nil {
		return b.plan.Router.Node, b.plan.Router.Port, true
	}
	if len(b.plan.Workers) == 1 {
		return b.plan.Workers[0].Node, b.plan.Workers[0].Port, true
	}
	b.fail(key, fmt.Sprintf("there is no router, and %d workers: nothing stands for all of them", len(b.plan.Workers)), "give the recipe a router")
	return 0, 0, false
}

// client plans one process for each concurrency.
func (b *builder) client() {
	c := b.in.Recipe.Client
	if len(c.Command) == 0 || len(c.Concurrency) == 0 {
		return
	}
	node, port, ok := b.front("client")
	if !ok {
		return
	}
	b.plan.Client = &models.Client{ISL: c.ISL, OSL: c.OSL}
	for i, conc := range c.Concurrency {
		p := models.ClientPoint{Concurrency: conc, Results: append([]string{}, c.Results...)}
		p.ID, p.Scope, p.Node = fmt.Sprintf("client.c%d", conc), env.ScopeClient, node
		p.Image, p.Shell = or(c.Image, b.in.Recipe.Image), c.Shell
		p.Argv = expand(c.Command, b.clientWords(node, port, conc))
		p.Env = b.pointEnv(env.ScopeClient, "client.env", c.Env, i == 0)
		b.plan.Client.Points = append(b.plan.Client.Points, p)
	}
}

// clientWords are the words that the client's command may use, and their values.
func (b *builder) clientWords(node, port, conc int) map[string]string {
	c := b.in.Recipe.Client
	words := b.commonWords(node, port)
	words["concurrency"] = strconv.Itoa(conc)
	words["num_prompts"] = strconv.Itoa(max(fewestPrompts, conc*or(c.PromptsPerConcurrency, defaultPromptsPerConcurrency)))
	words["num_warmups"] = strconv.Itoa(warmupsPerConcurrency * conc)
	if c.ISL > 0 {
		words["isl"] = strconv.Itoa(c.ISL)
	}
	if c.OSL > 0 {
		words["osl"] = strconv.Itoa(c.OSL)
	}
	if c.RandomRangeRatio != "" {
		words["random_range_ratio"] = c.RandomRangeRatio
	}
	if c.Duration > 0 {
		words["duration"] = strconv.Itoa(int(c.Duration.D().Seconds()))
	}
	return words
}

// eval plans the evaluation: one process.
func (b *builder) eval() {
	e := b.in.Recipe.Evals
	if len(e.Command) == 0 {
		return
	}
	node, port, ok := b.front("evals")
	if !ok {
		return
	}
	p := models.ClientPoint{Results: []string{}}
	p.Concurrency = b.evalConcurrency()
	p.ID, p.Scope, p.Node = "eval", env.ScopeEval, node
	p.Image = or(e.Image, b.in.Recipe.Image)
	p.Argv = expand(e.Command, b.evalWords(node, port))
	p.Env = b.pointEnv(env.ScopeEval, "evals.env", e.Env, true)
	b.plan.Eval = &models.Eval{Only: bool(e.Only), ClientPoint: p}
}

// evalConcurrency is how many requests the evaluation has under way; zero: nobody
// says.
func (b *builder) evalConcurrency() int {
	list := b.in.Recipe.Evals.Concurrency
	if c := b.in.Recipe.Client; len(list) == 0 && c != nil {
		list = c.Concurrency
	}
	if len(list) == 0 {
		return 0
	}
	return slices.Max(list)
}

// evalWords are the words that the evaluation's command may use, and their values.
func (b *builder) evalWords(node, port int) map[string]string {
	words := b.commonWords(node, port)
	if n := b.evalConcurrency(); n > 0 {
		words["concurrency"] = strconv.Itoa(n)
	}
	if l := b.in.Recipe.Evals.Limit; l != "" {
		words["limit"] = l
	}
	return words
}

// commonWords are the words that every client command may use.
func (b *builder) commonWords(node, port int) map[string]string {
	host := fmt.Sprintf("@{node.%d.addr}", node)
	return map[string]string{
		"host": host, "port": strconv.Itoa(port), "url": "http://" + host + ":" + strconv.Itoa(port),
		"model": b.plan.Model.Name, "model_path": b.plan.Model.Path, "result_dir": resultDir,
	}
}

// settable are words that have a value only when a key of the recipe is set. An
// evaluation without a concurrency of its own takes the client's.
func settable() map[string]string {
	return map[string]string{
		"isl": "client.isl", "osl": "client.osl", "random_range_ratio": "client.random_range_ratio",
		"duration": "client.duration", "limit": "evals.limit", "concurrency": "evals.concurrency",
	}
}

// braced is what looks like a word of a command; after a $ it is a shell's own.
var braced = regexp.MustCompile(`\$?\{[a-z_]+\}`)

// checkWords refuses words of a command that have no value because a key of the
// recipe is not set, and warns of those that are none of the place's words: they
// are passed on, since commands hold JSON and scripts.
func (b *builder) checkWords(key string, command, place []string, words map[string]string) {
	for i, text := range command {
		for _, m := range braced.FindAllString(text, -1) {
			name := strings.Trim(m, "{}")
			_, ok := words[name]
			if ok || m[0] == '$' {
				continue
			}
			at := fmt.Sprintf("%s[%d]", key, i)
			set := settable()[name]
			switch {
			case !slices.Contains(place, name):
				b.warn("%s: %s is none of the words that are replaced (%s) and stays as it is", at, m, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
			case b.in.RecipeMistakes.At(set) || name == "concurrency" && b.in.RecipeMistakes.At("client.concurrency"):
			default:
				b.fail(at, fmt.Sprintf("the command uses %s, but %s is not set", m, set), "set "+set+", or write the value itself")
			}
		}
	}
}

// expand replaces {word} in a command.
func expand(command []string, words map[string]string) []string {
	out := make([]string, len(command))
	for i, text := range command {
		out[i] = braced.ReplaceAllStringFunc(text, func(m string) string {
			if v, ok := words[strings.Trim(m, "{}")]; ok && m[0] != '$' {
				return v
			}
			return m
		})
	}
	return out
}

// pointEnv merges what the engine wants clients to know with what the recipe
// sets for them.
func (b *builder) pointEnv(scope, key string, vars models.EnvMap, note bool) []models.EnvVar {
	out := []models.EnvVar{}
	for _, v := range b.clientEnv {
		known, ok := b.known.Lookup(v.Name)
		if scope == env.ScopeClient || !ok || known.ReadIn(scope, b.in.Recipe.Engine) {
			out = append(out, v)
			if note && scope != env.ScopeClient {
				b.noteEnv(scope, v) // the engine has noted those of the client
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v := value(name, vars[name].Value, or(b.where("recipe", envKey(key, name)), "recipe"))
		if i := slices.IndexFunc(out, func(old models.EnvVar) bool { return old.Name == name }); i >= 0 {
			out[i] = v
		} else {
			out = append(out, v)
		}
		if note {
			b.noteEnv(scope, v)
		}
	}
	return out
}
