package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/slurm/slurmtest"
)

// TestSubmitNamesTheSitesExclusions: whoever gets too few nodes reads which ones the
// site takes away, and why.
func TestSubmitNamesTheSitesExclusions(t *testing.T) {
	t.Parallel()
	nodes := ""
	for _, n := range []string{"node1", "node2", "node3", "node4"} {
		nodes += strings.Join([]string{n, "idle", "2000000", "128", "gpu:8", "main", "none"}, "\x1f") + "\n"
	}
	a := &app{Streams: Streams{Now: time.Now, Env: slurmtest.New(t,
		slurmtest.Call{Program: "sbatch", Args: []string{"--version"}, Stdout: "slurm 22.05.8\n"},
		slurmtest.Call{Program: "sinfo", Args: []string{"--Node", "--noheader", "--all", "--format=%N\x1f%T\x1f%m\x1f%c\x1f%G\x1f%R\x1f%E"}, Stdout: nodes},
	).Environ()}}
	p := &models.Plan{
		Slurm:   models.SlurmJob{Nodes: 2, Partition: "main", Exclude: "node[1-3]"},
		Exclude: []models.Exclude{{Nodes: "node[1-2]", Reason: "bad fans"}, {Nodes: "node3", Reason: "lent out"}},
	}
	err := a.survey(t.Context(), a.slurm(), &prepare.Prepared{Plan: p})
	const want = "the job needs 2 nodes; partition main has node4 that may be used; the site excludes node[1-2] (bad fans), node3 (lent out)"
	if err == nil || err.Error() != want || codeOf(err) != orchestrator.ExitScheduler {
		t.Errorf("got %v, want %s", err, want)
	}
}
