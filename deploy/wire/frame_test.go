package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrameRoundTrip(t *testing.T) {
	t.Parallel()
	in := Frame{Kind: KindRequest, Seq: 7, Ack: 3, ID: 9, Method: "exec", Body: json.RawMessage(`{"argv":["a<b>&","\u2028"]}`)}
	var buf bytes.Buffer
	if err := WriteFrame(&buf, in); err != nil {
		t.Fatal(err)
	}
	if err := WriteFrame(&buf, Frame{Kind: KindBeat, Ack: 7}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFrame(&buf, MaxFrame)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, got); d != "" {
		t.Errorf("frame changed (-sent +read):\n%s", d)
	}
	if got, err = ReadFrame(&buf, MaxFrame); err != nil || got.Kind != KindBeat || got.Ack != 7 {
		t.Errorf("second frame = %+v, %v", got, err)
	}
	if _, err = ReadFrame(&buf, MaxFrame); err != io.EOF {
		t.Errorf("after the last frame: %v, want io.EOF itself", err)
	}
}

func TestReadFrameRefuses(t *testing.T) {
	t.Parallel()
	long := func(n uint32, rest string) string {
		return string(binary.BigEndian.AppendUint32(nil, n)) + rest
	}
	tests := []struct {
		name, in string
		want     error
	}{
		{"banner", "Welcome to node gpu-01\n", ErrBadFrame},
		{"empty frame", long(0, ""), ErrBadFrame},
		{"over the limit", long(101, strings.Repeat("x", 101)), ErrBadFrame},
		{"not JSON", long(3, "abc"), ErrBadFrame},
		{"unknown kind", long(11, `{"k":"evil"}`[:11]), ErrBadFrame},
		{"cut length", "\x00\x00", io.ErrUnexpectedEOF},
		{"cut body", long(50, `{"k"`), io.ErrUnexpectedEOF},
		{"no body", long(50, ""), io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := ReadFrame(strings.NewReader(tt.in), 100); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestWriteFrameRefusesOverlong(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(strings.Repeat("x", MaxFrame))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := WriteFrame(&buf, Frame{Kind: KindNote, Body: body}); err == nil {
		t.Error("a frame over the limit was written")
	}
	if buf.Len() != 0 {
		t.Errorf("%d bytes were written of a refused frame", buf.Len())
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, fr := range []Frame{
		{Kind: KindHello, Body: json.RawMessage(`{"protocol":1}`)},
		{Kind: KindRequest, Seq: 1, ID: 1, Method: "look"},
		{Kind: KindResponse, Seq: 2, Ack: 1, ID: 1, Error: &Error{Class: "x", Message: "y"}},
	} {
		b, err := encode(fr)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
	f.Add([]byte{0, 0, 0, 1, '{'})
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 12
		r := bytes.NewReader(in)
		fr, err := ReadFrame(r, limit)
		if err != nil {
			return
		}
		if used := len(in) - r.Len(); used > limit+4 {
			t.Fatalf("read %d bytes with a limit of %d", used, limit)
		}
		// What was accepted can be sent on and means the same.
		again, err := encode(fr)
		if err != nil {
			t.Fatalf("accepted frame cannot be written: %v", err)
		}
		back, err := ReadFrame(bytes.NewReader(again), MaxFrame)
		if err != nil {
			t.Fatalf("written frame cannot be read: %v", err)
		}
		third, err := encode(back)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("frame changed on its second trip: %q, %q, %v", again, third, err)
		}
	})
}

func FuzzAwaitSentinel(f *testing.F) {
	f.Add([]byte("banner\n"), []byte("rest"), 8)
	f.Add(Sentinel("n0")[:8], []byte{0}, 1<<10)
	f.Fuzz(func(t *testing.T, noise, rest []byte, limit int) {
		limit = min(max(limit, 0), 1<<12)
		in := slices.Concat(noise, Sentinel("n0"), rest)
		r := bytes.NewReader(in)
		got, err := AwaitSentinel(r, "n0", limit)
		read := len(in) - r.Len()
		if read > limit+len(Sentinel("n0")) {
			t.Errorf("read %d bytes, the limit is %d", read, limit)
		}
		if err == nil && !bytes.Equal(slices.Concat(got, Sentinel("n0")), in[:read]) {
			t.Errorf("noise %q of %q", got, in[:read])
		}
		if err != nil && len(noise) < limit {
			t.Errorf("not found after %d bytes of noise: %v", len(noise), err)
		}
	})
}

func TestAwaitSentinel(t *testing.T) {
	t.Parallel()
	mark := string(Sentinel("n0"))
	tests := []struct {
		name, in, noise, rest string
		fails                 bool
	}{
		{"at once", mark + "frame", "", "frame", false},
		{"after a banner", "*** Authorised users only ***\nLast login: Mon\n" + mark + "\x00\x00", "*** Authorised users only ***\nLast login: Mon\n", "\x00\x00", false},
		{"sentinel of another nonce is noise", string(Sentinel("n1")) + mark + "f", string(Sentinel("n1")), "f", false},
		{"half a sentinel first", mark[:8] + mark + "f", mark[:8], "f", false},
		{"never", "bash: line 1: /tmp/x: Permission denied\n", "bash: line 1: /tmp/x: Permission denied\n", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := strings.NewReader(tt.in)
			noise, err := AwaitSentinel(r, "n0", 1<<10)
			if (err != nil) != tt.fails || tt.fails && !errors.Is(err, ErrNoSentinel) {
				t.Fatalf("error = %v", err)
			}
			if string(noise) != tt.noise {
				t.Errorf("noise = %q, want %q", noise, tt.noise)
			}
			rest, _ := io.ReadAll(r)
			if string(rest) != tt.rest {
				t.Errorf("left in the stream: %q, want %q", rest, tt.rest)
			}
		})
	}
	if _, err := AwaitSentinel(strings.NewReader(strings.Repeat("x", 1<<20)), "n0", 1<<10); !errors.Is(err, ErrNoSentinel) {
		t.Errorf("endless noise: error = %v", err)
	}
}
