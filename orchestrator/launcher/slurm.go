package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/hostlist"
)

// Slurm starts one agent on each node of a job through a single srun, whose
// stdin stays open: it carries the bootstrap line to every task, and its end
// tells every agent that the controller is gone. The agents dial back.
type Slurm struct {
	Setup deploy.Setup
	Job   string // job id
	// Binary is the agents' program, absolute, the same on every node.
	Binary string
	// Options are the site's further srun options.
	Options map[string]string
	Client  *slurm.Client
	// Eager has every agent call back as soon as its own node has started it. srun
	// holds stdin back until all nodes have, so the bootstrap line is in the step's
	// environment then. But when a node does not start its task, srun in time ends
	// those of all others: this is for short visits.
	Eager bool
	// Need is how many nodes are of use at least. When a step fails for some nodes'
	// sake, it is started again without them, if so many are left; zero: it is not.
	Need int

	mu     sync.Mutex
	steps  []*step
	closed bool
}

// step is one srun with the listener that its agents call.
type step struct {
	listener *deploy.Listener
	srun     *procgroup.Process
	said     tail
}

var _ orchestrator.Launcher = (*Slurm)(nil)

// Start implements orchestrator.Launcher.
func (s *Slurm) Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan orchestrator.Connection, error) {
	st, err := s.startStep(ctx, nodes, events)
	if err != nil {
		return nil, err
	}
	out := make(chan orchestrator.Connection, len(nodes))
	go func() {
		defer close(out)
		left := st.accept(ctx, nodes, out, s.blame)
		if len(left) == 0 {
			return
		}
		again, err := s.startStep(ctx, left, events)
		if err != nil {
			for _, n := range left {
				out <- failed(n, err)
			}
			return
		}
		again.accept(ctx, left, out, nil)
	}()
	return out, nil
}

// startStep starts agents on nodes through one srun.
func (s *Slurm) startStep(ctx context.Context, nodes []string, events chan<- deploy.Event) (*step, error) {
	cmd, err := s.Client.StepCommand(slurm.StepRequest{
		JobID: s.Job, Nodes: nodes, Name: s.stepName(), Options: s.Options,
		Argv: []string{s.Binary, "agent"},
	})
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitScheduler, err)
	}
	setup := s.Setup
	setup.Events = events
	st := &step{}
	if wait, err := s.Client.KillWait(ctx); err != nil {
		// The agents then go by Slurm's default.
		st.said.note(err.Error())
	} else {
		setup.KillWait = wait
	}
	l, err := deploy.Listen(ctx, setup, "")
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitLaunch, err)
	}
	st.listener = l
	boot, err := l.Bootstrap()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if s.Eager {
		cmd.Env = append(cmd.Env, deploy.BootstrapEnv+"="+strings.TrimSpace(string(boot)))
	}
	cmd.StdinPipe, cmd.Stdout, cmd.Stderr = true, &st.said, &st.said
	cmd.Session = true // a terminal's Ctrl-C is for the controller alone
	if st.srun, err = procgroup.Start(context.WithoutCancel(ctx), cmd); err != nil {
		return nil, errors.Join(orchestrator.WithCode(orchestrator.ExitScheduler, fmt.Errorf("start the agents' step: %w", err)), l.Close())
	}
	if !s.own(st) {
		st.srun.Stop(0)
		return nil, errors.Join(errClosed, l.Close())
	}
	if s.Eager {
		boot = nil
	}
	if _, err := st.srun.Stdin.Write(boot); err != nil && !errors.Is(err, os.ErrClosed) {
		// srun has ended already; accept reports it with what it said.
		st.said.note(fmt.Sprintf("write to srun: %v", err))
	}
	return st, nil
}

var errClosed = errors.New("start the agents' step: the run is ending")

// own takes a step into the list of what Close ends, unless that was called already.
func (s *Slurm) own(st *step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.steps = append(s.steps, st)
	}
	return !s.closed
}

// accept hands over each node as it comes, and for those that cannot come any
// more why: srun ends a whole step for one node's sake, so after a step's early
// end blame says which nodes are at fault. Those that are not, and that a step
// without the others may still reach, are left: nothing was said of them.
func (s *step) accept(parent context.Context, nodes []string, out chan<- orchestrator.Connection, blame func(context.Context, []string) (map[string]string, []string)) (left []string) {
	missing := map[string]bool{}
	for _, n := range nodes {
		missing[n] = true
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go func() {
		select {
		case <-s.srun.Done():
			// A task that has just called is still let in.
			t := time.NewTimer(time.Second)
			defer t.Stop()
			<-t.C
			cancel(fmt.Errorf("the agents' step ended: %s", s.said.describe(s.srun.Wait().String())))
		case <-ctx.Done():
		}
	}()
	for len(missing) > 0 {
		c, err := s.listener.Accept(ctx)
		if err != nil {
			if unfit, ok := errors.AsType[*deploy.UnfitError](err); ok {
				if missing[unfit.Node] {
					delete(missing, unfit.Node)
					out <- failed(unfit.Node, err)
				}
				continue
			}
			var why map[string]string
			select {
			case <-s.srun.Done():
				if blame != nil {
					why, left = blame(parent, nodes)
				}
			default:
			}
			if len(missing) < len(nodes) {
				left = nil // some came, and went with the step
			}
			for _, n := range nodes {
				if missing[n] && !slices.Contains(left, n) {
					out <- failed(n, fmt.Errorf("its agent did not call back: %s%w", why[n], err))
				}
			}
			return left
		}
		name := c.Info().Name
		if !missing[name] {
			// A node that was not asked for answers: some schedulers that look
			// like Slurm start steps elsewhere.
			s.said.note(fmt.Sprintf("an agent called from %s, which was not asked for", name))
			_ = c.Close() // it is nobody's; its own lease ends it as well
			continue
		}
		delete(missing, name)
		out <- orchestrator.Connection{Name: name, Node: stepNode{node{c}, s}}
	}
	return nil
}

// stepNode is a node whose agent is a task of a step: when it is lost, what became
// of the step explains it.
type stepNode struct {
	node
	step *step
}

// Err implements orchestrator.Node.
func (n stepNode) Err() error {
	err := n.node.Err()
	if err == nil {
		return nil
	}
	select {
	case <-n.step.srun.Done():
	default:
		return err
	}
	how := n.step.said.describe(n.step.srun.Wait().String())
	if cancelledStep(how) {
		return fmt.Errorf("%w; the agents' step has ended, %w: %s", err, orchestrator.ErrCancelled, how)
	}
	return fmt.Errorf("%w; the agents' step has ended: %s", err, how)
}

// cancelledStep says that somebody cancelled a step, by what srun says of it.
// Where Slurm itself did, it says what it was due to.
func cancelledStep(said string) bool {
	return strings.Contains(said, "*** STEP ") && strings.Contains(said, " CANCELLED AT ") && !strings.Contains(said, " DUE TO ")
}

// Limits of the search for nodes at fault: it must end within the budget of the
// agents' stage, and a step that has not answered by then is as bad as none.
const (
	probeStep = 15 * time.Second
	probeAll  = time.Minute
)

// blame looks for the nodes at fault when the agents' step has ended early, and
// says of each node what there is to say. A step may be started again on those that
// are left, if they are enough.
func (s *Slurm) blame(ctx context.Context, nodes []string) (why map[string]string, left []string) {
	if s.Eager || ctx.Err() != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeAll)
	defer cancel()
	res, err := s.Client.Probe(ctx, s.Job, nodes, probeStep)
	if err != nil {
		return nil, nil // what srun said of the step itself is all there is
	}
	why = map[string]string{}
	for _, n := range nodes {
		switch {
		case len(res.Bad) == 0:
			why[n] = "steps work on all nodes, so its program is at fault; "
		case !res.Certain:
			why[n] = fmt.Sprintf("no step over %s works (%s); ", hostlist.Compress(res.Bad), res.Trouble)
		case slices.Contains(res.Bad, n):
			why[n] = fmt.Sprintf("no step with it works (%s); ", res.Trouble)
		default:
			why[n] = fmt.Sprintf("steps work on it, but not with %s, which ends them for all; ", hostlist.Compress(res.Bad))
			left = append(left, n)
		}
	}
	if s.Need == 0 || len(left) < s.Need {
		return why, nil
	}
	return why, left
}

// Close implements orchestrator.Launcher: a step ends when its stdin does,
// because the agents do; what does not end is cancelled.
func (s *Slurm) Close(ctx context.Context) error {
	s.mu.Lock()
	steps := s.steps
	s.closed = true
	s.mu.Unlock()
	for _, st := range steps {
		_ = st.srun.Stdin.Close() // closed already is as good
	}
	err := s.waitSteps(ctx, steps)
	for _, st := range steps {
		err = errors.Join(err, st.listener.Close())
	}
	return err
}

func (s *Slurm) waitSteps(ctx context.Context, steps []*step) error {
	late := false
	for _, st := range steps {
		select {
		case <-st.srun.Done():
		case <-ctx.Done():
			late = true
		}
	}
	if !late {
		return nil
	}
	// The caller's patience is over; one more bounded try with the scheduler, then
	// srun is killed, which alone might leave its tasks running.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelPatience)
	defer cancel()
	err := s.cancelSteps(ctx)
	for _, st := range steps {
		st.srun.Stop(time.Second)
	}
	if err != nil {
		return fmt.Errorf("end the agents' step: %w", err)
	}
	return nil
}

// cancelPatience bounds the cancelling of steps that do not end.
const cancelPatience = 3 * time.Second

// stepName is what squeue --steps shows. It is this run's alone: another run may
// share the allocation.
func (s *Slurm) stepName() string { return "disagg-" + s.Setup.RunID }

// cancelSteps ends this run's steps, by id.
func (s *Slurm) cancelSteps(ctx context.Context) error {
	steps, err := s.Client.Steps(ctx, s.Job)
	if err != nil {
		return err
	}
	var errs []error
	for _, st := range steps {
		if st.Name == s.stepName() {
			errs = append(errs, s.Client.CancelStep(ctx, st.ID))
		}
	}
	return errors.Join(errs...)
}

// tail keeps the end of what srun says: with its words a failed start explains
// itself.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

var _ io.Writer = (*tail)(nil)

// Write keeps the last bytes and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailSize):]
	return len(p), nil
}

func (t *tail) note(s string) { _, _ = t.Write([]byte(s + "\n")) }

func (t *tail) describe(how string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(t.buf), "?"))
	if text = strings.TrimSpace(text); text != "" {
		how += "; srun said: " + strings.Join(strings.Split(text, "\n"), " | ")
	}
	return how
}

// SlurmView is the scheduler's own view of a job.
type SlurmView struct {
	Client *slurm.Client
	ID     string
	// Nodes are those of the allocation. Slurm takes nodes out of a job's own list as
	// they are done with it, and those that are down first.
	Nodes []string
}

var _ orchestrator.Scheduler = (*SlurmView)(nil)

// Job implements orchestrator.Scheduler. A job that Slurm does not know any more
// has ended; a query without an answer says nothing.
func (v *SlurmView) Job(ctx context.Context) (orchestrator.JobView, error) {
	j := v.Client.Job(ctx, v.ID)
	if j.Presence == slurm.Unknown {
		return orchestrator.JobView{}, errors.New(j.Trouble)
	}
	view := orchestrator.JobView{State: orchestrator.JobRunning, Word: string(j.State)}
	if j.Ended() {
		view.State = orchestrator.JobEnded
	}
	why := slurm.Explain(j, nil)
	if why != "" {
		view.Word += " (" + why + ")"
	}
	if ending, node := j.Ending(); ending {
		view.Why, view.NodeDown = cmp.Or(why, string(j.State)), node
	}
	return view, nil
}

// badNodePause is the time between two questions for bad nodes: the signal of a job that
// ends because of a node may come before Slurm's own list has the node.
const badNodePause = 200 * time.Millisecond

// BadNodes implements orchestrator.Scheduler.
func (v *SlurmView) BadNodes(ctx context.Context) string {
	for {
		all, err := v.Client.Nodes(ctx, "")
		if err != nil {
			return "" // that it is a node is known, which one is not
		}
		if out := named(all, v.Nodes); out != "" {
			return out
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(badNodePause):
		}
	}
}

// named says what is wrong with those of the nodes with which something is.
func named(all []slurm.Node, of []string) string {
	var out []string
	for _, n := range all {
		if !slices.Contains(of, n.Name) {
			continue
		}
		// While the job ends, a node that was set down is completing, with a reason.
		switch why := n.Unusable(); {
		case why != "":
			out = append(out, n.Name+": "+why)
		case n.Reason != "":
			out = append(out, n.Name+": "+n.State+": "+n.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// Setup is what all launchers share: who the agents belong to and what the site
// wants of them.
func Setup(p *models.Plan, runID, version string) deploy.Setup {
	return deploy.Setup{RunID: runID, Version: version, Interface: p.Network.Interface, Root: p.Preflight.Site.Root, Runtime: p.Runtime}
}
