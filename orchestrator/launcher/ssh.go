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
	// Handshake is how long one attempt at one host may take, from TCP to the
	// login; zero: the transport's own limit.
	Handshake time.Duration

	mu        sync.Mutex
	transport *ssh.Transport
}

var _ orchestrator.Launcher = (*SSH)(nil)

// Start implements orchestrator.Launcher.
func (s *SSH) Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan orchestrator.Connection, error) {
	t, err := s.open(events)
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, err)
	}
	out := make(chan orchestrator.Connection, len(nodes))
	var wg sync.WaitGroup
	for _, name := range nodes {
		wg.Go(func() {
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

// open gives the transport. A second Start goes by the ways of the first.
func (s *SSH) open(events chan<- deploy.Event) (*ssh.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transport != nil {
		return s.transport, nil
	}
	setup := s.Setup
	setup.Events = events
	t, err := ssh.New(ssh.Options{Setup: setup, Site: s.Site, Handshake: s.Handshake})
	if err != nil {
		return nil, err
	}
	s.transport = t
	return t, nil
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
