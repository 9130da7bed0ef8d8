package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// KillWait asks how long the cluster waits between TERM and KILL when it ends a
// job: what every stop under a plain scancel has to fit into.
func (c *Client) KillWait(ctx context.Context) (time.Duration, error) {
	out, err := c.query(ctx, "scontrol", "show", "config")
	if err != nil {
		return 0, fmt.Errorf("ask for KillWait: %w", err)
	}
	d, ok := parseKillWait(out)
	if !ok {
		return 0, fmt.Errorf("ask for KillWait: scontrol show config has no line of it")
	}
	return d, nil
}

// parseKillWait finds "KillWait = 30 sec".
func parseKillWait(out []byte) (time.Duration, bool) {
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) != "KillWait" {
			continue
		}
		f := strings.Fields(value)
		if len(f) == 0 || len(f) > 1 && f[1] != "sec" {
			return 0, false
		}
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 0 || n > 1<<20 {
			return 0, false
		}
		return time.Duration(n) * time.Second, true
	}
	return 0, false
}
