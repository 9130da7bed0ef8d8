package ssh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/internal/tailbuf"
	"github.com/disagg/disagg/deploy/wire"
)

// lastWords is how long an agent may take to end by itself before the connection
// is ended.
const lastWords = 2 * time.Second

// errAbsent says that no earlier visit has left the binary on the node.
var errAbsent = errors.New("the binary is not there")

// exitAbsent is the exit code by which the command of again says so.
const exitAbsent = 66

// again starts the binary of an earlier visit, in one session without a question
// before: of many nodes that are visited often, that halves the work. What has the
// binary's name was compared with its hash when it got it, in a directory that
// nobody else can write to; its length is compared once more.
func (t *Transport) again(ctx context.Context, client *ssh.Client, node string, p place) (*deploy.Conn, error) {
	return t.start(ctx, client, node, fmt.Sprintf(`sh -c 'd=%s; p="$d/%s"; `+
		`if [ -O "$d" ] && ! [ -L "$d" ] && [ -f "$p" ] && [ "$(wc -c < "$p")" -eq %d ]; then exec "$p" agent --stdio; fi; exit %d'`,
		p.dir, p.name, len(p.data), exitAbsent))
}

// start starts the agent with a command and opens the conversation with it. When
// the error is errAbsent, the connection to the node is still good.
func (t *Transport) start(ctx context.Context, client *ssh.Client, node, command string) (*deploy.Conn, error) {
	s, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &tailbuf.Buffer{}
	s.Stderr = said
	if err := s.Start(command); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	end := sync.OnceValue(func() ending {
		e := awaitEnd(ended, said)
		if !e.absent {
			client.Close()
		}
		return e
	})
	c, err := t.opts.Setup.Open(ctx, deploy.Stdio{
		Node: node, In: in, Out: out,
		// The end of the connection is the end of the agent's stdin, its lease.
		// One that ends by itself gets a moment to say how. (Closing stdin at
		// once would not be safe beside a write.)
		Hangup: func() { go end() },
		After:  func(bool) string { return end().how },
	})
	switch {
	case err == nil:
		return c, nil
	case end().absent:
		return nil, errAbsent
	case errors.Is(err, wire.ErrNoSentinel) && ctx.Err() == nil:
		return nil, &deploy.Fault{Class: deploy.ClassSSHBinary, Msg: err.Error(),
			Hint: "see what this does on the node: " + command + "; if its directory does not allow execution, set ssh.dir in the site file"}
	}
	return nil, err
}

// ending is how an agent's command ended.
type ending struct {
	how    string
	absent bool
}

// awaitEnd waits a moment for an agent's end.
func awaitEnd(ended <-chan error, said *tailbuf.Buffer) ending {
	t := time.NewTimer(lastWords)
	defer t.Stop()
	var err error
	select {
	case err = <-ended:
	case <-t.C:
		return ending{how: said.Describe("how it ended is not known")}
	}
	exit, ok := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return ending{how: said.Describe("it ended with exit code 0")}
	case ok && exit.Signal() != "":
		return ending{how: said.Describe("it was killed by SIG" + exit.Signal())}
	case ok:
		return ending{how: said.Describe(fmt.Sprintf("it ended with exit code %d", exit.ExitStatus())), absent: exit.ExitStatus() == exitAbsent}
	}
	if _, cut := errors.AsType[*ssh.ExitMissingError](err); cut {
		return ending{how: said.Describe("the ssh connection ended before it did")}
	}
	return ending{how: said.Describe(err.Error())}
}
