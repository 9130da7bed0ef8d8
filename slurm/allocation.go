package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/slurm/hostlist"
)

// ErrNoAllocation says that there is no allocation to run in.
var ErrNoAllocation = errors.New("no allocation")

// Allocation is a running job whose nodes can be used.
type Allocation struct {
	JobID string
	User  string
	// Nodes are in Slurm's order, the one in which it numbers tasks.
	Nodes     []string
	Partition string
	TimeLeft  TimeLeft
	// GPUsPerNode is the smallest number of GPUs that the job has on a node;
	// -1 when that was not told.
	GPUsPerNode int
	// MemoryMBPerNode is the smallest memory that the job has on a node; 0 when
	// that was not told.
	MemoryMBPerNode int64
}

// FromEnvironment reads the allocation that environ was made in by salloc or
// sbatch: its id and nodes. The error is ErrNoAllocation when there is none, and
// another one when what is there contradicts itself.
func FromEnvironment(environ []string) (Allocation, error) {
	id := lookup(environ, "SLURM_JOB_ID")
	if id == "" {
		return Allocation{}, fmt.Errorf("%w: SLURM_JOB_ID is not set; run inside salloc, or name a job", ErrNoAllocation)
	}
	if err := checkID(id); err != nil {
		return Allocation{}, fmt.Errorf("read allocation: SLURM_JOB_ID: %w", err)
	}
	nodes, err := hostlist.Expand(lookup(environ, "SLURM_JOB_NODELIST"))
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: SLURM_JOB_NODELIST: %w", err)
	}
	count := lookup(environ, "SLURM_JOB_NUM_NODES")
	if n, err := strconv.Atoi(count); err != nil || n != len(nodes) || n == 0 {
		return Allocation{}, fmt.Errorf("read allocation: SLURM_JOB_NUM_NODES is %q, but SLURM_JOB_NODELIST names %d nodes", plain(count), len(nodes))
	}
	return Allocation{
		JobID: id, User: lookup(environ, "SLURM_JOB_USER"), Partition: lookup(environ, "SLURM_JOB_PARTITION"),
		Nodes: nodes, GPUsPerNode: -1,
	}, nil
}

// Allocation asks the scheduler for the allocation of a running job.
func (c *Client) Allocation(ctx context.Context, id string) (Allocation, error) {
	j := c.Job(ctx, id)
	switch {
	case j.Presence == Unknown:
		return Allocation{}, fmt.Errorf("read allocation of job %s: %s", id, j.Trouble)
	case j.Presence == Gone:
		return Allocation{}, fmt.Errorf("%w: the scheduler knows no job %s", ErrNoAllocation, id)
	case j.State != Running:
		why := ""
		if text := Explain(j, nil); text != "" {
			why = ": " + text
		}
		return Allocation{}, fmt.Errorf("%w: job %s is %s%s", ErrNoAllocation, id, j.State, why)
	}
	a := Allocation{JobID: id, User: j.User, Nodes: j.Nodes, Partition: j.Partition, TimeLeft: j.TimeLeft, GPUsPerNode: -1}
	d, err := c.details(ctx, id)
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation of job %s: %w", id, err)
	}
	a.setShares(d.nodes)
	return a, nil
}

// setShares takes the smallest share of a node, if every node's is told.
func (a *Allocation) setShares(shares []nodeShare) {
	if len(shares) != len(a.Nodes) {
		return
	}
	for i, s := range shares {
		if i == 0 || s.gpus < a.GPUsPerNode {
			a.GPUsPerNode = s.gpus
		}
		if i == 0 || s.memoryMB < a.MemoryMBPerNode {
			a.MemoryMBPerNode = s.memoryMB
		}
	}
}

// Need is what a run needs of an allocation.
type Need struct {
	Nodes       int
	GPUsPerNode int
	// Time is the least that makes sense to begin with.
	Time time.Duration
	// TimeLimit is what a new allocation is to be asked for; less than Time: Time.
	TimeLimit time.Duration
}

// Check says what an allocation lacks, as one error with what it has and what is
// needed. What is not known of it does not count against it.
func (a Allocation) Check(n Need) error {
	var has, needs []string
	note := func(short bool, h, w string) {
		if short {
			has, needs = append(has, h), append(needs, w)
		}
	}
	note(len(a.Nodes) < n.Nodes, plural(len(a.Nodes), "node"), plural(n.Nodes, "node"))
	note(a.GPUsPerNode >= 0 && a.GPUsPerNode < n.GPUsPerNode, plural(a.GPUsPerNode, "GPU")+" a node", plural(n.GPUsPerNode, "GPU")+" a node")
	left := a.TimeLeft
	note(left.Known && !left.Unlimited && left.Left < n.Time, minutes(left.Left)+" left", "at least "+minutes(n.Time+time.Minute-1))
	if len(has) == 0 {
		return nil
	}
	gpus := ""
	if n.GPUsPerNode > 0 {
		gpus = fmt.Sprintf(" --gres=gpu:%d", n.GPUsPerNode)
	}
	return fmt.Errorf("allocation %s has %s; the plan needs %s; get one with salloc --nodes=%d%s --exclusive --time=%d",
		a.JobID, strings.Join(has, ", "), strings.Join(needs, ", "), n.Nodes, gpus, int((max(n.Time, n.TimeLimit)+time.Minute-1)/time.Minute))
}

// memoryShare is the part of a node's memory below which an allocation was most
// likely given the default memory by accident.
const memoryShare = 0.5

// MemoryWarning says that the job has far less memory than its nodes, which
// happens when a site's default memory applies although the nodes are exclusive;
// workers are then killed for memory. Empty: nothing to say.
func (a Allocation) MemoryWarning(nodes []Node) string {
	for _, n := range nodes {
		for _, name := range a.Nodes {
			if n.Name == name && a.MemoryMBPerNode > 0 && float64(a.MemoryMBPerNode) < memoryShare*float64(n.MemoryMB) {
				return fmt.Sprintf("allocation %s has %d MB a node, but %s has %d MB; ask for all of it with memory: \"0\" in the site's slurm section",
					a.JobID, a.MemoryMBPerNode, n.Name, n.MemoryMB)
			}
		}
	}
	return ""
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d min", d/time.Minute) }
