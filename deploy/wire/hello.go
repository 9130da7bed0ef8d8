package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Protocol is the version of the conversation. Sides of different versions
// refuse each other.
const Protocol = 1

// maxHello bounds a greeting, which is read before the other side is known.
const maxHello = 1 << 20

// ErrRefused says that the other side will not talk, now or later.
var ErrRefused = errors.New("refused by the other side")

// Hello is the first frame in each direction of a stream.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the binary
	// Received is the highest message number of this session that the sender
	// has; zero for a new session.
	Received uint64 `json:"received"`
	// Refused says why the sender will not talk; empty: it will.
	Refused string          `json:"refused,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// Greet sends a greeting and returns the answer. When ctx ends first, the
// stream is closed. The error wraps ErrRefused when the answer is a refusal or
// of another protocol version.
func Greet(ctx context.Context, stream io.ReadWriteCloser, own Hello) (Hello, error) {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	if err := SendHello(stream, own); err != nil {
		return Hello{}, orCause(ctx, err)
	}
	h, err := ReadHello(ctx, stream)
	if err == nil && h.Refused != "" {
		err = fmt.Errorf("%w: %s", ErrRefused, h.Refused)
	}
	return h, err
}

// SendHello sends a greeting, as the first word or as the answer.
func SendHello(w io.Writer, own Hello) error {
	own.Protocol = Protocol
	body, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("encode greeting: %w", err)
	}
	return WriteFrame(w, Frame{Kind: KindHello, Body: body})
}

// ReadHello reads the other side's greeting. When ctx ends first, the stream is
// closed. The error wraps ErrRefused when the protocol versions differ.
func ReadHello(ctx context.Context, stream io.ReadCloser) (Hello, error) {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	f, err := ReadFrame(stream, maxHello)
	if err != nil {
		return Hello{}, orCause(ctx, fmt.Errorf("read greeting: %w", err))
	}
	if f.Kind != KindHello {
		return Hello{}, fmt.Errorf("read greeting: %w: got %q first", ErrBadFrame, f.Kind)
	}
	var h Hello
	if err := json.Unmarshal(f.Body, &h); err != nil {
		return Hello{}, fmt.Errorf("read greeting: %w: %w", ErrBadFrame, err)
	}
	if h.Protocol != Protocol {
		return h, fmt.Errorf("%w: it speaks protocol %d (version %q), this binary speaks %d; both must be the same binary",
			ErrRefused, h.Protocol, h.Version, Protocol)
	}
	return h, nil
}

// orCause prefers the reason why the context ended to the error that closing
// the stream caused.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("greet: %w", context.Cause(ctx))
	}
	return err
}
