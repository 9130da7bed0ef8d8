package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models/catalog"
)

// checkLengths compares the client's requests with the context length.
func checkLengths(c *checker, rule string) {
	cl := c.in.Recipe.Client
	if cl == nil || cl.ISL == 0 || c.scenario() != catalog.ScenarioFixed || c.in.Recipe.Evals != nil && bool(c.in.Recipe.Evals.Only) {
		return
	}
	n, where, wayUp := c.context()
	if n == 0 {
		return
	}
	wayOut := "lower client.isl"
	if cl.ISL < n {
		wayOut += " or client.osl"
	}
	wayOut += wayUp
	switch {
	case c.shortestPrompt() >= n:
		c.add(rule, Error, "client.isl", wayOut, "client.isl is %d, and the context length is %d tokens (%s): the engine refuses every request", cl.ISL, n, where)
	case cl.ISL >= n:
		c.add(rule, Warning, "client.isl", wayOut, "client.isl is %d, and the context length is %d tokens (%s): the engine refuses requests with longer prompts", cl.ISL, n, where)
	case cl.ISL+cl.OSL > n:
		c.add(rule, Warning, "client.osl", wayOut, "client.isl %d and client.osl %d are %d tokens, and the context length is %d (%s): the engine refuses such requests or cuts their answers off",
			cl.ISL, cl.OSL, cl.ISL+cl.OSL, n, where)
	}
}

// shortestPrompt is the number of tokens of the shortest prompts that the client
// sends.
func (c *checker) shortestPrompt() int {
	cl := c.in.Recipe.Client
	if ratio, err := strconv.ParseFloat(cl.RandomRangeRatio, 64); err == nil && ratio < 1 {
		return int(ratio * float64(cl.ISL))
	}
	return cl.ISL
}

// context is the smallest context length that a worker is started with, where it
// comes from, and how to raise it, to go after another way out. Zero: the engine
// decides, and nobody here knows what.
func (c *checker) context() (n int, where, wayUp string) {
	flag := contextFlag(c.in.Recipe.Engine)
	for _, role := range c.roles() {
		l, _ := c.effective(role)
		f, set := l.Get(flag)
		of, err := strconv.Atoi(f.Value())
		if !set || err != nil || n != 0 && of >= n {
			continue
		}
		n = of
		key := role + ".context_length"
		where, wayUp = key, ", or raise "+key
		for _, o := range c.result.Origins {
			if o.Key != "flag:"+role+":"+flag {
				continue
			}
			if kind, _, _ := strings.Cut(o.From, ":"); kind == "catalog" {
				where = "of the catalog, " + o.From
			} else {
				where = key + ", " + o.From
			}
		}
	}
	if limit := c.in.Entry.Limits.ContextLength; n == 0 && limit > 0 {
		return limit, fmt.Sprintf("what %s was trained for, as no context_length is set; catalog:%s", c.in.Entry.Name, c.in.Entry.File), ""
	}
	return n, where, wayUp
}
