package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
	"github.com/disagg/disagg/slurm/hostlist"
)

// StepRequest is one program to start on nodes of a job, once on each.
type StepRequest struct {
	JobID string
	// Nodes are the nodes, all of them the job's.
	Nodes []string
	// Name is what squeue --steps shows; empty means disagg.
	Name string
	// Options are the site's further srun options, name without dashes → value;
	// an empty value makes an option without one. They replace the defaults that
	// may be replaced.
	Options map[string]string
	// Argv is the program.
	Argv []string
}

// stepDefaults are options of a step that a site may replace.
//
// The step holds the job's GPUs (no --gres=none): where Slurm confines devices,
// a step without GPUs could not look at them. That costs nobody anything,
// because --overlap lets other steps hold them too; but it sets visibility
// variables, which must not reach what the program starts.
func stepDefaults() map[string]string {
	return map[string]string{
		"cpu-bind":  "none", // the program only starts and watches others
		"mem":       "0",    // all that the job has; a step cannot have more
		"propagate": "NONE", // limits of the shell that started us are an accident
	}
}

// StepArgs is the srun command, without "srun" itself, that starts the request's
// program. Each option stands in one word with its value: one release of srun
// reads the word after an option as more of its value. Stdin goes to every task
// and its end is every task's end of file. The environment of srun is that of
// the tasks; see StepCommand.
func StepArgs(r StepRequest) ([]string, error) {
	if err := checkID(r.JobID); err != nil {
		return nil, fmt.Errorf("build step: %w", err)
	}
	if len(r.Nodes) == 0 || len(r.Argv) == 0 {
		return nil, errors.New("build step: nodes and a program are needed")
	}
	name := r.Name
	if name == "" {
		name = "disagg"
	}
	count := strconv.Itoa(len(r.Nodes))
	args := []string{
		"--jobid=" + r.JobID,
		"--job-name=" + name,
		"--nodes=" + count,
		"--ntasks=" + count,
		"--ntasks-per-node=1",
		"--nodelist=" + hostlist.Compress(r.Nodes),
		"--overlap",
		"--kill-on-bad-exit=0",
		"--wait=0",   // the first task to end does not end the others
		"--mpi=none", // the site's default plugin may not work on every node
		"--quit-on-interrupt",
		"--input=all",
		"--export=ALL",
	}
	options := stepDefaults()
	for _, name := range slices.Sorted(maps.Keys(r.Options)) {
		value := r.Options[name]
		if err := models.CheckSrunOption(name); err != nil {
			return nil, fmt.Errorf("build step: %w", err)
		}
		if strings.ContainsAny(value, "\x00\n") {
			return nil, fmt.Errorf("build step: srun option %s holds a line break or NUL byte", name)
		}
		options[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if options[name] == "" {
			args = append(args, "--"+name)
			continue
		}
		args = append(args, "--"+name+"="+options[name])
	}
	return append(append(args, "--"), r.Argv...), nil
}

// StepCommand is the whole srun command for a request, with the environment it
// must have. The caller says what its stdin and output are.
func (c *Client) StepCommand(r StepRequest) (procgroup.Command, error) {
	args, err := StepArgs(r)
	if err != nil {
		return procgroup.Command{}, err
	}
	clean, _ := Scrub(c.Environ)
	return procgroup.Command{Argv: c.argv("srun", args...), Env: env.ForJob(clean), Grace: stepGrace}, nil
}

// stepGrace lets srun take its step down before it is killed; a killed srun may
// leave its tasks running.
const stepGrace = 3 * time.Second

// RunStep runs a request's program to its end, at most limit. A step that fails
// is a result; the error says that it could not be started or that ctx ended.
func (c *Client) RunStep(ctx context.Context, limit time.Duration, r StepRequest) (procgroup.Result, error) {
	cmd, err := c.StepCommand(r)
	if err != nil {
		return procgroup.Result{}, err
	}
	cmd.Timeout = limit
	res, err := c.runner()(ctx, cmd)
	if err != nil {
		return res, &CallError{Program: "srun", Result: res, Err: err}
	}
	return res, nil
}

// Step is a running step of a job.
type Step struct {
	ID    string // 12.0, 12.batch
	Name  string
	Nodes []string
}

// Steps lists the running steps of a job, the batch script's own among them. A
// job that has ended has none.
func (c *Client) Steps(ctx context.Context, id string) ([]Step, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("list steps: %w", err)
	}
	out, err := c.query(ctx, "squeue", "--noheader", "--steps", "--jobs="+id, format("%i", "%N", "%j"))
	var call *CallError
	if errors.As(err, &call) && call.invalidID() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list steps of job %s: %w", id, err)
	}
	return parseSteps(out, id), nil
}

// parseSteps reads squeue's rows of one job's steps.
func parseSteps(out []byte, id string) []Step {
	var steps []Step
	for _, f := range rows(out, 3) {
		job, _, ok := strings.Cut(f[0], ".")
		nodes, err := hostlist.Expand(f[1])
		if !ok || job != id || err != nil {
			continue
		}
		steps = append(steps, Step{ID: f[0], Nodes: nodes, Name: f[2]})
	}
	return steps
}
