package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/slurm/slurmtest"
)

// TestAllocationsThatDoNotFit: what an allocation lacks for a plan is refused, and
// what it is short of is said.
func TestAllocationsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, left, memory, gpus string
		err                      string
		warnings                 []string
	}{
		{"fits", "1:29:00", "2000000", "8", "", nil},
		{"no time to stop", "1:00", "2000000", "8", "allocation 812 has 1 min left; the plan needs at least 2 min; get one with salloc --nodes=2 --gres=gpu:8 --exclusive --time=90", nil},
		{"no GPUs", "1:29:00", "2000000", "0", "allocation 812 has 0 GPUs a node; the plan needs 8 GPUs a node; get one with salloc --nodes=2 --gres=gpu:8 --exclusive --time=90", nil},
		{"little time", "41:00", "2000000", "8", "", []string{"allocation 812 has 41m0s left; the plan's time limit is 1h30m0s, so the run may be ended before it is done"}},
		{"little memory", "UNLIMITED", "4096", "8", "", []string{`allocation 812 has 4096 MB a node, but gpu-01 has 2000000 MB; ask for all of it with memory: "0" in the site's slurm section`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := func(fields ...string) string { return strings.Join(fields, "\x1f") + "\n" }
			calls := []slurmtest.Call{
				{Program: "squeue", Args: []string{"--noheader", "--states=all", "--jobs=812", jobFields},
					Stdout: line("812", "RUNNING", "None", "x", "main", "gpu-[01-02]", "2", tt.left, "/x", "x", "x")},
				{Program: "scontrol", Args: []string{"--details", "show", "job", "812"},
					Stdout: "JobId=812 JobName=x\n   Nodes=gpu-[01-02] CPU_IDs=0-7 Mem=" + tt.memory + " GRES=gpu:" + tt.gpus + "(IDX:)\n"},
			}
			if tt.err == "" {
				calls = append(calls, slurmtest.Call{Program: "sinfo", Args: []string{"--Node", "--noheader", "--partition=main", "--format=%N\x1f%T\x1f%m\x1f%c\x1f%G\x1f%R\x1f%E"},
					Stdout: line("gpu-01", "allocated", "2000000", "128", "gpu:8", "main", "none")})
			}
			var errs bytes.Buffer
			a := &app{Streams: Streams{Err: &errs, Env: slurmtest.New(t, calls...).Environ(), Now: time.Now}}
			p := &models.Plan{Slurm: models.SlurmJob{Nodes: 2, GPUsPerNode: 8, GPURequest: "gres", TimeLimit: models.Duration(90 * time.Minute), SignalLead: models.Duration(2 * time.Minute)}}
			_, err := a.fits(t.Context(), "812", p)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.warnings, p.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			for _, w := range tt.warnings {
				if !strings.Contains(errs.String(), "warning: "+w) {
					t.Errorf("not said: %q", w)
				}
			}
		})
	}
}
