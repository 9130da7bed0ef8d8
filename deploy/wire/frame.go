package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the longest frame, without its length, that is written or read.
const MaxFrame = 16 << 20

// ErrBadFrame says that what came in is not a frame: another program answered,
// or something else was written into the stream.
var ErrBadFrame = errors.New("not a frame of this protocol")

// Kind says what a frame is.
type Kind string

const (
	// KindHello opens a stream in each direction.
	KindHello Kind = "hello"
	// KindRequest asks for an answer under its ID.
	KindRequest Kind = "req"
	// KindResponse answers the request of the same ID.
	KindResponse Kind = "res"
	// KindCancel says that nobody waits for the answer of that ID any more.
	KindCancel Kind = "cancel"
	// KindNote tells something and expects no answer.
	KindNote Kind = "note"
	// KindBeat says only that the sender is there and what it has received.
	KindBeat Kind = "beat"
	// KindBye says that the sender ends the session on purpose.
	KindBye Kind = "bye"
)

func (k Kind) known() bool {
	switch k {
	case KindHello, KindRequest, KindResponse, KindCancel, KindNote, KindBeat, KindBye:
		return true
	}
	return false
}

// Frame is one message.
type Frame struct {
	Kind Kind `json:"k"`
	// Seq numbers the messages of one direction from 1; frames that need no
	// confirmation (hello, beat) have none.
	Seq uint64 `json:"s,omitempty"`
	// Ack is the highest Seq that the sender has received.
	Ack    uint64          `json:"a,omitempty"`
	ID     uint64          `json:"i,omitempty"`
	Method string          `json:"m,omitempty"`
	Error  *Error          `json:"e,omitempty"`
	Body   json.RawMessage `json:"b,omitempty"`
}

// Error is a failure as it travels: the other side's handler returned it.
type Error struct {
	// Class names the kind of failure for programs; empty: not classified.
	Class   string `json:"class,omitempty"`
	Message string `json:"message"`
	// Hint says what a person can do about it.
	Hint string `json:"hint,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// WriteFrame writes one frame with a single Write.
func WriteFrame(w io.Writer, f Frame) error {
	b, err := encode(f)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write %s frame: %w", f.Kind, err)
	}
	return nil
}

func encode(f Frame) ([]byte, error) {
	// The body is JSON already, and may be long; it is put in as it is.
	body := f.Body
	f.Body = nil
	head, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s frame: %w", f.Kind, err)
	}
	n := len(head)
	if len(body) > 0 {
		n += len(`,"b":`) + len(body)
	}
	if n > MaxFrame {
		return nil, fmt.Errorf("encode %s frame: %d bytes are more than the limit of %d", f.Kind, n, MaxFrame)
	}
	b := make([]byte, 4, 4+n)
	binary.BigEndian.PutUint32(b, uint32(n))
	if len(body) == 0 {
		return append(b, head...), nil
	}
	b = append(b, head[:len(head)-1]...)
	b = append(b, `,"b":`...)
	b = append(b, body...)
	return append(b, '}'), nil
}

// ReadFrame reads one frame of at most limit bytes. The error is io.EOF when
// the stream ended between frames, io.ErrUnexpectedEOF inside one, and
// ErrBadFrame when what came is not a frame.
func ReadFrame(r io.Reader, limit int) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || uint64(n) > uint64(limit) {
		return Frame{}, fmt.Errorf("%w: length %d, allowed are 1 to %d (first bytes %q)", ErrBadFrame, n, limit, head)
	}
	// The buffer grows with what arrives, so that a false length costs nothing.
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	var f Frame
	if err := json.Unmarshal(buf.Bytes(), &f); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrBadFrame, err)
	}
	if !f.Kind.known() {
		return Frame{}, fmt.Errorf("%w: kind %q is unknown", ErrBadFrame, f.Kind)
	}
	return f, nil
}
