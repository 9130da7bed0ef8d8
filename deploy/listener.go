package deploy

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/disagg/disagg/deploy/internal/hostnet"
	"github.com/disagg/disagg/deploy/wire"
)

const (
	// greetLimit bounds the time from a connection's arrival to its greeting.
	greetLimit = 10 * time.Second
	// maxStrangers bounds connections that have not greeted yet.
	maxStrangers = 256
)

// Listener takes the calls of agents that dial back. The conversation is
// encrypted with a key that exists only in this process; agents know it by its
// fingerprint, and this side knows agents by a token, both handed over on their
// stdin.
type Listener struct {
	setup Setup
	boot  Bootstrap
	l     net.Listener
	tls   *tls.Config
	slots chan struct{}

	fresh chan arrival

	mu     sync.Mutex
	conns  map[string]*Conn // by session
	closed bool
	wg     sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

// arrival is a new node, or why it is none.
type arrival struct {
	conn *Conn
	err  error
}

// Listen opens a listener on bind, host:port; empty means every address and any
// free port.
func Listen(ctx context.Context, s Setup, bind string) (*Listener, error) {
	s = s.filled()
	cert, pin, err := certificate()
	if err != nil {
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	var lc net.ListenConfig
	if bind == "" {
		bind = ":0"
	}
	nl, err := lc.Listen(ctx, "tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	l := &Listener{
		setup: s, boot: s.bootstrap(""), l: nl,
		tls:   &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}},
		slots: make(chan struct{}, maxStrangers),
		fresh: make(chan arrival),
		conns: map[string]*Conn{},
	}
	l.boot.Pin = pin
	if l.boot.Addrs, err = addresses(nl.Addr(), s.Interface); err != nil {
		nl.Close()
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	// Until Close, whatever the context of the caller becomes: agents may be
	// away when a run begins to end.
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.wg.Go(l.serve)
	return l, nil
}

// Bootstrap is the line for the stdin of the agents. It holds the token.
func (l *Listener) Bootstrap() ([]byte, error) { return l.boot.Line() }

// Accept waits for the next node. The error is an *UnfitError when an agent has
// started but its node cannot take part; others may still come then.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case a := <-l.fresh:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an agent: %w", context.Cause(ctx))
	case <-l.ctx.Done():
		return nil, fmt.Errorf("wait for an agent: %w", net.ErrClosed)
	}
}

// Close takes no more calls. Connections stay, but cannot come back once lost.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	err := l.l.Close()
	l.wg.Wait()
	return err
}

func (l *Listener) serve() {
	for {
		c, err := l.l.Accept()
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			// Too many open files, most likely; it passes.
			l.setup.Log.Error("accept agent", zap.Error(err))
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			c.Close()
			return
		}
		l.wg.Go(func() {
			defer func() { <-l.slots }()
			if err := l.meet(c); err != nil {
				l.setup.Log.Warn("agent turned away", zap.Stringer("from", c.RemoteAddr()), zap.Error(err))
			}
		})
	}
}

// meet takes one call as far as a running conversation.
func (l *Listener) meet(raw net.Conn) error {
	c := tls.Server(raw, l.tls)
	ctx, cancel := context.WithTimeout(l.ctx, greetLimit)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return err
	}
	h, err := wire.ReadHello(ctx, c)
	if err != nil {
		// An agent of another version is told so; anything else is not ours.
		if errors.Is(err, wire.ErrRefused) {
			refuse(c, l.setup.Version, err.Error())
		}
		c.Close()
		return err
	}
	agent, refusal, err := l.setup.admit(h, l.boot.Token)
	if err != nil {
		refuse(c, l.setup.Version, refusal)
		if _, ok := errors.AsType[*UnfitError](err); ok {
			l.deliver(arrival{err: err})
		}
		return err
	}
	conn, fresh, err := l.conn(agent)
	if err != nil {
		refuse(c, l.setup.Version, err.Error())
		return err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() }) // an agent that does not read
	err = conn.attach(c, h.Received, func(own uint64) error {
		return wire.SendHello(c, wire.Hello{Version: l.setup.Version, Received: own})
	})
	stop()
	if err != nil {
		refuse(c, l.setup.Version, err.Error())
		return err
	}
	if fresh {
		l.deliver(arrival{conn: conn})
	}
	return nil
}

// conn finds the connection that an agent continues, or makes a new one.
func (l *Listener) conn(agent AgentHello) (c *Conn, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[agent.Session]; c != nil {
		return c, false, nil
	}
	if l.closed {
		return nil, false, errors.New("this controller takes no more agents")
	}
	for _, c := range l.conns {
		if c.info.Name == agent.Info.Name && !c.closedForGood() {
			return nil, false, fmt.Errorf("node %s has an agent already (process %d)", c.info.Name, c.info.PID)
		}
	}
	c = newConn(l.setup, agent.Info, true, nil)
	l.conns[agent.Session] = c
	return c, true, nil
}

func (l *Listener) deliver(a arrival) {
	select {
	case l.fresh <- a:
	case <-l.ctx.Done():
		if a.conn != nil {
			a.conn.finish(fmt.Errorf("%w: nobody waited for it", ErrLost))
		}
	}
}

// certificate makes a key and a certificate for this process alone, and its
// fingerprint.
func certificate() (tls.Certificate, string, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, "", err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "disagg controller"},
		// Agents compare the fingerprint only; nodes' clocks may differ.
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &x509.Certificate{SerialNumber: serial}, pub, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	sum := sha256.Sum256(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, hex.EncodeToString(sum[:]), nil
}

// addresses are those under which agents can reach a listener, the one on the
// site's interface first.
func addresses(at net.Addr, iface string) ([]string, error) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("%s is not a TCP address", at)
	}
	port := strconv.Itoa(tcp.Port)
	if !tcp.IP.IsUnspecified() {
		return []string{net.JoinHostPort(tcp.IP.String(), port)}, nil
	}
	links, err := hostnet.Links()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, ip := range hostnet.Usable(links) {
		out = append(out, net.JoinHostPort(ip, port))
	}
	slices.Sort(out)
	// The controller may be a login node without the site's interface; then any
	// address will have to do, and agents try them all.
	if _, ip, err := hostnet.Pick(links, iface, hostnet.DefaultRoute("/proc/net/route"), false); err == nil {
		first := net.JoinHostPort(ip, port)
		out = slices.DeleteFunc(out, func(a string) bool { return a == first })
		out = slices.Insert(out, 0, first)
	}
	if len(out) == 0 {
		return nil, errors.New("this host has no address that a node could reach")
	}
	return out, nil
}
