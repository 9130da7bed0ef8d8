package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
)

// stepRunner is a client whose steps do what answer says for their nodes: the
// nodes that answer and srun's exit code.
func stepRunner(t *testing.T, steps *atomic.Int32, answer func(nodes []string) ([]string, int)) *slurm.Client {
	t.Helper()
	return &slurm.Client{Run: func(_ context.Context, cmd procgroup.Command) (procgroup.Result, error) {
		steps.Add(1)
		var nodes []string
		for _, a := range cmd.Argv {
			if list, ok := strings.CutPrefix(a, "--nodelist="); ok {
				var err error
				if nodes, err = hostlist.Expand(list); err != nil {
					t.Error(err)
				}
			}
		}
		if cmd.Argv[0] != "srun" || cmd.Timeout != time.Minute || len(nodes) == 0 {
			t.Errorf("unexpected command %q", cmd.Argv)
		}
		who, exit := answer(nodes)
		res := procgroup.Result{Exit: procgroup.Exit{Code: exit}, Stdout: []byte(strings.Join(who, "\n"))}
		if exit != 0 {
			res.Stderr = []byte("srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***")
		}
		return res, nil
	}}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	const cancelled = "exit code 143: srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***"
	with := func(bad ...string) func([]string) ([]string, int) {
		return func(nodes []string) ([]string, int) {
			for _, b := range bad {
				if slices.Contains(nodes, b) {
					return nil, 143
				}
			}
			return nodes, 0
		}
	}
	company := func(bad ...string) func([]string) ([]string, int) {
		return func(nodes []string) ([]string, int) {
			if len(nodes) == 1 {
				return nodes, 0
			}
			return with(bad...)(nodes)
		}
	}
	tests := map[string]struct {
		nodes    int
		answer   func([]string) ([]string, int)
		want     slurm.ProbeResult
		maxSteps int32
	}{
		"all well":                        {64, with(), slurm.ProbeResult{Certain: true}, 1},
		"one node":                        {1, with("n0"), slurm.ProbeResult{Bad: []string{"n0"}, Trouble: cancelled}, 1},
		"bad by itself":                   {64, with("n57"), slurm.ProbeResult{Bad: []string{"n57"}, Trouble: cancelled, Certain: true}, 16},
		"bad in company only":             {64, company("n57"), slurm.ProbeResult{Bad: []string{"n57"}, Trouble: cancelled, Certain: true}, 16},
		"two bad in company only":         {64, company("n3", "n57"), slurm.ProbeResult{Bad: []string{"n3", "n57"}, Trouble: cancelled, Certain: true}, 30},
		"two of two":                      {2, company("n1"), slurm.ProbeResult{Bad: []string{"n0", "n1"}, Trouble: cancelled}, 4},
		"one of two by itself":            {2, with("n1"), slurm.ProbeResult{Bad: []string{"n1"}, Trouble: cancelled, Certain: true}, 4},
		"one of three by itself":          {3, with("n2"), slurm.ProbeResult{Bad: []string{"n2"}, Trouble: cancelled, Certain: true}, 5},
		"the single half of three":        {3, with("n0"), slurm.ProbeResult{Bad: []string{"n0"}, Trouble: cancelled, Certain: true}, 4},
		"two of three by themselves":      {3, with("n0", "n2"), slurm.ProbeResult{Bad: []string{"n0", "n2"}, Trouble: cancelled, Certain: true}, 6},
		"all by themselves":               {3, with("n0", "n1", "n2"), slurm.ProbeResult{Bad: []string{"n0", "n1", "n2"}, Trouble: cancelled}, 6},
		"none alone, all together":        {4, func(n []string) ([]string, int) { return n, map[bool]int{true: 143}[len(n) == 4] }, slurm.ProbeResult{Bad: []string{"n0", "n1", "n2", "n3"}, Trouble: cancelled}, 4},
		"one node answers for all others": {3, func(n []string) ([]string, int) { return []string{n[0]}, 0 }, slurm.ProbeResult{Bad: []string{"n1", "n2"}, Trouble: "asked n[0-2], but n0 answered"}, 8},
		"nobody answers":                  {1, func([]string) ([]string, int) { return nil, 0 }, slurm.ProbeResult{Bad: []string{"n0"}, Trouble: "asked n0, but nobody answered"}, 1},
		"more answer than were asked":     {2, func([]string) ([]string, int) { return []string{"n0", "n1", "n2"}, 0 }, slurm.ProbeResult{Bad: []string{"n0", "n1"}, Trouble: "asked n[0-1], but n[0-2] answered"}, 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := make([]string, tt.nodes)
			for i := range nodes {
				nodes[i] = fmt.Sprintf("n%d", i)
			}
			var steps atomic.Int32
			got, err := stepRunner(t, &steps, tt.answer).Probe(t.Context(), "7", nodes, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := steps.Load(); n > tt.maxSteps {
				t.Errorf("took %d steps, at most %d expected", n, tt.maxSteps)
			}
		})
	}
}

func TestProbeThatCannotStart(t *testing.T) {
	t.Parallel()
	cause := errors.New("no srun")
	c := &slurm.Client{Run: func(context.Context, procgroup.Command) (procgroup.Result, error) {
		return procgroup.Result{}, cause
	}}
	if _, err := c.Probe(t.Context(), "7", []string{"a"}, time.Minute); !errors.Is(err, cause) || err.Error() != "probe nodes: srun: no srun" {
		t.Errorf("got %v", err)
	}
	if _, err := c.Probe(t.Context(), "7", nil, time.Minute); err == nil {
		t.Error("no nodes were probed without complaint")
	}
}
