package orchestrator

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
)

// stageServices starts what the workers need beside them, one after the other,
// each when the one before listens on all its ports.
func (r *run) stageServices(ctx context.Context) error {
	if len(r.plan.Services) == 0 {
		return skip("the plan has no services")
	}
	for i := range r.plan.Services {
		p := r.procs[r.plan.Services[i].ID]
		if err := r.launch(ctx, []*proc{p}); err != nil {
			return err
		}
		if err := r.listening(ctx, p); err != nil {
			return err
		}
		e := p.event(events.ProcessReady, fmt.Sprintf("service %s listens after %s", p.where(), time.Since(p.released).Round(time.Millisecond)))
		e.Detail = map[string]any{"seconds": time.Since(p.released).Seconds()}
		r.emit(e)
	}
	return nil
}

// listening waits until every planned port of a process takes connections.
func (r *run) listening(ctx context.Context, p *proc) error {
	openPorts, last := 0, error(nil)
	for _, port := range p.Ports {
		addr := net.JoinHostPort(p.node.info.Addr, strconv.Itoa(port.Number))
		r.poll(ctx, func(ctx context.Context) error { return dial(ctx, addr, r.pace.Probe) },
			func(err error) { last = err }, func(error) { openPorts++ })
	}
	return r.await(ctx, waiting{
		done: func() bool { return openPorts == len(p.Ports) },
		what: func() string {
			return fmt.Sprintf("%s to listen on its ports (%v; last line %q)", p.where(), last, p.lastLine)
		},
	})
}

// dial says whether a TCP port takes connections.
func dial(ctx context.Context, addr string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}
