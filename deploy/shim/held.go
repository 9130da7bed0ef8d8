package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy/wire"
)

// errNeverRan says that the held program ended without having been started.
var errNeverRan = errors.New("the program ended before it was started")

// gate is where the held program reports and waits.
type gate struct {
	l    *net.UnixListener
	path string
	conn *net.UnixConn
}

func openGate(dir string) (*gate, error) {
	path := filepath.Join(dir, execSocket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open the socket for the held program: %w", err)
	}
	return &gate{l: l, path: path}, nil
}

func (g *gate) close() {
	g.l.Close()
	if g.conn != nil {
		g.conn.Close()
	}
	os.Remove(g.path)
}

// accept waits for process pid, tells it what is planned and takes its report; the
// kernel says who it is that reports, so that nothing else can pass for the
// program.
func (g *gate) accept(ctx context.Context, pid int, plan overlay) (heldReport, error) {
	var rep heldReport
	stop := context.AfterFunc(ctx, func() { g.l.Close() })
	defer stop()
	for {
		c, err := g.l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return rep, fmt.Errorf("wait for the held program's report: %w", err)
		}
		if peer, err := peerPID(c); err != nil || peer != pid {
			c.Close()
			continue
		}
		g.conn = c
		if err := sendNote(c, noteOverlay, plan); err != nil {
			return rep, fmt.Errorf("tell the held program what is planned: %w", err)
		}
		f, err := wire.ReadFrame(c, wire.MaxFrame)
		if err != nil {
			return rep, fmt.Errorf("read the held program's report: %w", err)
		}
		if err := json.Unmarshal(f.Body, &rep); err != nil || f.Method != noteEnviron {
			return rep, fmt.Errorf("read the held program's report: unexpected %q: %w", f.Method, err)
		}
		return rep, nil
	}
}

// release lets the held program become p and waits until it has.
func (g *gate) release(p program) error {
	if err := sendNote(g.conn, noteGo, p); err != nil {
		return fmt.Errorf("%w: %w", errNeverRan, err)
	}
	about := false
	for {
		f, err := wire.ReadFrame(g.conn, wire.MaxFrame)
		switch {
		case errors.Is(err, io.EOF) && about:
			return nil // closed by the exec
		case err != nil:
			return fmt.Errorf("%w: %w", errNeverRan, err)
		case f.Method == noteExec:
			about = true
		case f.Method == noteFailed:
			var why string
			if err := json.Unmarshal(f.Body, &why); err != nil {
				return fmt.Errorf("%w: %w", errNeverRan, err)
			}
			return errors.New(why)
		}
	}
}

// peerPID says which process is at the other end of a unix socket.
func peerPID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, cerr
	}
	return int(cred.Pid), nil
}
