package faults

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// The lab has room for six runs at once; most of a fault's time is waiting.
const (
	nodes  = 12
	atOnce = 6
)

var suite = world.Suite{Lazy: lab.Lazy{Nodes: nodes, Options: []lab.Option{
	lab.WithImages(),
	lab.WithSmallDisk("full", 48<<20), lab.WithSmallDisk("full-at-start", 1<<20),
	lab.WithSlurmConf(
		// A lease must have the time to end by itself before Slurm notices.
		"SlurmdTimeout=90",
		// No node passes messages on for others: cutting one off is not another's fault.
		"TreeWidth=65533",
		"PreemptType=preempt/partition_prio", "PreemptMode=CANCEL",
		"PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP",
	),
}}}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(suite.Main(m))
}

// times is how often each fault is tried, as DISAGG_FAULTS says. Without it the
// matrix is left out: twelve nodes and all faults take many minutes.
func times(t *testing.T) int {
	text, ok := os.LookupEnv("DISAGG_FAULTS")
	if !ok {
		t.Skip("skipped: DISAGG_FAULTS=1 brings every fault about, which takes many minutes")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DISAGG_FAULTS is %q; it is how often each fault is tried", text)
	}
	return n
}

// longestFirst orders faults by how long they may take, so that none of the long
// ones is left alone at the end. Those that harm the scheduler stand before all
// others, which it would forget the end of.
func longestFirst(all []Fault) []Fault {
	rank := func(f Fault) time.Duration {
		if strings.HasSuffix(f.ID, "-slurmctld") {
			return time.Hour
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
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		suite.Get(t).MustBeClean(t, 30*time.Second)
	})
	for _, f := range longestFirst(Matrix()) {
		tr, ok := how[f.ID]
		if !ok {
			t.Errorf("nobody knows how to do %s", f.ID)
			continue
		}
		for i := range n {
			name := f.ID
			if i > 0 {
				name += fmt.Sprintf("/%d", i+1)
			}
			t.Run(name, func(t *testing.T) {
				if !tr.alone {
					t.Parallel()
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
