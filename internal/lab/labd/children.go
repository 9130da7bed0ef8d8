package labd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// children starts programs and reaps. Process 1 of a PID namespace must reap
// orphans too, so one loop owns every wait; nothing else in the process may
// wait for a child.
type children struct {
	mu   sync.Mutex
	live map[int]*child
}

// child is one program that children started.
type child struct {
	pid    int
	done   chan struct{} // closed when it has ended
	status syscall.WaitStatus
}

// program says what to start.
type program struct {
	argv []string
	env  []string
	// log gets stdout and stderr, or out does; neither: /dev/null.
	log   string
	out   *os.File
	extra []*os.File // further descriptors, from 3 on
	sys   *syscall.SysProcAttr
}

// newChildren starts the reaping loop, which runs as long as the process.
func newChildren() *children {
	c := &children{live: map[int]*child{}}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGCHLD)
	go func() {
		for range sig {
			c.reap()
		}
	}()
	return c
}

func (c *children) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		c.mu.Lock()
		if ch := c.live[pid]; ch != nil {
			delete(c.live, pid)
			ch.status = status
			close(ch.done)
		}
		c.mu.Unlock()
	}
}

// start starts p in a session of its own with no input, so that no terminal
// and no signal to a group reaches it.
func (c *children) start(p program) (*child, error) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := p.out
	if out == nil {
		path := p.log
		if path == "" {
			path = os.DevNull
		}
		if out, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
		defer out.Close()
	}
	files := []uintptr{in.Fd(), out.Fd(), out.Fd()}
	for _, f := range p.extra {
		files = append(files, f.Fd())
	}
	sys := p.sys
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	sys.Setsid = true
	env := p.env
	if env == nil {
		env = daemonEnv()
	}
	path, err := lookPath(p.argv[0])
	if err != nil {
		return nil, err
	}
	// The lock keeps the reaper from dropping a child that ends before it is
	// entered.
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, p.argv, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: sys})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	ch := &child{pid: pid, done: make(chan struct{})}
	c.live[pid] = ch
	return ch, nil
}

// run runs a short program to its end and fails with its output if it fails.
func (c *children) run(timeout time.Duration, argv ...string) (string, error) {
	// A file without a name leaves nothing behind.
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	out := os.NewFile(uintptr(fd), "output")
	defer out.Close()
	ch, err := c.start(program{argv: argv, out: out})
	if err != nil {
		return "", err
	}
	select {
	case <-ch.done:
	case <-time.After(timeout):
		_ = syscall.Kill(-ch.pid, syscall.SIGKILL)
		<-ch.done
		return "", fmt.Errorf("%s: no end within %s", argv[0], timeout)
	}
	text, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<20))
	if err != nil {
		return "", err
	}
	if ch.status.ExitStatus() != 0 {
		return "", fmt.Errorf("%s: %s: %s", argv[0], describe(ch.status), text)
	}
	return string(text), nil
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "ended by " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// daemonEnv is the whole environment of everything the lab starts.
func daemonEnv() []string {
	return []string{"PATH=" + SearchPath, "HOME=/", "LANG=C.UTF-8"}
}

// lookPath finds a program on the lab's PATH.
func lookPath(name string) (string, error) {
	if len(name) > 0 && name[0] == '/' {
		return name, nil
	}
	for _, dir := range strings.Split(SearchPath, ":") {
		path := dir + "/" + name
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: not in %s", name, SearchPath)
}
