package procgroup

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone says that nothing of the group is left to signal.
var ErrGone = errors.New("process group is gone")

// Process is a started program and its group.
type Process struct {
	// Stdin is the writing end of the program's stdin with StdinPipe, else nil.
	// Closing it gives the program end of file.
	Stdin io.WriteCloser

	pid      int
	started  time.Time
	killWait time.Duration
	pipes    *plumbing

	exited chan struct{} // the program has ended; its children may not have
	done   chan struct{} // exited, and its output is delivered

	mu     sync.Mutex // orders signals against the reaping of proc
	proc   *os.Process
	reaped bool
	exit   Exit
}

// PID is the program's process id and the id of its group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the program has ended and what it wrote is delivered.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and says how the program ended.
func (p *Process) Wait() Exit {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Signal sends sig to every process of the group. The error is ErrGone when
// none is left.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		// While any member lives, the kernel gives the group's number to nobody
		// else. A process with that number therefore means: the group is gone
		// and the number is a stranger's.
		if _, err := os.Lstat("/proc/" + strconv.Itoa(p.pid)); err == nil {
			return ErrGone
		}
	}
	err := syscall.Kill(-p.pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return ErrGone
	}
	return err
}

// Stop ends the whole group and waits until it is gone: TERM, after grace KILL.
// It can be called at any time, more than once and from several goroutines; a
// later call with a shorter grace shortens an earlier one. It returns what
// could not be ended: processes that outlast SIGKILL, or that this user may not
// signal.
func (p *Process) Stop(grace time.Duration) []Survivor {
	if grace > 0 {
		switch err := p.Signal(syscall.SIGTERM); {
		case errors.Is(err, ErrGone):
			return p.settle()
		case err == nil:
			// A stopped process takes TERM only once it runs again.
			_ = p.Signal(syscall.SIGCONT)
			if p.waitGone(grace) {
				return p.settle()
			}
		}
	}
	switch err := p.Signal(syscall.SIGKILL); {
	case errors.Is(err, ErrGone):
		return p.settle()
	case errors.Is(err, syscall.EPERM):
		return survivors(p.pid)
	}
	if p.waitGone(p.killWait) {
		return p.settle()
	}
	return survivors(p.pid)
}

// settle waits for the bookkeeping of a group that is gone.
func (p *Process) settle() []Survivor {
	<-p.done
	return nil
}

// waitGone waits until no live process of the group is left. Group membership
// has no event to wait for, so it is polled, at first closely.
func (p *Process) waitGone(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	pause := time.Millisecond
	for {
		if p.gone() {
			return true
		}
		tick := time.NewTimer(pause)
		select {
		case <-deadline.C:
			tick.Stop()
			return p.gone()
		case <-tick.C:
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// gone says that no live process of the group is left.
func (p *Process) gone() bool {
	if errors.Is(p.Signal(0), ErrGone) {
		return true
	}
	select {
	case <-p.exited:
		return len(survivors(p.pid)) == 0
	default:
		return false
	}
}

// reap waits for the program's end, then for its output.
func (p *Process) reap() {
	// Waiting without reaping first keeps the process number ours until no
	// Signal can be under way.
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	p.mu.Lock()
	if st, err := p.proc.Wait(); err == nil {
		p.exit = exitOf(st)
	}
	p.reaped = true
	p.mu.Unlock()
	close(p.exited)
	p.pipes.drain(drainDelay)
	close(p.done)
}
