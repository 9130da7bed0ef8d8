package faults

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// terminal is a command at a terminal of its own: what is typed reaches it as a
// person's keys do.
type terminal struct {
	keys *os.File
	said func() string
	wait func() world.Said
}

const (
	ctrlC = "\x03"
	// longest is how long a command at a terminal may take.
	longest = 4 * time.Minute
)

// atTerminal starts a command on the controller node with a terminal.
func (r *rig) atTerminal(args ...string) *terminal {
	r.T.Helper()
	keys, screen := r.pty()
	cmd := r.CommandAt(r.T.Context(), lab.Where{Dir: r.Dir}, args...)
	cmd.Env = append(cmd.Env, "DISAGG_SITE="+r.Dir+"/site.yaml", "HOME="+r.Dir, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	begun := time.Now()
	r.Must(cmd.Start())
	r.Must(screen.Close())
	var mu sync.Mutex
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			mu.Lock()
			out.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return // nobody has the terminal open any more
			}
		}
	}()
	t := &terminal{keys: keys, said: func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}}
	t.wait = func() world.Said {
		r.T.Helper()
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait() // how it ended is in its state
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(longest):
			r.T.Fatalf("%v does not end; it said %s", args, t.said())
		}
		<-read
		return world.Said{Code: cmd.ProcessState.ExitCode(), Out: t.said(), Took: time.Since(begun)}
	}
	return t
}

// press types keys.
func (t *terminal) press(keys string) error {
	_, err := t.keys.WriteString(keys)
	return err
}

// pty opens a terminal: the keyboard's end, and the screen's.
func (r *rig) pty() (keys, screen *os.File) {
	r.T.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	r.Must(err)
	r.T.Cleanup(func() { keys.Close() })
	r.Must(unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	r.Must(err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	r.Must(err)
	return keys, screen
}
