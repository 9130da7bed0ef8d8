package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/disagg/disagg/orchestrator/result"
)

// collectPoint brings the point's files here, where they are not yet, and says
// what is wrong with them. On a network file system a file that another node
// wrote may be seen some time later, so a problem counts only after that.
func (r *run) collectPoint(ctx context.Context, pt *point) (files []result.File, problem string, err error) {
	n := pt.proc.node
	if n.apart() {
		cctx, cancel := context.WithTimeout(ctx, r.plan.Budgets.Collect.D())
		defer cancel()
		a, err := each(cctx, r, []*node{n}, "the results of "+pt.rec.Name, false, func(ctx context.Context, n *node) (struct{}, error) {
			return struct{}{}, fetchInto(ctx, n.conn, path.Join(n.dir, pt.dir), r.Dir.Join(pt.dir))
		})
		if f, ok := errors.AsType[*failure](err); ok {
			return nil, f.what, nil
		}
		if err != nil {
			return nil, "", err
		}
		if e := a.bad[n]; e != nil {
			return nil, fmt.Sprintf("its results could not be fetched: %v", e), nil
		}
	}
	type look struct {
		files   []result.File
		problem string
		secrets []string
	}
	var got *look
	vctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, globs := r.Dir.Join(pt.dir), pt.plan.Results
	limit := r.pace.Visible
	if !n.apart() && pt.proc.exit.Code != 0 {
		limit = 0 // it failed anyway: no need to wait for files
	}
	spawn(vctx, r, func(ctx context.Context) (look, error) {
		until := time.Now().Add(limit)
		for {
			var l look
			files, err := listFiles(dir)
			if err != nil {
				l.problem = err.Error()
			} else {
				l = look{files: files, problem: checkFiles(dir, files, globs)}
			}
			if l.problem == "" || !time.Now().Before(until) || !pause(ctx, r.pace.Fast) {
				if len(r.secrets) > 0 {
					l.secrets = secretsIn(dir, l.files, r.red)
				}
				return l, nil
			}
		}
	}, func(l look, _ error) { got = &l })
	if err := r.await(ctx, waiting{done: func() bool { return got != nil }, what: func() string { return "the files of " + pt.rec.Name }}); err != nil {
		return nil, "", err
	}
	for i := range got.files {
		got.files[i].Path = path.Join(pt.dir, got.files[i].Path)
	}
	for _, text := range got.secrets {
		r.warn(pt.proc.warning("point " + pt.rec.Name + ": " + text))
	}
	return got.files, got.problem, nil
}

// pause waits, and says whether ctx is still on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
