package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/disagg/disagg/slurm/hostlist"
)

// answers are what nodes said to one question.
type answers[T any] struct {
	nodes []*node
	ok    map[*node]T
	bad   map[*node]error
}

// each asks all nodes at once and waits for all answers. It returns an error
// only when the waiting ended early; then the answers so far are there.
func each[T any](ctx context.Context, r *run, nodes []*node, what string, through bool, ask func(context.Context, *node) (T, error)) (answers[T], error) {
	a := answers[T]{nodes: nodes, ok: map[*node]T{}, bad: map[*node]error{}}
	for _, n := range nodes {
		spawn(ctx, r, func(ctx context.Context) (T, error) { return ask(ctx, n) }, func(v T, err error) {
			if err != nil {
				a.bad[n] = err
				return
			}
			a.ok[n] = v
		})
	}
	err := r.await(ctx, waiting{
		done:    func() bool { return len(a.ok)+len(a.bad) == len(nodes) },
		what:    func() string { return what + " on " + nodeNames(a.open()) },
		through: through,
	})
	return a, err
}

// open are the nodes that have not answered.
func (a *answers[T]) open() []*node {
	var out []*node
	for _, n := range a.nodes {
		if _, ok := a.ok[n]; !ok && a.bad[n] == nil {
			out = append(out, n)
		}
	}
	return out
}

// failed folds the errors: nodes with the same one are named together.
func (a *answers[T]) failed() string {
	var order []string
	by := map[string][]*node{}
	for _, n := range a.nodes {
		if err := a.bad[n]; err != nil {
			if by[err.Error()] == nil {
				order = append(order, err.Error())
			}
			by[err.Error()] = append(by[err.Error()], n)
		}
	}
	var parts []string
	for _, text := range order {
		parts = append(parts, fmt.Sprintf("%s: %s", nodeNames(by[text]), text))
	}
	return strings.Join(parts, "; ")
}

// nodeNames folds node names into a host list.
func nodeNames(nodes []*node) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.name
	}
	return hostlist.Compress(names)
}
