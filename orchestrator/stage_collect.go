package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// stageCollect makes sure that all logs are here: fetched from nodes that do not
// see the run directory, looked for where they do.
func (r *run) stageCollect(ctx context.Context) error {
	if err := r.awaitCounts(ctx); err != nil {
		return err
	}
	var apart []*node
	var problems []string
	for _, n := range r.used() {
		switch {
		case !n.apart():
		case n.lost:
			problems = append(problems, fmt.Sprintf("logs on %s were not fetched: the node is lost; they are in %s there", n.name, n.dir))
		default:
			apart = append(apart, n)
		}
	}
	a, err := each(ctx, r, apart, "logs and results", true, func(ctx context.Context, n *node) (struct{}, error) {
		return struct{}{}, fetchInto(ctx, n.conn, n.dir, r.Dir.Path(), rundir.LogsDir, rundir.ResultsDir)
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		problems = append(problems, fmt.Sprintf("logs were not fetched from %s; they are still there", a.failed()))
	}
	if err := r.removeDirs(ctx, a.ok); err != nil {
		return err
	}
	if err := r.listPartial(ctx); err != nil {
		return err
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

// listPartial lists what points left that did not come to their end: it is kept, and
// whoever reads the result should know of it.
func (r *run) listPartial(ctx context.Context) error {
	dirs := map[*point]string{}
	for _, pt := range r.points {
		if len(pt.rec.Files) == 0 && pt.rec.Status != result.PointOK && !pt.proc.released.IsZero() {
			dirs[pt] = pt.dir
		}
	}
	done := false
	spawn(ctx, r, func(context.Context) (map[*point][]result.File, error) {
		out := map[*point][]result.File{}
		for pt, dir := range dirs {
			files, err := listFiles(r.Dir.Join(dir))
			if err != nil {
				continue // there is nothing, or nobody can tell
			}
			for i := range files {
				files[i].Path = path.Join(dir, files[i].Path)
			}
			out[pt] = files
		}
		return out, nil
	}, func(found map[*point][]result.File, _ error) {
		for pt, files := range found {
			pt.rec.Files = files
		}
		done = true
	})
	return r.await(ctx, waiting{done: func() bool { return done }, what: func() string { return "the list of partial results" }, through: true})
}

// removeDirs takes away the directories of nodes that do not see the run directory,
// once their contents are here: only what carries this run's marker.
func (r *run) removeDirs(ctx context.Context, fetched map[*node]struct{}) error {
	var nodes []*node
	for _, n := range r.nodes {
		if _, ok := fetched[n]; ok {
			nodes = append(nodes, n)
		}
	}
	marker, err := r.markerBytes()
	if err != nil {
		return err
	}
	a, err := each(ctx, r, nodes, "directories to be removed", true, func(ctx context.Context, n *node) (struct{}, error) {
		data, _, err := n.conn.ReadFile(ctx, path.Join(n.dir, rundir.MarkerFile), 0, len(marker)+1)
		if err != nil {
			there, xerr := n.conn.Exec(ctx, deploy.ExecRequest{Argv: []string{"test", "-e", n.dir}, Timeout: r.pace.Look})
			if xerr == nil && there.Exit == 1 {
				return struct{}{}, nil // another node of the run has the same disk
			}
			return struct{}{}, err
		}
		if !n.apart() || n.dir == r.Dir.Path() || path.Base(n.dir) != r.id || !bytes.Equal(data, marker) {
			return struct{}{}, fmt.Errorf("%s does not carry this run's marker", n.dir)
		}
		res, err := n.conn.Exec(ctx, deploy.ExecRequest{Argv: []string{"rm", "-rf", "--", n.dir}, Timeout: r.pace.Look})
		if err == nil && res.Exit != 0 {
			err = fmt.Errorf("rm: exit %d: %s", res.Exit, strings.TrimSpace(res.Error+" "+string(res.Stderr)))
		}
		return struct{}{}, err
	})
	for n, e := range a.bad {
		r.left = append(r.left, deploy.Leftovers{Node: n.name, Files: []string{fmt.Sprintf("%s (%v)", n.dir, e)}})
	}
	return err
}

// missingLogs names the logs of started processes that are not here. On a network
// file system they may be seen some time later.
func (r *run) missingLogs(ctx context.Context) ([]string, error) {
	var want []string
	for _, p := range r.order {
		if !p.released.IsZero() && !(p.node.lost && p.node.apart()) {
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
