package nodecheck

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/preflight"
)

const (
	// DefaultReach is how long a node may take to be reached.
	DefaultReach = 7 * time.Second
	// sayEvery is the time between two words about who has not answered.
	sayEvery = 2 * time.Second
	// partingTime bounds the end of agents and launcher. What does not end by then
	// ends by its lease, when this process does.
	partingTime = time.Second
)

// Request says whose facts to gather, and how.
type Request struct {
	Launcher orchestrator.Launcher
	Nodes    []string
	Spec     preflight.Spec
	// Reach is how long a node may take to be reached; zero: DefaultReach. What a
	// node that was reached may take is in Spec.Budget.
	Reach time.Duration
	// Waiting is told now and then what there is so far, and which nodes have not
	// answered; nil: nobody asks.
	Waiting func(answered []preflight.Facts, open []string)
}

// Gather gathers facts on all nodes at once, each as soon as it is reached, and
// returns them in the order of the nodes. No node waits for another one: one that
// hangs costs its own deadline. End ends the agents; the facts need not wait for
// it. The error is for what kept all nodes from being asked.
func Gather(ctx context.Context, r Request) (all []preflight.Facts, end func(), err error) {
	g := &gathering{Request: r, index: map[string]int{}, all: make([]preflight.Facts, len(r.Nodes)), answers: make(chan preflight.Facts, len(r.Nodes))}
	if g.Reach == 0 {
		g.Reach = DefaultReach
	}
	for i, name := range r.Nodes {
		if _, twice := g.index[name]; twice {
			return nil, nil, fmt.Errorf("check nodes: %s is named twice", name)
		}
		g.index[name] = i
	}
	// Workload events come of workloads only, and there are none.
	conns, err := r.Launcher.Start(ctx, r.Nodes, make(chan deploy.Event, 1))
	if err != nil {
		return nil, nil, err
	}
	g.run(ctx, conns)
	return g.all, g.end, nil
}

// gathering is one gathering under way. One goroutine owns it.
type gathering struct {
	Request
	index   map[string]int
	all     []preflight.Facts
	conns   []orchestrator.Node
	asked   map[string]bool
	answers chan preflight.Facts
	done    int
}

func (g *gathering) run(ctx context.Context, conns <-chan orchestrator.Connection) {
	g.asked = map[string]bool{}
	reach := time.NewTimer(g.Reach)
	defer reach.Stop()
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for g.done < len(g.Nodes) {
		select {
		case c, ok := <-conns:
			if !ok {
				conns = nil
				g.giveUp("its agent did not connect")
				continue
			}
			g.connected(ctx, c)
		case f := <-g.answers:
			g.put(f)
		case <-reach.C:
			conns = nil
			g.giveUp(fmt.Sprintf("no answer within %s: its agent did not connect", g.Reach))
		case <-tick.C:
			if g.Waiting != nil {
				g.Waiting(g.answered(), g.open())
			}
		case <-ctx.Done():
			for _, n := range g.open() {
				g.put(preflight.Unreached(n, fmt.Sprintf("not run: %v", context.Cause(ctx))))
			}
		}
	}
}

func (g *gathering) connected(ctx context.Context, c orchestrator.Connection) {
	if c.Node != nil {
		g.conns = append(g.conns, c.Node)
	}
	if _, ours := g.index[c.Name]; !ours || g.asked[c.Name] {
		return
	}
	g.asked[c.Name] = true
	if c.Err != nil {
		g.put(preflight.Unreached(c.Name, c.Err.Error()))
		return
	}
	go func() { g.answers <- ask(ctx, c.Name, c.Node, g.Spec) }()
}

// giveUp concludes the nodes that were not reached.
func (g *gathering) giveUp(why string) {
	for _, n := range g.Nodes {
		if !g.asked[n] {
			g.asked[n] = true
			g.put(preflight.Unreached(n, why))
		}
	}
}

func (g *gathering) put(f preflight.Facts) {
	i := g.index[f.Node]
	if g.all[i].Node == "" {
		g.all[i] = f
		g.done++
	}
}

// answered are the facts so far.
func (g *gathering) answered() []preflight.Facts {
	return slices.DeleteFunc(slices.Clone(g.all), func(f preflight.Facts) bool { return f.Node == "" })
}

// open are the nodes without facts.
func (g *gathering) open() []string {
	var out []string
	for i, n := range g.Nodes {
		if g.all[i].Node == "" {
			out = append(out, n)
		}
	}
	return out
}

// end ends the agents and the launcher, in bounded time.
func (g *gathering) end() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		var wg sync.WaitGroup
		for _, c := range g.conns {
			// An agent without workloads has nothing to tell at its end.
			wg.Go(func() { _ = c.Close() })
		}
		wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	// So has the launcher: every node has said what there was to say.
	_ = g.Launcher.Close(ctx)
}
