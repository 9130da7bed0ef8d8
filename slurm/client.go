package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
)

// Defaults of Client's limits. Slurm's own programs give up after one to two
// MessageTimeouts (10 s unless the site says otherwise), so these only bound
// what Slurm itself does not.
const (
	DefaultQueryTimeout  = 45 * time.Second
	DefaultSubmitTimeout = 90 * time.Second
	DefaultLookupTime    = time.Minute
)

// Client runs Slurm's programs. Set fields before the first call; calls may be
// made from several goroutines.
type Client struct {
	// Environ is the environment of the programs, scrubbed before use.
	Environ []string
	// User is the login name whose jobs are looked at. Cancel refuses the jobs
	// of others.
	User string
	// Cluster is the cluster that the calls are for, on sites with several;
	// empty means the default one.
	Cluster string
	// Programs maps a program (sbatch, squeue, …) to its path; a program that
	// is not in it is looked for on PATH.
	Programs map[string]string
	// Run starts a program; nil means procgroup.Run.
	Run func(context.Context, procgroup.Command) (procgroup.Result, error)
	// QueryTimeout bounds each call but a submission; zero means the default.
	QueryTimeout time.Duration
	// SubmitTimeout bounds one submission; zero means the default.
	SubmitTimeout time.Duration
	// LookupTime is how long a job is looked for after a submission without a
	// clear answer; zero means the default.
	LookupTime time.Duration
}

// ErrNoAnswer says that a program gave no answer in time. What it was asked to
// do may or may not have happened.
var ErrNoAnswer = errors.New("no answer")

// CallError is a call that gave no usable answer.
type CallError struct {
	Program string
	Result  procgroup.Result
	Err     error // ErrNoAnswer, why it could not run, or nil
}

// Error names the program, how it ended and what it said last.
func (e *CallError) Error() string {
	if e.Err != nil && !errors.Is(e.Err, ErrNoAnswer) {
		return fmt.Sprintf("%s: %v", e.Program, e.Err)
	}
	return e.Program + ": " + plain(e.Result.Describe())
}

// Unwrap gives the reason.
func (e *CallError) Unwrap() error { return e.Err }

// invalidID says that the controller itself answered: no such job. Its text has
// been the same in every release.
func (e *CallError) invalidID() bool { return e.said("Invalid job id specified") }

// said says that the program ended and its complaint holds text.
func (e *CallError) said(text string) bool {
	return e.Err == nil && bytes.Contains(e.Result.Stderr, []byte(text))
}

// query runs a program that answers on stdout. An empty answer beside something
// on stderr is a failure whatever the exit code: squeue has been seen to exit 0
// after a timeout.
func (c *Client) query(ctx context.Context, program string, args ...string) ([]byte, error) {
	env, _ := Scrub(c.Environ)
	res, err := c.call(ctx, cmp.Or(c.QueryTimeout, DefaultQueryTimeout), env, program, args...)
	if err != nil {
		return nil, err
	}
	if !res.OK() || len(bytes.TrimSpace(res.Stdout)) == 0 && len(bytes.TrimSpace(res.Stderr)) > 0 {
		return nil, &CallError{Program: program, Result: res}
	}
	return res.Stdout, nil
}

// call runs a program; a non-zero exit is a result.
func (c *Client) call(ctx context.Context, limit time.Duration, env []string, program string, args ...string) (procgroup.Result, error) {
	res, err := c.runner()(ctx, procgroup.Command{Argv: c.argv(program, args...), Env: env, Timeout: limit})
	switch {
	case err != nil:
		return res, &CallError{Program: program, Result: res, Err: err}
	case res.TimedOut:
		return res, &CallError{Program: program, Result: res, Err: ErrNoAnswer}
	}
	return res, nil
}

// argv is a program's command line.
func (c *Client) argv(program string, args ...string) []string {
	argv := []string{cmp.Or(c.Programs[program], program)}
	if c.Cluster != "" {
		argv = append(argv, "--clusters="+c.Cluster)
	}
	return append(argv, args...)
}

func (c *Client) runner() func(context.Context, procgroup.Command) (procgroup.Result, error) {
	if c.Run != nil {
		return c.Run
	}
	return procgroup.Run
}

// plain makes text from outside fit for one line of a message.
func plain(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	const most = 400
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strings.TrimSpace(s)
}

// Version is what the scheduler says it is.
type Version struct {
	Name   string // slurm, slurm-wlm, …
	Number string // 22.05.8
}

// IsSlurm says that the scheduler is Slurm and not one that only looks like it
// and differs in what it does.
func (v Version) IsSlurm() bool { return v.Name == "slurm" || strings.HasPrefix(v.Name, "slurm-") }

// Version asks which scheduler answers to sbatch.
func (c *Client) Version(ctx context.Context) (Version, error) {
	out, err := c.query(ctx, "sbatch", "--version")
	if err != nil {
		return Version{}, fmt.Errorf("read scheduler version: %w", err)
	}
	name, number, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !ok {
		return Version{}, fmt.Errorf("read scheduler version: %q is not a name and a number", plain(string(out)))
	}
	return Version{Name: name, Number: number}, nil
}
