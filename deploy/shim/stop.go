package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
)

// killWait is how long processes may take to disappear after SIGKILL. One that
// needs longer sits in an uninterruptible system call and may never end.
const killWait = 5 * time.Second

// stopper ends everything below the shim. It can be asked again with less time.
type stopper struct {
	proc     *procgroup.Process
	once     sync.Once
	mu       sync.Mutex
	deadline time.Time
	hurry    chan struct{} // cap 1: the deadline has come closer
	done     chan struct{}
	left     []string // valid after done
}

func newStopper(p *procgroup.Process) *stopper {
	return &stopper{proc: p, hurry: make(chan struct{}, 1), done: make(chan struct{})}
}

// stop begins: TERM to the group and to everything else below, KILL after
// grace. Asked again, only an earlier deadline counts. It does not wait.
func (s *stopper) stop(grace time.Duration) {
	s.mu.Lock()
	if d := time.Now().Add(grace); s.deadline.IsZero() || d.Before(s.deadline) {
		s.deadline = d
		select {
		case s.hurry <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	s.once.Do(func() { go s.run() })
}

func (s *stopper) run() {
	defer close(s.done)
	s.signal(syscall.SIGTERM)
	if !s.wait(s.due) {
		s.signal(syscall.SIGKILL)
		end := time.Now().Add(killWait)
		// What is being killed may still be forking; so it is killed again until
		// nothing is left.
		for time.Now().Before(end) && !s.wait(func() time.Time { return time.Now().Add(100 * time.Millisecond) }) {
			s.signal(syscall.SIGKILL)
		}
	}
	s.proc.Stop(0) // releases what the group's bookkeeping holds
	for _, p := range descendants() {
		s.left = append(s.left, fmt.Sprintf("pid %d state %c %s", p.pid, p.state, p.command))
	}
}

func (s *stopper) due() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

// signal reaches the group and every descendant outside of it.
func (s *stopper) signal(sig syscall.Signal) {
	_ = s.proc.Signal(sig) // gone is what is wanted
	for _, p := range descendants() {
		if pg, err := syscall.Getpgid(p.pid); err == nil && pg == s.proc.PID() && sig == syscall.SIGTERM {
			continue // twice TERM means "at once" to some programs
		}
		kill(p.pid, sig)
		if sig == syscall.SIGTERM {
			kill(p.pid, syscall.SIGCONT) // a stopped process takes TERM only once it runs
		}
	}
	if sig == syscall.SIGTERM {
		_ = s.proc.Signal(syscall.SIGCONT)
	}
}

// kill signals one process. As its child or adoptive child it cannot lose its
// number to a stranger before this process has reaped it.
func kill(pid int, sig syscall.Signal) {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		// EPERM (a setuid program); the look afterwards reports it.
		return
	}
}

// wait waits until nothing lives below, or until the deadline.
func (s *stopper) wait(due func() time.Time) bool {
	pause := 2 * time.Millisecond
	for {
		if len(descendants()) == 0 {
			return true
		}
		left := time.Until(due())
		if left <= 0 {
			return false
		}
		t := time.NewTimer(min(pause, left))
		select {
		case <-t.C:
		case <-s.hurry:
			t.Stop()
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// reapOrphans removes adopted children that have ended, so that no zombie fills
// the process table of a container. The program itself is left to procgroup.
func reapOrphans(ctx context.Context, own *procgroup.Process, child <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-child:
		}
		me := os.Getpid()
		for _, p := range table() {
			if p.ppid == me && p.zombie() && p.pid != own.PID() {
				var st syscall.WaitStatus
				_, _ = syscall.Wait4(p.pid, &st, syscall.WNOHANG, nil)
			}
		}
	}
}
