package deploy

import "context"

// ReapRequest asks for what runs of this user have left on a node although
// nobody leads them any more.
type ReapRequest struct {
	// RunID names one run; empty: every run of the user.
	RunID string `json:"run_id,omitempty"`
	// Remove takes away what is found.
	Remove bool `json:"remove,omitempty"`
	// Leads says that the asker leads the run and has stopped it; then a living
	// agent of the run does not protect what is left.
	Leads bool `json:"leads,omitempty"`
	// Lost is the process id of an agent of the run that the asker has lost and
	// gives up: if it still lives, it is killed. 0: none.
	Lost int `json:"lost,omitempty"`
}

// Reaped is what a reaping found on a node.
type Reaped struct {
	Runs []Remains `json:"runs,omitempty"`
	// Unverified lists what could not be looked at and why.
	Unverified []string `json:"unverified,omitempty"`
}

// Remains is what one run has left on one node.
type Remains struct {
	RunID string `json:"run_id"`
	// Led is the process id of a living agent of the run; then the run is not
	// over here, and nothing is touched. 0: none.
	Led        int      `json:"led,omitempty"`
	Containers []string `json:"containers,omitempty"` // id name state
	Processes  []string `json:"processes,omitempty"`  // pid command
	Files      []string `json:"files,omitempty"`      // scratch directories
	// Removed says that all of it has been taken away; Stuck, what could not be
	// and why.
	Removed bool     `json:"removed,omitempty"`
	Stuck   []string `json:"stuck,omitempty"`
}

// Empty says that the run has left nothing.
func (r Remains) Empty() bool { return len(r.Containers)+len(r.Processes)+len(r.Files) == 0 }

// Reap looks for what this user's runs have left on the node and, if asked,
// removes it. Only what carries a run's labels, marks or marker and belongs to
// the user is touched, and nothing of a run that still has an agent there, unless
// the asker leads it.
func (c *Conn) Reap(ctx context.Context, r ReapRequest) (Reaped, error) {
	var s Reaped
	err := c.call(ctx, MethodReap, r, &s)
	return s, err
}
