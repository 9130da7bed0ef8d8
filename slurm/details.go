package slurm

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/disagg/disagg/slurm/hostlist"
)

// details is what only scontrol tells of a job.
type details struct {
	exit *ExitCode
	// nodes are the nodes in the order of the allocation with what the job has
	// of each; empty until it runs.
	nodes []nodeShare
}

// nodeShare is what a job has of one node.
type nodeShare struct {
	name     string
	memoryMB int64 // 0: not told
	gpus     int   // -1: not told
}

func (c *Client) details(ctx context.Context, id string) (details, error) {
	out, err := c.query(ctx, "scontrol", "--details", "show", "job", id)
	if err != nil {
		return details{}, err
	}
	return parseDetails(out), nil
}

// parseDetails reads the lines of "scontrol --details show job" by the keys they
// begin with. Free text (name, comment, paths) has lines of its own, so it
// cannot pass for a key unless it holds a line break, which the keys read here
// come before.
func parseDetails(out []byte) details {
	var d details
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		if len(f) == 0 {
			continue
		}
		switch {
		case strings.HasPrefix(f[0], "Requeue=") && d.exit == nil:
			d.exit = parseExitCode(value(f, "ExitCode"))
		case strings.HasPrefix(f[0], "Nodes=") && len(f) > 1 && strings.HasPrefix(f[1], "CPU_IDs="):
			names, err := hostlist.Expand(value(f, "Nodes"))
			if err != nil {
				continue
			}
			memory, _ := strconv.ParseInt(value(f, "Mem"), 10, 64)
			gpus := gresGPUs(value(f, "GRES"))
			for _, n := range names {
				d.nodes = append(d.nodes, nodeShare{name: n, memoryMB: memory, gpus: gpus})
			}
		}
	}
	return d
}

// value is the value of key in a line of key=value fields.
func value(fields []string, key string) string {
	for _, f := range fields {
		if v, ok := strings.CutPrefix(f, key+"="); ok {
			return v
		}
	}
	return ""
}

// gresGPUs counts the GPUs in "gpu:8", "gpu:mi355x:8(IDX:0-7)" or a list of
// such with other resources. No GPU is 0; what cannot be read is -1.
func gresGPUs(s string) int {
	total := 0
	for _, g := range splitGres(unset(s)) {
		// Older releases write gres:gpu:8 and gres/gpu:8.
		g = strings.TrimPrefix(strings.TrimPrefix(g, "gres:"), "gres/")
		g, _, _ = strings.Cut(g, "(")
		f := strings.Split(g, ":")
		if f[0] != "gpu" {
			continue
		}
		n := 1 // "gpu" alone is one
		if len(f) > 1 {
			var err error
			if n, err = strconv.Atoi(f[len(f)-1]); err != nil || n < 0 || n > maxGPUs {
				return -1
			}
		}
		total += n
	}
	return total
}

// maxGPUs is above what any node has; a larger number was not read right.
const maxGPUs = 1 << 16

// splitGres splits at commas outside parentheses.
func splitGres(s string) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				out = append(out, s[from:i])
				from = i + 1
			}
		}
	}
	return append(out, s[from:])
}
