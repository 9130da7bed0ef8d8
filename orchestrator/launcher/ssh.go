package launcher

import (
	"context"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/ssh"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
)

// SSH starts an agent on each node over a connection of its own. No shared file
// system is needed: the binary is copied once.
type SSH struct {
	Setup deploy.Setup
	Site  models.SSHSite
	// Patience is how long one node may take; zero: as long as the caller waits.
	Patience time.Duration

	mu        sync.Mutex
	transport *ssh.Transport
}

var _ orchestrator.Launcher = (*SSH)(nil)

// Start implements orchestrator.Launcher.
func (s *SSH) Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan orchestrator.Connection, error) {
	setup := s.Setup
	setup.Events = events
	t, err := ssh.New(ssh.Options{Setup: setup, Site: s.Site})
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	s.mu.Lock()
	s.transport = t
	s.mu.Unlock()
	out := make(chan orchestrator.Connection, len(nodes))
	var wg sync.WaitGroup
	for _, name := range nodes {
		wg.Go(func() {
			ctx, cancel := s.bounded(ctx)
			defer cancel()
			c, err := t.Connect(ctx, name)
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

// bounded is the time that one node has.
func (s *SSH) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.Patience)
}

// Close implements orchestrator.Launcher. Each connection's Close ends its agent;
// the ways to jump hosts are what is left.
func (s *SSH) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transport == nil {
		return nil
	}
	return s.transport.Close()
}
