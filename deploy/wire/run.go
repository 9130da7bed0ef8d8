package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// ErrEnded says that the stream ended without a goodbye, as it does when the
// process at its other end is gone.
var ErrEnded = errors.New("the connection was closed")

// ErrSilent says that nothing was heard of the other side for too long.
var ErrSilent = errors.New("no sign of life")

// Bye is how Run ends when the other side ended the session on purpose.
type Bye struct{ Reason string }

// Error says that, with the reason.
func (b *Bye) Error() string { return "the other side said goodbye: " + b.Reason }

// Run holds the conversation over one stream until the stream or the session
// ends, and closes the stream. received is what the other side's greeting says
// it has of this session: what came after that is sent again. The error says
// why it ended and is never nil: a *Bye, ErrSilent, ErrEnded, the cause given to
// Close, or what reading or writing failed with. Only one Run at a time.
func (s *Session) Run(stream io.ReadWriteCloser, received uint64) error {
	defer stream.Close()
	if err := s.attach(received); err != nil {
		return err
	}
	defer s.detach()

	ctx, end := context.WithCancelCause(s.ctx)
	defer end(nil)
	context.AfterFunc(ctx, func() { stream.Close() })

	heard := &stamp{r: stream}
	heard.touch()
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(ctx, heard, end) })
	wg.Go(func() { end(s.write(ctx, stream)) })
	end(s.read(heard, stream))
	wg.Wait()
	s.mu.Lock()
	told := s.noting
	s.mu.Unlock()
	if told != nil {
		<-told
	}
	return context.Cause(ctx)
}

// attach makes the session ready for a stream whose other side has received
// everything up to that number.
func (s *Session) attach(received uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return errors.New("run session: it has a stream already")
	}
	if gone := s.lastSeq - uint64(len(s.out)); received < gone {
		return fmt.Errorf("resume session: %w: message %d is wanted, which was confirmed and dropped", ErrBadFrame, received+1)
	}
	if err := s.confirm(received); err != nil {
		return fmt.Errorf("resume session: %w", err)
	}
	s.running, s.sent = true, 0
	return nil
}

func (s *Session) detach() {
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
}

// read takes frames in until the stream ends or the other side says goodbye,
// which it confirms.
func (s *Session) read(r io.Reader, w io.Writer) error {
	for {
		f, err := ReadFrame(r, MaxFrame)
		if err == nil {
			err = s.dispatch(f)
		}
		if _, bye := errors.AsType[*Bye](err); bye {
			// Whether this last word arrives changes nothing for this side.
			_ = s.writeFrame(w, Frame{Kind: KindBeat, Ack: s.Received()})
		}
		if errors.Is(err, io.EOF) { // between two frames
			err = ErrEnded
		}
		if err != nil {
			return err
		}
	}
}

// write sends what is queued, and a beat whenever nothing was sent for a while.
func (s *Session) write(ctx context.Context, w io.Writer) error {
	beat := time.NewTimer(0) // a beat at once tells the other side what has arrived
	defer beat.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-beat.C:
			due = true
		}
		for {
			f, ok := s.next(due)
			if !ok {
				break
			}
			due = false
			if err := s.writeFrame(w, f); err != nil {
				return err
			}
			beat.Reset(s.opts.Beat)
		}
	}
}

func (s *Session) writeFrame(w io.Writer, f Frame) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return WriteFrame(w, f)
}

// next takes the next frame to write: a queued one, or a beat when one is due
// or a confirmation is owed.
func (s *Session) next(due bool) (Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent < len(s.out) {
		f := s.out[s.sent]
		s.sent++
		f.Ack, s.owed = s.recv, 0
		return f, true
	}
	if due || s.owed > 1<<20 {
		s.owed = 0
		return Frame{Kind: KindBeat, Ack: s.recv}, true
	}
	return Frame{}, false
}

// watch ends the stream when the other side has been silent for too long.
func (s *Session) watch(ctx context.Context, heard *stamp, end context.CancelCauseFunc) {
	tick := time.NewTicker(max(s.opts.Lost/10, time.Millisecond))
	defer tick.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		quiet := heard.age()
		if now := quiet > s.opts.Lost; now != silent {
			silent = now
			if s.opts.Silence != nil {
				s.opts.Silence(silent)
			}
		}
		if quiet > s.opts.Dead {
			end(fmt.Errorf("%w for %s", ErrSilent, quiet.Round(time.Millisecond)))
			return
		}
	}
}

// stamp remembers when something was last read. Parts of a frame count: a long
// one may take its time.
type stamp struct {
	r     io.Reader
	start time.Time
	last  atomic.Int64 // since start
}

func (t *stamp) touch() {
	if t.start.IsZero() {
		t.start = time.Now()
	}
	t.last.Store(int64(time.Since(t.start)))
}

func (t *stamp) age() time.Duration {
	return time.Since(t.start) - time.Duration(t.last.Load())
}

// Read reads and remembers the time.
func (t *stamp) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.touch()
	}
	return n, err
}
