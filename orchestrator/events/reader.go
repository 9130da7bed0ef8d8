package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Log is what one reading of an event log gave.
type Log struct {
	Events []Event
	// Bad counts lines that are not events: cut off by a lost machine, or not
	// written by this tool. They are left out.
	Bad int
	// Torn says that the file ends in the middle of a line.
	Torn bool
}

// ReadAll reads a whole event log. A log that does not exist yet is empty.
func ReadAll(path string) (Log, error) {
	r := Reader{path: path}
	events, err := r.Next()
	return Log{Events: events, Bad: r.bad, Torn: len(r.rest) > 0}, err
}

// Reader reads an event log that is still being written. It polls size and
// offset and opens the file anew each time: notifications do not cross network
// file systems, and only opening a file anew shows there what others wrote.
type Reader struct {
	path   string
	offset int64
	rest   []byte // the beginning of a line whose end is not there yet
	bad    int
}

// NewReader reads the log at path from its beginning.
func NewReader(path string) *Reader { return &Reader{path: path} }

// Bad is the number of unreadable lines so far.
func (r *Reader) Bad() int { return r.bad }

// Next returns the events that were added since the last call, none when there
// are none.
func (r *Reader) Next() ([]Event, error) {
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	if info.Size() < r.offset {
		return nil, fmt.Errorf("read event log: %s became shorter (%d bytes, had %d); it was replaced or cut", r.path, info.Size(), r.offset)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, r.offset, info.Size()-r.offset))
	if err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	r.offset += int64(len(data))
	return r.split(data), nil
}

func (r *Reader) split(data []byte) []Event {
	data = append(r.rest, data...)
	r.rest = nil
	var out []Event
	for {
		line, tail, ok := bytes.Cut(data, []byte{'\n'})
		if !ok {
			if len(data) > 0 {
				r.rest = bytes.Clone(data)
			}
			return out
		}
		data = tail
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil || e.Kind == "" {
			r.bad++
			continue
		}
		out = append(out, e)
	}
}

// Follow calls fn with the events of a log as they come, those already there
// first, until fn returns an error, the run has finished, or ctx ends. The end of
// the run is a nil error.
func Follow(ctx context.Context, path string, every time.Duration, fn func([]Event) error) error {
	r := NewReader(path)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		batch, err := r.Next()
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			if err := fn(batch); err != nil {
				return err
			}
			for _, e := range batch {
				if e.Kind == RunFinished {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
