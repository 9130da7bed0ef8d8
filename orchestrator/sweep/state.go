package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/result"
)

// Colour is what a run, or a set, means.
type Colour string

// The colours. A set is green only when all that was asked for is there.
const (
	Green Colour = "green" // all points have results
	Going Colour = "going" // it waits or runs
	Red   Colour = "red"   // something failed or is missing
)

// State is how one run of a set is doing.
type State struct {
	Name   string `json:"name"`
	ID     string `json:"run,omitempty"`
	Job    string `json:"job_id,omitempty"`
	Colour Colour `json:"colour"`
	// Word is submitted, pending, running, ended, ok, failed, cancelled, missing.
	Word string `json:"state"`
	// Missing are points without a result; none while the run goes on.
	Missing []string `json:"missing,omitempty"`
	// Why is the cause of a failure, in one line.
	Why      string `json:"why,omitempty"`
	ExitCode int    `json:"exit_code"`
}

// Job is what the scheduler says of a run's job.
type Job struct {
	// Known is false when the scheduler gave no answer about it.
	Known bool
	Ended bool
	// Word is the scheduler's, such as PENDING.
	Word string
}

// Judge says how a run is doing: by its result, else by what the scheduler says
// of its job. A job that ended without a result is a run that is missing,
// whatever the scheduler calls its end.
func Judge(r Run, res *result.Result, job Job) State {
	s := State{Name: r.Name, ID: r.ID, Job: r.Job}
	missing := func(word, why string, code orchestrator.ExitCode) State {
		s.Colour, s.Word, s.Why, s.Missing, s.ExitCode = Red, word, why, r.Points, int(code)
		return s
	}
	switch {
	case r.Job == "" && r.Error != "":
		return missing("missing", "not submitted: "+r.Error, orchestrator.ExitScheduler)
	case r.Job == "":
		return missing("missing", "not submitted", orchestrator.ExitScheduler)
	case res != nil:
		return judgeResult(s, r, res)
	case job.Known && job.Ended:
		return missing("missing", fmt.Sprintf("job %s ended (%s) without a result", r.Job, strings.ToLower(job.Word)), orchestrator.ExitScheduler)
	case job.Known:
		s.Colour, s.Word = Going, strings.ToLower(job.Word)
	default:
		s.Colour, s.Word, s.Why = Going, "submitted", "the scheduler gives no answer about its job"
	}
	return s
}

func judgeResult(s State, r Run, res *result.Result) State {
	s.Word, s.ExitCode = string(res.Outcome), res.ExitCode
	for _, name := range r.Points {
		if !slices.ContainsFunc(res.Points, func(p result.Point) bool { return p.Name == name && p.Status == result.PointOK }) {
			s.Missing = append(s.Missing, name)
		}
	}
	switch {
	case res.Outcome == result.OK && res.ExitCode == 0 && len(s.Missing) == 0:
		s.Colour = Green
	case res.Outcome == result.OK && res.ExitCode == 0:
		s.Colour, s.Word, s.ExitCode = Red, "missing", int(orchestrator.ExitCollect)
		s.Why = "points without a result: " + strings.Join(s.Missing, " ")
	default:
		s.Colour = Red
		if res.Cause != nil {
			s.Why = res.Cause.What
		}
	}
	return s
}

// Sum is how a set is doing.
type Sum struct {
	Colour Colour `json:"colour"`
	Green  int    `json:"green"`
	Going  int    `json:"going"`
	Red    int    `json:"red"`
	// ExitCode is 0 while nothing is red; else that of the red runs when they
	// agree, and of a failed workload when they do not.
	ExitCode orchestrator.ExitCode `json:"exit_code"`
}

// Add joins the states of a set's runs.
func Add(states []State) Sum {
	var sum Sum
	for _, s := range states {
		switch s.Colour {
		case Green:
			sum.Green++
		case Going:
			sum.Going++
		default:
			sum.Red++
			code := orchestrator.ExitCode(s.ExitCode)
			if code == orchestrator.ExitOK {
				code = orchestrator.ExitCollect
			}
			if sum.ExitCode != orchestrator.ExitOK && sum.ExitCode != code {
				code = orchestrator.ExitWorkload
			}
			sum.ExitCode = code
		}
	}
	switch {
	case sum.Red > 0:
		sum.Colour = Red
	case sum.Going > 0:
		sum.Colour = Going
	default:
		sum.Colour = Green
	}
	return sum
}
