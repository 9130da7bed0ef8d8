package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// maxProbe bounds what a probe may write.
const maxProbe = 64 << 20

// probeChunk is how much of it is read at once.
const probeChunk = 1 << 20

// ImageProbe is a way to look into one image on one node: a program runs in it as
// the run's own programs will, with the runtime's flags and the mounts, devices
// and variables of a process of the plan.
type ImageProbe struct {
	Image string
	// Env are the names of the variables that are set for the program. Secrets are
	// left out: a probe has no use for them.
	Env []string
	// Run runs the tool itself inside, with these arguments and stdin, and returns
	// what it wrote. It ends when ctx does.
	Run func(ctx context.Context, args []string, stdin []byte) ([]byte, error)
}

// probes are the images that the plan runs on a node, each with the process that
// asks most of it: one with devices, where there is one.
func (r *run) probes(n *node) []ImageProbe {
	var like []*proc
	for _, p := range r.order {
		if p.node != n || p.Image == "" {
			continue
		}
		i := slices.IndexFunc(like, func(q *proc) bool { return q.Image == p.Image })
		switch {
		case i < 0:
			like = append(like, p)
		case p.Accelerated && !like[i].Accelerated:
			like[i] = p
		}
	}
	var out []ImageProbe
	for i, p := range like {
		probe := r.probeLike(p, i)
		var names []string
		for _, v := range probe.Env {
			names = append(names, v.Name)
		}
		out = append(out, ImageProbe{Image: p.Image, Env: names, Run: func(ctx context.Context, args []string, stdin []byte) ([]byte, error) {
			return r.runProbe(ctx, probe, args, stdin)
		}})
	}
	return out
}

// probeLike is a process that looks like another one and ends by itself.
func (r *run) probeLike(p *proc, i int) *proc {
	env := slices.DeleteFunc(slices.Clone(p.Env), func(v models.EnvVar) bool { return v.Secret })
	q := &proc{
		Process: &models.Process{
			ID: fmt.Sprintf("preflight.%s.%d", p.node.name, i), Scope: p.Scope, Node: p.Process.Node,
			Image: p.Image, Env: env, Accelerated: p.Accelerated,
		},
		node: p.node, mayEnd: true, exitSeen: make(chan struct{}),
	}
	q.logName = rundir.LogName("preflight", fmt.Sprintf("%s.%d", p.node.name, i))
	return q
}

// runProbe takes a probe through its life. It is called from outside the owner's
// loop; everything that it changes it changes there.
func (r *run) runProbe(ctx context.Context, p *proc, args []string, stdin []byte) ([]byte, error) {
	p.Argv = append([]string{deploy.SelfInside}, args...)
	type ready struct {
		w   deploy.Workload
		err error
	}
	got := make(chan ready, 1)
	r.post(ctx, func() {
		w, err := r.workload(p)
		w.Stdin = stdin
		if err == nil {
			r.procs[p.ID], r.order = p, append(r.order, p)
			p.phase, p.inCall = creating, true
		}
		got <- ready{w, err}
	})
	var w deploy.Workload
	select {
	case x := <-got:
		if x.err != nil {
			return nil, x.err
		}
		w = x.w
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn := p.node.conn
	rec, err := conn.Create(ctx, w)
	if err == nil {
		if diff := compareReceipt(w.Env, rec, r.key); len(diff) > 0 {
			err = fmt.Errorf("the environment inside is not the planned one: %s", diff[0])
		} else {
			err = conn.Release(ctx, p.ID)
		}
	}
	r.post(r.bg, func() {
		p.inCall = false
		if err == nil {
			p.phase = max(p.phase, running)
		}
	})
	if err == nil {
		select {
		case <-p.exitSeen:
		case <-conn.Done():
			err = fmt.Errorf("the node is lost: %w", conn.Err())
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	// Nothing of it stays, also where it did not end by itself. What cannot be
	// stopped here the teardown stops and looks for.
	stopped := conn.Stop(context.WithoutCancel(ctx), p.ID, 0)
	r.post(r.bg, func() {
		p.asked = true
		if stopped == nil {
			p.phase = gone
		}
	})
	if err != nil {
		return nil, err
	}
	return readAll(ctx, conn, w.LogPath)
}

// readAll reads a whole file on a node.
func readAll(ctx context.Context, conn Node, path string) ([]byte, error) {
	var out bytes.Buffer
	for {
		data, size, err := conn.ReadFile(ctx, path, int64(out.Len()), probeChunk)
		if err != nil {
			return nil, err
		}
		out.Write(data)
		switch {
		case size > maxProbe:
			return nil, fmt.Errorf("read %s: it has %d bytes, more than the %d that make sense", path, size, maxProbe)
		case len(data) == 0 || int64(out.Len()) >= size:
			return out.Bytes(), nil
		}
	}
}
