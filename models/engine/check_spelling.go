package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// adapterFlags are flags that an adapter sets in some runs only, beside those
// that follow from keys of the recipe.
func adapterFlags(engine string) []string {
	switch engine {
	case SGLang:
		return []string{"--trust-remote-code", "--disaggregation-ib-device", "--page-size", "--disable-cuda-graph", "--cuda-graph-bs",
			"--cuda-graph-max-bs", "--disable-radix-cache", "--enable-hierarchical-cache", "--hicache-size", "--hicache-ratio",
			"--hicache-io-backend", "--hicache-mem-layout", "--hicache-write-policy", "--hicache-storage-prefetch-policy",
			"--hicache-storage-backend", "--hicache-storage-backend-extra-config", "--enable-cache-report", "--enable-dp-attention"}
	case VLLM:
		return []string{"--trust-remote-code", "--block-size", "--enable-expert-parallel", "--kv-cache-dtype"}
	case ATOM:
		return []string{"--trust-remote-code", "--block-size", "--enable-expert-parallel", "--kv-cache-dtype", "--method", "--draft-model"}
	}
	return nil
}

// routerFlags are those that adapters give routers in some runs only.
func routerFlags() []string {
	return []string{"--policy", "--prefill-policy", "--decode-policy", "--dp-aware", "--prometheus-host", "--prometheus-port",
		"--enable-metrics", "--vllm-discovery-address"}
}

// checkSpelling warns of flags that are probably misspelt. A flag that nobody
// here knows is no mistake by itself: newer builds have new ones.
func checkSpelling(c *checker, rule string) {
	engine := c.in.Recipe.Engine
	workers, router := c.in.Entry.KnownFlags(engine)
	workers = slices.Concat(workers, adapterFlags(engine), sortedKeys(plannedFlags(engine)))
	for _, role := range c.roles() {
		c.checkSpelt(rule, role+".flags", c.role(role).Flags, workers, plannedFlags(engine))
	}
	if c.result.Router != nil {
		router = slices.Concat(router, routerFlags(), sortedKeys(plannedRouterFlags()))
		c.checkSpelt(rule, "router.flags", c.routerSpec().Flags, router, plannedRouterFlags())
	}
}

func (c *checker) checkSpelt(rule, key string, texts, known []string, planned map[string]string) {
	for i, text := range texts {
		f, err := flags.Parse(text)
		if err != nil || plannedName(f.Name, planned) != "" {
			continue // Compose or planned-flag say so
		}
		near := meantFlag(f.Name, known)
		if near == "" {
			continue
		}
		wayOut := "did you mean " + near + "?"
		if k, ok := planned[near]; ok && k != "" {
			wayOut += " It follows from " + k + ": set that"
		} else if ok {
			wayOut += " The plan sets it: leave it out"
		}
		at := fmt.Sprintf("%s[%d]", key, i)
		c.add(rule, Warning, at, wayOut, "nothing here knows the flag %s of %s", f.Name, at)
	}
}

// meantFlag is the known flag that a name is probably a slip for; empty: none.
// Flags that differ in a short word (--tp-size and --dp-size, gpu and cpu) or in
// a word more (--log-level and --log-level-http) are different flags.
func meantFlag(name string, known []string) string {
	words := func(flag string) []string {
		return strings.Split(strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-"), "-")
	}
	joined := func(flag string) []rune { return []rune(strings.Join(words(flag), "-")) }
	best, bestAt := "", 3
	for _, k := range known {
		if flags.Same(k, name) || strings.HasPrefix(k, name) {
			return "" // an engine takes the beginning of a name for the whole
		}
		d := yamlx.Distance(joined(name), joined(k))
		if d < bestAt && slip(words(name), words(k)) {
			best, bestAt = k, d
		}
	}
	return best
}

// shortWord is the length up to which a word of a flag that differs is another
// word and no slip.
const shortWord = 3

// slip says whether names of these words can be one misspelt for the other.
func slip(a, b []string) bool {
	if len(a) != len(b) {
		// A dash too many or too few.
		return strings.Join(a, "") == strings.Join(b, "")
	}
	for i := range a {
		if a[i] != b[i] && min(len(a[i]), len(b[i])) <= shortWord {
			return false
		}
	}
	return true
}

// checkNames warns of names that are passed on to engine and router as they are
// and are probably misspelt; other builds know other names.
func checkNames(c *checker, rule string) {
	r := c.in.Recipe
	transfers := []string{c.in.Entry.Transfer(r.Engine).Text, "mori", "moriio", "mooncake", "nixl"}
	policies := []string{"random", "round_robin", "cache_aware", "power_of_two", "consistent_hash"}
	for _, x := range []struct {
		key, name string
		known     []string
	}{
		{"transfer", r.Transfer, transfers},
		{"router.policy", c.routerSpec().Policy, policies},
		{"router.prefill_policy", c.routerSpec().PrefillPolicy, policies},
		{"router.decode_policy", c.routerSpec().DecodePolicy, policies},
	} {
		if x.name == "" || slices.Contains(x.known, x.name) {
			continue
		}
		for _, k := range x.known {
			if d := yamlx.Distance([]rune(x.name), []rune(k)); d <= 2 && min(len(k), len(x.name)) > shortWord {
				c.add(rule, Warning, x.key, "did you mean "+k+"?", "nothing here knows the name %s of %s", x.name, x.key)
				break
			}
		}
	}
}
