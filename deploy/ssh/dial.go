package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/ssh"

	"github.com/disagg/disagg/deploy"
)

const (
	// handshakeLimit bounds one attempt by default, from TCP to the login.
	handshakeLimit = 20 * time.Second
	// jumpLimit bounds the way to a jump host, repetitions included.
	jumpLimit = time.Minute
	// attempts are made at an sshd that hangs up before it greets.
	attempts = 7
	// firstPause is the mean pause after the first attempt; it doubles.
	firstPause = 200 * time.Millisecond
)

// dialer opens a TCP connection, from here or from a jump host.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// errJumpLost says that a shared connection to a jump host turned out dead.
var errJumpLost = errors.New("the connection to the jump host was lost")

// connect connects to the last of the hops.
func (t *Transport) connect(ctx context.Context, hops []hop) (*ssh.Client, error) {
	last, before := hops[len(hops)-1], hops[:len(hops)-1]
	if len(before) == 0 {
		return t.persist(ctx, t.slotsOf(last.addr()), t.opts.Dial, last, "")
	}
	for again := true; ; again = false {
		over, err := t.jump(ctx, before)
		if err != nil {
			return nil, err
		}
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := over.DialContext(ctx, network, addr)
			if _, answered := errors.AsType[*ssh.OpenChannelError](err); err != nil && !answered && ctx.Err() == nil {
				err = fmt.Errorf("%w: %w", errJumpLost, err)
			}
			return c, err
		}
		c, err := t.persist(ctx, t.slotsOf(key(before)), dial, last, " via "+names(before))
		if again && errors.Is(err, errJumpLost) {
			t.forget(key(before), over)
			continue
		}
		return c, err
	}
}

// persist makes connections until one is not hung up on before the greeting.
func (t *Transport) persist(ctx context.Context, slots chan struct{}, dial dialer, h hop, via string) (*ssh.Client, error) {
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		c, err := t.attempt(ctx, slots, dial, h, via)
		if err == nil || deploy.ClassOf(err) != deploy.ClassSSHThrottled || n == attempts {
			return c, err
		}
		t.log.Debug("sshd hung up before its greeting", zap.Stringer("hop", h), zap.Int("attempt", n))
		// Those that were hung up on together must not come back together.
		timer := time.NewTimer(time.Duration((0.5 + rand.Float64()) * float64(pause)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// jump gives the shared connection to a jump host. Those who ask at the same
// time share the attempt and its failure.
func (t *Transport) jump(ctx context.Context, hops []hop) (*ssh.Client, error) {
	route := key(hops)
	result := t.flights.DoChan(route, func() (any, error) {
		t.mu.Lock()
		c := t.jumps[route]
		t.mu.Unlock()
		if c != nil {
			return c, nil
		}
		// One who gives up must not end it for the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jumpLimit)
		defer cancel()
		c, err := t.connect(ctx, hops)
		if err != nil {
			return nil, err
		}
		return c, t.share(route, c)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*ssh.Client), nil
	case <-ctx.Done():
		return nil, &deploy.Fault{Class: deploy.ClassSSHTimeout, Msg: fmt.Sprintf("jump host %s: %v", names(hops), context.Cause(ctx))}
	}
}

// share keeps a connection for others, as long as it lasts.
func (t *Transport) share(route string, c *ssh.Client) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return errClosed
	}
	t.jumps[route] = c
	go func() {
		// Its end is told by every connection that went over it.
		_ = c.Wait()
		t.forget(route, c)
	}()
	return nil
}

// forget makes the next one who goes that route connect anew.
func (t *Transport) forget(route string, c *ssh.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.jumps[route] == c {
		delete(t.jumps, route)
	}
}

// slotsOf bounds the handshakes that go to or through one sshd at once.
func (t *Transport) slotsOf(route string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots[route]
	if s == nil {
		s = make(chan struct{}, t.opts.Site.MaxHandshakes)
		t.slots[route] = s
	}
	return s
}

// attempt makes one connection.
func (t *Transport) attempt(ctx context.Context, slots chan struct{}, dial dialer, h hop, via string) (*ssh.Client, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, &deploy.Fault{Class: deploy.ClassSSHTimeout, Msg: fmt.Sprintf("%s%s: no turn came: %v", h, via, context.Cause(ctx))}
	}
	keys, err := newHostKeys(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.Handshake)
	defer cancel()
	raw, err := dial(ctx, "tcp", h.addr())
	if err != nil {
		return nil, dialFault(ctx, h, via, err)
	}
	// The deadline of the configuration covers TCP only; a server that says
	// nothing would hold the handshake for ever.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	var tried offer
	c, chans, reqs, err := ssh.NewClientConn(raw, h.keyAddr(), &ssh.ClientConfig{
		User: h.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			tried = t.keys.signers(ctx, h)
			return tried.signers, nil
		})},
		HostKeyCallback:   keys.verify,
		HostKeyAlgorithms: keys.algorithms(),
	})
	if err != nil {
		stop()
		raw.Close()
		return nil, handshakeFault(ctx, h, via, err, tried)
	}
	if !stop() {
		c.Close()
		return nil, handshakeFault(ctx, h, via, context.Cause(ctx), tried)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// hopFault is a failure that keeps its cause.
type hopFault struct {
	*deploy.Fault
	cause error
}

// Unwrap gives the classified failure and its cause.
func (f hopFault) Unwrap() []error { return []error{f.Fault, f.cause} }

// dialFault says why no connection came about.
func dialFault(ctx context.Context, h hop, via string, err error) error {
	f := &deploy.Fault{Class: deploy.ClassSSHUnreachable, Msg: fmt.Sprintf("%s%s: %v", h, via, err)}
	said := strings.ToLower(err.Error())
	oce, rejected := errors.AsType[*ssh.OpenChannelError](err)
	ne, isNet := errors.AsType[net.Error](err)
	_, isName := errors.AsType[*net.DNSError](err)
	switch {
	case isName:
		f.Hint = "the name cannot be resolved here: look at its spelling, or give the host an address in ~/.ssh/config"
	case ctx.Err() != nil, isNet && ne.Timeout(), strings.Contains(said, "timed out"):
		f.Class, f.Hint = deploy.ClassSSHTimeout, "the host is down, or packets to its port are dropped"
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(said, "refused"):
		f.Class, f.Hint = deploy.ClassSSHRefused, "the host is up, but no sshd listens on that port"
	case rejected && oce.Reason == ssh.Prohibited:
		f.Hint = "the jump host forbids forwarding (AllowTcpForwarding in its sshd_config)"
	}
	return hopFault{f, err}
}

// handshakeFault says why a connection did not become a login.
func handshakeFault(ctx context.Context, h hop, via string, err error, tried offer) error {
	if f, ok := errors.AsType[*deploy.Fault](err); ok {
		return &deploy.Fault{Class: f.Class, Msg: f.Msg + via, Hint: f.Hint} // the host key's
	}
	f := &deploy.Fault{Class: deploy.ClassSSHUnreachable, Msg: fmt.Sprintf("%s%s: %v", h, via, err)}
	said := strings.ToLower(err.Error())
	switch {
	case ctx.Err() != nil:
		f.Class = deploy.ClassSSHTimeout
		f.Msg = fmt.Sprintf("%s%s: it accepted the connection, but the login did not end in time (%v)", h, via, context.Cause(ctx))
	case strings.Contains(said, "unable to authenticate"), strings.Contains(said, "authentication failures"):
		f.Class = deploy.ClassSSHAuth
		f.Msg = fmt.Sprintf("%s%s accepts none of the keys: %s", h, via, strings.Join(tried.notes, "; "))
		f.Hint = "compare with ssh -v " + h.alias + ", and set ssh.user or ssh.identity in the site file"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(said, "connection reset"), strings.HasSuffix(said, "eof"):
		f.Class = deploy.ClassSSHThrottled
		f.Hint = "its sshd drops connections (MaxStartups, or a rule against guessing); lower ssh.max_handshakes in the site file"
	}
	return f
}
