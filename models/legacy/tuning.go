package legacy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// tuning reads ATOM's variables for numbers. A number in the old model file won
// over the variable, and each variable was always there with a default.
func (c *converter) tuning() {
	if c.recipe.Engine != "atom" || c.entry == nil {
		return
	}
	number := func(name string, or int) int {
		if n := c.number(name, or, 0); n != or {
			return n
		}
		return 0
	}
	for _, role := range []struct {
		name string
		of   *models.Role
	}{{models.RolePrefill, c.recipe.Prefill}, {models.RoleDecode, c.recipe.Decode}} {
		x, has := role.of, c.entry.Settings("atom", catalog.Mode{Role: role.name})
		free := func(v catalog.Value) bool { return !v.IsSet() || strings.HasPrefix(v.From, "catalog:atom.yaml:") }
		if v := c.decimal("MEM_FRAC_STATIC"); v != "" && v != "0.85" && free(has.MemFraction) {
			x.MemFraction = v
		}
		if n := number("MAX_MODEL_LEN", 0); free(has.ContextLength) {
			x.ContextLength = n
		}
		if n := number("MAX_NUM_BATCHED_TOKENS", 0); n > 0 && free(has.ChunkedPrefillSize) {
			x.ChunkedPrefillSize = strconv.Itoa(n)
		}
		// MiniMax's entry in the old file had a number, which here is the engine's.
		if n := number("MAX_NUM_SEQS", 256); role.name == models.RolePrefill && free(has.MaxRunningRequests) && !strings.HasPrefix(c.recipe.Model, "MiniMax") {
			x.MaxRunningRequests = n
		}
		if n := number("BLOCK_SIZE", 16); n > 0 && free(has.PageSize) {
			x.Flags = append(x.Flags, fmt.Sprintf("--block-size %d", n))
		}
		x.Flags = append(x.Flags, splitFlags(c.get("EXTRA_SERVER_ARGS", ""))...)
	}
	for name, is := range map[string]string{"PREFILL_PORT": "8010", "DECODE_PORT": "8020", "HANDSHAKE_PORT": "6301"} {
		if v := c.get(name, is); v != is {
			c.note(name, fmt.Sprintf("port %s is not taken over; the plan gives workers their ports", v), "")
		}
	}
	if v := c.get("KV_CACHE_DTYPE", "fp8"); v != "fp8" {
		c.note("KV_CACHE_DTYPE", "it was forwarded and read by nothing; the model's flags decide", "write the flag into prefill.flags and decode.flags if it is meant")
	}
}

// splitFlags cuts a line of flags into one text a flag.
func splitFlags(line string) []string {
	var out []string
	for _, w := range strings.Fields(line) {
		if strings.HasPrefix(w, "-") || len(out) == 0 {
			out = append(out, w)
		} else {
			out[len(out)-1] += " " + w
		}
	}
	return out
}
