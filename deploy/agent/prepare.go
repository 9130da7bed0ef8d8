package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
	"github.com/disagg/disagg/deploy/shim"
)

// runtimeFor gives the runtime of a kind and the binary that its shims use.
func (a *agent) runtimeFor(kind string) (runtime.Runtime, string, error) {
	if kind == "none" {
		return runtime.Plain{}, a.opts.Self, nil
	}
	if kind != a.boot.Runtime.Kind || a.containers == nil {
		return nil, "", fmt.Errorf("use container runtime %q: %w", kind, a.noContainers())
	}
	binary, err := a.scratch.binaryFor(a.opts.Self)
	return a.containers, binary, err
}

// containerUser is the user that must own what the shim reads; -1: this one.
// The environment is readable for one user only, so that user must be known.
func (a *agent) containerUser(ctx context.Context, w deploy.Workload) (int, error) {
	if w.Runtime.Kind == "none" {
		return -1, nil
	}
	name, from := w.Runtime.User, "container.user"
	if name == "" {
		info, err := a.containers.Image(ctx, w.Image, "never")
		if err != nil {
			return 0, err
		}
		name, from = info.User, "image "+w.Image
	}
	name, _, _ = strings.Cut(name, ":")
	if name == "" || name == "root" {
		name = "0"
	}
	uid, err := strconv.Atoi(name)
	if err != nil || uid < 0 {
		return 0, &deploy.Fault{Class: deploy.ClassEntrypoint,
			Msg:  fmt.Sprintf("%s names user %q, whose number is not known outside of the image", from, name),
			Hint: "set container.user to a number"}
	}
	switch {
	case uid == os.Getuid(), uid == 0:
		return -1, nil // root reads everything
	case os.Getuid() == 0:
		return uid, nil
	}
	return 0, &deploy.Fault{Class: deploy.ClassEntrypoint,
		Msg:  fmt.Sprintf("%s runs the container as user %d, who could not read files of user %d", from, uid, os.Getuid()),
		Hint: fmt.Sprintf("set container.user to %d or 0", os.Getuid())}
}

// openLog opens a workload's log to append to it, as the user of this agent. Where
// the workload has lived before, a line says where its new life begins.
func openLog(id, path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open log: %q is not an absolute path", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		// A full disk is the program's output's to tell of.
		_, _ = fmt.Fprintf(f, "\n[disagg: %s is started again at %s]\n", id, time.Now().UTC().Format(time.RFC3339))
	}
	return f, nil
}

// prepare writes what the shim reads, each file for one user only.
func (w *workload) prepare(owner int) error {
	env, err := shim.EncodeEnv(w.spec.Env)
	if err != nil {
		return err
	}
	s := shim.Spec{
		RunID: w.spec.RunID, Workload: w.spec.ID,
		Argv: w.spec.Argv, Shell: w.spec.Shell, Dir: w.spec.Dir, Stdin: len(w.spec.Stdin) > 0,
		ReceiptKey: w.spec.ReceiptKey, Redact: w.spec.Redact, Grace: w.spec.Grace, Timing: w.a.boot.Timing,
	}
	if len(w.spec.Own) > 0 {
		s.Give = &shim.Give{UID: os.Getuid(), GID: os.Getgid(), Dirs: w.spec.Own}
	}
	for _, e := range w.spec.Env {
		if e.Secret {
			s.Secrets = append(s.Secrets, e.Name)
		}
		if e.Prepend {
			s.Prepend = append(s.Prepend, e.Name)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	w.a.mu.Lock()
	w.a.lastDir++
	n := w.a.lastDir
	w.a.mu.Unlock()
	dir, err := w.a.scratch.workDir(n)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	w.mu.Lock()
	w.dir = dir
	w.mu.Unlock()
	files := map[string][]byte{shim.SpecFile: raw, shim.EnvFile: env}
	if s.Stdin {
		files[shim.StdinFile] = w.spec.Stdin
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		if err := give(path, owner); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return give(dir, owner)
}

// give makes owner the owner of a path, unless it is -1.
func give(path string, owner int) error {
	if owner < 0 {
		return nil
	}
	return os.Chown(path, owner, -1)
}

// door is where a shim connects.
type door struct{ *net.UnixListener }

func listen(dir string, owner int) (*door, error) {
	path := filepath.Join(dir, shim.SocketFile)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the shim: %w", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), give(path, owner)); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen for the shim: %w", err)
	}
	return &door{l}, nil
}

// accept waits for the shim and says which process it is.
func (d *door) accept(ctx context.Context) (*net.UnixConn, int, error) {
	stop := context.AfterFunc(ctx, func() { d.Close() })
	defer stop()
	c, err := d.AcceptUnix()
	if err != nil {
		return nil, 0, err
	}
	raw, err := c.SyscallConn()
	pid := 0
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				pid = int(cred.Pid)
			}
		})
	}
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, pid, nil
}
