package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// build is what an image's tag says of the software inside.
type build struct {
	version []int // empty: not known
	date    int   // yyyymmdd; zero: not known
}

// buildOf reads the tag of an image: "…:v0.18.0", "…:nightly-20260716-1fbcde7".
func buildOf(image string) build {
	var b build
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !tagged {
		return b
	}
	tag, _, _ = strings.Cut(tag, "@")
	for _, word := range strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '+' }) {
		if n, err := strconv.Atoi(word); err == nil && len(word) == 8 && n > 20200101 && b.date == 0 {
			b.date = n
			continue
		}
		if v := version(strings.TrimPrefix(word, "v")); v != nil && b.version == nil {
			b.version = v
		}
	}
	return b
}

// version reads at least two numbers with points between; nil: it is none.
func version(text string) []int {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return nil
	}
	var out []int
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			// "0.5.12.post1": what comes after the numbers does not count.
			break
		}
		out = append(out, n)
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// before says whether a build is older than a version or a date, and whether
// its tag tells.
func (b build) before(v []int, date int) (older, known bool) {
	switch {
	case b.version != nil:
		return slices.Compare(b.version, v) < 0, true
	case b.date != 0:
		return cmp.Less(b.date, date), true
	}
	return false, false
}

// From vLLM 0.18.0 on, its MoRI-IO connector wants a transfer id and the other
// side's DP size with each request; vllm-router sends them from 0.1.14 on.
// Older routers take requests whose KV never arrives.
const (
	connectorDate = 20260320
	routerDate    = 20260506
)

func connectorVersion() []int { return []int{0, 18, 0} }
func routerVersion() []int    { return []int{0, 1, 14} }

func checkRouterBuild(c *checker, rule string) {
	r := c.in.Recipe
	if r.Engine != VLLM || c.result.Router == nil || c.result.Router.Kind != VLLM {
		return
	}
	const path = "router.image"
	router := c.routerSpec().Image
	if router == "" {
		if r.Image != "" && len(c.routerSpec().Command) == 0 {
			c.add(rule, Warning, path, "give router.image an image that has vllm-router",
				"the router runs in the engine's image (%s), which usually has no vllm-router", r.Image)
		}
		return
	}
	wayOut := fmt.Sprintf("take a router of version %s or later, or one built after %d", dotted(routerVersion()), routerDate)
	engineOld, engineKnown := buildOf(r.Image).before(connectorVersion(), connectorDate)
	routerOld, routerKnown := buildOf(router).before(routerVersion(), routerDate)
	switch {
	case engineKnown && routerKnown && !engineOld && routerOld:
		c.add(rule, Error, path, wayOut, "router %s is older than the MoRI-IO connector of engine %s: requests are taken, but their KV never arrives", router, r.Image)
	case !engineKnown || !routerKnown:
		c.add(rule, Warning, path, wayOut+"; name images by version or date", "the tags of engine %s and router %s do not tell whether the two speak the same KV protocol", r.Image, router)
	}
}

// dotted writes a version.
func dotted(v []int) string {
	texts := make([]string, len(v))
	for i, n := range v {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ".")
}
