package procgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run starts a program, waits for its end and returns what it did. A non-zero
// exit and a passed Timeout are results. The error says that the program could
// not be started, or that ctx ended first; then Result holds what there was.
// When Run returns, nothing of the group is left but Result.Abandoned.
func Run(ctx context.Context, c Command) (Result, error) {
	if c.StdinPipe {
		return Result{Exit: Exit{Code: -1}}, errors.New("run program: StdinPipe is for Start")
	}
	limit := c.MaxOutput
	if limit == 0 {
		limit = DefaultMaxOutput
	}
	out, errOut := &capped{limit: limit}, &capped{limit: limit}
	if c.Stdout == nil {
		c.Stdout = out
	}
	if c.Stderr == nil {
		c.Stderr = errOut
	}
	p, err := start(ctx, c)
	if err != nil {
		return Result{Exit: Exit{Code: -1}}, err
	}

	var timeout <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	var res Result
	select {
	case <-p.exited:
	case <-ctx.Done():
		err = fmt.Errorf("run %s: %w", c.Argv[0], context.Cause(ctx))
	case <-timeout:
		res.TimedOut = true
	}
	res.Abandoned = p.Stop(c.Grace)
	res.Exit = Exit{Code: -1}
	select {
	case <-p.exited:
		res.Exit = p.Wait()
	default:
		p.pipes.drain(drainDelay)
	}
	res.Duration = time.Since(p.started)
	var cut, cutErr bool
	res.Stdout, cut = out.take()
	res.Stderr, cutErr = errOut.take()
	res.Truncated = cut || cutErr
	return res, err
}

// capped keeps the first limit bytes written to it and swallows the rest.
type capped struct {
	limit int

	mu        sync.Mutex
	buf       bytes.Buffer
	truncated bool
}

// Write never fails, so that a program that writes much does not die of it.
func (w *capped) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := min(len(b), w.limit-w.buf.Len())
	w.buf.Write(b[:keep])
	w.truncated = w.truncated || keep < len(b)
	return len(b), nil
}

// take returns a copy of what was kept and whether something was not.
func (w *capped) take() ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes()), w.truncated
}
