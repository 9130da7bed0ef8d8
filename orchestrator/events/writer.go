package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/disagg/disagg/internal/redact"
)

// maxQueued bounds the events held in memory while the file cannot be written
// (a full disk, a file server that hangs). Beyond it the newest are dropped and
// counted, because the first ones hold the cause.
const maxQueued = 10000

// retryEvery is how long the writer waits after a failed write.
const retryEvery = time.Second

// Writer appends events to a file. Emit never blocks on the file: the controller
// must go on supervising when the file server does not answer.
type Writer struct {
	now  func() time.Time
	file *os.File
	red  *redact.Redactor

	mu      sync.Mutex
	seq     int64
	queue   []Event
	dropped int64
	closing bool
	err     error

	wake chan struct{}
	quit chan struct{}
	done chan struct{}
}

// NewWriter opens the event log at path for appending, made when missing, and
// goes on from the last sequence number in it. What red knows is never written;
// programs' last words and answers of servers stand in events.
func NewWriter(path string, now func() time.Time, red *redact.Redactor) (*Writer, error) {
	old, err := ReadAll(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	w := &Writer{now: now, file: f, red: red, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	for _, e := range old.Events {
		w.seq = max(w.seq, e.Seq)
	}
	go w.run(old.Torn)
	return w, nil
}

// Emit stamps an event with the time and the next number and queues it.
func (w *Writer) Emit(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return
	}
	if len(w.queue) >= maxQueued {
		w.dropped++
		return
	}
	w.seq++
	e.Seq, e.Time = w.seq, w.now().UTC()
	w.queue = append(w.queue, e)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Err is the last failure to write that has not been made good; nil when
// everything so far is on disk or on its way.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close writes what is queued and ends the writer, waiting for the file no
// longer than patience. The error says what was not written.
func (w *Writer) Close(patience time.Duration) error {
	w.mu.Lock()
	if !w.closing {
		w.closing = true
		close(w.quit)
	}
	w.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		return fmt.Errorf("write event log: the file system did not answer within %s; the last events are not on disk", patience)
	}
	return w.Err()
}

// run is the only goroutine that touches the file. torn says that the last line
// is cut off, so that the next must start on a fresh one.
func (w *Writer) run(torn bool) {
	defer close(w.done)
	defer func() { _ = w.file.Close() }()
	for {
		batch, dropped, closing := w.take()
		if len(batch) > 0 || dropped > 0 {
			n, err := w.write(batch, dropped, torn)
			torn = n
			w.settle(batch, dropped, err)
			if err != nil {
				if closing {
					return
				}
				w.pause()
				continue
			}
			if !closing {
				continue
			}
		}
		if closing {
			return
		}
		select {
		case <-w.wake:
		case <-w.quit:
		}
	}
}

// pause waits before the next attempt; closing makes that attempt the last.
func (w *Writer) pause() {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.quit:
	}
}

func (w *Writer) take() (batch []Event, dropped int64, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, w.queue = w.queue, nil
	dropped, w.dropped = w.dropped, 0
	return batch, dropped, w.closing
}

// settle puts a batch that was not written back in front of the queue.
func (w *Writer) settle(batch []Event, dropped int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	if err != nil {
		w.queue = append(batch, w.queue...)
		w.dropped += dropped
	}
}

// write appends a batch and syncs it: a reader on another node sees a network
// file only after that. It reports whether the file now ends in half a line.
func (w *Writer) write(batch []Event, dropped int64, torn bool) (bool, error) {
	var buf bytes.Buffer
	if torn {
		buf.WriteByte('\n')
	}
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, e := range batch {
		if err := enc.Encode(e); err != nil {
			// A detail that JSON cannot hold must not cost the event itself.
			e.Detail = map[string]any{"unwritable_detail": err.Error()}
			if err := enc.Encode(e); err != nil {
				return torn, fmt.Errorf("write event log: %w", err)
			}
		}
	}
	if dropped > 0 {
		lost := Event{Time: w.now().UTC(), Kind: Warning, Msg: fmt.Sprintf("%d events were lost while the event log could not be written", dropped)}
		if err := enc.Encode(lost); err != nil {
			return torn, fmt.Errorf("write event log: %w", err)
		}
	}
	start, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return torn, fmt.Errorf("write event log: %w", err)
	}
	if n, err := w.file.Write(w.red.Bytes(buf.Bytes())); err != nil {
		// Half a batch must not be there twice after the next attempt. Where it
		// cannot be taken back, its cut line is closed off.
		if n > 0 && w.file.Truncate(start) != nil {
			torn = true
		}
		return torn, fmt.Errorf("write event log: %w", err)
	}
	if err := w.file.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false, nil // written; only its place on disk is not sure
	}
	return false, nil
}
