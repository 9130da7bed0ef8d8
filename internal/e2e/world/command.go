package world

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/disagg/disagg/internal/lab"
)

// limit bounds one command: no run of these tests is longer.
const limit = 4 * time.Minute

// Said is what a command gave.
type Said struct {
	Code     int
	Out, Err string
	Took     time.Duration
}

// Disagg runs the binary on the lab's controller node to its end.
func (w *World) Disagg(args ...string) Said {
	w.T.Helper()
	return w.Run(append([]string{w.Bin}, args...)...)
}

// Run runs a command on the lab's controller node to its end.
func (w *World) Run(args ...string) Said {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return w.finishing(w.command(ctx, args), nil)
}

// Start runs a command in the background; its end is waited for with the
// returned function.
func (w *World) Start(args ...string) (*exec.Cmd, func() Said) {
	w.T.Helper()
	cmd := w.command(w.T.Context(), args)
	done := make(chan Said, 1)
	started := make(chan struct{})
	go func() { done <- w.finishing(cmd, started) }()
	<-started
	return cmd, func() Said {
		w.T.Helper()
		select {
		case s := <-done:
			return s
		case <-time.After(limit):
			w.T.Fatalf("%v does not end\n%s", args, w.Evidence())
		}
		return Said{}
	}
}

// command is a command in the test's directory, with its site.
func (w *World) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := w.CommandAt(ctx, lab.Where{Dir: w.Dir, User: w.User}, args...)
	cmd.Env = append(cmd.Env, "DISAGG_SITE="+filepath.Join(w.Dir, "site.yaml"), "HOME="+w.Dir)
	cmd.Env = append(cmd.Env, w.Env...)
	return cmd
}

func (w *World) finishing(cmd *exec.Cmd, started chan<- struct{}) Said {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Start()
	if started != nil {
		close(started)
	}
	if err != nil {
		return Said{Code: -1, Err: err.Error()}
	}
	// How it ended is in its state, or there is none.
	_ = cmd.Wait()
	return Said{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: errs.String(), Took: time.Since(begun)}
}

// Want fails the test unless a command ended with the code.
func (w *World) Want(s Said, code int) {
	w.T.Helper()
	if s.Code != code {
		w.T.Fatalf("exit code %d, want %d\n--- stdout\n%s\n--- stderr\n%s\n%s", s.Code, code, s.Out, s.Err, w.Evidence())
	}
}
