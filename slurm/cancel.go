package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// ErrNotOurs says that a job does not carry the run's mark.
var ErrNotOurs = errors.New("the job is not this run's")

// CancelRequest says how to end a job. The zero value ends it whole: every
// process gets TERM, and KILL after the cluster's KillWait; no step can start in
// it any more.
type CancelRequest struct {
	// Signal sends a signal instead of ending the job: TERM, USR1, ….
	Signal string
	// Batch sends it to the batch script's process alone, which for our jobs is
	// the controller; Full sends it to the script and to all steps.
	Batch, Full bool
}

var signalName = regexp.MustCompile(`^[A-Z][A-Z0-9]{1,9}$`)

// Cancel ends or signals one job, by id and only when the job carries the mark.
// A job that has ended already is no error. scancel's exit code proves nothing,
// so whether the job has ended is for the next Job call to tell.
func (c *Client) Cancel(ctx context.Context, id string, m Mark, r CancelRequest) error {
	args, err := r.args()
	if err != nil {
		return fmt.Errorf("cancel job %s: %w", id, err)
	}
	j := c.Job(ctx, id)
	switch {
	case j.Ended():
		return nil
	case j.Presence == Unknown:
		return fmt.Errorf("cancel job %s: whose it is could not be found out: %s", id, j.Trouble)
	case !m.Owns(c.User, j):
		return fmt.Errorf("cancel job %s: %w: user %s, comment %q", id, ErrNotOurs, j.User, plain(j.Comment))
	}
	if err := c.scancel(ctx, append(args, id)...); err != nil {
		return fmt.Errorf("cancel job %s: %w", id, err)
	}
	return nil
}

// CancelStep ends one step of a job of ours. A step that has ended already is no
// error.
func (c *Client) CancelStep(ctx context.Context, id string) error {
	if !stepID.MatchString(id) {
		return fmt.Errorf("cancel step: %q is not a step id", plain(id))
	}
	if err := c.scancel(ctx, id); err != nil {
		return fmt.Errorf("cancel step %s: %w", id, err)
	}
	return nil
}

var stepID = regexp.MustCompile(`^[1-9][0-9]{0,9}\.[0-9]{1,10}$`)

// scancel asks for an end or a signal. What has ended in between is no error: it
// is what was asked for.
func (c *Client) scancel(ctx context.Context, args ...string) error {
	_, err := c.query(ctx, "scancel", args...)
	var call *CallError
	if errors.As(err, &call) && (call.invalidID() || call.said("already completing or completed")) {
		return nil
	}
	return err
}

func (r CancelRequest) args() ([]string, error) {
	if r.Signal == "" {
		if r.Batch || r.Full {
			return nil, errors.New("only a signal can go to the batch script, or to all processes")
		}
		return nil, nil
	}
	if !signalName.MatchString(r.Signal) {
		return nil, fmt.Errorf("%q is not the name of a signal", plain(r.Signal))
	}
	args := []string{"--signal=" + r.Signal}
	switch {
	case r.Batch && r.Full:
		return nil, errors.New("a signal goes to the batch script or to all processes, not both")
	case r.Batch:
		args = append(args, "--batch")
	case r.Full:
		args = append(args, "--full")
	}
	return args, nil
}
