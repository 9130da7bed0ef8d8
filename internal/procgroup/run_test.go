package procgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// prompt is far above what any of these tests needs and far below the sleeps
// in their programs, so that waiting for a sleep cannot pass.
const prompt = 20 * time.Second

func sh(script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestRunReportsWhatTheProgramDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := map[string]struct {
		cmd            Command
		exit           Exit
		stdout, stderr string
	}{
		"success":          {cmd: sh("echo out; echo err >&2"), stdout: "out\n", stderr: "err\n"},
		"exit code":        {cmd: sh("exit 3"), exit: Exit{Code: 3}},
		"signal":           {cmd: sh("kill -9 $$"), exit: Exit{Code: -1, Signal: "SIGKILL"}},
		"stdin is null":    {cmd: sh("cat; readlink /proc/self/fd/0"), stdout: "/dev/null\n"},
		"stdin bytes":      {cmd: Command{Argv: []string{"/bin/cat"}, Stdin: []byte("a\x00b\n")}, stdout: "a\x00b\n"},
		"stdin unread":     {cmd: Command{Argv: []string{"/bin/true"}, Stdin: bytes.Repeat([]byte("x"), 1<<20)}},
		"exact env":        {cmd: Command{Argv: []string{"/usr/bin/env"}, Env: []string{"A=1", "B= x=y\n", "C="}}, stdout: "A=1\nB= x=y\n\nC=\n"},
		"nil env is empty": {cmd: Command{Argv: []string{"/usr/bin/env"}}},
		"dir": {cmd: Command{Argv: []string{"/bin/pwd"}, Dir: dir},
			stdout: dir + "\n"},
		"argv is not parsed": {cmd: Command{Argv: []string{"/usr/bin/printf", "%s|", "a b", "", "$(id)", "it's"}},
			stdout: "a b||$(id)|it's|"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := Run(t.Context(), tt.cmd)
			if err != nil {
				t.Fatal(err)
			}
			if res.Exit != tt.exit || string(res.Stdout) != tt.stdout || string(res.Stderr) != tt.stderr {
				t.Errorf("got %+v %q %q, want %+v %q %q", res.Exit, res.Stdout, res.Stderr, tt.exit, tt.stdout, tt.stderr)
			}
			if res.OK() != (tt.exit == Exit{}) || res.TimedOut || res.Truncated || res.Abandoned != nil || res.Duration <= 0 {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestRunRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cmd      Command
		want     string
		notFound bool
	}{
		"empty":           {cmd: Command{}, want: "start program: no program given"},
		"unknown name":    {cmd: Command{Argv: []string{"no-such-program"}, Env: []string{"PATH=" + dir}}, want: `start program: program not found: "no-such-program" on PATH ` + dir, notFound: true},
		"unknown path":    {cmd: Command{Argv: []string{dir + "/none"}}, want: "start program: program not found: stat " + dir + "/none: no such file or directory", notFound: true},
		"not executable":  {cmd: Command{Argv: []string{plain}}, want: "start program: program not found: execute " + plain + ": permission denied", notFound: true},
		"a directory":     {cmd: Command{Argv: []string{dir}}, want: "start program: program not found: execute " + dir + ": not a regular file", notFound: true},
		"NUL in argv":     {cmd: Command{Argv: []string{"true", "a\x00b"}}, want: "start program: argument 1 of true holds a NUL byte"},
		"NUL in env":      {cmd: Command{Argv: []string{"true"}, Env: []string{"A=\x00"}}, want: `start program: environment variable "A" holds a NUL byte`},
		"env without =":   {cmd: Command{Argv: []string{"true"}, Env: []string{"A=1", "secret"}}, want: "start program: environment entry 1 is not NAME=VALUE"},
		"missing dir":     {cmd: Command{Argv: []string{"true"}, Dir: dir + "/gone"}, want: "start program: working directory: stat " + dir + "/gone: no such file or directory"},
		"file as dir":     {cmd: Command{Argv: []string{"true"}, Dir: plain}, want: "start program: working directory " + plain + " is not a directory"},
		"two stdins":      {cmd: Command{Argv: []string{"true"}, Stdin: []byte("x"), StdinFile: os.Stdin}, want: "start program: only one of Stdin, StdinFile and StdinPipe may be set"},
		"pipe with Run":   {cmd: Command{Argv: []string{"true"}, StdinPipe: true}, want: "run program: StdinPipe is for Start"},
		"a relative PATH": {cmd: Command{Argv: []string{"plain"}, Env: []string{"PATH=."}, Dir: dir}, want: `start program: program not found: "plain" on PATH .`, notFound: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := Run(t.Context(), tt.cmd)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got error %q, want %q", err, tt.want)
			}
			if errors.Is(err, ErrNotFound) != tt.notFound {
				t.Errorf("errors.Is(ErrNotFound) = %v", !tt.notFound)
			}
			if res.OK() {
				t.Error("result claims success")
			}
		})
	}
}

func TestRunTakesTheProgramFromTheGivenPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cat"), []byte("#!/bin/sh\necho mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), Command{Argv: []string{"cat"}, Env: []string{"PATH=" + dir + ":/bin"}})
	if err != nil || string(res.Stdout) != "mine\n" {
		t.Errorf("got %q, %v", res.Stdout, err)
	}
}

func TestRunKeepsTheBeginningOfHugeOutput(t *testing.T) {
	t.Parallel()
	c := sh("head -c 5000000 /dev/zero; echo end >&2")
	c.MaxOutput = 1000
	res, err := Run(t.Context(), c)
	if err != nil || !res.OK() {
		t.Fatal(res.Describe(), err)
	}
	if !res.Truncated || !bytes.Equal(res.Stdout, make([]byte, 1000)) || string(res.Stderr) != "end\n" {
		t.Errorf("truncated %v, %d bytes of stdout, stderr %q", res.Truncated, len(res.Stdout), res.Stderr)
	}
}

func TestRunJoinsOneWriterInOrder(t *testing.T) {
	t.Parallel()
	var both bytes.Buffer
	c := sh("for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")
	c.Stdout, c.Stderr = &both, &both
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, want := both.String(), "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunTimeoutKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"grandchildren hold the pipes": "sleep 300 & sleep 300 & echo $! $$; wait",
		"TERM ignored by all":          "trap '' TERM; sleep 300 & echo $! $$; while :; do sleep 300; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sh(script)
			c.Timeout, c.Grace = time.Second, 100*time.Millisecond
			begin := time.Now()
			res, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if !res.TimedOut || res.OK() || res.Code != -1 || res.Abandoned != nil || time.Since(begin) > prompt {
				t.Errorf("after %s got %+v", time.Since(begin), res)
			}
			wantGone(t, string(res.Stdout))
		})
	}
}

func TestRunTimeoutLeavesGraceToEndInOrder(t *testing.T) {
	t.Parallel()
	c := sh("trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.05; done")
	c.Timeout, c.Grace = 2*time.Second, prompt
	res, err := Run(t.Context(), c)
	if err != nil || !res.TimedOut || res.Exit != (Exit{Code: 7}) || string(res.Stdout) != "up\nsaved\n" {
		t.Errorf("got %+v, stdout %q, error %v", res, res.Stdout, err)
	}
	if res.OK() {
		t.Error("a run that timed out claims success")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("operator left")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(500*time.Millisecond, func() { cancel(cause) })
	begin := time.Now()
	res, err := Run(ctx, sh("sleep 300 & echo $! $$; wait"))
	if !errors.Is(err, cause) || res.OK() || res.TimedOut || time.Since(begin) > prompt {
		t.Errorf("after %s got %+v, %v", time.Since(begin), res, err)
	}
	wantGone(t, string(res.Stdout))

	if _, err := Run(ctx, sh("exit 0")); !errors.Is(err, cause) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestRunIsNotDelayedByWhatStaysBehind(t *testing.T) {
	t.Parallel()
	t.Run("in the group: ended too", func(t *testing.T) {
		t.Parallel()
		begin := time.Now()
		res, err := Run(t.Context(), sh("sleep 300 & echo $!"))
		if err != nil || !res.OK() || time.Since(begin) > prompt {
			t.Errorf("after %s got %+v, %v", time.Since(begin), res, err)
		}
		wantGone(t, string(res.Stdout))
	})
	t.Run("in a session of its own: let go", func(t *testing.T) {
		t.Parallel()
		begin := time.Now()
		res, err := Run(t.Context(), sh("setsid sleep 30 & echo $!"))
		if err != nil || !res.OK() || time.Since(begin) > prompt {
			t.Errorf("after %s got %+v, %v", time.Since(begin), res, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(res.Stdout)))
		if err != nil {
			t.Fatal(err)
		}
		// The shell's child is the sleep itself: setsid execs when it leads no group.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("the daemon did not survive: %v", err)
		}
	})
}

func TestRunReportsWhatKillCannotEnd(t *testing.T) {
	t.Parallel()
	freezer := frozenGroup(t)
	c := sh(fmt.Sprintf("echo $$ > %s/cgroup.procs; echo in; while :; do sleep 0.05; done", freezer))
	c.killWait = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	procs := filepath.Join(freezer, "cgroup.procs")
	go func() {
		waitFor(t, "the program in the cgroup", func() bool { b, _ := os.ReadFile(procs); return len(b) > 0 })
		write(t, filepath.Join(freezer, "freezer.state"), "FROZEN")
		cancel()
	}()
	begin := time.Now()
	res, err := Run(ctx, c)
	if !errors.Is(err, context.Canceled) || time.Since(begin) > prompt {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	if len(res.Abandoned) == 0 || res.OK() || res.Exit.String() != "end unknown" {
		t.Fatalf("got %+v", res)
	}
	if s := res.Abandoned[0]; s.PID <= 1 || s.State != "D" || s.Command == "" {
		t.Errorf("survivor %+v, want state D", s)
	}
	if string(res.Stdout) != "in\n" {
		t.Errorf("stdout %q, want what was written before", res.Stdout)
	}
}

// frozenGroup makes a cgroup that can be frozen: the only state that can be
// made here in which a process outlasts SIGKILL.
func frozenGroup(t *testing.T) string {
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/cgroup/freezer/procgroup-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no process can be frozen here: %v", err)
	}
	t.Cleanup(func() {
		write(t, filepath.Join(dir, "freezer.state"), "THAWED")
		waitFor(t, "the cgroup to empty", func() bool { return os.Remove(dir) == nil })
	})
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(prompt); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// wantGone fails when one of the processes listed in pids lives.
func wantGone(t *testing.T, pids string) {
	t.Helper()
	fields := strings.Fields(pids)
	if len(fields) == 0 {
		t.Error("the program reported no process id")
	}
	for _, f := range fields {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("process id %q: %v", f, err)
		}
		waitFor(t, "the end of process "+f, func() bool { return !alive(pid) })
	}
}

// alive says that pid runs. A zombie whose parent has not looked yet does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _, ok := parseStat(b)
	return ok && state != "Z" && state != "X"
}

func TestDescribeSaysHowAndWhy(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Result{
		"exit code 0":                      {},
		"exit code 2: bad flag":            {Exit: Exit{Code: 2}, Stderr: []byte("usage\nbad flag\n\n")},
		"killed by SIGTERM":                {Exit: Exit{Code: -1, Signal: "SIGTERM"}},
		"no answer within 1.5s: connect …": {Exit: Exit{Code: -1, Signal: "SIGKILL"}, TimedOut: true, Duration: 1500 * time.Millisecond, Stderr: []byte("connect …")},
	} {
		if got := r.Describe(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"12 (sh) S 1 12 12 0":          "sh S 12",
		"12 (a) b) (c) D 1 77 12 0":    "a) b) (c D 77",
		"12 (new\nline) Z 1 5 5":       "new\nline Z 5",
		"":                             "refused",
		"12 sh S 1 12":                 "refused",
		"12 (sh) S":                    "refused",
		"12 (sh) S 1 many 12":          "refused",
		") (":                          "refused",
		"12 (sh) S 1 -1 12 0 trailing": "sh S -1",
	} {
		comm, state, pgrp, ok := parseStat([]byte(in))
		got := fmt.Sprintf("%s %s %d", comm, state, pgrp)
		if !ok {
			got = "refused"
		}
		if got != want {
			t.Errorf("parseStat(%q) = %q, want %q", in, got, want)
		}
	}
}
