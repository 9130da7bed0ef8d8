package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disagg/disagg/slurm/hostlist"
)

// Ask is what a job will ask of the cluster.
type Ask struct {
	Partition   string // empty: the cluster's default
	Reservation string
	Nodes       int
	GPUsPerNode int      // 0: none are asked for
	Requested   []string // nodes that the job names; empty: any
	Excluded    []string
	// Reasons say of excluded nodes why they are; a node may be missing.
	Reasons map[string]string
	// Machine is the architecture of the programs that the nodes will run, in
	// the words of uname -m.
	Machine string
}

// Survey is what a cluster says before a submission.
type Survey struct {
	// Excluded are the excluded nodes that the cluster has.
	Excluded []string
	// Warnings are about the run: what may go wrong, and what could not be
	// looked at.
	Warnings []string
	// Waits says why the job cannot start now, because too few nodes can run it;
	// empty: enough can. It is about this moment, not about the run.
	Waits string
	// Broken says which of the nodes that the job may use can run no job, when
	// the others are enough.
	Broken []string
}

// Machine is the architecture that Go calls goarch in the words of uname -m.
func Machine(goarch string) string {
	return cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}[goarch], goarch)
}

// Survey looks at the cluster for what would let a job fail, or wait for ever,
// after it was taken: a scheduler that only looks like Slurm, unknown nodes, too
// few that work, and nodes of another architecture than the programs. The error
// says that the job cannot run as asked. What could not be looked at is a
// warning, unless the job names nodes.
func (c *Client) Survey(ctx context.Context, a Ask) (Survey, error) {
	s := Survey{Excluded: a.Excluded}
	if err := c.surveyVersion(ctx, &s); err != nil {
		return Survey{}, err
	}
	nodes, err := c.Nodes(ctx, "")
	if err == nil && len(nodes) == 0 {
		err = errors.New("list nodes: sinfo shows none")
	}
	switch {
	case err != nil && len(a.Requested)+len(a.Excluded) > 0:
		return Survey{}, fmt.Errorf("check node names: %w", err)
	case err != nil:
		s.warn("the cluster's nodes were not looked at before the submission: %v", err)
		return s, nil
	}
	if s.Excluded, err = s.names(a, nodes); err != nil {
		return Survey{}, err
	}
	may, err := a.candidates(nodes)
	if err != nil {
		return Survey{}, err
	}
	s.working(a, may, nodes)
	return s, c.surveyMachines(ctx, a, may, &s)
}

func (s *Survey) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// surveyVersion asks who answers to sbatch. Without the program there is nobody.
func (c *Client) surveyVersion(ctx context.Context, s *Survey) error {
	v, err := c.Version(ctx)
	call, ran := errors.AsType[*CallError](err)
	switch {
	case ran && call.Err != nil && !errors.Is(err, ErrNoAnswer):
		return err
	case err != nil:
		s.warn("it is not known which scheduler this is: %v", err)
	case !v.IsSlurm():
		s.warn("sbatch belongs to %s %s, not to Slurm: jobs and steps may not start as they are asked for; what starts where is looked at, and --launcher ssh does without a scheduler", v.Name, v.Number)
	}
	return nil
}

// names checks the nodes that a job names against those that there are.
func (s *Survey) names(a Ask, nodes []Node) (kept []string, err error) {
	kept, warnings, err := checkNames(nodes, a.Requested, a.Excluded)
	if err != nil {
		return nil, err
	}
	s.Warnings = append(s.Warnings, warnings...)
	for _, n := range a.Requested {
		if slices.Contains(kept, n) {
			return nil, fmt.Errorf("check node names: %s is asked for and excluded%s", n, bracketed(a.Reasons[n]))
		}
	}
	if len(a.Requested) > a.Nodes {
		return nil, fmt.Errorf("check node names: %s names %s, the job has %s",
			hostlist.Compress(a.Requested), plural(len(a.Requested), "node"), plural(a.Nodes, "node"))
	}
	return kept, nil
}

// candidates are the nodes that the job may get.
func (a Ask) candidates(nodes []Node) ([]Node, error) {
	var may []Node
	there := map[string]bool{}
	for _, n := range nodes {
		for _, p := range n.Partitions {
			there[p] = true
		}
		in := a.Partition == "" || slices.Contains(n.Partitions, a.Partition)
		if !in && slices.Contains(a.Requested, n.Name) {
			return nil, fmt.Errorf("check node names: %s is asked for, but is not in partition %s", n.Name, a.Partition)
		}
		all := len(a.Requested) == a.Nodes && a.Nodes > 0
		if in && !slices.Contains(a.Excluded, n.Name) && (!all || slices.Contains(a.Requested, n.Name)) {
			may = append(may, n)
		}
	}
	if a.Partition != "" && len(there) > 0 && !there[a.Partition] {
		return nil, fmt.Errorf("there is no partition %s; this cluster has %s: correct slurm.partition in the site file", a.Partition, strings.Join(slices.Sorted(maps.Keys(there)), ", "))
	}
	if len(may) < a.Nodes {
		return nil, fmt.Errorf("the job needs %s; %s has %s that may be used%s", plural(a.Nodes, "node"), a.where(), cmp.Or(hostlist.Compress(nodeNames(may)), "none"), a.taken(nodes))
	}
	return may, nil
}

// taken says which nodes the exclusions take away from the job, and why; empty:
// none.
func (a Ask) taken(nodes []Node) string {
	var order []string
	names := map[string][]string{}
	for _, n := range nodes {
		if !slices.Contains(a.Excluded, n.Name) || a.Partition != "" && !slices.Contains(n.Partitions, a.Partition) {
			continue
		}
		why := a.Reasons[n.Name]
		if names[why] == nil {
			order = append(order, why)
		}
		names[why] = append(names[why], n.Name)
	}
	if len(order) == 0 {
		return ""
	}
	parts := make([]string, len(order))
	for i, why := range order {
		parts[i] = hostlist.Compress(names[why]) + bracketed(why)
	}
	return "; the site excludes " + strings.Join(parts, ", ")
}

// bracketed puts a reason behind what it is of.
func bracketed(why string) string {
	if why == "" {
		return ""
	}
	return " (" + plain(why) + ")"
}

func (a Ask) where() string {
	if a.Partition == "" {
		return "the cluster"
	}
	return "partition " + a.Partition
}

// working compares the nodes that can run a job with those that the job needs.
func (s *Survey) working(a Ask, may, nodes []Node) {
	may = slices.Clone(may)
	works := 0
	for i, n := range may {
		if a.Reservation != "" && slices.Contains([]string{"reserved", "maint"}, n.State) {
			may[i].State = "idle" // for this job, as it may be
		}
		if may[i].Unusable() == "" && n.GPUs >= 0 && n.GPUs < a.GPUsPerNode {
			may[i].State, may[i].Reason = fmt.Sprintf("has %s, asked for are %d", plural(n.GPUs, "GPU"), a.GPUsPerNode), ""
		}
		if may[i].Unusable() == "" {
			works++
		}
	}
	broken := Summary(may)
	if works >= a.Nodes {
		s.Broken = broken
		return
	}
	s.Waits = fmt.Sprintf("the job needs %s, but of those that it may use only %d can run one; it waits until that changes: %s%s", plural(a.Nodes, "node"), works, strings.Join(broken, "; "), a.taken(nodes))
}

// surveyMachines compares the nodes' architecture with that of the programs.
func (c *Client) surveyMachines(ctx context.Context, a Ask, may []Node, s *Survey) error {
	by, err := c.Architectures(ctx, a.Partition)
	if err != nil {
		s.warn("the nodes' architecture was not looked at: %v", err)
		return nil
	}
	delete(by, a.Machine)
	var other []Node
	var archs []string
	for _, arch := range slices.Sorted(maps.Keys(by)) {
		for _, n := range may {
			if slices.Contains(by[arch], n.Name) {
				other, archs = append(other, n), append(archs, arch)
			}
		}
	}
	if len(other) == 0 {
		return nil
	}
	who, arch := hostlist.Compress(nodeNames(other)), strings.Join(slices.Compact(archs), ", ")
	if len(may)-len(other) < a.Nodes {
		return fmt.Errorf("this program is built for %s, and %s of %s would run it on %s; submit with a build for %s", a.Machine, who, a.where(), arch, arch)
	}
	s.warn("this program is built for %s and does not run on %s, which the job may get and whose architecture is %s; exclude them in the site file, or set slurm.constraint there", a.Machine, who, arch)
	return nil
}

func nodeNames(nodes []Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
