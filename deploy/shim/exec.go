package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy/wire"
	"github.com/disagg/disagg/internal/procgroup"
)

// What the held program and the shim say to each other.
const (
	noteOverlay = "overlay" // shim: overlay
	noteEnviron = "environ" // held program: heldReport
	noteGo      = "go"      // shim: program
	noteExec    = "exec"    // held program: the next thing is the exec
	noteFailed  = "failed"  // held program: string, why it could not be executed
)

// program is what the held process becomes.
type program struct {
	Argv []string `json:"argv"`
	Dir  string   `json:"dir,omitempty"`
}

// Exec is the held program: it puts what the shim at dir says over its
// environment, reports the result, waits, and becomes the program that the shim
// names, with exactly the environment that it reported. It returns only if that
// fails. The socket is closed by the exec itself, so its end tells the shim that
// the program runs.
func Exec(ctx context.Context, dir string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(dir, execSocket))
	if err != nil {
		return fmt.Errorf("reach the shim: %w", err)
	}
	defer c.Close()
	f, err := wire.ReadFrame(c, wire.MaxFrame)
	if err != nil {
		return fmt.Errorf("get the planned environment: %w", err)
	}
	var plan overlay
	if err := json.Unmarshal(f.Body, &plan); err != nil || f.Method != noteOverlay {
		return fmt.Errorf("get the planned environment: unexpected %q: %w", f.Method, err)
	}
	found := os.Environ()
	environ := plan.over(found)
	if err := sendNote(c, noteEnviron, heldReport{Found: raws(found), Env: raws(environ)}); err != nil {
		return fmt.Errorf("report environment: %w", err)
	}
	f, err = wire.ReadFrame(c, wire.MaxFrame)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("wait for the release: the shim is gone")
	} else if err != nil {
		return fmt.Errorf("wait for the release: %w", err)
	}
	var p program
	if err := json.Unmarshal(f.Body, &p); err != nil || f.Method != noteGo {
		return fmt.Errorf("wait for the release: unexpected %q: %w", f.Method, err)
	}
	err = become(c, p, environ)
	if serr := sendNote(c, noteFailed, err.Error()); serr != nil {
		return fmt.Errorf("%w (and the shim could not be told: %w)", err, serr)
	}
	return err
}

// become replaces this process by the program.
func become(c net.Conn, p program, environ []string) error {
	if p.Dir != "" {
		if err := os.Chdir(p.Dir); err != nil {
			return fmt.Errorf("enter working directory: %w", err)
		}
	}
	path, err := procgroup.LookPath(p.Argv[0], environ)
	if err != nil {
		return err
	}
	// Signals that were ignored when this process started would stay ignored in
	// the program; those that have a handler are reset by the exec.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	if err := sealDescriptors(); err != nil {
		return err
	}
	// The kernel keeps the parent death signal of the thread that execs, not of
	// the process, so it must be set again on this very thread.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set the parent death signal: %w", err)
	}
	if err := sendNote(c, noteExec, nil); err != nil {
		return fmt.Errorf("tell the shim: %w", err)
	}
	return &os.PathError{Op: "execute", Path: path, Err: syscall.Exec(path, p.Argv, environ)}
}

func sendNote(w io.Writer, method string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return wire.WriteFrame(w, wire.Frame{Kind: wire.KindNote, Method: method, Body: body})
}
