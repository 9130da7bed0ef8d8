package orchestrator

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

// Node is a connection to the agent on one node. Every call ends when its
// context does. What happens to workloads arrives on the channel that was given
// to the Launcher.
type Node interface {
	// Info is what the agent said of its node when it connected.
	Info() deploy.NodeInfo
	// Exec runs one command on the node, outside any container.
	Exec(ctx context.Context, req deploy.ExecRequest) (deploy.ExecResult, error)
	// Image makes an image present on the node, pulling it as the runtime's pull
	// policy says, and tells what is there.
	Image(ctx context.Context, rt models.Runtime, ref string) (deploy.ImageInfo, error)
	// Create brings a workload up to the point where its program is held and has
	// reported its environment.
	Create(ctx context.Context, w deploy.Workload) (deploy.Receipt, error)
	// Release lets the held program run.
	Release(ctx context.Context, id string) error
	// Stop ends a workload: TERM, then after grace KILL, and returns when nothing
	// of it is left. A workload that is gone, or never was, is stopped.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Look reports what of a run, and which listeners on ports, are on the node.
	Look(ctx context.Context, runID string, ports []int) (deploy.Leftovers, error)
	// Reap reports what dead runs of the user have left on the node, and takes it
	// away if asked.
	Reap(ctx context.Context, req deploy.ReapRequest) (deploy.Reaped, error)
	// ReadFile reads up to max bytes of a file from offset, and tells its size.
	ReadFile(ctx context.Context, path string, offset int64, max int) (data []byte, size int64, err error)
	// WriteFile writes a file, making the directories above it.
	WriteFile(ctx context.Context, path string, mode uint32, data []byte) error
	// Fetch writes a tar stream of a directory.
	Fetch(ctx context.Context, dir string, w io.Writer) error
	// Close ends the agent politely.
	Close() error
	// Done is closed when the connection is lost or closed; Err then says why.
	Done() <-chan struct{}
	Err() error
}

// ErrCancelled is in the error of a node whose agent was ended by somebody outside
// the run, as far as the launcher knows: a cancelled step.
var ErrCancelled = errors.New("it was cancelled")

// Connection is the outcome of reaching one node.
type Connection struct {
	Name string // as in the list given to Start
	Node Node   // nil when Err is set
	Err  error
}

// Launcher starts an agent on each node.
type Launcher interface {
	// Start begins to reach nodes and returns at once. Each node's outcome
	// arrives on the returned channel, in any order, as soon as it is known; the
	// channel is closed when no more can come. Workload events of all nodes go to
	// events. When ctx is over nothing is sent any more.
	Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan Connection, error)
	// Close ends what Start began, such as a scheduler step, and waits for it
	// until ctx ends.
	Close(ctx context.Context) error
}

// JobState is what a scheduler says of the job, three-valued: a query that
// failed is not an answer.
type JobState int

// The states of a job.
const (
	JobUnknown JobState = iota // no answer, or one that says nothing
	JobRunning
	JobEnded // the scheduler says so itself
)

// JobView is what a scheduler says of the job at one moment.
type JobView struct {
	State JobState
	// Word is the scheduler's own for the state, with its reason, for people.
	Word string
	// Why is the scheduler's reason to end the job, where it has one of its own:
	// the time limit, a node that is down. Empty: somebody asked, or it does not say.
	Why string
	// NodeDown says that this reason is a node of the job.
	NodeDown bool
}

// Scheduler is the scheduler's own view of the job, where there is one.
type Scheduler interface {
	// Job tells how it sees the job. An error, like JobUnknown, says nothing of it.
	Job(ctx context.Context) (JobView, error)
	// BadNodes says which nodes of the job it holds for bad, and why, in its own words
	// and those of whoever set them so; "" when it does not tell before ctx ends.
	BadNodes(ctx context.Context) string
}
