package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrNoSentinel says that the other side never began to speak the protocol.
var ErrNoSentinel = errors.New("the other program never began to speak the protocol")

// Join makes one stream of a reader and a writer.
func Join(r io.Reader, w io.Writer, closeBoth func() error) io.ReadWriteCloser {
	return joined{r, w, closeBoth}
}

type joined struct {
	io.Reader
	io.Writer
	closeBoth func() error
}

func (j joined) Close() error { return j.closeBoth() }

// Sentinel is the line after which a program that shares its stdout with login
// banners speaks the protocol. The nonce makes it unlike anything a banner says.
func Sentinel(nonce string) []byte {
	return []byte("\n\x01disagg-wire " + nonce + "\x01\n")
}

// AwaitSentinel reads up to the end of the sentinel and not one byte further.
// It returns what came before, which is of use only to explain a failure. The
// error wraps ErrNoSentinel when limit bytes came without it or the stream
// ended.
func AwaitSentinel(r io.Reader, nonce string, limit int) ([]byte, error) {
	mark := Sentinel(nonce)
	var got []byte
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, one); err != nil {
			return got, fmt.Errorf("%w: %w", ErrNoSentinel, err)
		}
		got = append(got, one[0])
		if bytes.HasSuffix(got, mark) {
			return got[:len(got)-len(mark)], nil
		}
		if len(got) >= limit+len(mark) {
			return got, fmt.Errorf("%w: %d other bytes came", ErrNoSentinel, len(got))
		}
	}
}

// Detach makes a stream of a reader and a writer whose own calls cannot be
// interrupted, such as stdin and stdout. Close ends the stream's calls at once;
// the goroutine that is in a call of the reader or writer stays until that
// returns.
func Detach(r io.Reader, w io.Writer) io.ReadWriteCloser {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		_, err := io.Copy(inW, r)
		inW.CloseWithError(err) // nil gives the reader io.EOF
	}()
	go func() {
		_, err := io.Copy(w, outR)
		outR.CloseWithError(err)
	}()
	return Join(inR, outW, func() error {
		inR.Close()
		outW.Close()
		outR.Close()
		return nil
	})
}
