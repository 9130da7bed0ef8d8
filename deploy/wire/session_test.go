package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is a timing that tests can wait for and a busy machine still keeps.
func quick() Options { return Options{Beat: 50 * time.Millisecond, Lost: 5 * time.Second} }

// talk runs both sessions over a new stream and returns a function that cuts it
// and gives how both ended.
func talk(t *testing.T, a, b *Session) (cut func() (error, error)) {
	t.Helper()
	ca, cb := net.Pipe()
	ra, rb := a.Received(), b.Received()
	ea, eb := make(chan error, 1), make(chan error, 1)
	go func() { ea <- a.Run(ca, rb) }()
	go func() { eb <- b.Run(cb, ra) }()
	return func() (error, error) {
		ca.Close()
		cb.Close()
		return <-ea, <-eb
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Handle = func(_ context.Context, method string, body json.RawMessage) (any, error) {
		var in string
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		if in == "fail" {
			return nil, fmt.Errorf("start engine: %w", &Error{Class: "image-missing", Message: "no such image", Hint: "pull it"})
		}
		if in == "huge" {
			return strings.Repeat("x", MaxFrame), nil
		}
		return method + ":" + in, nil
	}
	a, b := NewSession(quick()), NewSession(o)
	cut := talk(t, a, b)

	var got string
	if err := a.Call(t.Context(), "echo", "hello", &got); err != nil || got != "echo:hello" {
		t.Errorf("call = %q, %v", got, err)
	}
	err := a.Call(t.Context(), "echo", "fail", &got)
	want := &Error{Class: "image-missing", Message: "start engine: no such image", Hint: "pull it"}
	if e, ok := errors.AsType[*Error](err); !ok || *e != *want {
		t.Errorf("failed call = %v, want %v", err, want)
	}
	if err := a.Call(t.Context(), "echo", "huge", &got); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("answer over the limit: %v", err)
	}
	if err := a.Call(t.Context(), "echo", strings.Repeat("x", MaxFrame), &got); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("question over the limit: %v", err)
	}
	if err := b.Call(t.Context(), "x", nil, nil); err == nil {
		t.Error("a side without handler answered")
	}
	a.Close(nil)
	b.Close(nil)
	cut()
}

// TestResumeLosesNothing cuts the stream again and again while both sides talk.
func TestResumeLosesNothing(t *testing.T) {
	t.Parallel()
	const total = 400
	var mu sync.Mutex
	var notes []int
	calls := map[int]int{}
	o := quick()
	o.Note = func(_ string, body json.RawMessage) {
		var n int
		if json.Unmarshal(body, &n) == nil {
			mu.Lock()
			notes = append(notes, n)
			mu.Unlock()
		}
	}
	o.Handle = func(_ context.Context, _ string, body json.RawMessage) (any, error) {
		var n int
		err := json.Unmarshal(body, &n)
		mu.Lock()
		calls[n]++
		mu.Unlock()
		return 2 * n, err
	}
	a, b := NewSession(quick()), NewSession(o)

	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var wg sync.WaitGroup
		for i := range total {
			if err := a.Notify("n", i); err != nil {
				t.Error(err)
			}
			wg.Go(func() {
				var got int
				if err := a.Call(t.Context(), "double", i, &got); err != nil || got != 2*i {
					t.Errorf("double %d = %d, %v", i, got, err)
				}
			})
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		wg.Wait()
	}()
	for streams := 1; ; streams++ {
		cut := talk(t, a, b)
		select {
		case <-finished:
			cut()
			if streams < 3 {
				t.Fatalf("only %d streams; the test shows nothing", streams)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			cut = talk(t, a, b)
			if err := a.Goodbye(ctx, "done"); err != nil {
				t.Error(err)
			}
			_, eb := cut()
			if bye, ok := errors.AsType[*Bye](eb); !ok || bye.Reason != "done" {
				t.Errorf("other side ended with %v, want the goodbye", eb)
			}
			b.Close(nil)
			a.Close(nil)
			mu.Lock()
			defer mu.Unlock()
			want := make([]int, total)
			for i := range want {
				want[i] = i
				if calls[i] != 1 {
					t.Errorf("call %d was handled %d times", i, calls[i])
				}
			}
			if d := cmp.Diff(want, notes); d != "" {
				t.Errorf("notices (-sent +received):\n%s", d)
			}
			return
		case <-time.After(3 * time.Millisecond):
			cut()
		}
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	told := make(chan bool, 4)
	a := NewSession(Options{
		Beat: 10 * time.Millisecond, Lost: 100 * time.Millisecond, Dead: 300 * time.Millisecond,
		Silence: func(s bool) { told <- s },
	})
	ca, cb := net.Pipe()
	go io.Copy(io.Discard, cb) // there, but mute
	start := time.Now()
	err := a.Run(ca, 0)
	if !errors.Is(err, ErrSilent) {
		t.Errorf("error = %v, want ErrSilent", err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("gave up after %s, before Dead", took)
	}
	if len(told) != 1 || !<-told {
		t.Error("silence was not told once")
	}
	a.Close(nil)
	cb.Close()
}

// TestStuckPeer: a side that reads nothing blocks the writer; that must not
// keep the stream alive.
func TestStuckPeer(t *testing.T) {
	t.Parallel()
	a := NewSession(Options{Beat: 10 * time.Millisecond, Lost: 100 * time.Millisecond})
	ca, cb := net.Pipe()
	defer cb.Close()
	if err := a.Notify("x", strings.Repeat("y", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ca, 0); !errors.Is(err, ErrSilent) {
		t.Errorf("error = %v, want ErrSilent", err)
	}
	a.Close(nil)
}

func TestCancelReachesHandler(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	started := make(chan struct{})
	o := quick()
	o.Handle = func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		close(started)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	a, b := NewSession(quick()), NewSession(o)
	cut := talk(t, a, b)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if err := a.Call(ctx, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("call = %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("handler ended with %v", err)
	}
	a.Close(nil)
	b.Close(nil)
	cut()
}

func TestCloseFailsCalls(t *testing.T) {
	t.Parallel()
	a := NewSession(quick()) // never gets a stream
	why := errors.New("node powered off")
	got := make(chan error, 1)
	go func() { got <- a.Call(context.Background(), "x", nil, nil) }()
	time.Sleep(time.Millisecond)
	a.Close(why)
	if err := <-got; !errors.Is(err, why) {
		t.Errorf("call = %v, want %v", err, why)
	}
	if err := a.Notify("x", nil); !errors.Is(err, why) {
		t.Errorf("notify = %v, want %v", err, why)
	}
	if !errors.Is(a.Err(), why) {
		t.Errorf("Err = %v", a.Err())
	}
}

func TestProtocolViolations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		frame Frame
	}{
		{"gap", Frame{Kind: KindNote, Seq: 5, Method: "x"}},
		{"confirmation of the future", Frame{Kind: KindBeat, Ack: 99}},
		{"second greeting", Frame{Kind: KindHello}},
		{"goodbye without reason", Frame{Kind: KindBye, Seq: 1, Body: json.RawMessage(`{}`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := NewSession(quick())
			ca, cb := net.Pipe()
			go func() {
				WriteFrame(cb, tt.frame)
				io.Copy(io.Discard, cb)
			}()
			if err := a.Run(ca, 0); !errors.Is(err, ErrBadFrame) {
				t.Errorf("error = %v, want ErrBadFrame", err)
			}
			a.Close(nil)
			cb.Close()
		})
	}
}

// TestStrangerCannotResume: the other side of a session is the one that knows
// what was said.
func TestStrangerCannotResume(t *testing.T) {
	t.Parallel()
	a, b := NewSession(quick()), NewSession(quick())
	cut := talk(t, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a.Notify("x", 1)
	if err := a.Goodbye(ctx, ""); err != nil {
		t.Fatal(err)
	}
	cut()
	ca, cb := net.Pipe()
	defer cb.Close()
	if err := a.Run(ca, 0); !errors.Is(err, ErrBadFrame) {
		t.Errorf("resume from the start = %v, want ErrBadFrame", err)
	}
	a.Close(nil)
	b.Close(nil)
}

func TestHello(t *testing.T) {
	t.Parallel()
	greet := func(t *testing.T, answer func(net.Conn)) (Hello, error) {
		ca, cb := net.Pipe()
		defer ca.Close()
		defer cb.Close()
		go answer(cb)
		return Greet(t.Context(), ca, Hello{Version: "v1", Received: 4, Body: json.RawMessage(`"me"`)})
	}
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		var seen Hello
		h, err := greet(t, func(c net.Conn) {
			seen, _ = ReadHello(context.Background(), c)
			SendHello(c, Hello{Version: "v2", Received: 9})
		})
		if err != nil || h.Version != "v2" || h.Received != 9 {
			t.Errorf("answer = %+v, %v", h, err)
		}
		if d := cmp.Diff(Hello{Protocol: Protocol, Version: "v1", Received: 4, Body: json.RawMessage(`"me"`)}, seen); d != "" {
			t.Errorf("seen (-want +got):\n%s", d)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		_, err := greet(t, func(c net.Conn) {
			ReadHello(context.Background(), c)
			SendHello(c, Hello{Refused: "the token is wrong"})
		})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the token is wrong") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("other protocol", func(t *testing.T) {
		t.Parallel()
		_, err := greet(t, func(c net.Conn) {
			ReadHello(context.Background(), c)
			WriteFrame(c, Frame{Kind: KindHello, Body: json.RawMessage(`{"protocol":99,"version":"v9"}`)})
		})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "protocol 99") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("mute", func(t *testing.T) {
		t.Parallel()
		ca, cb := net.Pipe()
		defer cb.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := Greet(ctx, ca, Hello{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
	})
}
