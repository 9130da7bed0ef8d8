// Package tailbuf keeps the end of what another program says, to explain its
// failure.
package tailbuf

import (
	"strings"
	"sync"
	"unicode"
)

const (
	keep = 4 << 10 // bytes kept
	show = 400     // bytes shown
)

// Buffer keeps the last 4 KiB written to it. Its zero value is ready.
type Buffer struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p[max(0, len(p)-keep):]...)
	b.buf = append(b.buf[:0], b.buf[max(0, len(b.buf)-keep):]...)
	return len(p), nil
}

// Describe puts what was said behind how the program ended.
func (b *Buffer) Describe(how string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := Printable(b.buf); s != "" {
		how += ": " + s
	}
	return how
}

// Printable is the end of what a program said, on one line and without anything
// that could move a terminal's cursor.
func Printable(b []byte) string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b[max(0, len(b)-show):]), "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}
