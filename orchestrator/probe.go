package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
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
	name := fmt.Sprintf("%s.%d", p.node.name, i)
	return &proc{
		Process: &models.Process{
			ID: "preflight." + name, Scope: p.Scope, Node: p.Process.Node,
			Image: p.Image, Accelerated: p.Accelerated,
			Env: slices.DeleteFunc(slices.Clone(p.Env), func(v models.EnvVar) bool {
				return v.Secret || v.Expand && strings.Contains(v.Value, resultPlaceholder)
			}),
		},
		node: p.node, mayEnd: true, probe: &probe{ended: make(chan struct{})},
		logName: rundir.LogName("preflight", name),
	}
}

// resultPlaceholder stands for a directory that a probe has not.
const resultPlaceholder = models.PlaceholderOpen + "result.dir" + models.PlaceholderClose

// probe is what a process has that only looks around.
type probe struct {
	once  sync.Once
	ended chan struct{} // closed when its program has ended or is gone
}

// onProbe takes what a node reports of a probe: the stage that made it says what
// it found, so nothing is said here.
func (r *run) onProbe(p *proc, e deploy.Event) {
	switch e.Kind {
	case deploy.EventExited:
		p.exit, p.phase = e.Exit, max(p.phase, exited)
	case deploy.EventGone:
		p.phase = gone
	default:
		return
	}
	p.probe.once.Do(func() { close(p.probe.ended) })
}

// runProbe takes a probe through its life. It is called from outside the owner's
// loop; what it changes of the process it changes there.
func (r *run) runProbe(ctx context.Context, p *proc, args []string, stdin []byte) ([]byte, error) {
	w, err := r.admitProbe(ctx, p, args, stdin)
	if err != nil {
		return nil, err
	}
	conn := p.node.conn
	err = r.startProbe(ctx, conn, w)
	ending := deploy.ClassOf(err) == deploy.ClassEnding
	r.post(r.bg, func() {
		if ending {
			r.onTerminating(p.node)
		}
		p.inCall = false
		p.phase = max(p.phase, running)
	})
	if err == nil {
		select {
		case <-p.probe.ended:
		case <-conn.Done():
			err = fmt.Errorf("the node is lost: %w", conn.Err())
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	// Nothing of it stays, also where it did not end by itself. What cannot be
	// stopped now, the teardown stops and looks for.
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopSlack)
	defer cancel()
	stopped := conn.Stop(sctx, w.ID, 0)
	exit := make(chan *deploy.Exit, 1)
	r.post(r.bg, func() {
		p.asked = true
		if stopped == nil {
			p.phase = gone
		}
		exit <- p.exit
	})
	if err != nil {
		return nil, err
	}
	out, err := readAll(ctx, conn, w.LogPath)
	if err != nil {
		return nil, err
	}
	select {
	case e := <-exit:
		if e == nil || e.Code != 0 {
			return nil, fmt.Errorf("the probe %s: %s", exitText(e), lastLine(strings.Split(string(out), "\n")))
		}
	case <-r.bg.Done():
		return nil, errHalted
	}
	return out, nil
}

// admitProbe lists a probe among the run's processes, so that whatever becomes of
// the stage, the teardown knows of it.
func (r *run) admitProbe(ctx context.Context, p *proc, args []string, stdin []byte) (deploy.Workload, error) {
	type admitted struct {
		w   deploy.Workload
		err error
	}
	got := make(chan admitted, 1)
	r.post(ctx, func() {
		p.Argv = append([]string{shim.MountBinary}, args...)
		w, err := r.workload(p)
		w.Stdin = stdin
		if err == nil {
			r.procs[p.ID], r.order = p, append(r.order, p)
			p.phase, p.inCall = creating, true
		}
		got <- admitted{w, err}
	})
	select {
	case a := <-got:
		return a.w, a.err
	case <-ctx.Done():
		return deploy.Workload{}, context.Cause(ctx)
	}
}

func (r *run) startProbe(ctx context.Context, conn Node, w deploy.Workload) error {
	rec, err := conn.Create(ctx, w)
	if err != nil {
		return err
	}
	if diff := compareReceipt(w.Env, rec, r.key); len(diff) > 0 {
		return fmt.Errorf("the environment inside is not the planned one: %s", diff[0])
	}
	return conn.Release(ctx, w.ID)
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
