package faults

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// The lab has room for so many runs of two nodes at once; most of a fault's time
// is waiting.
const (
	nodes  = 16
	atOnce = nodes / 2
)

var suite = world.Suite{Lazy: lab.Lazy{Nodes: nodes, Options: []lab.Option{
	lab.WithImages(),
	lab.WithSmallDisk("full", 48<<20), lab.WithSmallDisk("full-at-start", 1<<20),
	lab.WithSlurmConf(
		// A lease must have the time to end by itself before Slurm notices.
		"SlurmdTimeout=90",
		// Steps that end while the scheduler is away tell it up to a minute later;
		// their nodes are not at fault.
		"UnkillableStepTimeout=300",
		// No node passes messages on for others: cutting one off is not another's fault.
		"TreeWidth=65533",
		"PreemptType=preempt/partition_prio", "PreemptMode=CANCEL",
		"PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP",
	),
}}}

func TestMain(m *testing.M) {
	flag.Parse()
	// The matrix counts for itself how many run at once, in an order of its own.
	if err := flag.Set("test.parallel", "1000"); err != nil {
		panic(err)
	}
	os.Exit(suite.Main(m))
}

// times is how often each fault is tried: once, or as DISAGG_FAULTS says.
func times(t *testing.T) int {
	text, ok := os.LookupEnv("DISAGG_FAULTS")
	if !ok {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DISAGG_FAULTS is %q; it is how often each fault is tried", text)
	}
	return n
}

// queue lets so many go on at once, in the order of their tickets.
type queue struct {
	change  sync.Cond
	given   int // tickets
	next    int // whose turn it is
	running int
}

func newQueue() *queue { return &queue{change: sync.Cond{L: &sync.Mutex{}}} }

// ticket is a place in the queue; every ticket must be used.
func (q *queue) ticket() int {
	q.given++
	return q.given - 1
}

// enter waits for a ticket's turn and for room.
func (q *queue) enter(ticket int) {
	q.change.L.Lock()
	defer q.change.L.Unlock()
	for q.next != ticket || q.running == atOnce {
		q.change.Wait()
	}
	q.next++
	q.running++
	q.change.Broadcast()
}

func (q *queue) leave() {
	q.change.L.Lock()
	defer q.change.L.Unlock()
	q.running--
	q.change.Broadcast()
}

// longestFirst orders faults by how long they may take, so that none of the long
// ones is left alone at the end. Those that harm the scheduler stand before all
// others, which it would forget the end of.
func longestFirst(all []Fault) []Fault {
	rank := func(f Fault) time.Duration {
		switch {
		case strings.HasSuffix(f.ID, "-slurmctld"):
			return time.Hour
		case f.ID == "power-off-controllers-node":
			return time.Minute * 30 // Slurm takes its time to say that the node is gone
		}
		return f.Bound
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(rank(b), rank(a)) })
	return all
}

// TestMatrix brings every fault about. Those that need the lab for themselves
// come first.
func TestMatrix(t *testing.T) {
	how := trials()
	n := times(t)
	q := newQueue()
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		// Slurm's own step daemons ask only once a minute for a scheduler that was away.
		suite.Get(t).MustBeClean(t, 90*time.Second)
	})
	for _, f := range longestFirst(Matrix()) {
		tr, ok := how[f.ID]
		if !ok {
			t.Errorf("nobody knows how to do %s", f.ID)
			continue
		}
		var turn sync.Mutex
		for i := range n {
			name := f.ID
			if i > 0 {
				name += fmt.Sprintf("/%d", i+1)
			}
			t.Run(name, func(t *testing.T) {
				if !tr.alone {
					ticket := q.ticket()
					t.Parallel()
					q.enter(ticket)
					defer q.leave()
				}
				if tr.single {
					turn.Lock()
					t.Cleanup(turn.Unlock) // after those of the trial
				}
				newRig(t, f, tr).try()
			})
		}
		delete(how, f.ID)
	}
	for id := range how {
		t.Errorf("%s is done and stands nowhere in the matrix", id)
	}
}
