package preflight

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// maxOutput bounds what is kept of one command.
const maxOutput = 8 << 20

// helperStart is how long a loaded node may take to start a helper.
const helperStart = 5 * time.Second

// runner runs commands on this node and keeps what they said.
type runner struct {
	toolPath []string
	env      []string
	root     bool // already the superuser
	sudo     string

	mu    sync.Mutex
	facts *Facts
}

func newRunner(s Spec, f *Facts) *runner {
	dirs := append(append([]string{}, s.ToolPath...), filepath.SplitList(os.Getenv("PATH"))...)
	// Tools for root are not on every user's path, and vendors have their own
	// places.
	dirs = append(dirs, "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin", "/opt/rocm/bin", "/opt/amd/ainic/bin")
	r := &runner{toolPath: dirs, root: os.Geteuid() == 0, facts: f}
	r.env = []string{"PATH=" + strings.Join(dirs, ":"), "LC_ALL=C", "LANG=C", "TERM=dumb", "COLUMNS=200"}
	// What the tools need of the caller's environment, and nothing else.
	for _, k := range []string{"HOME", "USER", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONFIG", "SLURM_CONF", "ROCM_PATH", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(k); ok {
			r.env = append(r.env, k+"="+v)
		}
	}
	r.sudo, _ = r.look("sudo")
	return r
}

// look finds a program.
func (r *runner) look(name string) (string, bool) {
	p, err := procgroup.LookPath(name, r.env)
	if err != nil {
		return "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.Host.Tools == nil {
		r.facts.Host.Tools = map[string]string{}
	}
	r.facts.Host.Tools[name] = p
	return p, true
}

// asRoot is argv with sudo in front where that is needed and there is one. sudo
// gets an absolute path, because its own search path is another one.
func (r *runner) asRoot(argv []string) []string {
	if r.root || r.sudo == "" {
		return argv
	}
	if p, ok := r.look(argv[0]); ok {
		argv = append([]string{p}, argv[1:]...)
	}
	return append([]string{r.sudo, "-n"}, argv...)
}

// run runs a command and stores what came of it under id.
func (r *runner) run(ctx context.Context, id string, timeout time.Duration, argv ...string) facts.Command {
	c := r.try(ctx, timeout, argv)
	if r.sudo != "" && argv[0] == r.sudo && !c.TimedOut {
		// Some tools need no privilege on some nodes.
		if f := parse.ToolFailure("", c.Stderr); f != nil && f.Kind == parse.FailSudo {
			if plain := r.try(ctx, timeout, argv[2:]); plain.Exit == 0 && strings.TrimSpace(plain.Stdout) != "" && parse.ToolFailure(plain.Stdout, plain.Stderr) == nil {
				c = plain
			}
		}
	}
	r.keep(id, c)
	return c
}

func (r *runner) keep(id string, c facts.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Commands[id] = c
}

// try runs a command. It returns at the deadline even when the program cannot be
// ended: a process that waits in a driver is left behind.
func (r *runner) try(ctx context.Context, timeout time.Duration, argv []string) facts.Command {
	c := facts.Command{Argv: argv, Exit: -1}
	name := argv[0]
	if r.sudo != "" && name == r.sudo && len(argv) > 2 {
		name = argv[2]
	}
	if _, ok := r.look(name); !ok {
		c.Missing = true
		return c
	}
	out, errOut := &buffer{limit: maxOutput}, &buffer{limit: maxOutput}
	started := time.Now()
	p, err := procgroup.Start(ctx, procgroup.Command{Argv: argv, Env: r.env, Stdout: out, Stderr: errOut})
	if err != nil {
		if errors.Is(err, procgroup.ErrNotFound) {
			c.Missing = true
		} else {
			c.Error = err.Error()
		}
		return c
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-p.Done():
		exit := p.Wait()
		c.Exit, c.Signal = exit.Code, exit.Signal
		p.Stop(0)
	case <-t.C:
		c.TimedOut = true
		go p.Stop(0)
	case <-ctx.Done():
		c.TimedOut = true
		go p.Stop(0)
	}
	c.Duration = time.Since(started)
	var cut, cutErr bool
	c.Stdout, cut = out.take()
	c.Stderr, cutErr = errOut.take()
	c.Truncated = cut || cutErr
	return c
}

// buffer keeps the first bytes written to it and can be read at any time.
type buffer struct {
	limit int
	mu    sync.Mutex
	buf   bytes.Buffer
	cut   bool
}

// Write never fails, so that a program that writes much does not die of it.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keep := min(len(p), b.limit-b.buf.Len())
	b.buf.Write(p[:keep])
	b.cut = b.cut || keep < len(p)
	return len(p), nil
}

func (b *buffer) take() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(b.buf.String(), "\uFFFD"), b.cut
}

// helper asks another process of this program to read files, and merges what it
// found.
func (r *runner) helper(ctx context.Context, self []string, s Spec, l readList) {
	if len(l.Groups) == 0 {
		return
	}
	ask := Spec{Version: SpecVersion, Root: s.Root, Read: &l}
	in, err := encode(ask)
	if err != nil {
		return
	}
	out := &buffer{limit: 256 << 20}
	p, err := procgroup.Start(ctx, procgroup.Command{Argv: self, Env: os.Environ(), Stdin: in, Stdout: out})
	if err == nil {
		t := time.NewTimer(l.Deadline + helperStart)
		defer t.Stop()
		select {
		case <-p.Done():
			p.Stop(0)
		case <-t.C:
			go p.Stop(0)
		case <-ctx.Done():
			go p.Stop(0)
		}
	}
	text, _ := out.take()
	r.mu.Lock()
	defer r.mu.Unlock()
	merge(r.facts, []byte(text))
}
