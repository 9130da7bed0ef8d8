package nodecheck

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/preflight"
)

const (
	// selfVerb is the verb of this program that gathers.
	selfVerb = "facts"
	// execSlack is what a node may take beyond the gathering's own budget before
	// its agent ends it: the start of the program, and what it leaves behind.
	execSlack = 3 * time.Second
	// answerSlack is what the answer may take beyond that.
	answerSlack = 2 * time.Second
	// maxAnswer bounds the facts of one node.
	maxAnswer = 256 << 20
)

// ask has the facts gathered on one node. It always returns facts: those of a node
// that could not be asked say why.
func ask(ctx context.Context, name string, n orchestrator.Node, spec preflight.Spec) preflight.Facts {
	spec.Node = name
	in, err := json.Marshal(spec)
	if err != nil {
		return preflight.Unreached(name, fmt.Sprintf("encode what to ask: %v", err))
	}
	budget := spec.Budget.D()
	ctx, cancel := context.WithTimeout(ctx, budget+execSlack+answerSlack)
	defer cancel()
	asked := time.Now()
	res, err := n.Exec(ctx, deploy.ExecRequest{Argv: []string{"@self", selfVerb}, Stdin: in, Timeout: budget + execSlack, MaxOutput: maxAnswer})
	answered := time.Now()
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s: the node or its agent hangs: %w", answered.Sub(asked).Round(100*time.Millisecond), context.Cause(ctx))
		}
		return preflight.Unreached(name, err.Error())
	}
	f, err := preflight.ReadFacts(res.Stdout)
	if err != nil {
		return preflight.Unreached(name, fmt.Sprintf("%v; %s", err, outcome(res)))
	}
	f.Node = name
	f.Host.Asked, f.Host.Answered = asked.UnixNano(), answered.UnixNano()
	return f
}

// outcome says how the gathering program ended.
func outcome(r deploy.ExecResult) string {
	how := fmt.Sprintf("it ended with exit code %d", r.Exit)
	switch {
	case r.Error != "":
		how = "it could not be started: " + r.Error
	case r.TimedOut:
		how = "it was ended after " + r.Duration.Round(100*time.Millisecond).String()
	}
	if said := strings.TrimSpace(string(r.Stderr)); said != "" {
		lines := strings.Split(said, "\n")
		how += ": " + lines[len(lines)-1]
	}
	return how
}

// lookInside has facts gathered inside an image.
func lookInside(ctx context.Context, name string, p orchestrator.ImageProbe, spec preflight.Spec) preflight.Facts {
	spec = spec.Inside(p.Image)
	spec.Node = name
	spec.Expect.Env = p.Env
	in, err := json.Marshal(spec)
	if err != nil {
		return unopened(name, p.Image, fmt.Sprintf("encode what to ask: %v", err))
	}
	out, err := p.Run(ctx, []string{selfVerb}, in)
	if err != nil {
		return unopened(name, p.Image, err.Error())
	}
	f, err := preflight.ReadFacts(out)
	if err != nil {
		return unopened(name, p.Image, err.Error())
	}
	f.Node = name
	return f
}

// unopened are the facts of an image that could not be looked into.
func unopened(node, image, why string) preflight.Facts {
	f := preflight.Unreached(node, why)
	f.Context, f.Image = preflight.ContextImage, image
	return f
}
