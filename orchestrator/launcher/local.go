package launcher

import (
	"context"
	"sync"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator"
)

// Local starts the agents of all plan nodes on this host.
type Local struct {
	Setup deploy.Setup
	// Self is the binary to start; empty: the running one.
	Self string
}

var _ orchestrator.Launcher = (*Local)(nil)

// Start implements orchestrator.Launcher.
func (l *Local) Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan orchestrator.Connection, error) {
	s := l.Setup
	s.Events = events
	out := make(chan orchestrator.Connection, len(nodes))
	var wg sync.WaitGroup
	for _, name := range nodes {
		wg.Go(func() {
			c, err := deploy.Local(ctx, s, name, l.Self)
			if err != nil {
				out <- failed(name, err)
				return
			}
			out <- connected(name, c)
		})
	}
	go func() {
		wg.Wait()
		close(out)
	}()
	return out, nil
}

// Close implements orchestrator.Launcher. Each connection's Close ends its agent;
// there is nothing beside them.
func (l *Local) Close(context.Context) error { return nil }
