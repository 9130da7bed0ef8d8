package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/disagg/disagg/deploy/wire"
)

const (
	// dialLimit bounds one attempt to reach one address, greeting included.
	dialLimit = 10 * time.Second
	// dialStagger is how long an address has for itself before the next one is
	// tried beside it.
	dialStagger = 250 * time.Millisecond
	// redialPause is the pause between attempts.
	redialPause = 200 * time.Millisecond
)

// speak talks over stdin and stdout. It returns when the controller is gone.
func (a *agent) speak(ctx context.Context, in io.Reader) error {
	if _, err := a.opts.Stdout.Write(wire.Sentinel(a.boot.Nonce)); err != nil {
		return fmt.Errorf("%w: write to stdout: %w", ErrLease, err)
	}
	stream := wire.Detach(in, a.opts.Stdout)
	defer stream.Close()
	greet, cancel := context.WithTimeout(ctx, a.deadline())
	defer cancel()
	h, err := a.greet(greet, stream)
	if err == nil {
		err = a.sess.Run(stream, h.Received)
	}
	return fmt.Errorf("%w: %w", ErrLease, err)
}

// dialOn keeps a connection to the controller, redialing when it is lost. It
// returns when the controller refuses, says goodbye, or cannot be reached for
// too long.
func (a *agent) dialOn(ctx context.Context) error {
	last := errors.New("it never answered")
	for {
		limit, cancel := context.WithTimeoutCause(ctx, a.timing.Redial, fmt.Errorf("not reached for %s: %w", a.timing.Redial, last))
		stream, h, err := a.dial(limit)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLease, err)
		}
		last = a.sess.Run(stream, h.Received)
		if bye, ok := errors.AsType[*wire.Bye](last); ok {
			return fmt.Errorf("%w: %w", ErrLease, bye)
		}
		if a.sess.Err() != nil || ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrLease, last)
		}
		a.opts.Log.Warn("connection to the controller lost", zap.Error(last))
	}
}

// dial reaches the controller at one of its addresses and greets it, trying
// until ctx ends.
func (a *agent) dial(ctx context.Context) (io.ReadWriteCloser, wire.Hello, error) {
	if len(a.boot.Addrs) == 0 {
		return nil, wire.Hello{}, errors.New("dial controller: the bootstrap names no address")
	}
	var last error
	for {
		stream, h, err := a.dialOnce(ctx)
		if err == nil || errors.Is(err, wire.ErrRefused) || errors.Is(err, errPin) {
			return stream, h, err
		}
		if ctx.Err() == nil {
			last = err
		}
		pause := time.NewTimer(redialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, wire.Hello{}, errors.Join(context.Cause(ctx), last)
		}
	}
}

// dialOnce reaches the controller once. Only the connection that will be used
// greets, so that the controller never sees two.
func (a *agent) dialOnce(ctx context.Context) (io.ReadWriteCloser, wire.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	c, err := a.dialAny(ctx)
	if err != nil {
		return nil, wire.Hello{}, err
	}
	h, err := a.greet(ctx, c)
	if err != nil {
		c.Close()
		return nil, wire.Hello{}, fmt.Errorf("greet %s: %w", c.RemoteAddr(), err)
	}
	return c, h, nil
}

// dialAny tries all addresses, each a little after the one before, and takes
// the first that answers.
func (a *agent) dialAny(ctx context.Context) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	results := make(chan result)
	next := time.NewTimer(0)
	defer next.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs []error
	started, open := 0, 0
	for {
		select {
		case <-next.C:
			if started == len(a.boot.Addrs) {
				continue
			}
			addr := a.boot.Addrs[started]
			started, open = started+1, open+1
			next.Reset(dialStagger)
			go func() {
				c, err := a.dialAddr(ctx, addr)
				select {
				case results <- result{c, err}:
				case <-ctx.Done():
					if err == nil {
						c.Close()
					}
				}
			}()
		case r := <-results:
			if r.err == nil {
				return r.c, nil
			}
			open--
			errs = append(errs, r.err)
			if open == 0 && started == len(a.boot.Addrs) {
				return nil, errors.Join(errs...)
			}
			if open == 0 {
				next.Reset(0)
			}
		case <-ctx.Done():
			return nil, errors.Join(append(errs, context.Cause(ctx))...)
		}
	}
}

var errPin = errors.New("the certificate is not the one this run was started with: another program answers at that address")

// dialAddr connects to one address.
func (a *agent) dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	pin, err := hex.DecodeString(a.boot.Pin)
	if err != nil || len(pin) != sha256.Size {
		return nil, fmt.Errorf("dial %s: the bootstrap holds no certificate pin", addr)
	}
	d := tls.Dialer{
		NetDialer: &net.Dialer{KeepAlive: 15 * time.Second},
		Config: &tls.Config{
			MinVersion: tls.VersionTLS13,
			// The certificate is made for this run alone; it is the pin, not a
			// name or an authority, that tells it from any other.
			InsecureSkipVerify: true,
			VerifyConnection: func(cs tls.ConnectionState) error {
				sum := sha256.Sum256(cs.PeerCertificates[0].Raw)
				if subtle.ConstantTimeCompare(sum[:], pin) != 1 {
					return errPin
				}
				return nil
			},
		},
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return c, nil
}

func (a *agent) greet(ctx context.Context, stream io.ReadWriteCloser) (wire.Hello, error) {
	body, err := json.Marshal(a.hello)
	if err != nil {
		return wire.Hello{}, fmt.Errorf("greet controller: %w", err)
	}
	return wire.Greet(ctx, stream, wire.Hello{Version: a.opts.Version, Received: a.sess.Received(), Body: body})
}
