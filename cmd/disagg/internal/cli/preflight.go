package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/launcher"
	"github.com/disagg/disagg/orchestrator/nodecheck"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/output"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/spf13/cobra"
)

// checkFlags are the flags of preflight.
type checkFlags struct {
	in     inputs
	local  bool
	jobid  string
	nodes  string
	format string

	bundle, from, baseline string

	excludeBad bool
	waive      []string
	reach      time.Duration
}

func newPreflight(a *app) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "preflight [RECIPE]",
		Short: "Check nodes: which is broken, why, and what to do",
		Long: `Check nodes and say which are fit. With a recipe the run decides what matters;
without one everything is checked that the site file says of its nodes.

Where: --local is this host; --nodes HOSTLIST reaches nodes by ssh; --jobid N, or
a shell inside an allocation, uses one step beside whatever runs there. Nothing
on a node is changed, killed or reset, and no password is ever asked for. Over
ssh a node keeps a copy of this binary in /tmp (ssh.dir of the site).

Warnings come in one line each; -v, and --from, show their evidence and remedy.

The command ends with exit code 4 when a node is unfit. What can only be seen
inside a run's images is checked by the run itself, before anything is launched.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("name at most one recipe file, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.format == "json" {
				a.output = "json" // errors too
			}
			recipe := ""
			if len(args) == 1 {
				recipe = args[0]
			}
			return a.preflight(cmd.Context(), f, recipe)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.in.site, "site", "", "site file (default: $"+prepare.SiteEnv+", then the user's, then the machine's)")
	fl.StringArrayVar(&f.in.catalog, "catalog", nil, "directory with catalog files over the site's; may be given again")
	fl.BoolVar(&f.local, "local", false, "check this host")
	fl.StringVar(&f.jobid, "jobid", "", "check the nodes of this Slurm job (default: the one this shell is in)")
	fl.StringVar(&f.nodes, "nodes", "", "check these nodes by ssh, such as gpu-[01-08]")
	fl.VarP(newEnum(&f.format, output.Formats()...), "output", "o", "print the report as one of these")
	fl.StringVar(&f.bundle, "bundle", "", "save everything that was gathered in this new directory")
	fl.StringVar(&f.from, "from", "", "judge what was saved again instead of asking nodes: a bundle, or a run directory")
	fl.StringVar(&f.baseline, "baseline", "", "compare with an earlier report in JSON, such as preflight.json of a good run")
	fl.BoolVar(&f.excludeBad, "exclude-bad", false, "print only the host list of the good nodes; the report goes to standard error")
	fl.StringArrayVar(&f.waive, "waive", nil, "let a check fail for a reason that is kept: ID=REASON; may be given again")
	fl.DurationVar(&f.reach, "reach", nodecheck.DefaultReach, "how long a node may take to be reached")
	_ = cmd.MarkFlagFilename("site", "yaml", "yml")
	_ = cmd.MarkFlagFilename("baseline", "json")
	for _, dir := range []string{"catalog", "bundle", "from"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newExplain(a))
	return cmd
}

// preflight checks nodes, prints the report and fails when one is unfit.
func (a *app) preflight(ctx context.Context, f checkFlags, recipe string) error {
	given := 0
	for _, on := range []bool{f.local, f.jobid != "", f.nodes != "", f.from != ""} {
		if on {
			given++
		}
	}
	if given > 1 {
		return usagef("--local, --jobid, --nodes and --from exclude each other")
	}
	var base *preflight.Report
	if f.baseline != "" {
		r, err := preflight.LoadReport(a.path(f.baseline))
		if err != nil {
			return orchestrator.WithCode(orchestrator.ExitConfig, err)
		}
		base = &r
	}
	if err := a.emptyDir(f.bundle); err != nil {
		return err
	}
	spec, all, end, err := a.factsFor(ctx, &f, recipe)
	if err != nil {
		return err
	}
	defer end()
	if err := waive(&spec, f.waive); err != nil {
		return err
	}
	doc := output.Document{Report: preflight.Judge(all, spec, hostlist.Compress)}
	if base != nil {
		doc.Drift = preflight.Compare(*base, doc.Report)
	}
	if f.bundle != "" {
		if err := preflight.SaveBundle(a.path(f.bundle), spec, all); err != nil {
			return err
		}
	}
	if err := a.printReport(f, doc); err != nil {
		return err
	}
	if doc.Fit || f.excludeBad && len(doc.Good()) > 0 {
		return nil
	}
	return exitWith(orchestrator.ExitPreflight)
}

// printReport prints the report, or only the good nodes.
func (a *app) printReport(f checkFlags, doc output.Document) error {
	o := output.Options{Fold: hostlist.Compress, Drain: !f.local, Full: a.verbose || f.from != "", Now: a.Now()}
	if !f.excludeBad {
		o.Colour = a.Terminal
		return output.Write(a.Out, f.format, doc, o)
	}
	if err := output.Write(a.Err, f.format, doc, o); err != nil {
		return err
	}
	if good := doc.Good(); len(good) > 0 {
		_, err := fmt.Fprintln(a.Out, hostlist.Compress(good))
		return err
	}
	return nil
}

// emptyDir makes sure that a bundle does not mix with another one.
func (a *app) emptyDir(dir string) error {
	if dir == "" {
		return nil
	}
	fd, err := os.Open(a.path(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("save bundle: %w", err))
	}
	defer fd.Close()
	switch _, err := fd.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("save bundle: %w", err))
	}
	return usagef("--bundle %s: the directory is not empty; name a new one", dir)
}

// waive adds the command line's waivers.
func waive(spec *preflight.Spec, list []string) error {
	for _, w := range list {
		id, why, ok := strings.Cut(w, "=")
		if !ok || strings.TrimSpace(why) == "" {
			return usagef("--waive %q: write ID=REASON", w)
		}
		if _, err := preflight.Explain(id); err != nil {
			return usageError{fmt.Errorf("--waive %s: %w", w, err)}
		}
		if spec.Waive == nil {
			spec.Waive = map[string]string{}
		}
		spec.Waive[id] = why
	}
	return nil
}

// factsFor gets the facts: from a bundle, or from nodes. end is to be called when
// everything has been said.
func (a *app) factsFor(ctx context.Context, f *checkFlags, recipe string) (spec preflight.Spec, all []preflight.Facts, end func(), err error) {
	none := func() {}
	if f.from != "" {
		spec, all, err = nodecheck.LoadBundle(a.path(f.from))
		if err != nil {
			return spec, nil, none, orchestrator.WithCode(orchestrator.ExitConfig, err)
		}
		slices.SortStableFunc(all, func(x, y preflight.Facts) int { return natural(x.Node, y.Node) })
		if recipe != "" || f.in.site != "" {
			p, err := a.planCheck(f, recipe, models.LauncherSlurm)
			return p.spec, all, none, err
		}
		return spec, all, none, nil
	}
	kind, nodes, job, err := a.nodesToCheck(ctx, f)
	if err != nil {
		return spec, nil, none, err
	}
	p, err := a.planCheck(f, recipe, kind)
	if err != nil {
		return spec, nil, none, err
	}
	p.spec.Expect.Run = checks.Run{Job: job, User: userName(a)}
	l, err := a.checkLauncher(kind, job, f.reach, p)
	if err != nil {
		return spec, nil, none, err
	}
	reach := f.reach
	if kind == models.LauncherSSH {
		reach += copyTime // the handshakes have their own limit
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	all, end, err = nodecheck.Gather(ctx, nodecheck.Request{Launcher: l, Nodes: nodes, Spec: p.spec, Reach: reach, Waiting: a.interim(p.spec)})
	stop()
	if err != nil {
		return spec, nil, none, err
	}
	return p.spec, all, end, nil
}

// copyTime is how long the way to a node may take beyond the handshake: several
// hops, and the binary that is copied the first time.
const copyTime = 30 * time.Second

// interimAfter is how long those who have answered wait for the others before they
// are reported on their own. A node that hangs is given its whole time, because
// then it can say what hangs.
const interimAfter = 5 * time.Second

// interim says who has not answered, and reports once on those who have.
func (a *app) interim(spec preflight.Spec) func([]preflight.Facts, []string) {
	began, told := a.Now(), false
	return func(answered []preflight.Facts, open []string) {
		if !told && len(answered) > 0 && a.Now().Sub(began) >= interimAfter {
			told = true
			doc := output.Document{Report: preflight.Judge(answered, spec, hostlist.Compress)}
			// The whole report comes on standard output.
			_ = output.Write(a.Err, "text", doc, output.Options{Fold: hostlist.Compress})
		}
		fmt.Fprintf(a.Err, "%d of %d nodes have answered; waiting for %s\n", len(answered), len(answered)+len(open), hostlist.Compress(open))
	}
}

func natural(x, y string) int {
	switch {
	case checks.NaturalLess(x, y):
		return -1
	case checks.NaturalLess(y, x):
		return 1
	}
	return 0
}

// checkPlan is what is checked and how nodes are reached, from a recipe or from
// the site alone.
type checkPlan struct {
	spec    preflight.Spec
	ssh     models.SSHSite
	network models.NetworkSite
	step    map[string]string // srun options
}

func (a *app) planCheck(f *checkFlags, recipe, kind string) (checkPlan, error) {
	if recipe != "" {
		f.in.launcher = kind
		req, err := f.in.request(a, recipe)
		if err != nil {
			return checkPlan{}, err
		}
		p, err := prepare.Load(req)
		if err != nil {
			return checkPlan{}, err
		}
		return checkPlan{preflight.SpecFrom(p.Plan), p.Plan.SSH, p.Plan.Network, p.Plan.Slurm.StepOptions}, nil
	}
	path, _, err := prepare.SiteFile(a.path(f.in.site), a.getenv)
	if err != nil {
		return checkPlan{}, err
	}
	site, _, _, err := prepare.Site(path)
	if err != nil {
		return checkPlan{}, err
	}
	return checkPlan{preflight.SpecFromSite(site), site.SSH, site.Network, site.Slurm.StepOptions}, nil
}

// nodesToCheck says which nodes, and how they are reached.
func (a *app) nodesToCheck(ctx context.Context, f *checkFlags) (kind string, nodes []string, job string, err error) {
	switch {
	case f.local:
		host, err := os.Hostname()
		if err != nil {
			return "", nil, "", fmt.Errorf("read host name: %w", err)
		}
		return models.LauncherLocal, []string{host}, "", nil
	case f.nodes != "":
		nodes, err := hostlist.Expand(f.nodes)
		if err != nil {
			return "", nil, "", usageError{fmt.Errorf("--nodes: %w", err)}
		}
		return models.LauncherSSH, nodes, "", nil
	}
	job = f.jobid
	if job == "" {
		alloc, err := slurm.FromEnvironment(a.Env)
		if errors.Is(err, slurm.ErrNoAllocation) {
			return "", nil, "", usagef("this shell is in no allocation: say what to check with --local, --nodes or --jobid")
		}
		if err != nil {
			return "", nil, "", orchestrator.WithCode(orchestrator.ExitScheduler, err)
		}
		job = alloc.JobID
	}
	alloc, err := a.slurm().Allocation(ctx, job)
	if err != nil {
		return "", nil, "", orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	return models.LauncherSlurm, alloc.Nodes, alloc.JobID, nil
}

// checkLauncher starts agents for a check. They look for no container runtime:
// whether it works is one of the checks.
func (a *app) checkLauncher(kind, job string, reach time.Duration, p checkPlan) (orchestrator.Launcher, error) {
	setup := deploy.Setup{RunID: "preflight-" + a.Now().UTC().Format("20060102T150405Z"), Version: Version(), Interface: p.network.Interface, Runtime: models.Runtime{Kind: "none"}}
	switch kind {
	case models.LauncherLocal:
		return &launcher.Local{Setup: setup}, nil
	case models.LauncherSSH:
		return &launcher.SSH{Setup: setup, Site: p.ssh, Handshake: reach}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	return &launcher.Slurm{Setup: setup, Job: job, Binary: self, Options: p.step, Client: a.slurm(), Eager: true}, nil
}
