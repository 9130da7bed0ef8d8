package slurmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Programs are the names that a fake has on its PATH.
func Programs() []string {
	return []string{"sbatch", "srun", "salloc", "squeue", "scontrol", "scancel", "sinfo", "sacct"}
}

// Call is one expected call and its answer.
type Call struct {
	Program string
	// Args are the exact arguments.
	Args []string
	// Stdout, Stderr and Exit are the answer; Delay comes before it. A negative
	// Exit ends the program by SIGKILL.
	Stdout, Stderr string
	Exit           int
	Delay          time.Duration
	// Times is how often the call comes; 0 means once, a negative number any
	// number of times. Equal calls are answered in the order given.
	Times int
}

// Made is one call that was made.
type Made struct {
	Program  string
	Args     []string
	Environ  []string // without what the fake itself needs
	Expected bool
}

// Fake is a directory of programs for one test.
type Fake struct {
	t   testing.TB
	dir string
}

// state is what the programs share, in a file, under a lock.
type state struct {
	Calls []Call
	Left  []int // calls still to come; negative: any number
	Made  []Made
}

const (
	dirVar     = "SLURMTEST_DIR"
	programVar = "SLURMTEST_PROGRAM"
)

// New makes programs that answer these calls. When the test ends it fails for
// each call that was not expected and each that did not come.
func New(t testing.TB, calls ...Call) *Fake {
	t.Helper()
	f := &Fake{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.Bin(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range Programs() {
		script := fmt.Sprintf("#!/bin/sh\nexport %s='%s' %s=%s\nexec '%s' \"$@\"\n", dirVar, f.dir, programVar, p, self)
		if err := os.WriteFile(filepath.Join(f.Bin(), p), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := state{Calls: calls}
	for _, c := range calls {
		n := c.Times
		if n == 0 {
			n = 1
		}
		s.Left = append(s.Left, n)
	}
	if err := s.write(f.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.verify)
	return f
}

// Bin is the directory of the programs.
func (f *Fake) Bin() string { return filepath.Join(f.dir, "bin") }

// Environ is an environment in which the programs are found, with more added.
func (f *Fake) Environ(more ...string) []string {
	return append([]string{"PATH=" + f.Bin() + ":/usr/bin:/bin", "HOME=/nonexistent"}, more...)
}

// Made lists the calls so far.
func (f *Fake) Made() []Made {
	f.t.Helper()
	s, unlock, err := open(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	defer unlock()
	return s.Made
}

func (f *Fake) verify() {
	f.t.Helper()
	s, unlock, err := open(f.dir)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer unlock()
	for _, m := range s.Made {
		if !m.Expected {
			f.t.Errorf("call that was not expected: %s %q", m.Program, m.Args)
		}
	}
	for i, left := range s.Left {
		if left > 0 {
			f.t.Errorf("call that did not come (%d times left): %s %q", left, s.Calls[i].Program, s.Calls[i].Args)
		}
	}
}

// Answer makes this process the fake program if it was started as one. The code
// is then the exit code it must end with.
func Answer() (code int, fake bool) {
	dir := os.Getenv(dirVar)
	if dir == "" {
		return 0, false
	}
	call, err := take(dir, os.Getenv(programVar), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 97, true
	}
	if call.Delay > 0 {
		time.Sleep(call.Delay)
	}
	_, _ = io.WriteString(os.Stdout, call.Stdout)
	_, _ = io.WriteString(os.Stderr, call.Stderr)
	if call.Exit < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return call.Exit, true
}

// take notes a call and returns the answer to it.
func take(dir, program string, args []string) (Call, error) {
	s, unlock, err := open(dir)
	if err != nil {
		return Call{}, err
	}
	defer unlock()
	made := Made{Program: program, Args: args}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, dirVar+"=") && !strings.HasPrefix(kv, programVar+"=") {
			made.Environ = append(made.Environ, kv)
		}
	}
	at := -1
	for i, c := range s.Calls {
		if s.Left[i] != 0 && c.Program == program && slices.Equal(c.Args, args) {
			at = i
			break
		}
	}
	made.Expected = at >= 0
	s.Made = append(s.Made, made)
	if at >= 0 && s.Left[at] > 0 {
		s.Left[at]--
	}
	if err := s.write(dir); err != nil {
		return Call{}, err
	}
	if at < 0 {
		return Call{}, fmt.Errorf("call that was not expected: %s %q", program, args)
	}
	return s.Calls[at], nil
}

// open reads the state and keeps others out until unlock.
func open(dir string) (s *state, unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	unlock = func() { lock.Close() }
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		var b []byte
		if b, err = os.ReadFile(filepath.Join(dir, "state.json")); err == nil {
			s = &state{}
			err = json.Unmarshal(b, s)
		}
	}
	if err != nil {
		unlock()
		return nil, nil, fmt.Errorf("read fake's state: %w", err)
	}
	return s, unlock, nil
}

// write replaces the state; a program that is killed leaves the old one whole.
func (s *state) write(dir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "state.json.new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, "state.json"))
}
