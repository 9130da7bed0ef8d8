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

// start starts the agent and opens the conversation with it.
func (t *Transport) start(ctx context.Context, client *ssh.Client, node, path string) (*deploy.Conn, error) {
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
	if err := s.Start(path + " agent --stdio"); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	status := sync.OnceValue(func() string { return awaitStatus(ended, said, client) })
	c, err := t.opts.Setup.Open(ctx, deploy.Stdio{
		Node: node, In: in, Out: out,
		// The end of the connection is the end of the agent's stdin, its lease.
		// One that ends by itself gets a moment to say how. (Closing stdin at
		// once would not be safe beside a write.)
		Hangup: func() { go status() },
		After:  func(bool) string { return status() },
	})
	if err != nil && errors.Is(err, wire.ErrNoSentinel) && ctx.Err() == nil {
		return nil, &deploy.Fault{Class: deploy.ClassSSHBinary, Msg: err.Error(),
			Hint: "try " + path + " version on the node; if its directory does not allow execution, set ssh.dir in the site file"}
	}
	return c, err
}

// awaitStatus says how the agent ended and closes the connection.
func awaitStatus(ended <-chan error, said *tailbuf.Buffer, client *ssh.Client) string {
	defer client.Close()
	t := time.NewTimer(lastWords)
	defer t.Stop()
	var err error
	select {
	case err = <-ended:
	case <-t.C:
		return said.Describe("how it ended is not known")
	}
	exit, ok := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return said.Describe("it ended with exit code 0")
	case ok && exit.Signal() != "":
		return said.Describe("it was killed by SIG" + exit.Signal())
	case ok:
		return said.Describe(fmt.Sprintf("it ended with exit code %d", exit.ExitStatus()))
	}
	return said.Describe(err.Error())
}
