package shim

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/internal/redact"
)

// sink takes the program's output: redacted into the log file and the tail.
type sink struct {
	mu     sync.Mutex
	file   io.Writer
	red    *redact.Redactor
	tail   tail
	size   int64 // bytes in the file
	lost   int64 // bytes that could not be written since the last that could
	lostBy error
}

// Write never fails: the program must not die or block because a disk is full.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.red.Write(p))
	return len(p), nil
}

// put writes redacted bytes. The caller holds mu.
func (s *sink) put(b []byte) {
	if len(b) == 0 {
		return
	}
	s.tail.write(b)
	if s.lost > 0 {
		n, err := fmt.Fprintf(s.file, "\n[disagg: %d bytes of output are missing here: %v]\n", s.lost, s.lostBy)
		s.size += int64(n)
		if err != nil {
			s.lost, s.lostBy = s.lost+int64(len(b)), err
			return
		}
		s.lost = 0
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil {
		s.lost, s.lostBy = s.lost+int64(len(b)-n), err
	}
}

// flush writes what the redactor held back.
func (s *sink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.red.Flush())
}

// report returns the tail and the size of the log. Lost output is said in the
// last line.
func (s *sink) report() ([]string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.tail.all()
	if s.lost > 0 {
		lines = append(lines, fmt.Sprintf("[disagg: the last %d bytes of output could not be written: %v]", s.lost, s.lostBy))
		lines = lines[max(0, len(lines)-tailLines):]
	}
	return lines, s.size
}

// progress returns the newest line and the size of the log.
func (s *sink) progress() (string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.last(), s.size
}

// pump moves the program's output from its pipe into a sink.
type pump struct {
	r    *os.File
	raw  syscall.RawConn
	mu   sync.Mutex // held while bytes are between pipe and sink
	done chan struct{}
}

func startPump(r *os.File, to *sink) (*pump, error) {
	raw, err := r.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read the program's output: %w", err)
	}
	p := &pump{r: r, raw: raw, done: make(chan struct{})}
	go p.run(to)
	return p, nil
}

func (p *pump) run(to *sink) {
	defer close(p.done)
	defer p.r.Close()
	buf := make([]byte, 64<<10)
	for {
		more := false
		err := p.raw.Read(func(fd uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, err := unix.Read(int(fd), buf)
			switch err {
			case unix.EAGAIN:
				return false // wait until there is something
			case unix.EINTR:
				more = true
				return true
			}
			if n > 0 {
				_, _ = to.Write(buf[:n]) // documented never to fail
				more = true
			}
			return true
		})
		if err != nil || !more {
			return
		}
	}
}

// settle waits until everything that was in the pipe is in the sink. It does
// not wait for the pipe's end, which a grandchild can put off for ever; limit
// bounds the wait for a disk that does not take it.
func (p *pump) settle(limit time.Duration) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		if p.empty() {
			return
		}
		tick := time.NewTimer(2 * time.Millisecond)
		select {
		case <-p.done:
			tick.Stop()
			return
		case <-deadline.C:
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// empty says that nothing is in the pipe nor on its way to the sink.
func (p *pump) empty() bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	left := -1
	err := p.raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			left = n
		}
	})
	return err != nil || left == 0
}

// close stops the pump; what is still written then goes nowhere. limit bounds
// the wait for a disk that does not take what was read last.
func (p *pump) close(limit time.Duration) {
	_ = p.r.SetReadDeadline(time.Now())
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}
