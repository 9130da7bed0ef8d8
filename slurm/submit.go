package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models/env"
)

// ErrSubmitUnknown says that nobody knows whether the job exists: sbatch gave no
// clear answer and the job could not be found. Submitting again may make a
// second one.
var ErrSubmitUnknown = errors.New("it is not known whether the job was accepted")

// SubmitRequest is one batch script to submit.
type SubmitRequest struct {
	// Script is the absolute path of the batch script; Token is the comment in
	// it. Together they are the job's Mark.
	Script, Token string
}

// Mark is how the submitted job is recognised.
func (r SubmitRequest) Mark() Mark { return Mark{Token: r.Token, Script: r.Script} }

// Submission is a job that exists.
type Submission struct {
	JobID string
	// Cluster is where it went, on sites with several; else empty.
	Cluster string
	// Recovered says that sbatch gave no clear answer and the job was found by
	// its mark.
	Recovered bool
	// Dropped are the variables of a surrounding job that were kept away.
	Dropped []string
	// Notes is what sbatch or the site's plugins said beside the id.
	Notes string
}

// submitGrace is how long a submission may still take once the caller has lost
// interest. Ended in the middle, it could leave a job that nobody knows of.
const submitGrace = 10 * time.Second

// Submit submits a batch script. Without a clear answer it looks for the job by
// its mark before it returns, so the error wraps ErrSubmitUnknown only when that
// look failed, or found nothing for LookupTime. When ctx ends, a submission
// under way is still brought to its end; the caller finds the job in Submission
// and may cancel it.
func (c *Client) Submit(ctx context.Context, r SubmitRequest) (Submission, error) {
	if !filepath.IsAbs(r.Script) || r.Token == "" || c.User == "" {
		return Submission{}, errors.New("submit job: an absolute script path, a token and the user's name are needed")
	}
	if err := ctx.Err(); err != nil {
		return Submission{}, fmt.Errorf("submit job: %w", context.Cause(ctx))
	}
	ctx, cancel := linger(ctx, submitGrace)
	defer cancel()

	clean, dropped := Scrub(c.Environ)
	sub := Submission{Dropped: dropped}
	res, err := c.call(ctx, cmp.Or(c.SubmitTimeout, DefaultSubmitTimeout), env.ForJob(clean),
		"sbatch", "--parsable", r.Script)
	var ok bool
	sub.JobID, sub.Cluster, sub.Notes, ok = parseJobID(res.Stdout)
	if said := plain(string(res.Stderr)); said != "" {
		sub.Notes = strings.TrimSpace(sub.Notes + "\n" + said)
	}
	switch {
	case err != nil && !errors.Is(err, ErrNoAnswer) && ctx.Err() == nil: // it never started
		return Submission{}, fmt.Errorf("submit job: %w", err)
	case err == nil && !res.OK() && !lostAnswer(res):
		return Submission{}, fmt.Errorf("submit job: %w", &CallError{Program: "sbatch", Result: res})
	case err == nil && res.OK() && ok:
		return c.confirm(ctx, sub, r.Mark())
	}
	if err == nil {
		err = &CallError{Program: "sbatch", Result: res}
	}
	return c.recover(ctx, sub, r.Mark(), err)
}

// confirm checks that the id belongs to this run: a plugin may have printed a
// number of its own. A check that gives no answer changes nothing.
func (c *Client) confirm(ctx context.Context, sub Submission, m Mark) (Submission, error) {
	on := c.on(sub.Cluster)
	j := on.Job(ctx, sub.JobID)
	if j.Presence != Present || m.Owns(c.User, j) {
		return sub, nil
	}
	found, err := on.Find(ctx, m)
	if err != nil {
		return Submission{}, fmt.Errorf("submit job: %w: sbatch said %s, which is another job (user %s, comment %q): %w",
			ErrSubmitUnknown, sub.JobID, j.User, plain(j.Comment), err)
	}
	sub.JobID = found.ID
	return sub, nil
}

// recover looks for a job whose submission gave no clear answer. The controller
// may take the request long after sbatch has given up on it, so one look that
// finds nothing proves nothing.
func (c *Client) recover(ctx context.Context, sub Submission, m Mark, cause error) (Submission, error) {
	deadline := time.Now().Add(cmp.Or(c.LookupTime, DefaultLookupTime))
	pause := 250 * time.Millisecond
	for {
		j, err := c.Find(ctx, m)
		if err == nil {
			sub.JobID, sub.Recovered = j.ID, true
			return sub, nil
		}
		if time.Now().Add(pause).After(deadline) || ctx.Err() != nil {
			return Submission{}, fmt.Errorf("submit job: %w: %w; %w; before another try, look for the comment %s in: "+
				"squeue --states=all --user=%s --format='%%i %%T %%k'", ErrSubmitUnknown, cause, err, m.Token, c.User)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// on is the client for a cluster that sbatch named.
func (c *Client) on(cluster string) *Client {
	if cluster == "" || cluster == c.Cluster {
		return c
	}
	other := *c
	other.Cluster = cluster
	return &other
}

// lostAnswer says that sbatch failed because no answer came, not because the
// answer was no. Slurm's messages for that are few and old.
func lostAnswer(res procgroup.Result) bool {
	for _, text := range []string{
		"Socket timed out", "Zero Bytes were transmitted", "Connection reset", "Broken pipe",
		"Unexpected missing socket", "Communication connection failure", "Transport endpoint is not connected",
	} {
		if bytes.Contains(res.Stderr, []byte(text)) {
			return true
		}
	}
	// Killed: whoever did it did not know how far it was.
	return res.Signal != ""
}

var jobIDLine = regexp.MustCompile(`^([0-9]+)(?:;([A-Za-z0-9._-]+))?$`)

// parseJobID finds the id on the last line that is nothing but an id. What is
// said beside it, by plugins and wrappers, is returned as noise.
func parseJobID(out []byte) (id, cluster, noise string, ok bool) {
	var rest []string
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		m := jobIDLine.FindStringSubmatch(text)
		if m == nil || checkID(m[1]) != nil {
			if text != "" {
				rest = append(rest, plain(text))
			}
			continue
		}
		if ok {
			rest = append(rest, id)
		}
		id, cluster, ok = m[1], m[2], true
	}
	return id, cluster, strings.Join(rest, "\n"), ok
}

// linger returns a context that outlives ctx by grace.
func linger(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel(context.Canceled)
	}
}
