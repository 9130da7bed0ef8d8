package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/internal/procgroup"
)

// handle answers one request of the controller.
func (a *agent) handle(ctx context.Context, method string, body json.RawMessage) (any, error) {
	v, err := a.answer(ctx, method, body)
	if err != nil {
		return nil, deploy.ToWire(err)
	}
	return v, nil
}

func (a *agent) answer(ctx context.Context, method string, body json.RawMessage) (any, error) {
	switch method {
	case deploy.MethodExec:
		return with(body, func(r deploy.ExecRequest) (any, error) { return a.exec(ctx, r) })
	case deploy.MethodCreate:
		return with(body, func(w deploy.Workload) (any, error) { return a.create(ctx, w) })
	case deploy.MethodRelease:
		return with(body, func(r deploy.WorkloadRef) (any, error) {
			w, err := a.find(r.ID)
			if err != nil {
				return nil, err
			}
			return nil, w.release(ctx)
		})
	case deploy.MethodStop:
		return with(body, func(r deploy.StopRequest) (any, error) {
			w, err := a.find(r.ID)
			if err != nil {
				return nil, err
			}
			// Once begun, a stop is finished, whoever waits for it.
			return nil, w.stop(context.WithoutCancel(ctx), r.Grace)
		})
	case deploy.MethodLook:
		return with(body, func(r deploy.LookRequest) (any, error) { return a.look(ctx, r.RunID, r.Ports), nil })
	case deploy.MethodReap:
		return with(body, func(r deploy.ReapRequest) (any, error) { return a.reap(ctx, r), nil })
	case deploy.MethodReadFile:
		return with(body, func(r deploy.ReadFileRequest) (any, error) { return readFile(r) })
	case deploy.MethodWriteFile:
		return with(body, func(r deploy.WriteFileRequest) (any, error) { return nil, writeFile(r) })
	case deploy.MethodFetch:
		return with(body, func(r deploy.FetchRequest) (any, error) { return a.fetch(r.Dir) })
	case deploy.MethodStreamRead:
		return with(body, func(r deploy.StreamRef) (any, error) { return a.readStream(r.Stream) })
	case deploy.MethodStreamClose:
		return with(body, func(r deploy.StreamRef) (any, error) { return nil, a.closeStream(r.Stream) })
	case deploy.MethodImage:
		return with(body, func(r deploy.ImageRequest) (any, error) {
			if a.containers == nil {
				return nil, a.noContainers()
			}
			return a.containers.Image(ctx, r.Ref, r.Pull)
		})
	case deploy.MethodClose:
		return nil, a.close(ctx)
	}
	return nil, fmt.Errorf("%q is not known to this agent", method)
}

// with decodes a request and answers it.
func with[T any](body json.RawMessage, answer func(T) (any, error)) (any, error) {
	var r T
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	return answer(r)
}

// close ends the agent politely: everything is stopped and cleaned up before the
// answer.
func (a *agent) close(ctx context.Context) error {
	return a.stopAll(context.WithoutCancel(ctx), leaseGrace)
}

// exec runs one command in a process group of its own.
func (a *agent) exec(ctx context.Context, r deploy.ExecRequest) (deploy.ExecAnswer, error) {
	if len(r.Argv) == 0 {
		return deploy.ExecAnswer{}, errors.New("run command: no program given")
	}
	argv := slices.Clone(r.Argv)
	if argv[0] == shim.SelfProgram {
		argv[0] = a.opts.Self
	}
	env := os.Environ()
	for _, e := range r.Env {
		env = append(env, e.Name+"="+string(e.Value))
	}
	cmd := procgroup.Command{Argv: argv, Env: env, Timeout: r.Timeout, MaxOutput: r.MaxOutput}
	if len(r.Stdin) > 0 {
		cmd.Stdin = r.Stdin
	}
	start := time.Now()
	res, err := procgroup.Run(ctx, cmd)
	out := deploy.ExecResult{
		Exit: res.Code, Stdout: res.Stdout, Stderr: res.Stderr,
		Duration: res.Duration, TimedOut: res.TimedOut, Truncated: res.Truncated,
	}
	switch {
	case ctx.Err() != nil:
		return deploy.ExecAnswer{}, fmt.Errorf("run %s: %w", r.Argv[0], context.Cause(ctx))
	case err != nil:
		out.Exit, out.Error, out.Duration = -1, err.Error(), time.Since(start)
	case res.TimedOut:
		out.Exit = -1
	case res.Signal != "":
		out.Error = "killed by " + res.Signal
	}
	for _, s := range res.Abandoned {
		out.Error = "still there after SIGKILL: " + s.String()
	}
	return a.wrapOutput(out), nil
}

// wrapOutput puts output that is too long for one message into streams.
func (a *agent) wrapOutput(r deploy.ExecResult) deploy.ExecAnswer {
	ans := deploy.ExecAnswer{ExecResult: r}
	if len(r.Stdout)+len(r.Stderr) <= deploy.MaxChunk {
		return ans
	}
	ans.Out, ans.Err = a.keep(r.Stdout), a.keep(r.Stderr)
	ans.Stdout, ans.Stderr = nil, nil
	return ans
}

// find finds a workload that was created once.
func (a *agent) find(id string) (*workload, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workloads[id]; w != nil {
		return w, nil
	}
	return nil, &deploy.Fault{Class: deploy.ClassUnknown, Msg: fmt.Sprintf("this agent never created workload %q", id)}
}

func (a *agent) noContainers() error {
	if a.containersErr != nil {
		return a.containersErr
	}
	return &deploy.Fault{Class: deploy.ClassRuntimeAbsent, Msg: "this site runs plain processes (container.runtime: none); there are no images"}
}
