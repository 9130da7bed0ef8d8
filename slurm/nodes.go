package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/slurm/hostlist"
)

// Node is a node as the scheduler sees it.
type Node struct {
	Name string
	// State is Slurm's word in full without its flags: idle, mixed, allocated,
	// drained, draining, down, inval, ….
	State string
	// Silent says that the node does not answer the controller.
	Silent     bool
	Reason     string // why it is as it is; empty: none given
	MemoryMB   int64  // configured memory (RealMemory)
	CPUs       int
	GPUs       int // configured GPUs; -1: could not be read
	Partitions []string
}

// Unusable says why no job can start on the node now or later, or "" when one
// can, perhaps after those that run there.
func (n Node) Unusable() string {
	switch {
	case n.Silent:
		return n.describe("does not answer")
	case slices.Contains([]string{"idle", "mixed", "allocated", "completing", "planned"}, n.State):
		return ""
	}
	return n.describe(n.State)
}

func (n Node) describe(what string) string {
	if n.Reason == "" {
		return what
	}
	return what + ": " + plain(n.Reason)
}

// Nodes lists the nodes of a partition, or of all partitions when it is empty,
// in Slurm's order.
func (c *Client) Nodes(ctx context.Context, partition string) ([]Node, error) {
	which := "--all" // hidden partitions too; not to be had together with --partition
	if partition != "" {
		which = "--partition=" + partition
	}
	out, err := c.query(ctx, "sinfo", "--Node", "--noheader", which, format("%N", "%T", "%m", "%c", "%G", "%R", "%E"))
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return parseNodes(out), nil
}

// parseNodes reads sinfo's rows: one for each node and partition.
func parseNodes(out []byte) []Node {
	var nodes []Node
	index := map[string]int{}
	for _, f := range rows(out, 7) {
		if f[0] == "" {
			continue
		}
		if i, ok := index[f[0]]; ok {
			nodes[i].Partitions = append(nodes[i].Partitions, f[5])
			continue
		}
		state := strings.TrimRight(f[1], "*~#!%$@^-+")
		n := Node{
			Name: f[0], State: state, Silent: strings.Contains(f[1][len(state):], "*"),
			Reason: f[6], GPUs: gresGPUs(f[4]), Partitions: []string{f[5]},
		}
		n.MemoryMB, _ = strconv.ParseInt(strings.TrimSuffix(f[2], "+"), 10, 64)
		n.CPUs, _ = strconv.Atoi(strings.TrimSuffix(f[3], "+"))
		index[n.Name] = len(nodes)
		nodes = append(nodes, n)
	}
	return nodes
}

// Summary says in one line each which nodes no job can use and why; nodes with
// the same trouble share a line.
func Summary(nodes []Node) []string {
	var order []string
	names := map[string][]string{}
	for _, n := range nodes {
		why := n.Unusable()
		if why == "" {
			continue
		}
		if names[why] == nil {
			order = append(order, why)
		}
		names[why] = append(names[why], n.Name)
	}
	lines := make([]string, len(order))
	for i, why := range order {
		lines[i] = fmt.Sprintf("%d of %d nodes (%s): %s", len(names[why]), len(nodes), hostlist.Compress(names[why]), why)
	}
	return lines
}

// checkNames compares node names with those the cluster has. A single unknown
// name makes Slurm refuse a whole submission, so unknown excluded nodes are left
// out of kept, each with a warning, and unknown requested nodes are an error
// that names them all.
func checkNames(nodes []Node, requested, excluded []string) (kept, warnings []string, err error) {
	all := nodeNames(nodes)
	var missing []string
	for _, h := range requested {
		if !slices.Contains(all, h) {
			missing = append(missing, h)
		}
	}
	if len(missing) > 0 {
		return nil, nil, fmt.Errorf("check node names: the cluster has no %s; it has %s",
			strings.Join(missing, ", "), plain(hostlist.Compress(all)))
	}
	for _, h := range excluded {
		if !slices.Contains(all, h) {
			warnings = append(warnings, fmt.Sprintf("excluded node %s is not known to the cluster; left out", h))
			continue
		}
		kept = append(kept, h)
	}
	return kept, warnings, nil
}
