package runtime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models/env"
)

// Plain starts shims as plain processes.
type Plain struct{}

var _ Runtime = Plain{}

// Start starts a shim in a session of its own, so that no terminal reaches it.
func (Plain) Start(ctx context.Context, s Spec) (Unit, error) {
	u := &plainUnit{runID: s.Workload.RunID, workload: s.Workload.ID}
	p, err := procgroup.Start(context.WithoutCancel(ctx), procgroup.Command{
		Argv:    []string{s.Binary, "shim", "--dir", s.Dir},
		Env:     append(env.ForProcess(os.Environ()), shim.RunVar+"="+u.runID, shim.WorkloadVar+"="+u.workload),
		Stdout:  &u.said,
		Stderr:  &u.said,
		Session: true,
	})
	if err != nil {
		return nil, &deploy.Fault{Class: deploy.ClassEntrypoint, Msg: err.Error()}
	}
	u.proc = p
	return u, nil
}

type plainUnit struct {
	runID, workload string
	proc            *procgroup.Process
	said            output
}

// ID is the shim's process id.
func (u *plainUnit) ID() string { return fmt.Sprintf("pid %d", u.proc.PID()) }

// Wait waits for the shim's end.
func (u *plainUnit) Wait(ctx context.Context) string {
	select {
	case <-u.proc.Done():
		return u.said.describe("the shim ended with " + u.proc.Wait().String())
	case <-ctx.Done():
		return ""
	}
}

// Remove kills the shim's group and whatever carries the workload's marks.
func (u *plainUnit) Remove(ctx context.Context) error {
	left := u.proc.Stop(0)
	marked, err := killMarked(ctx, u.runID, u.workload)
	if err != nil {
		return err
	}
	if len(left)+len(marked) == 0 {
		return nil
	}
	var names []string
	for _, s := range left {
		names = append(names, s.String())
	}
	for _, m := range marked {
		names = append(names, m.String())
	}
	return &deploy.Fault{Class: deploy.ClassLeftover,
		Msg:  "still there after SIGKILL: " + strings.Join(names, ", "),
		Hint: "a process in state D waits for a driver or a file server; only that or a reboot ends it"}
}

// killWait is how long killed processes may take to disappear.
const killWait = 5 * time.Second

// killMarked kills every process of a workload that is left, again and again
// until there is none or time is up; it returns those that stay.
func killMarked(ctx context.Context, runID, workload string) ([]Marked, error) {
	end := time.NewTimer(killWait)
	defer end.Stop()
	for {
		left := FindMarked("/", runID, workload)
		if len(left) == 0 {
			return nil, nil
		}
		for _, m := range left {
			m.Kill()
		}
		pause := time.NewTimer(20 * time.Millisecond)
		select {
		case <-pause.C:
		case <-end.C:
			pause.Stop()
			return FindMarked("/", runID, workload), nil
		case <-ctx.Done():
			pause.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// output keeps the beginning of what a shim says when things go wrong.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps at most 8 KiB and never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p[:min(len(p), 8<<10-o.buf.Len())])
	return len(p), nil
}

func (o *output) describe(how string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if line := lastLine(o.buf.String()); line != "" {
		how += ": " + line
	}
	return how
}
