package legacy

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/models"
)

// vllmRouterImage is what the scripts started vLLM's router from.
const vllmRouterImage = "vllm/vllm-router:nightly-20260716-1fbcde7"

// router reads what the scripts let one change of the router.
func (c *converter) router() {
	spec := &models.RouterSpec{}
	policy := c.get("PREFILL_ROUTER_POLICY", "random")
	if c.recipe.Scenario == models.ScenarioAgentic {
		if strings.ContainsAny(policy, " \t") {
			c.fail("PREFILL_ROUTER_POLICY", fmt.Sprintf("%q is more than a policy; the scripts cut it into words", policy), "write one word; flags go to router.flags of a recipe")
		}
		spec.Policy = policy
	}
	kind := c.get("ROUTER_TYPE", "vllm-router")
	image := c.get("VLLM_ROUTER_IMAGE", vllmRouterImage)
	if c.recipe.Engine == "vllm" {
		switch kind {
		case "vllm-router":
			spec.Image = image
		case "moriio":
			spec.Kind = kind
		default:
			c.fail("ROUTER_TYPE", fmt.Sprintf("there is no router %q", kind), "routers: vllm-router, moriio")
		}
		if v := c.number("PROXY_PING_PORT", 0, 1); v > 0 {
			spec.Flags = append(spec.Flags, fmt.Sprintf("--vllm-discovery-address 0.0.0.0:%d", v))
		}
	}
	spec.Port = c.number("ROUTER_PORT", 0, 1)
	if v := c.get("DECODE_ROUTER_POLICY", "random"); v != "random" {
		c.note("DECODE_ROUTER_POLICY", "it was forwarded and read by nothing", "write router.decode_policy: "+v+" in the recipe if it is meant")
	}
	if spec.Policy != "" || spec.Image != "" || spec.Kind != "" || spec.Port != 0 || len(spec.Flags) > 0 {
		c.recipe.Router = spec
	}
}
