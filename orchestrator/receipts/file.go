package receipts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/disagg/disagg/internal/redact"
)

// Writer appends records to a file. It may be used from several goroutines.
type Writer struct {
	// Path is the file; it is made with the first record, for its owner only.
	Path string
	// Redact is a last guard: nothing that it knows is ever written.
	Redact *redact.Redactor

	mu sync.Mutex
}

// Append writes one record, in one piece.
func (w *Writer) Append(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	line = append(w.Redact.Bytes(line), '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.OpenFile(w.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	_, err = f.Write(line)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	return nil
}

// Read reads the records of a run, in the order in which they were made. No file:
// no process has reported. A last line without an end is still being written.
func Read(path string) ([]Record, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var out []Record
	for in, n := bufio.NewReader(f), 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read receipts: %w", err)
		}
		var r Record
		if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
			return nil, fmt.Errorf("read receipts: %s:%d: %w", path, n, err)
		}
		out = append(out, r)
	}
}
