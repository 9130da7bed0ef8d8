package nodecheck

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/preflight"
)

// During implements orchestrator.Preflight. What grew, and what was found, goes to
// a file of the run directory.
func (c *Checker) During(ctx context.Context, nodes []orchestrator.PreflightNode, file string) (orchestrator.RunReport, error) {
	spec := c.spec(nodes).During()
	now := c.askAll(ctx, nodes, spec)
	c.mu.Lock()
	before := slices.Clone(c.facts)
	c.mu.Unlock()
	rep := preflight.During(before, now, spec)
	var out orchestrator.RunReport
	for _, f := range rep.Findings {
		text := describe(f, f.Object)
		if f.Node != "" {
			text = f.Node + ": " + text
		}
		if f.Verdict == preflight.Unknown {
			out.Unproven = append(out.Unproven, text)
			continue
		}
		out.Found = append(out.Found, text+"; "+f.Remedy)
	}
	data, err := json.MarshalIndent(rep, "", "  ")
	if err == nil {
		err = c.Dir.PutSpare(file, append(data, '\n'), 0o600)
	}
	if err != nil {
		return out, fmt.Errorf("save what the nodes' counters say: %w", err)
	}
	return out, nil
}
