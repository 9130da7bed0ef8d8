package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/disagg/disagg/slurm/hostlist"
)

// Presence says what is known of a job.
type Presence int

const (
	// Unknown: no usable answer. It says nothing of the job.
	Unknown Presence = iota
	// Present: the scheduler, or its accounting, told the job's state.
	Present
	// Gone: the controller said that it knows no such job (any more), and no
	// accounting tells how it ended.
	Gone
)

// String is the word for people.
func (p Presence) String() string {
	switch p {
	case Present:
		return "present"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// State is a job state as Slurm writes it in full, such as PENDING.
type State string

// States that the tool asks for by name.
const (
	Pending   State = "PENDING"
	Running   State = "RUNNING"
	Suspended State = "SUSPENDED"
	Completed State = "COMPLETED"
	Cancelled State = "CANCELLED"
)

// Ended says that a job in this state runs no more and never will. A state that
// is not known here has not ended.
func (s State) Ended() bool {
	switch s {
	case Completed, Cancelled, "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED":
		return true
	}
	return false
}

// Job is what is known of one job at one moment.
type Job struct {
	ID       string
	Presence Presence
	// Trouble says why Presence is Unknown.
	Trouble string

	// The rest is set when Presence is Present.
	State     State
	Reason    string // Slurm's word for why it waits or how it ended; empty: none
	User      string
	Partition string
	Name      string
	Comment   string
	Script    string // path of the batch script as it was submitted
	Nodes     []string
	NodeCount int
	TimeLeft  TimeLeft
	// Exit is how the batch script ended; nil when that is not known.
	Exit *ExitCode
}

// Ended says for certain that the job runs no more.
func (j Job) Ended() bool { return j.Presence == Gone || j.Presence == Present && j.State.Ended() }

// Ending says whether Slurm ends the job, or has ended it, for a reason of its
// own, and whether that is a node of the job. While it ends, a job's state is
// COMPLETING, and only the reason tells.
func (j Job) Ending() (ending, node bool) {
	switch {
	case j.Presence != Present || j.State != "COMPLETING" && !j.State.Ended():
		return false, false
	case j.State == "NODE_FAIL" || j.Reason == "NodeDown":
		return true, true
	case j.State == "TIMEOUT" || j.State == "PREEMPTED" || j.State == "DEADLINE" || j.State == "OUT_OF_MEMORY", j.Reason == "TimeLimit":
		return true, false
	}
	return false, false
}

// ExitCode is a job's exit code and the signal that ended it, if any.
type ExitCode struct{ Code, Signal int }

// NotStarted says why the batch script was never started; empty: it was, or that
// is not known. slurmstepd reports an error of its own in the place of a wait
// status, and the low bits of its number then pass for a signal: 53 is what is left
// of 4021, ESLURMD_IO_ERROR. Nobody sends these signals.
func (e ExitCode) NotStarted() string {
	switch {
	case e.Code != 0:
	case e.Signal == 4014&0x7f: // ESLURMD_SETUP_ENVIRONMENT_ERROR
		return "Slurm could not set up its environment"
	case e.Signal == 4020&0x7f: // ESLURMD_EXECVE_FAILED
		return "Slurm could not execute its script"
	case e.Signal == 4021&0x7f:
		return "Slurm could not open its log files; runs_dir of the site must be a directory that all nodes share and that you can write to there"
	}
	return ""
}

// parseExitCode reads "3:0".
func parseExitCode(s string) *ExitCode {
	code, sig, ok := strings.Cut(s, ":")
	c, err1 := strconv.Atoi(code)
	n, err2 := strconv.Atoi(sig)
	if !ok || err1 != nil || err2 != nil {
		return nil
	}
	return &ExitCode{Code: c, Signal: n}
}

// jobID is a job id as a user may give it: no step, no array index.
var jobID = regexp.MustCompile(`^[1-9][0-9]{0,9}$`)

func checkID(id string) error {
	if !jobID.MatchString(id) {
		return fmt.Errorf("%q is not a job id", plain(id))
	}
	return nil
}

// jobFormat asks squeue for what parseJobs reads.
func jobFormat() string {
	return format("%A", "%T", "%r", "%u", "%P", "%N", "%D", "%L", "%o", "%j", "%k")
}

// parseJobs reads squeue's rows.
func parseJobs(out []byte) []Job {
	var jobs []Job
	for _, f := range rows(out, 11) {
		if checkID(f[0]) != nil || f[1] == "" {
			continue
		}
		j := Job{
			ID: f[0], Presence: Present, State: State(f[1]), Reason: f[2], User: f[3], Partition: f[4],
			TimeLeft: parseTimeLeft(f[7]), Script: f[8], Name: f[9], Comment: f[10],
		}
		// Nodes that cannot be read are not an answer that may pass for one.
		nodes, err := hostlist.Expand(f[5])
		if err != nil {
			continue
		}
		j.Nodes = nodes
		j.NodeCount, _ = strconv.Atoi(f[6])
		jobs = append(jobs, j)
	}
	return jobs
}

// Job asks for one job. It never fails: what could not be found out is Unknown,
// with the trouble told.
func (c *Client) Job(ctx context.Context, id string) Job {
	if err := checkID(id); err != nil {
		return Job{ID: id, Trouble: err.Error()}
	}
	out, err := c.query(ctx, "squeue", "--noheader", "--states=all", "--jobs="+id, jobFormat())
	var call *CallError
	switch {
	case errors.As(err, &call) && call.invalidID():
		return c.finished(ctx, id)
	case err != nil:
		return Job{ID: id, Trouble: err.Error()}
	}
	for _, j := range parseJobs(out) {
		if j.ID != id {
			continue
		}
		if j.State.Ended() {
			if d, err := c.details(ctx, id); err == nil {
				j.Exit = d.exit
			}
		}
		return j
	}
	// squeue left it out. Only the controller's plain "no" counts.
	if _, err := c.details(ctx, id); errors.As(err, &call) && call.invalidID() {
		return c.finished(ctx, id)
	}
	return Job{ID: id, Trouble: "squeue does not list the job, and nothing says that it is gone"}
}

// finished asks the accounting for a job that the controller has forgotten.
func (c *Client) finished(ctx context.Context, id string) Job {
	out, err := c.query(ctx, "sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+id,
		"--format=JobIDRaw,State,ExitCode,User,Partition,NodeList,JobName")
	if err != nil {
		return Job{ID: id, Presence: Gone}
	}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 7)
		if len(f) != 7 || f[0] != id {
			continue
		}
		// "CANCELLED by 1000" is one state.
		state, _, _ := strings.Cut(f[1], " ")
		j := Job{ID: id, Presence: Present, State: State(state), Exit: parseExitCode(f[2]), User: f[3], Partition: f[4], Name: f[6]}
		// Accounting can lag behind: what the controller has forgotten runs no more.
		if !j.State.Ended() {
			return Job{ID: id, Presence: Gone}
		}
		j.Nodes, _ = hostlist.Expand(unset(strings.ReplaceAll(f[5], "None assigned", "")))
		j.NodeCount = len(j.Nodes)
		return j
	}
	return Job{ID: id, Presence: Gone}
}

// Mark is how a run recognises its own job: by what it put there, not by the
// job's name, which is for people.
type Mark struct {
	// Token is the job's comment.
	Token string
	// Script is the path of the batch script, which no other run has. It stands
	// in where a site rewrites comments. Empty for jobs that are not batch jobs.
	Script string
}

// Owns says that the job is user's and carries the mark.
func (m Mark) Owns(user string, j Job) bool {
	return j.Presence == Present && user != "" && j.User == user &&
		(m.Token != "" && j.Comment == m.Token || m.Script != "" && j.Script == m.Script)
}

// ErrNotFound says that the scheduler answered and has no such job.
var ErrNotFound = errors.New("no such job")

// Find looks for the user's job that carries the mark, among those that wait,
// run, or ended a short while ago. The error is ErrNotFound when the scheduler
// answered and there is none; any other error says nothing.
func (c *Client) Find(ctx context.Context, m Mark) (Job, error) {
	out, err := c.query(ctx, "squeue", "--noheader", "--states=all", "--user="+c.User, jobFormat())
	if err != nil {
		return Job{}, fmt.Errorf("look for the job of this run: %w", err)
	}
	var found []string
	var job Job
	for _, j := range parseJobs(out) {
		if m.Owns(c.User, j) {
			found = append(found, j.ID)
			job = j
		}
	}
	switch len(found) {
	case 0:
		return Job{}, fmt.Errorf("look for the job of this run: %w", ErrNotFound)
	case 1:
		return job, nil
	}
	return Job{}, fmt.Errorf("look for the job of this run: jobs %s all carry its mark", strings.Join(found, ", "))
}
