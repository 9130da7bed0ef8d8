package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed says that the session has ended.
var ErrClosed = errors.New("session closed")

// maxBacklog bounds the messages, in bytes, that wait for the other side's
// confirmation. More than that means it will not catch up.
const maxBacklog = 256 << 20

// Options are what a session needs. Beat and Lost must be above zero.
type Options struct {
	// Beat is how often something is sent at least.
	Beat time.Duration
	// Lost is the silence after which the other side counts as not there.
	Lost time.Duration
	// Dead is the silence after which the stream is given up; zero means Lost.
	Dead time.Duration
	// Silence is told when the other side is not heard for Lost (true) and when
	// it is heard again on the same stream (false). It must not block.
	Silence func(bool)
	// Handle answers a request. Its context ends when the asker no longer waits
	// or the session is closed.
	Handle func(ctx context.Context, method string, body json.RawMessage) (any, error)
	// Answered is told when the answer to a request is on its way; may be nil.
	Answered func(method string)
	// Note takes a notice. Notices are handed over in order, one at a time, and
	// all that came over a stream before Run on that stream returns; so it must
	// not wait for that.
	Note func(method string, body json.RawMessage)
}

// Session is one conversation. It starts without a stream; what is said then
// waits for one.
type Session struct {
	opts   Options
	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	wake   chan struct{} // cap 1: something to write

	mu      sync.Mutex
	out     []Frame // numbered, not confirmed
	outSize int
	sent    int // how many of out went over the present stream
	lastSeq uint64
	recv    uint64 // highest number received
	owed    int    // bytes received since the last confirmation was sent
	acked   chan struct{}

	lastID   uint64
	waiting  map[uint64]chan Frame
	handling map[uint64]context.CancelFunc

	notes   []Frame
	noting  chan struct{} // closed when all notices are handed over; nil: none is waiting
	running bool

	writing sync.Mutex // one frame at a time on the stream
}

// NewSession makes a session without a stream.
func NewSession(o Options) *Session {
	if o.Dead == 0 {
		o.Dead = o.Lost
	}
	s := &Session{
		opts:     o,
		wake:     make(chan struct{}, 1),
		acked:    make(chan struct{}),
		waiting:  map[uint64]chan Frame{},
		handling: map[uint64]context.CancelFunc{},
	}
	// The session's life is bounded by Close, not by the context of whoever
	// happened to make it.
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Received is the highest message number received, for the greeting of the next
// stream.
func (s *Session) Received() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recv
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err says why the session has ended, or nil.
func (s *Session) Err() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return context.Cause(s.ctx)
}

// Close ends the session at once: the stream is closed, waiting calls fail with
// cause, contexts of handlers end. What was not sent is lost.
func (s *Session) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	s.cancel(cause)
}

// Goodbye tells the other side that the session ends on purpose and waits until
// it has confirmed everything sent. It does not close the session.
func (s *Session) Goodbye(ctx context.Context, reason string) error {
	body, err := json.Marshal(reason)
	if err != nil {
		return err
	}
	if err := s.send(Frame{Kind: KindBye, Body: body}); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		n, changed := len(s.out), s.acked
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return s.Err()
		}
	}
}

// Call asks and waits for the answer, which is decoded into result unless that
// is nil. A failure at the other side is an *Error.
func (s *Session) Call(ctx context.Context, method string, params, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	answer := make(chan Frame, 1)
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	s.waiting[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()

	if err := s.send(Frame{Kind: KindRequest, ID: id, Method: method, Body: body}); err != nil {
		return err
	}
	select {
	case f := <-answer:
		return decodeAnswer(f, method, result)
	case <-ctx.Done():
		// The session may have closed in the meantime; then nobody need be told.
		_ = s.send(Frame{Kind: KindCancel, ID: id})
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	case <-s.ctx.Done():
		select {
		case f := <-answer: // it came before the end
			return decodeAnswer(f, method, result)
		default:
		}
		return fmt.Errorf("%s: %w", method, s.Err())
	}
}

func decodeAnswer(f Frame, method string, result any) error {
	if f.Error != nil {
		return f.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(f.Body, result); err != nil {
		return fmt.Errorf("decode answer to %s: %w", method, err)
	}
	return nil
}

// Notify tells something. It returns before the other side has it.
func (s *Session) Notify(method string, params any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return s.send(Frame{Kind: KindNote, Method: method, Body: body})
}

// send numbers a frame and queues it.
func (s *Session) send(f Frame) error {
	if s.ctx.Err() != nil {
		return s.Err()
	}
	if n := len(f.Body) + 1024; n > MaxFrame {
		return fmt.Errorf("send %s: %d bytes are more than the limit of %d", f.Method, len(f.Body), MaxFrame-1024)
	}
	s.mu.Lock()
	s.lastSeq++
	f.Seq = s.lastSeq
	s.out = append(s.out, f)
	s.outSize += len(f.Body)
	over := s.outSize > maxBacklog
	s.mu.Unlock()
	if over {
		err := fmt.Errorf("%w: more than %d bytes wait for a confirmation", ErrClosed, maxBacklog)
		s.Close(err)
		return err
	}
	s.stir()
	return nil
}

// stir wakes the writer.
func (s *Session) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// confirm drops what the other side has received. The caller holds mu.
func (s *Session) confirm(ack uint64) error {
	if ack > s.lastSeq {
		return fmt.Errorf("%w: message %d is confirmed, but only %d were sent", ErrBadFrame, ack, s.lastSeq)
	}
	n := 0
	for n < len(s.out) && s.out[n].Seq <= ack {
		s.outSize -= len(s.out[n].Body)
		n++
	}
	if n == 0 {
		return nil
	}
	clear(s.out[:n])
	s.out = s.out[n:]
	s.sent = max(0, s.sent-n)
	close(s.acked)
	s.acked = make(chan struct{})
	return nil
}

// dispatch takes a frame in. It returns a *Bye when the other side ends the
// session.
func (s *Session) dispatch(f Frame) error {
	s.mu.Lock()
	if err := s.confirm(f.Ack); err != nil {
		s.mu.Unlock()
		return err
	}
	if f.Kind == KindBeat {
		s.mu.Unlock()
		return nil
	}
	switch {
	case f.Kind == KindHello:
		s.mu.Unlock()
		return fmt.Errorf("%w: a second greeting", ErrBadFrame)
	case f.Seq <= s.recv:
		s.mu.Unlock()
		return nil // sent again after a lost stream
	case f.Seq != s.recv+1:
		defer s.mu.Unlock()
		return fmt.Errorf("%w: message %d came after %d", ErrBadFrame, f.Seq, s.recv)
	}
	s.recv = f.Seq
	s.owed += len(f.Body)
	if s.owed > 1<<20 {
		s.stir()
	}
	defer s.mu.Unlock()

	switch f.Kind {
	case KindRequest:
		s.handle(f)
	case KindResponse:
		if ch := s.waiting[f.ID]; ch != nil {
			delete(s.waiting, f.ID)
			ch <- f
		}
	case KindCancel:
		if cancel := s.handling[f.ID]; cancel != nil {
			cancel()
		}
	case KindNote:
		s.notes = append(s.notes, f)
		if s.noting == nil {
			s.noting = make(chan struct{})
			go s.deliver()
		}
	case KindBye:
		bye := &Bye{}
		if err := json.Unmarshal(f.Body, &bye.Reason); err != nil {
			return fmt.Errorf("%w: %w", ErrBadFrame, err)
		}
		return bye
	}
	return nil
}

// handle starts a handler. The caller holds mu.
func (s *Session) handle(f Frame) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.handling[f.ID] = cancel
	go func() {
		res := Frame{Kind: KindResponse, ID: f.ID, Method: f.Method}
		res.Body, res.Error = s.answer(ctx, f)
		s.mu.Lock()
		delete(s.handling, f.ID)
		s.mu.Unlock()
		cancel()
		if err := s.send(res); err != nil && s.ctx.Err() == nil {
			res.Body, res.Error = nil, &Error{Message: err.Error()}
			// This one is short; it fails only when the session has closed.
			_ = s.send(res)
		}
		if s.opts.Answered != nil {
			s.opts.Answered(f.Method)
		}
	}()
}

// answer runs the handler.
func (s *Session) answer(ctx context.Context, f Frame) (json.RawMessage, *Error) {
	if s.opts.Handle == nil {
		return nil, &Error{Message: "this side answers no requests"}
	}
	v, err := s.opts.Handle(ctx, f.Method, f.Body)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			// The whole chain is the message; the class is that of its end.
			return nil, &Error{Class: e.Class, Message: err.Error(), Hint: e.Hint}
		}
		return nil, &Error{Message: err.Error()}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Message: fmt.Sprintf("encode answer to %s: %v", f.Method, err)}
	}
	return body, nil
}

// deliver hands notices over until none is left.
func (s *Session) deliver() {
	for {
		s.mu.Lock()
		if len(s.notes) == 0 {
			close(s.noting)
			s.notes, s.noting = nil, nil
			s.mu.Unlock()
			return
		}
		f := s.notes[0]
		s.notes = s.notes[1:]
		s.mu.Unlock()
		if s.opts.Note != nil {
			s.opts.Note(f.Method, f.Body)
		}
	}
}
