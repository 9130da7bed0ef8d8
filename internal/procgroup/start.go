package procgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// textBusyWait bounds the retries of a start that the kernel refuses because the
// program's file is open for writing. That state is short: another thread's
// fork holds a descriptor of a file we have just written until it execs.
const textBusyWait = time.Second

// Start starts a program and returns at once. When ctx ends, the group is
// stopped with the command's Grace. The caller must call Stop when it has done
// with the process, also after Wait: only Stop ends children that the program
// left in its group.
func Start(ctx context.Context, c Command) (*Process, error) {
	if c.Timeout != 0 || c.MaxOutput != 0 {
		return nil, errors.New("start program: Timeout and MaxOutput are for Run")
	}
	p, err := start(ctx, c)
	if err != nil {
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { p.Stop(c.Grace) })
	go func() {
		<-p.done
		if p.gone() {
			unwatch()
		}
	}()
	return p, nil
}

// start starts the program without tying it to ctx.
func start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start program: %w", context.Cause(ctx))
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("start program: %w", err)
	}
	path, err := LookPath(c.Argv[0], c.Env)
	if err != nil {
		return nil, fmt.Errorf("start program: %w", err)
	}
	// A relative path would be looked for in Dir by the kernel, after it was
	// found from here.
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("start program: %w", err)
	}

	pl := &plumbing{}
	defer pl.closeChildEnds()
	files, err := pl.connect(c)
	if err != nil {
		pl.closeOwnEnds()
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	attr := &os.ProcAttr{
		Dir:   c.Dir,
		Env:   append([]string{}, c.Env...), // never nil, which would inherit
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: !c.Session, Setsid: c.Session, Pdeathsig: c.ParentDeathSignal},
	}
	p := &Process{
		pipes:    pl,
		killWait: cmp.Or(c.killWait, killWait),
		exited:   make(chan struct{}),
		done:     make(chan struct{}),
		exit:     Exit{Code: -1},
	}
	if err := p.launch(ctx, path, c.Argv, attr); err != nil {
		pl.closeOwnEnds()
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	if c.StdinPipe {
		p.Stdin = pl.stdin
	}
	pl.pump(c.Stdin)
	go p.reap()
	return p, nil
}

// launch forks. With a parent death signal the fork happens on a thread that
// lives until the program has ended, because the kernel means the thread that
// forked when it says "parent".
func (p *Process) launch(ctx context.Context, path string, argv []string, attr *os.ProcAttr) error {
	if attr.Sys.Pdeathsig == 0 {
		return p.fork(ctx, path, argv, attr)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.fork(ctx, path, argv, attr)
		started <- err
		if err == nil {
			<-p.exited
		}
	}()
	return <-started
}

func (p *Process) fork(ctx context.Context, path string, argv []string, attr *os.ProcAttr) error {
	deadline := time.Now().Add(textBusyWait)
	for {
		proc, err := os.StartProcess(path, argv, attr)
		if err == nil {
			p.proc, p.pid, p.started = proc, proc.Pid, time.Now()
			return nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// check refuses what the kernel would cut or misread.
func (c Command) check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("no program given")
	}
	for i, a := range c.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("argument %d of %s holds a NUL byte", i, c.Argv[0])
		}
	}
	for i, kv := range c.Env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return fmt.Errorf("environment entry %d is not NAME=VALUE", i)
		}
		if strings.IndexByte(kv, 0) >= 0 {
			return fmt.Errorf("environment variable %q holds a NUL byte", name)
		}
	}
	if n := btoi(c.Stdin != nil) + btoi(c.StdinFile != nil) + btoi(c.StdinPipe); n > 1 {
		return errors.New("only one of Stdin, StdinFile and StdinPipe may be set")
	}
	if c.Dir != "" {
		if st, err := os.Stat(c.Dir); err != nil {
			return fmt.Errorf("working directory: %w", err)
		} else if !st.IsDir() {
			return fmt.Errorf("working directory %s is not a directory", c.Dir)
		}
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
