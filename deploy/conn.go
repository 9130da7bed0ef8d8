package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/disagg/disagg/deploy/wire"
)

const (
	// returnLimit is how long an agent whose connection was closed, rather than
	// silent, may take to come back. A connection is closed by a process that
	// ends; one that lives redials at once.
	returnLimit = 5 * time.Second
	// closeLimit bounds the polite end of an agent, which stops what still runs.
	closeLimit = time.Minute
)

// ErrLost says that a node's agent is gone. What ran on the node ends by its
// lease.
var ErrLost = errors.New("its agent is out of reach")

// Conn is the controller's connection to the agent on one node.
type Conn struct {
	setup  Setup
	info   NodeInfo
	sess   *wire.Session
	events *eventQueue

	// returns says that the agent can come back over a new stream.
	returns bool
	// after ends what carried the stream and says what became of it; may be nil.
	after func(polite bool) string

	mu      sync.Mutex
	stream  io.Closer
	ran     chan struct{} // closed when the present stream has ended
	expiry  *time.Timer
	closing bool

	once sync.Once
	done chan struct{}
	err  error // valid after done
}

func newConn(s Setup, info NodeInfo, returns bool, after func(bool) string) *Conn {
	c := &Conn{setup: s, info: info, returns: returns, after: after, done: make(chan struct{}), events: newEventQueue(s.Events)}
	dead := s.Timing.Lost
	if !returns {
		dead += s.Timing.Redial
	}
	c.sess = wire.NewSession(wire.Options{
		Beat: s.Timing.Beat, Lost: s.Timing.Lost, Dead: dead,
		Silence: c.silence,
		Note:    c.note,
	})
	return c
}

// Info says what the agent told of its node.
func (c *Conn) Info() NodeInfo { return c.info }

// Done is closed when the agent is gone for good.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the agent is gone: nil while it is not, and when it was closed.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// attach gives the connection a stream whose agent has received everything up
// to that number; an earlier stream is ended first. welcome is called in
// between to answer the agent's greeting.
func (c *Conn) attach(stream io.ReadWriteCloser, received uint64, welcome func(own uint64) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.ran != nil
	if again {
		c.stream.Close()
		<-c.ran
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if err := c.Err(); err != nil || c.closedForGood() {
		return fmt.Errorf("attach %s: %w", c.info.Name, errors.Join(ErrLost, err))
	}
	if err := welcome(c.sess.Received()); err != nil {
		stream.Close()
		c.expect(returnLimit, err)
		return err
	}
	ran := make(chan struct{})
	c.stream, c.ran = stream, ran
	if again {
		c.events.put(c.event(EventAttached, ""))
	}
	go func() {
		err := c.sess.Run(stream, received)
		close(ran)
		c.ended(ran, err)
	}()
	return nil
}

func (c *Conn) closedForGood() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// ended decides what the end of a stream means.
func (c *Conn) ended(ran chan struct{}, err error) {
	if bye, ok := errors.AsType[*wire.Bye](err); ok {
		c.finish(fmt.Errorf("%w: the agent ended: %s", ErrLost, bye.Reason))
		return
	}
	if !c.returns || c.sess.Err() != nil {
		c.finish(fmt.Errorf("%w: %w", ErrLost, err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran != ran {
		return // a new stream is here already
	}
	wait := min(returnLimit, c.setup.Timing.Redial)
	if errors.Is(err, wire.ErrSilent) {
		wait = c.setup.Timing.Redial
	}
	c.events.put(c.event(EventDetached, err.Error()))
	c.setup.Log.Warn("connection lost", zap.String("node", c.info.Name), zap.Error(err), zap.Duration("wait", wait))
	c.expect(wait, err)
}

// expect waits for the agent to come back. The caller holds mu.
func (c *Conn) expect(wait time.Duration, why error) {
	c.expiry = time.AfterFunc(wait, func() {
		c.finish(fmt.Errorf("%w: %w, and it did not come back for %s", ErrLost, why, wait))
	})
}

// finish ends the connection for good.
func (c *Conn) finish(err error) {
	c.once.Do(func() {
		c.sess.Close(err)
		c.mu.Lock()
		polite := c.closing
		if c.expiry != nil {
			c.expiry.Stop()
		}
		c.mu.Unlock()
		if c.after != nil {
			if how := c.after(polite); how != "" {
				err = fmt.Errorf("%w (%s)", err, how)
			}
		}
		if !polite {
			c.err = fmt.Errorf("node %s: %w", c.info.Name, err)
			c.setup.Log.Warn("node lost", zap.String("node", c.info.Name), zap.Error(err))
		}
		close(c.done)
	})
}

// silence is told when the agent is not heard and when it is heard again on the
// same stream. Where a stream is all there is, that is news of its own; where
// the agent can come back, the stream ends with the silence.
func (c *Conn) silence(silent bool) {
	switch {
	case c.returns:
	case silent:
		c.events.put(c.event(EventDetached, fmt.Sprintf("no sign of life for %s", c.setup.Timing.Lost)))
	default:
		c.events.put(c.event(EventAttached, ""))
	}
}

func (c *Conn) event(k EventKind, detail string) Event {
	return Event{Time: time.Now(), Node: c.info.Name, Kind: k, Detail: detail}
}

// note takes what the agent tells.
func (c *Conn) note(method string, body json.RawMessage) {
	if method != NoteEvent {
		return
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		c.setup.Log.Error("read event", zap.String("node", c.info.Name), zap.Error(err))
		return
	}
	e.Node = c.info.Name // one name a node, whoever speaks
	c.events.put(e)
}

// Close ends the agent politely: what still runs is stopped, what it made is
// removed. It returns when the agent is gone; the error says what could not be
// stopped.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	defer c.events.close()
	if c.closedForGood() {
		return c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	err := c.call(ctx, MethodClose, nil, nil)
	select {
	case <-c.done:
	case <-ctx.Done():
		c.finish(fmt.Errorf("%w: it did not end within %s", ErrLost, closeLimit))
		err = errors.Join(err, fmt.Errorf("close node %s: the agent did not end within %s", c.info.Name, closeLimit))
	}
	return err
}

// call asks the agent and gives failures their class and the node's name.
func (c *Conn) call(ctx context.Context, method string, params, result any) error {
	if err := c.sess.Call(ctx, method, params, result); err != nil {
		return fmt.Errorf("node %s: %w", c.info.Name, FromWire(err))
	}
	return nil
}
