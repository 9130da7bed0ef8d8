package slurm

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Architectures says which nodes of a partition, or of all when it is empty,
// have which machine architecture, in the words of uname -m. A program of
// another architecture than the nodes' fails there with "Exec format error",
// after the wait in the queue. Nodes whose daemon has not reported are left out.
func (c *Client) Architectures(ctx context.Context, partition string) (map[string][]string, error) {
	out, err := c.query(ctx, "scontrol", "show", "node")
	if err != nil {
		return nil, fmt.Errorf("read nodes' architectures: %w", err)
	}
	return parseArchitectures(out, partition), nil
}

// parseArchitectures reads the first line and the partitions of each node in
// "scontrol show node". Free text (the reason) stands on later lines under a key
// of its own.
func parseArchitectures(out []byte, partition string) map[string][]string {
	byArch := map[string][]string{}
	var name, arch string
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		switch {
		case len(f) == 0:
		case strings.HasPrefix(string(line), "NodeName="):
			name, arch = value(f, "NodeName"), value(f, "Arch")
			if partition == "" && arch != "" {
				byArch[arch] = append(byArch[arch], name)
			}
		case strings.HasPrefix(f[0], "Partitions=") && arch != "" && partition != "":
			if slices.Contains(strings.Split(value(f, "Partitions"), ","), partition) {
				byArch[arch] = append(byArch[arch], name)
			}
			arch = "" // one line of partitions a node
		}
	}
	return byArch
}
