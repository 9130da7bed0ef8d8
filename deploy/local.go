package deploy

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/disagg/disagg/deploy/internal/tailbuf"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models/env"
)

// agentLimit is how long an agent that was hung up may take to end everything
// before it is killed; what it started then ends by its own lease.
const agentLimit = time.Minute

// Local starts an agent on this host as a child process. self is the disagg
// binary; empty means the running one. The agent's lease is the pipe to it: when
// this process ends, in whatever way, the agent ends everything. A pipe cannot
// be dialed again, so a lost connection is final.
func Local(ctx context.Context, s Setup, node, self string) (*Conn, error) {
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("start local agent: %w", err)
		}
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start local agent: %w", err)
	}
	said := &tailbuf.Buffer{}
	p, err := procgroup.Start(context.WithoutCancel(ctx), procgroup.Command{
		Argv: []string{self, "agent", "--stdio"}, Env: env.ForJob(os.Environ()),
		StdinPipe: true, Stdout: w, Stderr: said,
		Session: true, // a terminal's Ctrl-C is for the controller alone
	})
	w.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start local agent: %w", err)
	}
	return s.Open(ctx, Stdio{
		Node: node, Loopback: true, In: p.Stdin, Out: out,
		Hangup: func() {
			p.Stdin.Close()
			out.Close()
		},
		After: func(polite bool) string { return awaitEnd(p, said, polite) },
	})
}

// awaitEnd waits for a hung up agent's end. One that takes long is left to a
// goroutine that kills it in the end.
func awaitEnd(p *procgroup.Process, said *tailbuf.Buffer, polite bool) string {
	wait := time.Second // enough to say why, if it has ended by itself
	if polite {
		wait = agentLimit
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-p.Done():
		// Its children have sessions of their own and ended before it.
		p.Stop(0)
		return said.Describe("it ended with " + p.Wait().String())
	case <-t.C:
	}
	go func() {
		kill := time.NewTimer(agentLimit)
		defer kill.Stop()
		select {
		case <-p.Done():
		case <-kill.C:
		}
		p.Stop(0)
	}()
	return said.Describe("it still runs")
}
