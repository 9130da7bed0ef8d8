package standin

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// logger writes lines in the manner of the real engine.
type logger struct {
	mu  sync.Mutex
	w   io.Writer
	tag string
}

// line writes one stamped line.
func (l *logger) line(text string) {
	l.raw(fmt.Sprintf("[%s%s] %s", time.Now().Format("2006-01-02 15:04:05"), l.tag, text))
}

// raw writes text and a newline as they are.
func (l *logger) raw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text+"\n")
}

// inTwo writes a line in two writes, a moment apart, with nothing in between.
func (l *logger) inTwo(first, second string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, first)
	time.Sleep(100 * time.Millisecond)
	_, _ = io.WriteString(l.w, second)
}
