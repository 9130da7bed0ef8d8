package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// withoutRestarts is the way out of every refusal to start a worker again.
const withoutRestarts = "leave decode.restarts out: then a worker that dies ends the run"

// restarts refuses to start decode workers again where it is not known that the
// others take one back. sglang's prefill does over some transfer backends, and its
// router, whose list of workers is fixed, asks a worker that is gone for its health
// until it is back.
func (c *composer) restarts() {
	if c.role(models.RoleDecode).Restarts == 0 {
		return
	}
	refuse := func(wayOut, msg string, args ...any) {
		c.fail("decode.restarts", fmt.Sprintf(msg, args...), wayOut)
	}
	name := c.in.Recipe.Engine
	known := c.in.Entry.DecodeRestart(name)
	switch {
	case name != SGLang || len(known) == 0:
		refuse(withoutRestarts, "%s is not known to take a decode worker back: whether its prefill workers and its router go on with one that was started again, nobody has shown", name)
		return
	case c.out.Router == nil:
		refuse(withoutRestarts+"; or use sglang's router", "without a router nothing tells clients that a decode worker is gone, and that it is back")
		return
	}
	if _, off := parseArgv(c.out.Router.Argv).Get("--disable-health-check"); off {
		refuse("leave --disable-health-check out of router.flags, or "+withoutRestarts, "the router does not ask workers for their health (--disable-health-check): it would never know that a decode worker is gone or back")
	}
	for _, w := range c.out.Workers {
		if w.Role != models.RoleDecode || len(w.Ranks) == 0 {
			continue
		}
		f, _ := parseArgv(w.Ranks[0].Argv).Get("--disaggregation-transfer-backend")
		if transfer := f.Value(); !slices.Contains(known, transfer) {
			refuse("set transfer to one of them, or "+withoutRestarts, "sglang's prefill workers are not known to take a decode worker back over %q; they do over %s", transfer, strings.Join(known, " and "))
		}
		return
	}
}
