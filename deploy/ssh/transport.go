package ssh

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/singleflight"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

// defaultHandshakes is how many handshakes one sshd gets at once by default. An
// sshd drops connections at random from 10 unauthenticated ones on.
const defaultHandshakes = 8

// copiesAtOnce is how many nodes get the binary at the same time.
const copiesAtOnce = 4

// Options are what a transport needs.
type Options struct {
	Setup deploy.Setup
	Site  models.SSHSite
	// Binary is the disagg binary for the nodes; empty: the running one.
	Binary string
	// Home, User and AgentSocket describe whoever connects; empty: this
	// process's user and SSH_AUTH_SOCK.
	Home, User, AgentSocket string
	// Handshake bounds one attempt at one hop, from TCP to the login; zero: 20 s.
	Handshake time.Duration
	// Dial opens TCP connections; nil: the usual way.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Transport reaches the nodes of one run.
type Transport struct {
	opts    Options
	resolve *resolver
	keys    *keyring
	log     *zap.Logger
	binary  func() (binary, error)

	flights singleflight.Group // attempts to reach jump hosts
	copies  chan struct{}      // turns to copy the binary

	mu     sync.Mutex
	slots  map[string]chan struct{} // by the sshd that all connections of a route share
	jumps  map[string]*ssh.Client   // by route
	closed bool
}

var errClosed = errors.New("ssh transport is closed")

// New reads the ssh configuration. It connects to nothing.
func New(o Options) (*Transport, error) {
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("set up ssh: %w", err)
	}
	r, err := newResolver(o.Site, o.Home, o.User)
	if err != nil {
		return nil, fmt.Errorf("set up ssh: %w", err)
	}
	t := &Transport{
		opts: o, resolve: r,
		keys:  &keyring{socket: o.AgentSocket, dial: (&net.Dialer{}).DialContext},
		log:   cmp.Or(o.Setup.Log, zap.NewNop()),
		slots: map[string]chan struct{}{}, copies: make(chan struct{}, copiesAtOnce),
		jumps: map[string]*ssh.Client{},
	}
	t.binary = sync.OnceValues(func() (binary, error) { return readBinary(o.Binary) })
	return t, nil
}

func (o *Options) fill() error {
	if o.Home == "" || o.User == "" {
		u, err := user.Current()
		if err != nil {
			return err
		}
		o.Home, o.User = cmp.Or(o.Home, u.HomeDir), cmp.Or(o.User, u.Username)
	}
	if o.AgentSocket == "" {
		o.AgentSocket = os.Getenv("SSH_AUTH_SOCK")
	}
	if o.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Binary = self
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	o.Handshake = cmp.Or(o.Handshake, handshakeLimit)
	o.Site.MaxHandshakes = cmp.Or(o.Site.MaxHandshakes, defaultHandshakes)
	return nil
}

// Connect starts an agent on a node and returns the connection to it. A failure
// names the hop where it happened and has a class.
func (t *Transport) Connect(ctx context.Context, node string) (*deploy.Conn, error) {
	hops, err := t.resolve.route(node)
	if err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", node, err)
	}
	client, err := t.connect(ctx, hops)
	if err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", node, err)
	}
	c, err := t.agent(ctx, client, node)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("ssh to %s: %w", node, err)
	}
	return c, nil
}

// agent starts the agent on a node, and puts the binary there first where it is
// not.
func (t *Transport) agent(ctx context.Context, client *ssh.Client, node string) (*deploy.Conn, error) {
	p, err := t.place()
	if err != nil {
		return nil, err
	}
	c, err := t.again(ctx, client, node, p)
	if !errors.Is(err, errAbsent) {
		return c, err
	}
	path, err := t.putInTurn(ctx, client, p)
	if err != nil {
		return nil, err
	}
	return t.start(ctx, client, node, path+" agent --stdio")
}

// putInTurn puts the binary on a node. Few are copied at once: the link of this
// host is what bounds them, and where nodes share the directory all but the first
// find it filled.
func (t *Transport) putInTurn(ctx context.Context, client *ssh.Client, p place) (string, error) {
	select {
	case t.copies <- struct{}{}:
		defer func() { <-t.copies }()
	case <-ctx.Done():
		return "", fault("no turn came to copy the binary: %v", context.Cause(ctx))
	}
	return put(ctx, client, p)
}

// Close ends the connections to jump hosts and to the ssh agent, and with the
// former every connection that goes over them.
func (t *Transport) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	var errs []error
	for _, c := range t.jumps {
		errs = append(errs, c.Close())
	}
	clear(t.jumps)
	return errors.Join(append(errs, t.keys.close())...)
}

// binary is the program for the nodes and its hash.
type binary struct {
	data []byte
	sum  string
}

func readBinary(path string) (binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return binary{}, fmt.Errorf("read binary for the nodes: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return binary{}, fmt.Errorf("read binary for the nodes: %w", err)
	}
	sum := sha256.Sum256(data)
	return binary{data: data, sum: hex.EncodeToString(sum[:])}, nil
}
