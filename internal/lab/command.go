package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab/labd"
)

// execTimeout bounds Run and Exec, so that a Slurm client without a cluster
// cannot hang a test for ever.
const execTimeout = 60 * time.Second

// Where says where and as whom a command runs.
type Where struct {
	Node string // empty: the controller node
	User string // empty: root
	Dir  string // empty: the test's directory on the controller, / on a node
}

// Command is a command on the controller node, where Slurm's clients find the
// lab's cluster. The process is the program itself, in the test's process
// table: signals and exit codes are its own. Its environment is small and
// fixed; append to Env for more. When ctx ends, its process group is killed.
func (l *Lab) Command(ctx context.Context, args ...string) *exec.Cmd {
	return l.CommandAt(ctx, Where{}, args...)
}

// CommandAt is a command somewhere in the lab. On a node the process is a
// wrapper that ends with the program's code; it does not pass signals on.
func (l *Lab) CommandAt(ctx context.Context, w Where, args ...string) *exec.Cmd {
	pid := l.pid(w.Node)
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--net", "--uts", "--ipc"}
	dir := w.Dir
	if w.Node != "" {
		enter = append(enter, "--pid", "--cgroup")
		if dir == "" {
			dir = "/"
		}
	} else if dir == "" {
		dir, _ = os.Getwd()
	}
	enter = append(enter, "--")
	user := "root"
	if w.User != "" {
		user = w.User
		enter = append(enter, "setpriv", "--reuid", user, "--regid", user, "--init-groups")
	}
	enter = append(enter, "env", "-C", dir)
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{
		"PATH=" + labd.SearchPath, "HOME=" + l.spec().Path("home", user), "USER=" + user, "LOGNAME=" + user,
		"LANG=C.UTF-8", "TERM=dumb", labd.ClientEnv + "=" + l.dir,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Interactive runs a command with this process's terminal, on the controller or
// on a node, to its end.
func (l *Lab) Interactive(node string, args ...string) error {
	if node != "" && l.pid(node) == 0 {
		return fmt.Errorf("enter %q: the lab has %s, and it must be on", node, strings.Join(l.Nodes(), " "))
	}
	cmd := l.CommandAt(context.Background(), Where{Node: node}, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = nil // a group of its own could not read from the terminal
	cmd.Env = append(cmd.Env, "TERM="+os.Getenv("TERM"))
	return cmd.Run()
}

// Run runs a command on the controller node to its end and returns its
// standard output; its error holds what it wrote to standard error.
func (l *Lab) Run(args ...string) (string, error) { return l.output(Where{}, args) }

// Exec runs a command on a node as Run does on the controller.
func (l *Lab) Exec(node string, args ...string) (string, error) {
	return l.output(Where{Node: node}, args)
}

// MustRun is Run in a test that cannot go on without it.
func (l *Lab) MustRun(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.Run(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// MustExec is Exec in a test that cannot go on without it.
func (l *Lab) MustExec(t testing.TB, node string, args ...string) string {
	t.Helper()
	out, err := l.Exec(node, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (l *Lab) output(w Where, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), execTimeout)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := l.CommandAt(ctx, w, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %s", execTimeout)
	}
	if err != nil {
		where := w.Node
		if where == "" {
			where = "ctl"
		}
		return out.String(), fmt.Errorf("run on %s: %s: %w: %s", where, strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// supervisor is the process that keeps a lab and takes it down.
type supervisor struct {
	cmd *exec.Cmd
	// lifeline is never written: its end, by close or by the death of this
	// process, tells the supervisor to take the lab down.
	lifeline *os.File
	dir      string
}

// supervise starts the supervisor of the lab that spec describes and waits for
// its report. The one of a lab to hold has no lifeline and outlives this
// process.
func supervise(spec labd.Spec, lock *os.File, hold bool) (*supervisor, *labd.State, error) {
	log, err := os.Create(spec.Path("supervisor.log"))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	args := []string{"supervise", spec.Dir}
	if hold {
		args = append(args, "hold")
	}
	cmd := exec.Command(spec.Self, args...)
	// A session of its own: no terminal's signal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{lock}
	s := &supervisor{cmd: cmd, dir: spec.Dir}
	if !hold {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		defer r.Close()
		cmd.Stdin, s.lifeline = r, w
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start supervisor: %w", err)
	}
	timer := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	var report labd.Report
	err = json.NewDecoder(stdout).Decode(&report)
	switch {
	case err != nil:
		err = fmt.Errorf("the supervisor ended without a report: %w", err)
	case report.Error != "":
		err = errors.New(report.Error)
	case hold:
		return nil, report.State, nil
	default:
		return s, report.State, nil
	}
	if s.lifeline != nil {
		s.lifeline.Close()
	}
	_ = cmd.Wait()
	return nil, nil, err
}

// close ends the lab and waits for the supervisor's end.
func (s *supervisor) close() error {
	if err := s.lifeline.Close(); errors.Is(err, os.ErrClosed) {
		return nil
	}
	timer := time.AfterFunc(closeTimeout, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("supervisor of %s: %w", s.dir, err)
	}
	return nil
}

// helper builds the lab's own binary.
func helper() (string, error) { return cachedBinary("lab", "./internal/lab/cmd/lab") }

// cachedBinary builds a program of this module into the cache and returns its
// path. Go's build cache makes this quick when nothing changed. The file is
// replaced by renaming, because labs may be running from it.
func cachedBinary(name, pkg string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lockCache(cache, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(cache, name)
	return path, GoBuild(filepath.Dir(filepath.Dir(cache)), path, pkg)
}

// GoBuild builds a package of the module at root, statically, into the file
// path. An existing file is replaced only when the result differs; the commit
// is no part of it, so that what is made from the file stays valid.
func GoBuild(root, path, pkg string) error {
	tmp := path + ".new"
	if old, err := os.Open(path); err == nil {
		// go build leaves an up-to-date result alone, which saves the linking.
		out, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
		if err == nil {
			_, err = io.Copy(out, old)
			out.Close()
		}
		old.Close()
		if err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", tmp, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	if same(tmp, path) {
		return os.Remove(tmp)
	}
	return os.Rename(tmp, path)
}

func same(a, b string) bool {
	x, errX := os.ReadFile(a)
	y, errY := os.ReadFile(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
