package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/launcher"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/spf13/cobra"
)

// cleanupFlags say where to look and whether to take away.
type cleanupFlags struct {
	finder
	nodes, jobid string
	local, yes   bool
	reach        time.Duration
}

func newCleanup(a *app) *cobra.Command {
	var f cleanupFlags
	cmd := &cobra.Command{
		Use:   "cleanup [RUN]",
		Short: "Look for what dead runs of yours left on nodes; with --yes take it away",
		Long: `Look on nodes for containers, processes and scratch directories of this tool's
own runs that nobody leads any more, and list them. With --yes they are removed:
by the labels, marks and markers of the run, only your own, and never those of a
run that is still led. Nothing of anybody else is touched.

With RUN the nodes that it was given are looked at, by ssh unless it ran on this
host; --jobid goes through an allocation of yours instead. Without RUN name the
nodes; then every run of yours counts. The exit code is 9 when something is left, or
could not be looked for, and when RUN itself is still led: then nothing was cleaned.`,
		Args:              atMostOneRun,
		ValidArgsFunction: f.complete(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.toClean(cmd.Context(), &f, args)
			if err != nil {
				return err
			}
			found, err := a.reap(cmd.Context(), t, f.yes, f.reach)
			if err != nil {
				return err
			}
			lives := t.dir != nil && slices.ContainsFunc(found, nodeReaped.led)
			if t.dir != nil && f.yes && !lives {
				if err := t.dir.RemoveSecrets(); err != nil {
					return err
				}
			}
			if err := a.printReaped(found, f.yes); err != nil {
				return err
			}
			if lives {
				fmt.Fprintf(a.Err, "the run goes on; end it with: disagg cancel %s\n", t.dir.Path())
			}
			if lives || slices.ContainsFunc(found, nodeReaped.left) {
				return exitWith(orchestrator.ExitLeftovers)
			}
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.nodes, "nodes", "", "host list of the nodes to look at, by ssh")
	cmd.Flags().StringVar(&f.jobid, "jobid", "", "Slurm job of yours through whose allocation to look")
	cmd.Flags().BoolVar(&f.local, "local", false, "look at this host")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "remove what is found")
	cmd.Flags().DurationVar(&f.reach, "reach", 20*time.Second, "how long one node may take")
	cmd.MarkFlagsMutuallyExclusive("nodes", "jobid", "local")
	return cmd
}

// cleaning is where to look for what.
type cleaning struct {
	dir    *rundir.Dir // nil: every run of the user
	run    string      // run id; empty: every run of the user
	nodes  []string
	kind   string // models.Launcher*
	job    string
	setup  deploy.Setup
	ssh    models.SSHSite
	step   map[string]string
	binary string
}

// toClean turns flags and a run into nodes and a way to them.
func (a *app) toClean(ctx context.Context, f *cleanupFlags, args []string) (cleaning, error) {
	var t cleaning
	t.setup = deploy.Setup{RunID: "cleanup-" + a.Now().UTC().Format("20060102T150405Z"), Version: Version()}
	if len(args) == 1 {
		dir, err := f.find(a, args)
		if err != nil {
			return t, err
		}
		_, p, err := readPlan(dir.Path(), "")
		if err != nil {
			return t, err
		}
		sum, _, err := a.summary(dir, a.Now())
		if err != nil {
			return t, err
		}
		// A node that could not take part may hold something all the same.
		t.nodes = sum.Given
		for _, n := range sum.Nodes {
			if !slices.Contains(t.nodes, n.Name) {
				t.nodes = append(t.nodes, n.Name)
			}
		}
		t.dir, t.run, t.kind, t.binary = dir, dir.ID(), models.LauncherSSH, dir.Join(rundir.BinaryFile)
		if p.Launcher == models.LauncherLocal {
			t.kind = models.LauncherLocal
		}
		t.ssh, t.step, t.setup.Interface, t.setup.Runtime = p.SSH, p.Slurm.StepOptions, p.Network.Interface, p.Runtime
		if len(sum.Nodes) < len(t.nodes) {
			t.setup.Interface = "" // it may be what kept a node away, and no other node needs to reach one that is cleaned
		}
	} else {
		path, _, err := prepare.SiteFile(a.path(f.site), a.getenv)
		if err != nil {
			return t, err
		}
		site, _, _, err := prepare.Site(path)
		if err != nil {
			return t, err
		}
		if t.binary, err = os.Executable(); err != nil {
			return t, fmt.Errorf("find own binary: %w", err)
		}
		t.ssh, t.step, t.setup.Interface = site.SSH, site.Slurm.StepOptions, site.Network.Interface
		t.setup.Runtime = models.Runtime{Kind: site.Container.Runtime, Sudo: site.Container.Sudo}
	}
	return t, a.placeToClean(ctx, f, &t)
}

// placeToClean applies the flags that say where to look.
func (a *app) placeToClean(ctx context.Context, f *cleanupFlags, t *cleaning) error {
	switch {
	case f.local:
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("read host name: %w", err)
		}
		t.kind, t.nodes = models.LauncherLocal, []string{host}
	case f.nodes != "":
		nodes, err := hostlist.Validate(f.nodes, 0)
		if err != nil {
			return usageError{fmt.Errorf("--nodes: %w", err)}
		}
		if t.kind != models.LauncherLocal {
			t.kind = models.LauncherSSH
		}
		t.nodes = nodes
	case f.jobid != "":
		alloc, err := a.slurm().Allocation(ctx, f.jobid)
		if err != nil {
			return orchestrator.WithCode(orchestrator.ExitScheduler, err)
		}
		t.kind, t.job, t.nodes = models.LauncherSlurm, alloc.JobID, alloc.Nodes
	case t.dir == nil:
		return usagef("say where to look: a run, --nodes, --jobid or --local")
	}
	if len(t.nodes) == 0 {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("the log of run %s names no node; name the nodes to look at with --nodes", t.run))
	}
	return nil
}

func (a *app) cleanLauncher(t cleaning) orchestrator.Launcher {
	switch t.kind {
	case models.LauncherLocal:
		return &launcher.Local{Setup: t.setup}
	case models.LauncherSSH:
		return &launcher.SSH{Setup: t.setup, Site: t.ssh}
	}
	return &launcher.Slurm{Setup: t.setup, Job: t.job, Binary: t.binary, Options: t.step, Client: a.slurm()}
}

// nodeReaped is what the look at one node gave.
type nodeReaped struct {
	Node string `json:"node"`
	deploy.Reaped
	Error string `json:"error,omitempty"` // why the node could not be looked at
}

// left says that something of a dead run is there, or may be.
func (n nodeReaped) left() bool {
	if n.Error != "" || len(n.Unverified) > 0 {
		return true
	}
	return slices.ContainsFunc(n.Runs, func(r deploy.Remains) bool { return r.Led == 0 && !r.Removed && !r.Empty() || len(r.Stuck) > 0 })
}

// led says that somebody leads a run there.
func (n nodeReaped) led() bool {
	return slices.ContainsFunc(n.Runs, func(r deploy.Remains) bool { return r.Led != 0 })
}

// reap looks at every node at once; one that does not answer costs its own time
// only.
func (a *app) reap(ctx context.Context, t cleaning, remove bool, reach time.Duration) ([]nodeReaped, error) {
	l := a.cleanLauncher(t)
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	conns, err := l.Start(ctx, t.nodes, make(chan deploy.Event, 1))
	if err != nil {
		return nil, err
	}
	got := map[string]nodeReaped{}
	results := make(chan nodeReaped)
	pending, over := 0, ctx.Done()
	for conns != nil || pending > 0 {
		select {
		case c, ok := <-conns:
			if !ok {
				conns = nil
				continue
			}
			if c.Err != nil {
				got[c.Name] = nodeReaped{Node: c.Name, Error: c.Err.Error()}
				continue
			}
			pending++
			go func() {
				r := nodeReaped{Node: c.Name}
				var err error
				if r.Reaped, err = c.Node.Reap(ctx, deploy.ReapRequest{RunID: t.run, Remove: remove}); err != nil {
					r.Error = err.Error()
				}
				_ = c.Node.Close() // the agent has done what it came for; its lease ends it too
				results <- r
			}()
		case r := <-results:
			got[r.Node] = r
			pending--
		case <-over:
			// What is under way ends with the context, and is still taken in.
			conns, over = nil, nil
		}
	}
	cctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	err = l.Close(cctx)
	out := make([]nodeReaped, 0, len(t.nodes))
	for _, n := range t.nodes {
		r, ok := got[n]
		if !ok {
			r = nodeReaped{Node: n, Error: fmt.Sprintf("no answer within %s", reach)}
		}
		out = append(out, r)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintf(a.Err, "warning: %v\n", err)
	}
	return out, nil
}

func (a *app) printReaped(found []nodeReaped, removed bool) error {
	if a.json() {
		return a.printJSON(found)
	}
	b := &strings.Builder{}
	some := false
	for _, n := range found {
		if n.Error != "" {
			fmt.Fprintf(b, "%s: could not be looked at: %s\n", n.Node, n.Error)
		}
		for _, u := range n.Unverified {
			fmt.Fprintf(b, "%s: not looked at: %s\n", n.Node, u)
		}
		for _, r := range n.Runs {
			if r.Led != 0 {
				fmt.Fprintf(b, "%s: run %s is still led there (agent %d); left alone\n", n.Node, r.RunID, r.Led)
				continue
			}
			word := "left behind"
			if r.Removed {
				word = "removed"
			} else if !r.Empty() {
				some = true
			}
			for _, x := range slices.Concat(r.Containers, r.Processes, r.Files) {
				fmt.Fprintf(b, "%s: %s of run %s: %s\n", n.Node, word, r.RunID, x)
			}
			for _, x := range r.Stuck {
				fmt.Fprintf(b, "%s: could not be removed: %s\n", n.Node, x)
			}
		}
		if n.Error == "" && len(n.Unverified) == 0 && len(n.Runs) == 0 {
			fmt.Fprintf(b, "%s: nothing\n", n.Node)
		}
	}
	if some && !removed {
		fmt.Fprintf(b, "remove it with: %s --yes\n", a.sameCommand())
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

// sameCommand is the command line as it was given, for a hint.
func (a *app) sameCommand() string {
	words := slices.Clone(os.Args)
	words[0] = filepath.Base(words[0])
	return strings.Join(words, " ")
}
