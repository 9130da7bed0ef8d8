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

// check is one rule.
type check struct {
	name  string
	check func(c *checker, rule string)
}

// rules returns every rule.
func rules() []check {
	return []check{
		{"mtp-without-algorithm", checkAlgorithm},
		{"mtp-on-one-role", checkSpeculativeFlags},
		{"parallel-without-flag", checkParallelFlags},
		{"context-length", checkContextLength},
		{"client-lengths", checkLengths},
		{"tensor-parallel-differs", checkTensorParallel},
		{"kv-shape-differs", checkKVShape},
		{"kv-sizing", checkSizing},
		{"kv-budget", checkBudget},
		{"send-queue-depth", checkSendQueue},
		{"interface-list", checkInterfaces},
		{"dp-aware-without-ranks", checkRanks},
		{"eval-answers", checkEvalAnswers},
		{"side-channel", checkSideChannel},
		{"planned-flag", checkPlannedFlags},
		{"misspelt-flag", checkSpelling},
		{"misspelt-name", checkNames},
		{"router-build", checkRouterBuild},
	}
}

// add notes a finding.
func (c *checker) add(rule string, s Severity, path, wayOut, msg string, args ...any) {
	c.list = append(c.list, Finding{Rule: rule, Severity: s, Path: path, Msg: fmt.Sprintf(msg, args...), WayOut: wayOut})
}

// effective returns the flags that a worker's first rank is started with.
func (c *checker) effective(role string) (flags.List, bool) {
	for _, w := range c.result.Workers {
		if w.Role == role && len(w.Ranks) > 0 {
			return parseArgv(w.Ranks[0].Argv), true
		}
	}
	return nil, false
}

// parseArgv reads a command line back into flags.
func parseArgv(argv []string) flags.List {
	var list flags.List
	for _, a := range argv {
		if flags.IsName(a) {
			name, value, joined := strings.Cut(a, "=")
			f := flags.Flag{Name: name}
			if joined {
				f.Args = []string{value}
			}
			list.Add(f)
		} else if len(list) > 0 {
			last := &list[len(list)-1]
			last.Args = append(last.Args, a)
		}
	}
	return list
}

// roleEnv returns a variable of a worker's first rank.
func (c *checker) roleEnv(role, name string) (models.EnvVar, bool) {
	for _, w := range c.result.Workers {
		if w.Role == role && len(w.Ranks) > 0 {
			i := slices.IndexFunc(w.Ranks[0].Env, func(v models.EnvVar) bool { return v.Name == name })
			if i >= 0 {
				return w.Ranks[0].Env[i], true
			}
		}
	}
	return models.EnvVar{}, false
}

// roles returns the worker roles of the run in plan order.
func (c *checker) roles() []string {
	var list []string
	for _, w := range c.in.Layout {
		if !slices.Contains(list, w.Role) {
			list = append(list, w.Role)
		}
	}
	return list
}

func checkAlgorithm(c *checker, rule string) {
	if c.mtp() == 0 {
		return
	}
	if s, _ := c.in.Entry.Speculative(c.in.Recipe.Engine); s == nil {
		c.add(rule, Error, "speculative.tokens", "leave speculative out, or add the algorithm and its flags to the catalog entry",
			"a speculative depth of %d is asked for, but the catalog (%s) has no algorithm for %s on %s: the engine would take the depth and decode without drafts",
			c.mtp(), c.in.Entry.File, c.in.Entry.Name, c.in.Recipe.Engine)
		return
	}
	flag := map[string]string{SGLang: "--speculative-algorithm", ATOM: "--method"}[c.in.Recipe.Engine]
	for _, role := range c.roles() {
		l, composed := c.effective(role)
		if _, on := l.Get(flag); composed && flag != "" && !on {
			c.add(rule, Error, role+".flags", "leave "+flag+" in, or leave speculative out",
				"a speculative depth of %d is asked for, but %s is started without %s: the engine would take the depth and decode without drafts", c.mtp(), role, flag)
		}
	}
}

// speculativeFlag says whether a flag takes part in multi-token prediction.
func speculativeFlag(name string) bool {
	return strings.HasPrefix(name, "--speculative-") || slices.Contains([]string{"--method", "--draft-model", "--num-speculative-tokens"}, name)
}

func checkSpeculativeFlags(c *checker, rule string) {
	p, ok1 := c.effective(models.RolePrefill)
	d, ok2 := c.effective(models.RoleDecode)
	if !ok1 || !ok2 {
		return
	}
	group := func(l flags.List) map[string]string {
		m := map[string]string{}
		for _, f := range l {
			if speculativeFlag(f.Name) {
				m[f.Name] = f.Value()
			}
		}
		return m
	}
	a, b := group(p), group(d)
	if !maps.Equal(a, b) {
		c.add(rule, Error, c.speculativeKey(), "give both roles the same flags; speculative.tokens does",
			"speculative flags differ: prefill has %s, decode has %s; the draft layers take part in prefill's KV too, so both roles need the same", describe(a), describe(b))
	}
}

// speculativeKey is where the recipe sets the flags that differ.
func (c *checker) speculativeKey() string {
	switch {
	case c.in.Recipe.Speculative != nil:
		return "speculative"
	case len(c.role(models.RoleDecode).Flags) > 0:
		return models.RoleDecode + ".flags"
	}
	return models.RolePrefill + ".flags"
}

// describe lists flags for a message.
func describe(m map[string]string) string {
	if len(m) == 0 {
		return "none"
	}
	var list []string
	for _, n := range sortedKeys(m) {
		list = append(list, strings.TrimSpace(n+" "+m[n]))
	}
	return strings.Join(list, " ")
}

func checkParallelFlags(c *checker, rule string) {
	for _, role := range c.roles() {
		w := c.first(role)
		l, composed := c.effective(role)
		if !composed {
			continue
		}
		if _, on := l.Get("--enable-dp-attention"); w.DP > 1 && !on {
			c.add(rule, Error, role+".dp_attention", "set dp_attention: false, or add --enable-dp-attention to the catalog entry",
				"%s asks for data-parallel attention, but %s on %s has no flag for it in the catalog: the engine would run without", role, c.in.Entry.Name, c.in.Recipe.Engine)
		}
		flag := "--enable-expert-parallel"
		if c.in.Recipe.Engine == SGLang {
			flag = "--ep-size"
		}
		if _, on := l.Get(flag); w.EP > 1 && !on {
			c.add(rule, Error, role+".ep", "set ep: 1, or dp_attention: true where expert parallelism needs it",
				"%s asks for expert parallelism, but %s on %s has no flag for it in this mode: the engine would run without", role, c.in.Entry.Name, c.in.Recipe.Engine)
		}
	}
}

// contextFlag is an engine's flag for the context length.
func contextFlag(engine string) string {
	if engine == SGLang {
		return "--context-length"
	}
	return "--max-model-len"
}

func checkContextLength(c *checker, rule string) {
	lengths := map[string]string{}
	for _, role := range c.roles() {
		l, _ := c.effective(role)
		f, set := l.Get(contextFlag(c.in.Recipe.Engine))
		if !set {
			lengths[role] = "the engine's default"
			continue
		}
		lengths[role] = f.Value()
		n, err := strconv.Atoi(f.Value())
		if limit := c.in.Entry.Limits.ContextLength; err == nil && limit > 0 && n > limit {
			c.add(rule, Warning, role+".context_length", "give at most what the model was trained for",
				"a context of %d tokens is more than the %d that %s was trained for", n, limit, c.in.Entry.Name)
		}
	}
	p, d := lengths[models.RolePrefill], lengths[models.RoleDecode]
	if p != d && p != "" && d != "" {
		c.add(rule, Error, "decode.context_length", "set both to the same; where only prefill's is set, decode takes it",
			"context length differs: prefill %s, decode %s; decode would admit requests whose KV never comes, and they hang", p, d)
	}
}

func checkTensorParallel(c *checker, rule string) {
	p, d := c.first(models.RolePrefill), c.first(models.RoleDecode)
	if p == nil || d == nil || p.TP == d.TP {
		return
	}
	transfer := c.in.Recipe.Transfer
	if transfer == "" {
		transfer = c.in.Entry.Transfer(c.in.Recipe.Engine).Text
	}
	if c.in.Entry.MixedTP(c.in.Recipe.Engine, transfer) {
		return
	}
	const wayOut = "give both roles the same tp"
	switch kind := c.in.Entry.Limits.Attention; kind {
	case catalog.AttentionMLA:
		// Every rank holds the whole latent KV: there is nothing to re-slice.
	case "":
		c.add(rule, Warning, "decode.tp", wayOut, "prefill has tp %d and decode tp %d, and the attention kind of %s is not known: its KV may not be re-sliced over %s",
			p.TP, d.TP, c.in.Entry.Name, transfer)
	default:
		c.add(rule, Error, "decode.tp", wayOut, "prefill has tp %d and decode tp %d, but %s has %s attention, whose KV is not known to be re-sliced over %s: workers crash, hang or answer wrongly under load",
			p.TP, d.TP, c.in.Entry.Name, kind, transfer)
	}
}

// sendQueueMax is the largest number of work requests in a send queue, by kind
// of NIC.
func sendQueueMax(nic string) (int, bool) {
	n, known := map[string]int{"ionic": 32767}[nic]
	return n, known
}

// given is a variable as some workers get it.
type given struct {
	path   string // key of the recipe or the site
	value  string
	origin string
}

// everywhere finds a variable in the workers of all roles and in the profiles of
// nodes, which win over it there.
func (c *checker) everywhere(name string) []given {
	var out []given
	for _, role := range c.roles() {
		if v, set := c.roleEnv(role, name); set && !v.Expand {
			out = append(out, given{role + ".env." + name, v.Value, v.Origin})
		}
	}
	for i, p := range c.in.Site.Profiles {
		if v, set := p.Env[name]; set {
			path := fmt.Sprintf("profiles[%d].env.%s", i, name)
			out = append(out, given{path, v.Value, c.where("site", path)})
		}
	}
	return out
}

func checkSendQueue(c *checker, rule string) {
	const name = "MORI_IO_QP_MAX_SEND_WR"
	for _, v := range c.everywhere(name) {
		depth, err := strconv.Atoi(v.value)
		if err != nil {
			continue
		}
		limit, known := sendQueueMax(c.in.Site.RDMA.NIC)
		ionic, _ := sendQueueMax("ionic")
		wayOut := fmt.Sprintf("set %s to at most %d", name, ionic)
		switch {
		case known && depth > limit:
			c.add(rule, Error, v.path, wayOut, "a send queue of %d (%s) is deeper than the %d of an %s NIC: the engine fails when it makes its first queue pair",
				depth, v.origin, limit, c.in.Site.RDMA.NIC)
		case c.in.Site.RDMA.NIC == "" && depth > ionic:
			c.add(rule, Warning, v.path, wayOut+", or say rdma.nic in the site", "a send queue of %d (%s) is deeper than the %d of an ionic NIC, and the site does not say what NICs there are",
				depth, v.origin, ionic)
		}
	}
}

func checkInterfaces(c *checker, rule string) {
	for _, v := range c.everywhere("GLOO_SOCKET_IFNAME") {
		if v.value == "" || strings.ContainsAny(v.value, ",^=* ") {
			c.add(rule, Error, v.path, "give one interface name, or leave it out: then it is the interface of the node's address",
				"GLOO_SOCKET_IFNAME is %q (%s); Gloo needs the name of one interface, without lists and exclusions", v.value, v.origin)
		}
	}
}

func checkRanks(c *checker, rule string) {
	if c.result.Router == nil || c.anyDP() {
		return
	}
	if _, aware := parseArgv(c.result.Router.Argv).Get("--dp-aware"); aware {
		c.add(rule, Error, "router.flags", "leave --dp-aware out, or turn dp_attention on",
			"the router is told to route to DP ranks, but no worker has data-parallel attention: it would wait for ranks that never come")
	}
}

func checkEvalAnswers(c *checker, rule string) {
	if !c.evaluates() {
		return
	}
	for _, role := range c.roles() {
		l, _ := c.effective(role)
		if f, set := l.Get("--ep-dispatch-algorithm"); set && f.Value() == "fake" {
			c.add(rule, Error, role+".flags", "leave --ep-dispatch-algorithm fake out of evaluations",
				"%s sends tokens to experts without looking at the weights (--ep-dispatch-algorithm fake): an evaluation would get wrong answers", role)
		}
		if v, set := c.roleEnv(role, "SGLANG_SIMULATE_ACC_LEN"); set {
			c.add(rule, Error, role+".env.SGLANG_SIMULATE_ACC_LEN", "leave SGLANG_SIMULATE_ACC_LEN out of evaluations",
				"%s accepts drafts by a fixed length of %s (%s), not by what the model says: an evaluation would get wrong answers", role, v.Value, v.Origin)
		}
	}
}

func checkSideChannel(c *checker, rule string) {
	nodes := map[int]bool{}
	for _, w := range c.in.Layout {
		for _, r := range w.Ranks {
			nodes[r.Node] = true
		}
	}
	if len(nodes) < 2 {
		return
	}
	for _, v := range c.everywhere("VLLM_NIXL_SIDE_CHANNEL_HOST") {
		if v.value == "" || v.value == "localhost" || strings.HasPrefix(v.value, "127.") || slices.Contains([]string{"::", "::1", "0.0.0.0"}, v.value) {
			c.add(rule, Error, v.path, "leave it out: it is the node's address then",
				"workers would say that other nodes reach them at %q (%s); decode would fail the handshake and compute every prompt again", v.value, v.origin)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
