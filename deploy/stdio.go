package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/disagg/disagg/deploy/internal/tailbuf"
	"github.com/disagg/disagg/deploy/wire"
)

// maxNoise bounds what may come on an agent's stdout before its first word:
// login banners.
const maxNoise = 1 << 20

// Stdio is a started agent that speaks over its stdin and stdout.
type Stdio struct {
	Node string // the launcher's name of the node
	// Loopback is as in Bootstrap.
	Loopback bool
	In       io.Writer // the agent's stdin
	Out      io.Reader // the agent's stdout
	// Hangup closes both; the agent then ends everything. It is called once and
	// must not block.
	Hangup func()
	// After is called when the connection has ended. polite says that the agent
	// ended because it was asked to. It ends what is left of the transport and
	// says what became of it; may be nil.
	After func(polite bool) string
}

// Open begins to talk to an agent over its stdin and stdout. When it fails, the
// agent has been hung up.
func (s Setup) Open(ctx context.Context, p Stdio) (*Conn, error) {
	s = s.filled()
	p.Hangup = sync.OnceFunc(p.Hangup)
	c, noise, err := s.open(ctx, p)
	if err == nil {
		return c, nil
	}
	p.Hangup()
	how := ""
	if p.After != nil {
		how = p.After(false)
	}
	if said := tailbuf.Printable(noise); said != "" && errors.Is(err, wire.ErrNoSentinel) {
		how = strings.TrimPrefix(how+"; it said: "+said, "; ")
	}
	if how != "" {
		err = fmt.Errorf("%w (%s)", err, how)
	}
	return nil, fmt.Errorf("start agent on %s: %w", p.Node, err)
}

func (s Setup) open(ctx context.Context, p Stdio) (*Conn, []byte, error) {
	b := s.bootstrap(p.Node)
	b.Loopback = p.Loopback
	line, err := b.Line()
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, p.Hangup)
	defer stop()
	if _, err := p.In.Write(line); err != nil {
		// Why it does not read is in what it says.
		err = fmt.Errorf("%w: write bootstrap: %w", wire.ErrNoSentinel, err)
		noise, _ := wire.AwaitSentinel(p.Out, b.Nonce, maxNoise)
		return nil, noise, err
	}
	noise, err := wire.AwaitSentinel(p.Out, b.Nonce, maxNoise)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", wire.ErrNoSentinel, context.Cause(ctx))
		}
		return nil, noise, err
	}
	stream := wire.Join(p.Out, p.In, func() error { p.Hangup(); return nil })
	h, err := wire.ReadHello(ctx, stream)
	if err != nil {
		return nil, nil, err
	}
	agent, refusal, err := s.admit(h, b.Token)
	if err != nil {
		refuse(stream, s.Version, refusal)
		return nil, nil, err
	}
	c := newConn(s, agent.Info, false, p.After)
	err = c.attach(stream, h.Received, func(own uint64) error {
		return wire.SendHello(stream, wire.Hello{Version: s.Version, Received: own})
	})
	if err != nil {
		return nil, nil, err
	}
	return c, nil, nil
}
