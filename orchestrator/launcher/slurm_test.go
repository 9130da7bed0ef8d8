package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/slurm"
)

// failsBeside is an srun whose steps fail with gpu-57 beside others. Agents start and
// end at once, with the nodes they were asked for on stderr.
const failsBeside = `
case "$nodes" in " 57 ") ;; *" 57 "*) echo "srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***" >&2; exit 143;; esac
case "$*" in *printenv*) for n in 55 56 57 58; do case $nodes in *" $n "*) echo gpu-$n;; esac; done;; *) echo "again on $list" >&2; exit 1;; esac`

// TestStepThatEndsEarlyNamesTheNodesAtFault: one node ends every step that it
// shares with others, and those are innocent.
func TestStepThatEndsEarlyNamesTheNodesAtFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, srun string
		need       int
		want       map[string]string
	}{
		{"a node that fails beside others", failsBeside,
			0, map[string]string{
				"gpu-55": "steps work on it, but not with gpu-57, which ends them for all; ",
				"gpu-56": "steps work on it, but not with gpu-57, which ends them for all; ",
				"gpu-57": "no step with it works (exit code 143: srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***); ",
				"gpu-58": "steps work on it, but not with gpu-57, which ends them for all; ",
			}},
		{"enough nodes without it", failsBeside, 3, map[string]string{
			"gpu-55": "again on gpu-[55-56,58]", "gpu-56": "again on gpu-[55-56,58]", "gpu-58": "again on gpu-[55-56,58]",
			"gpu-57": "no step with it works (exit code 143: srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***); ",
		}},
		{"too few nodes without it", failsBeside, 4, map[string]string{
			"gpu-55": "steps work on it, but not with gpu-57, which ends them for all; ",
			"gpu-56": "steps work on it, but not with gpu-57, which ends them for all; ",
			"gpu-57": "no step with it works (exit code 143: srun: error: *** STEP 7.1 CANCELLED DUE TO SIGNAL 53 ***); ",
			"gpu-58": "steps work on it, but not with gpu-57, which ends them for all; ",
		}},
		{"a program that does not start", `
case "$*" in *printenv*) for n in 55 56 57 58; do case $nodes in *" $n "*) echo gpu-$n;; esac; done;; *) echo "slurmstepd: error: execve(): /x/disagg: Exec format error" >&2; exit 2;; esac`,
			3, map[string]string{
				"gpu-55": "steps work on all nodes, so its program is at fault; ", "gpu-56": "steps work on all nodes, so its program is at fault; ",
				"gpu-57": "steps work on all nodes, so its program is at fault; ", "gpu-58": "steps work on all nodes, so its program is at fault; ",
			}},
		{"nothing works", `
echo "srun: error: Unable to create step for job 7" >&2; exit 1`, 1, func() map[string]string {
			const why = "no step over gpu-[55-58] works (exit code 1: srun: error: Unable to create step for job 7); "
			return map[string]string{"gpu-55": why, "gpu-56": why, "gpu-57": why, "gpu-58": why}
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// The nodes of a step, as their numbers between blanks.
			head := `#!/bin/sh
for a in "$@"; do case $a in --nodelist=*) list=${a#*=};; esac; done
case $list in
*"[55-58]") nodes=" 55 56 57 58 ";; *"[55-56]") nodes=" 55 56 ";; *"[57-58]") nodes=" 57 58 ";; *"[55,57]") nodes=" 55 57 ";; *"[55,58]") nodes=" 55 58 ";; *"[55-56,58]") nodes=" 55 56 58 ";;
*) nodes=" ${list#gpu-} ";;
esac
`
			for name, text := range map[string]string{"srun": head + tt.srun + "\n", "scontrol": "#!/bin/sh\nexit 1\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := &Slurm{
				Need: tt.need, Setup: deploy.Setup{RunID: "r", Version: "v", Runtime: models.Runtime{Kind: "none"}}, Job: "7", Binary: "/x/disagg",
				Client: &slurm.Client{Environ: []string{"PATH=" + dir + ":/usr/bin:/bin"}, Programs: map[string]string{
					"srun": filepath.Join(dir, "srun"), "scontrol": filepath.Join(dir, "scontrol")}},
			}
			conns, err := s.Start(t.Context(), []string{"gpu-55", "gpu-56", "gpu-57", "gpu-58"}, make(chan deploy.Event, 1))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for c := range conns {
				text := strings.TrimPrefix(c.Err.Error(), "reach "+c.Name+": its agent did not call back: ")
				if i := strings.Index(text, "again on"); i >= 0 {
					got[c.Name] = text[i:]
					continue
				}
				got[c.Name], _, _ = strings.Cut(text, "wait for an agent: the agents' step ended: exit code ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadNodesAreNamed(t *testing.T) {
	t.Parallel()
	all := []slurm.Node{
		{Name: "gpu-55", State: "allocated"}, {Name: "gpu-56", State: "down", Reason: "psu broken"},
		{Name: "gpu-57", State: "completing", Reason: "bad fan"}, {Name: "gpu-58", State: "down", Silent: true, Reason: "Not responding"},
		{Name: "gpu-59", State: "down", Reason: "another job's"},
	}
	const want = "gpu-56: down: psu broken; gpu-57: completing: bad fan; gpu-58: does not answer: Not responding"
	if got := named(all, []string{"gpu-55", "gpu-56", "gpu-57", "gpu-58"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
