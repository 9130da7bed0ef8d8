package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
)

// TestCleanup: what a dead run left is listed, and taken away only when asked;
// what is not of the user's runs stays.
func TestCleanup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ssh := w.SSH()
	w.Site(fmt.Sprintf("ssh: {identity: [%s], known_hosts: [%s]}", ssh.Identity, ssh.KnownHosts))
	w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "4")), "--wait"), 0)
	run := filepath.Base(w.Newest())
	w.Want(w.Disagg("cleanup", run), 0) // a run that ended in order has left nothing

	node := w.Result().Nodes[0].Name
	left := func(labels ...string) string {
		argv := []string{"docker", "run", "-d"}
		for _, l := range labels {
			argv = append(argv, "--label", l)
		}
		id := strings.TrimSpace(w.MustExec(t, node, append(argv, lab.ToolImage, "sleep", "600")...))
		t.Cleanup(func() { _, _ = w.Exec(node, "docker", "rm", "-f", id) })
		return id
	}
	own := left("disagg.run="+run, "disagg.workload=prefill-0.0", "disagg.owner=0")
	others := left("disagg.run="+run, "disagg.workload=prefill-0.0", "disagg.owner=4711")
	stranger := left()

	s := w.Disagg("cleanup", run)
	w.Want(s, 9)
	if !strings.Contains(s.Out, own[:12]) || !strings.Contains(s.Out, "--yes") || strings.Contains(s.Out, others[:12]) || strings.Contains(s.Out, stranger[:12]) {
		t.Errorf("the list is\n%s", s.Out)
	}
	if got := alive(w, node, own, others, stranger); len(got) != 3 {
		t.Errorf("after a look without --yes only %q run", got)
	}
	w.Want(w.Disagg("cleanup", run, "--yes"), 0)
	if got := alive(w, node, own, others, stranger); !slices.Equal(got, []string{others, stranger}) {
		t.Errorf("after --yes %q run, want the other user's and the stranger's", got)
	}
	w.Want(w.Disagg("cleanup", "--nodes", node), 0)
	w.Want(w.Disagg("cleanup"), 2)
	w.MustExec(t, node, "docker", "rm", "-f", others)
	w.Clean(5 * time.Second)
}

// TestCleanupOfARunThatGoesOn: it is left alone, and nobody is told that it was
// cleaned.
func TestCleanupOfARunThatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ssh := w.SSH()
	w.Site(fmt.Sprintf("ssh: {identity: [%s], known_hosts: [%s]}", ssh.Identity, ssh.KnownHosts))
	w.Want(w.Disagg("submit", w.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Endless)), 0)
	w.ClientRuns()
	run := filepath.Base(w.Newest())
	s := w.Disagg("cleanup", run, "--yes")
	w.Want(s, 9)
	if !strings.Contains(s.Out, "run "+run+" is still led there") || !strings.Contains(s.Err, "disagg cancel "+w.RunPath()) {
		t.Errorf("it says\n%s%s", s.Out, s.Err)
	}
	w.Want(w.Disagg("cancel", run), 0)
	s = w.Disagg("wait", run)
	w.Want(s, 143)
	if !strings.Contains(s.Err+s.Out, "asked to end by disagg cancel") {
		t.Errorf("the cleanup did something to the run:\n%s%s", s.Out, s.Err)
	}
	w.Want(w.Disagg("cleanup", run), 0)
	w.Clean(5 * time.Second)
}

// alive are those of some containers that a node still has.
func alive(w *world.World, node string, ids ...string) []string {
	w.T.Helper()
	list, err := w.Containers(node)
	w.Must(err)
	var out []string
	for _, id := range ids {
		for _, c := range list {
			if c.ID == id && c.State == "running" {
				out = append(out, id)
			}
		}
	}
	return out
}
