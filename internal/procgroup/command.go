package procgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultMaxOutput is what Run keeps of stdout and of stderr each.
	DefaultMaxOutput = 16 << 20
	// drainDelay is how long output is still read after the program has ended
	// while something else holds its pipe open. What the program itself wrote
	// is in the pipe by then, so this only bounds the wait for strangers.
	drainDelay = 250 * time.Millisecond
	// killWait is how long a group may take to disappear after SIGKILL. A
	// process that needs longer sits in an uninterruptible system call (a
	// driver, a dead file server) and may never end.
	killWait = 5 * time.Second
)

// ErrNotFound says that the program does not exist or may not be executed.
var ErrNotFound = errors.New("program not found")

// Command is one program to start.
type Command struct {
	// Argv is the program and its arguments. A name without a slash is looked
	// for on the PATH of Env, or on this process's own when Env has none.
	Argv []string
	// Env is the whole environment, NAME=VALUE each; nil means an empty one.
	Env []string
	// Dir is the working directory; empty means this process's own.
	Dir string

	// Stdin is what the program reads; nil means /dev/null.
	Stdin []byte
	// StdinFile is given to the program as its stdin instead of Stdin.
	StdinFile *os.File
	// StdinPipe makes Process.Stdin the writing end of the program's stdin. For
	// Start only.
	StdinPipe bool
	// Stdout and Stderr get the output. An *os.File is handed over as it is;
	// any other writer is fed through a pipe. Nil means /dev/null with Start,
	// and Result with Run. The same writer in both gets one stream.
	Stdout, Stderr io.Writer
	// ExtraFiles become descriptors 3, 4, … of the program.
	ExtraFiles []*os.File

	// Session starts the program in a new session, away from the terminal, and
	// not only in a new process group.
	Session bool
	// ParentDeathSignal is sent to the program (not to its children) by the
	// kernel when this process dies; zero means none.
	ParentDeathSignal syscall.Signal

	// Grace is the time between TERM and KILL when the group is ended because
	// the context or Timeout ended, or because the program left children
	// behind; zero means KILL at once.
	Grace time.Duration
	// Timeout ends the group after this time; zero means never. For Run only.
	Timeout time.Duration
	// MaxOutput bounds what Run keeps of stdout and of stderr each; zero means
	// DefaultMaxOutput.
	MaxOutput int

	killWait time.Duration // instead of the constant, for tests
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit code; -1 when a signal ended it or its end is not known
	Signal string // SIGKILL, …; empty when it exited by itself
}

// String says it in words: "exit code 3" or "killed by SIGKILL".
func (e Exit) String() string {
	switch {
	case e.Signal != "":
		return "killed by " + e.Signal
	case e.Code < 0:
		return "end unknown"
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Result is what a program did under Run.
type Result struct {
	Exit
	Stdout, Stderr []byte
	Duration       time.Duration
	// TimedOut says that Timeout passed and the group was killed for it.
	TimedOut bool
	// Truncated says that stdout or stderr was longer than MaxOutput; the
	// beginning is kept.
	Truncated bool
	// Abandoned lists what was still there when Run gave up waiting.
	Abandoned []Survivor
}

// OK says that the program ended by itself with exit code 0.
func (r Result) OK() bool { return r.Code == 0 && r.Signal == "" && !r.TimedOut }

// Describe says how the program ended, with the last line of its stderr.
func (r Result) Describe() string {
	s := r.Exit.String()
	if r.TimedOut {
		s = fmt.Sprintf("no answer within %s", r.Duration.Round(100*time.Millisecond))
	}
	lines := strings.Split(strings.TrimSpace(string(r.Stderr)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		s += ": " + last
	}
	return s
}

// exitOf translates the kernel's answer.
func exitOf(st *os.ProcessState) Exit {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(ws.Signal())}
	}
	return Exit{Code: st.ExitCode()}
}
