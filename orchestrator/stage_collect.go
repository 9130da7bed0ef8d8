package orchestrator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// stageCollect makes sure that all logs are here: fetched from nodes that do not
// see the run directory, looked for where they do.
func (r *run) stageCollect(ctx context.Context) error {
	var apart []*node
	var problems []string
	for _, n := range r.used() {
		switch {
		case n.shared:
		case n.lost:
			problems = append(problems, fmt.Sprintf("logs on %s were not fetched: the node is lost; they are in %s there", n.name, n.dir))
		default:
			apart = append(apart, n)
		}
	}
	a, err := each(ctx, r, apart, "logs and results", true, func(ctx context.Context, n *node) (struct{}, error) {
		return struct{}{}, fetchInto(ctx, n.conn, n.dir, r.Dir.Path())
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		problems = append(problems, "logs were not fetched from "+a.failed())
	}
	missing, err := r.missingLogs(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		problems = append(problems, "logs are missing: "+strings.Join(missing, ", "))
	}
	if len(problems) > 0 {
		return failf("%s", strings.Join(problems, "; "))
	}
	return nil
}

// missingLogs names the logs of started processes that are not here. On a network
// file system they may be seen some time later.
func (r *run) missingLogs(ctx context.Context) ([]string, error) {
	var want []string
	for _, p := range r.order {
		if !p.released.IsZero() && !(p.node.lost && !p.node.shared) {
			want = append(want, p.logName)
		}
	}
	var got *[]string
	limit, every := r.pace.Visible, r.pace.Fast
	spawn(ctx, r, func(ctx context.Context) ([]string, error) {
		until := time.Now().Add(limit)
		for {
			var missing []string
			for _, name := range want {
				if _, err := os.Stat(r.Dir.Join(name)); err != nil {
					missing = append(missing, name)
				}
			}
			if len(missing) == 0 || !time.Now().Before(until) || !pause(ctx, every) {
				return missing, nil
			}
		}
	}, func(missing []string, _ error) { got = &missing })
	if err := r.await(ctx, waiting{done: func() bool { return got != nil }, what: func() string { return "logs" }, through: true}); err != nil {
		return nil, err
	}
	return *got, nil
}
