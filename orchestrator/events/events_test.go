package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/disagg/disagg/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 4, 12, 0, 5, 0, time.UTC)

func clock() time.Time { return noon }

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	w, err := NewWriter(path, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Emit(Event{Kind: RunStarted, Msg: "hello <a&b>"})
	w.Emit(Event{Kind: ProcessExited, Stage: "workers", Node: "gpu-01", Process: "prefill-0.0", Msg: "exited with code 3", Detail: map[string]any{"code": 3}})
	if err := w.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-03-04T12:00:05Z","seq":1,"kind":"run_started","msg":"hello <a&b>"}
{"time":"2026-03-04T12:00:05Z","seq":2,"stage":"workers","node":"gpu-01","process":"prefill-0.0","kind":"process_exited","msg":"exited with code 3","detail":{"code":3}}
`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	log, err := ReadAll(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLog := Log{Events: []Event{
		{Time: noon, Seq: 1, Kind: RunStarted, Msg: "hello <a&b>"},
		{Time: noon, Seq: 2, Stage: "workers", Node: "gpu-01", Process: "prefill-0.0", Kind: ProcessExited, Msg: "exited with code 3", Detail: map[string]any{"code": float64(3)}},
	}}
	if diff := cmp.Diff(wantLog, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestWriterGoesOnAfterATornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	old := `{"seq":1,"kind":"run_started","msg":"a"}
not json
{"seq":7,"kind":"alive","msg":"b"}
{"seq":8,"kind":"ali`
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(path, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Emit(Event{Kind: Alive, Msg: "c"})
	if err := w.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	log, err := ReadAll(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range log.Events {
		got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Msg))
	}
	if diff := cmp.Diff([]string{"1 a", "7 b", "8 c"}, got); diff != "" || log.Bad != 2 || log.Torn {
		t.Errorf("bad = %d, torn = %v, events (-want +got):\n%s", log.Bad, log.Torn, diff)
	}
}

func TestWriterSurvivesAnUnwritableDetail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	w, err := NewWriter(path, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Emit(Event{Kind: Warning, Msg: "x", Detail: map[string]any{"rate": math.Inf(1)}})
	if err := w.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	log, err := ReadAll(path)
	if err != nil || len(log.Events) != 1 || !strings.Contains(fmt.Sprint(log.Events[0].Detail["unwritable_detail"]), "unsupported value") {
		t.Errorf("log = %+v, %v", log, err)
	}
}

// TestWriterRedacts: a program's last words stand in an event; a secret does not.
func TestWriterRedacts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	w, err := NewWriter(path, clock, redact.New(map[string][]byte{"HF_TOKEN": []byte("hf_\"sentinel\n")}))
	if err != nil {
		t.Fatal(err)
	}
	w.Emit(Event{Kind: Warning, Msg: "it said hf_\"sentinel\n", Detail: map[string]any{"log": []string{"x hf_\"sentinel\n y"}}})
	if err := w.Close(time.Second); err != nil {
		t.Fatal(err)
	}
	log, err := ReadAll(path)
	if err != nil || len(log.Events) != 1 || log.Events[0].Msg != "it said [redacted:HF_TOKEN]" {
		t.Errorf("%+v, %v", log, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "sentinel") {
		t.Errorf("%s, %v", data, err)
	}
}

func TestWriterKeepsNumbersUnderConcurrency(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	w, err := NewWriter(path, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				w.Emit(Event{Kind: Alive, Msg: "x"})
			}
		})
	}
	wg.Wait()
	if err := w.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	log, err := ReadAll(path)
	if err != nil || len(log.Events) != 400 {
		t.Fatalf("%d events, %v", len(log.Events), err)
	}
	for i, e := range log.Events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
	w.Emit(Event{Kind: Alive, Msg: "after the end"})
	if err := w.Close(time.Second); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// A file system without room: the queue is kept, bounded, and written in order
// once there is room again.
func TestWriterWithoutRoom(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	w := &Writer{now: clock, file: full, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run(false)
	for range maxQueued + 5 {
		w.Emit(Event{Kind: Alive, Msg: "x"})
	}
	err = w.Close(10 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Close = %v, want no space left", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue)+int(w.dropped) != maxQueued+5 || w.queue[0].Seq != 1 {
		t.Errorf("%d kept, %d dropped, first is %d", len(w.queue), w.dropped, w.queue[0].Seq)
	}
}

func TestReaderOfAGrowingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	r := NewReader(path)
	if got, err := r.Next(); err != nil || got != nil {
		t.Errorf("before the file exists: %v, %v", got, err)
	}
	add := func(s string) []string {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		var msgs []string
		for _, e := range got {
			msgs = append(msgs, e.Msg)
		}
		return msgs
	}
	for _, step := range []struct {
		text string
		want []string
	}{
		{`{"kind":"alive","msg":"a"}` + "\n" + `{"kind":"al`, []string{"a"}},
		{`ive",`, nil},
		{`"msg":"b"}` + "\n\n" + `{"kind":"alive","msg":"c"}` + "\n", []string{"b", "c"}},
	} {
		if diff := cmp.Diff(step.want, add(step.text)); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", step.text, diff)
		}
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "became shorter") {
		t.Errorf("cut file: %v", err)
	}
}

func TestFollowEndsWithTheRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	w, err := NewWriter(path, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		w.Emit(Event{Kind: RunStarted, Msg: "1"})
		w.Emit(Event{Kind: RunFinished, Msg: "2"})
		_ = w.Close(10 * time.Second)
	}()
	var got []string
	err = Follow(t.Context(), path, time.Millisecond, func(b []Event) error {
		for _, e := range b {
			got = append(got, e.Msg)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"1", "2"}, got); diff != "" || err != nil {
		t.Errorf("err = %v (-want +got):\n%s", err, diff)
	}
	stop := errors.New("enough")
	if err := Follow(t.Context(), path, time.Millisecond, func([]Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Follow = %v, want the callback's error", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := Follow(ctx, filepath.Join(t.TempDir(), "none"), time.Millisecond, nil); !errors.Is(err, stop) {
		t.Errorf("Follow = %v, want the cause of the context", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"kind\":\"alive\"}\n{\"ki"), 3)
	f.Add([]byte("\n\n\xff\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole := &Reader{}
		want := whole.split(data)
		parts := &Reader{}
		cut = min(max(cut, 0), len(data))
		got := parts.split(data[:cut])
		got = append(got, parts.split(data[cut:])...)
		if len(got) != len(want) || parts.bad != whole.bad || string(parts.rest) != string(whole.rest) {
			t.Errorf("cut at %d: %d events, %d bad, want %d, %d", cut, len(got), parts.bad, len(want), whole.bad)
		}
	})
}
