package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

// TestRestarts: a decode worker may be started again only where it is known that
// the others take one back.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, model, engine string
		change              func(*models.Recipe)
		want                string // message and way out; empty: it may
	}{
		{"sglang over mori", "DeepSeek-R1-0528", "sglang", nil, ""},
		{"sglang over mooncake", "DeepSeek-R1-0528", "sglang", func(r *models.Recipe) { r.Transfer = "mooncake" }, ""},
		{"sglang over nixl", "DeepSeek-R1-0528", "sglang", func(r *models.Recipe) { r.Transfer = "nixl" },
			`sglang's prefill workers are not known to take a decode worker back over "nixl"; they do over mooncake and mori|set transfer to one of them, or leave decode.restarts out: then a worker that dies ends the run`},
		{"a backend by flag", "DeepSeek-R1-0528", "sglang", func(r *models.Recipe) { r.Decode.Flags = []string{"--disaggregation-transfer-backend nixl"} },
			`sglang's prefill workers are not known to take a decode worker back over "nixl"; they do over mooncake and mori|set transfer to one of them, or leave decode.restarts out: then a worker that dies ends the run`},
		{"no router", "DeepSeek-R1-0528", "sglang", func(r *models.Recipe) { r.Router = &models.RouterSpec{Kind: "none"} },
			"without a router nothing tells clients that a decode worker is gone, and that it is back|leave decode.restarts out: then a worker that dies ends the run; or use sglang's router"},
		{"a router that does not ask", "DeepSeek-R1-0528", "sglang", func(r *models.Recipe) { r.Router = &models.RouterSpec{Flags: []string{"--disable-health-check"}} },
			"the router does not ask workers for their health (--disable-health-check): it would never know that a decode worker is gone or back|leave --disable-health-check out of router.flags, or leave decode.restarts out: then a worker that dies ends the run"},
		{"vllm", "Llama-3.1-405B-Instruct-FP8-KV", "vllm", nil,
			"vllm is not known to take a decode worker back: whether its prefill workers and its router go on with one that was started again, nobody has shown|leave decode.restarts out: then a worker that dies ends the run"},
		{"atom", "DeepSeek-R1-0528", "atom", nil,
			"atom is not known to take a decode worker back: whether its prefill workers and its router go on with one that was started again, nobody has shown|leave decode.restarts out: then a worker that dies ends the run"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := input(t, tc.model, tc.engine, func(r *models.Recipe, _ *models.Site) {
				r.Decode.Restarts = 1
				if tc.change != nil {
					tc.change(r)
				}
			})
			_, errs := engine.Compose(in)
			var got []string
			for _, e := range errs {
				if e.Path != "decode.restarts" {
					t.Errorf("a mistake at %s: %s", e.Path, e.Msg)
				}
				got = append(got, e.Msg+"|"+e.Hint)
			}
			if d := cmp.Diff(tc.want, strings.Join(got, "\n")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
