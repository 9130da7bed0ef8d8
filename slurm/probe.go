package slurm

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/disagg/disagg/slurm/hostlist"
)

// ProbeResult says which nodes of an allocation cannot run a common step.
type ProbeResult struct {
	// Bad are the nodes that no step with others got through to, in the order
	// given. Empty: one step over all nodes works.
	Bad []string
	// Trouble is what the failing step over all nodes said.
	Trouble string
	// Certain is false when Bad could not be told from its neighbours: no group of
	// nodes works at all, and none of them fails alone, or all do.
	Certain bool
}

// Probe runs a step over all nodes that prints where it runs. When that fails,
// or others answer than were asked, it halves the nodes until it can name those
// at fault: some nodes fail only in the company of others. Each step may take
// limit, so a bad allocation costs minutes, not the job's time.
func (c *Client) Probe(ctx context.Context, jobID string, nodes []string, limit time.Duration) (ProbeResult, error) {
	p := &probe{client: c, jobID: jobID, limit: limit, alone: map[string]bool{}}
	trouble, err := p.try(ctx, nodes)
	if err != nil || trouble == "" {
		return ProbeResult{Certain: true}, err
	}
	suspects, good, err := p.halve(ctx, nodes)
	if err != nil {
		return ProbeResult{}, err
	}
	res := ProbeResult{Bad: suspects, Trouble: trouble}
	if len(good) == 0 {
		// Who fails alone is bad, unless all do: then it is no node's fault.
		if n := len(p.alone); n > 0 && n < len(nodes) {
			res.Bad, res.Certain = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !p.alone[n] }), true
		}
		return res, nil
	}
	// Each suspect beside a node that has worked in company: who fails is bad.
	res.Bad, res.Certain = nil, true
	for _, s := range suspects {
		if p.alone[s] {
			res.Bad = append(res.Bad, s)
			continue
		}
		why, err := p.try(ctx, []string{good[0], s})
		if err != nil {
			return ProbeResult{}, err
		}
		if why != "" {
			res.Bad = append(res.Bad, s)
		}
	}
	if len(res.Bad) == 0 { // it takes more than two of them to fail
		res.Bad, res.Certain = suspects, false
	}
	return res, nil
}

type probe struct {
	client *Client
	jobID  string
	limit  time.Duration

	mu    sync.Mutex
	alone map[string]bool // nodes on which a step of their own failed
}

// failsAlone notes that a node does.
func (p *probe) failsAlone(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone[node] = true
}

// halve splits nodes whose common step failed. It returns the nodes of the
// smallest groups that fail, and those of groups of two and more that work.
func (p *probe) halve(ctx context.Context, nodes []string) (suspects, good []string, err error) {
	if len(nodes) <= 2 {
		return p.pair(ctx, nodes)
	}
	mid := len(nodes) / 2
	halves := [][]string{nodes[:mid], nodes[mid:]}
	found := make([][2][]string, len(halves))
	g, ctx := errgroup.WithContext(ctx)
	for i, half := range halves {
		g.Go(func() error {
			why, err := p.try(ctx, half)
			switch {
			case err != nil:
				return err
			case why != "":
				found[i][0], found[i][1], err = p.halve(ctx, half)
				return err
			case len(half) > 1:
				found[i][1] = half
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	suspects = slices.Concat(found[0][0], found[1][0])
	good = slices.Concat(found[0][1], found[1][1])
	if len(suspects) == 0 {
		// Both halves work and the whole does not: any of them may be at fault.
		return nodes, nil, nil
	}
	return suspects, good, nil
}

// pair looks at one or two nodes that fail: a node that fails alone is the one.
func (p *probe) pair(ctx context.Context, nodes []string) (suspects, good []string, err error) {
	if len(nodes) < 2 {
		for _, n := range nodes { // its step is what failed
			p.failsAlone(n)
		}
		return nodes, nil, nil
	}
	for _, n := range nodes {
		why, err := p.try(ctx, []string{n})
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			p.failsAlone(n)
			suspects = append(suspects, n)
		}
	}
	if len(suspects) == 0 {
		return nodes, nil, nil
	}
	return suspects, nil, nil
}

// ownSignals is what srun says of the signals that end a step without an answer.
var ownSignals = regexp.MustCompile(`(?m)^srun: (got SIG|forcing|interrupt).*\n?`)

// try runs one step and says what is wrong with it; empty means that exactly
// these nodes answered. The error says that ctx ended or srun could not start.
func (p *probe) try(ctx context.Context, nodes []string) (string, error) {
	res, err := p.client.RunStep(ctx, p.limit, StepRequest{
		JobID: p.jobID, Name: "disagg-probe", Nodes: nodes, Argv: []string{"printenv", "SLURMD_NODENAME"},
	})
	if err != nil {
		return "", fmt.Errorf("probe nodes: %w", err)
	}
	if !res.OK() {
		res.Stderr = ownSignals.ReplaceAll(res.Stderr, nil)
		return plain(res.Describe()), nil
	}
	answered := strings.Fields(string(res.Stdout))
	slices.Sort(answered)
	asked := slices.Sorted(slices.Values(nodes))
	if !slices.Equal(asked, answered) {
		return fmt.Sprintf("asked %s, but %s answered", hostlist.Compress(asked), cmp.Or(plain(hostlist.Compress(answered)), "nobody")), nil
	}
	return "", nil
}
