package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
	"github.com/disagg/disagg/deploy/wire"
)

const (
	// bootstrapLimit bounds the wait for the first line of stdin.
	bootstrapLimit = time.Minute
	// leaseGrace bounds the grace of workloads whose controller is gone.
	leaseGrace = 10 * time.Second
	// goodbyeLimit bounds the wait for the controller to take the last words.
	goodbyeLimit = 5 * time.Second
	// killWaitDefault is Slurm's default KillWait.
	killWaitDefault = 30 * time.Second
	// killWaitMargin is kept free of KillWait, for the last words and for a
	// clock that Slurm started earlier.
	killWaitMargin = 2 * time.Second
)

// ErrLease says that the agent ended everything because its controller was gone.
var ErrLease = errors.New("the controller is gone")

// Options are what an agent needs.
type Options struct {
	// Stdio makes the agent speak over stdin and stdout; otherwise it dials the
	// controller, and stdin only tells by its end that the controller is gone.
	Stdio  bool
	Stdin  io.Reader
	Stdout io.Writer
	// Self is this binary; empty means the running one.
	Self    string
	Version string
	Log     *zap.Logger // nil: none
}

// Run is an agent's life. It returns nil when the controller has closed it or
// when it was told to end and has stopped everything, and an error that wraps
// ErrLease when the controller was lost. Whatever happens, it returns only after
// it has done all it can to end what it started.
func Run(ctx context.Context, o Options) error {
	// Having a handler, these neither kill nor are ignored in what is started.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(deaf)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(term)

	in := bufio.NewReader(o.Stdin)
	boot, err := bootstrap(ctx, in, term)
	if err != nil {
		return err
	}
	if o.Self == "" {
		if o.Self, err = os.Executable(); err != nil {
			return fmt.Errorf("find this binary: %w", err)
		}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	a := &agent{
		opts: o, boot: boot, timing: boot.Timing.Filled(),
		workloads: map[string]*workload{},
		streams:   map[uint64]io.ReadCloser{},
		closing:   make(chan struct{}),
	}
	a.hello = deploy.AgentHello{RunID: boot.RunID, Token: boot.Token, Session: rand.Text()}
	if a.scratch, err = newScratch(cmp.Or(boot.Scratch, "/tmp"), boot.RunID); err != nil {
		a.hello.Unfit = err.Error()
	}
	defer a.removeScratch()
	a.hello.Info, err = a.nodeInfo(ctx)
	if err != nil && a.hello.Unfit == "" {
		a.hello.Unfit = err.Error()
	}
	// Not in the way of the run: it takes as long as the container daemon does.
	go a.tidy(ctx)
	return a.serve(ctx, in, term)
}

// bootstrap reads the first line of stdin, or the variable that stands for it. A
// read of stdin cannot be interrupted, so it is left behind when time is up.
func bootstrap(ctx context.Context, in *bufio.Reader, term <-chan os.Signal) (deploy.Bootstrap, error) {
	if line, ok := os.LookupEnv(deploy.BootstrapEnv); ok {
		// What is started from here has no use for the token.
		if err := os.Unsetenv(deploy.BootstrapEnv); err != nil {
			return deploy.Bootstrap{}, fmt.Errorf("read bootstrap: %w", err)
		}
		return deploy.ReadBootstrap(bufio.NewReader(strings.NewReader(line + "\n")))
	}
	type result struct {
		b   deploy.Bootstrap
		err error
	}
	got := make(chan result, 1)
	go func() {
		b, err := deploy.ReadBootstrap(in)
		got <- result{b, err}
	}()
	limit := time.NewTimer(bootstrapLimit)
	defer limit.Stop()
	select {
	case r := <-got:
		return r.b, r.err
	case <-limit.C:
		return deploy.Bootstrap{}, fmt.Errorf("read bootstrap: nothing came on stdin for %s", bootstrapLimit)
	case s := <-term:
		return deploy.Bootstrap{}, fmt.Errorf("read bootstrap: %s", s)
	case <-ctx.Done():
		return deploy.Bootstrap{}, fmt.Errorf("read bootstrap: %w", context.Cause(ctx))
	}
}

type agent struct {
	opts    Options
	boot    deploy.Bootstrap
	timing  deploy.Timing
	hello   deploy.AgentHello
	scratch *scratch
	sess    *wire.Session

	containers    *runtime.Containers // nil when there is no runtime
	containersErr error               // why not

	mu          sync.Mutex
	workloads   map[string]*workload
	lastDir     int
	terminating bool
	ending      bool // nothing new is started

	streamMu   sync.Mutex
	streams    map[uint64]io.ReadCloser
	lastStream uint64

	closeOnce sync.Once
	closing   chan struct{} // closed when the controller has asked for the end
}

// serve keeps the lease until it ends, then ends everything.
func (a *agent) serve(ctx context.Context, in io.Reader, term <-chan os.Signal) error {
	a.sess = wire.NewSession(wire.Options{
		Beat: a.timing.Beat, Lost: a.timing.Lost, Dead: a.deadline(),
		Handle: a.handle,
		// The end must not overtake the answer to the wish for it.
		Answered: func(method string) {
			if method == deploy.MethodClose {
				a.closeOnce.Do(func() { close(a.closing) })
			}
		},
	})
	link, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan error, 2)
	if a.opts.Stdio {
		go func() { lost <- a.speak(link, in) }()
	} else {
		go func() {
			// Nothing is said on stdin any more; its end is the news.
			_, _ = io.Copy(io.Discard, in)
			lost <- fmt.Errorf("%w: stdin has ended", ErrLease)
		}()
		go func() { lost <- a.dialOn(link) }()
	}

	err := a.wait(ctx, term, lost)
	if errors.Is(err, ErrLease) {
		a.opts.Log.Warn("lease ended", zap.Error(err))
		if serr := a.stopLeased(context.WithoutCancel(ctx), term); serr != nil {
			err = errors.Join(err, serr)
		}
	}
	a.closeStreams()
	limit := goodbyeLimit
	if errors.Is(err, ErrLease) {
		limit = goodbyeLimit / 10 // most likely nobody listens
	}
	bye, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer done()
	// If it cannot be told, the controller sees the end of the connection.
	_ = a.sess.Goodbye(bye, reason(err))
	a.sess.Close(nil)
	return err
}

func reason(err error) string {
	if err != nil {
		return err.Error()
	}
	return "closed"
}

// wait waits for the end: the controller's wish, a signal, or the loss of the
// controller.
func (a *agent) wait(ctx context.Context, term <-chan os.Signal, lost <-chan error) error {
	select {
	case <-a.closing:
		return nil
	case err := <-lost:
		return err
	case s := <-term:
		return a.terminate(ctx, s.String(), lost)
	case <-ctx.Done():
		return a.terminate(context.WithoutCancel(ctx), context.Cause(ctx).Error(), lost)
	}
}

// stopLeased stops everything because the controller is gone. When Slurm ends the
// job meanwhile, as it does after its batch script, there is less time: a second
// stop with less grace makes the first one quicker.
func (a *agent) stopLeased(ctx context.Context, term <-chan os.Signal) error {
	done := make(chan error, 1)
	go func() { done <- a.stopAll(ctx, leaseGrace) }()
	select {
	case err := <-done:
		return err
	case <-term:
	}
	return errors.Join(a.stopAll(ctx, a.termBudget()*2/3), <-done)
}

// termBudget is the time between Slurm's TERM and its KILL that may be used.
func (a *agent) termBudget() time.Duration {
	return max(cmp.Or(a.boot.KillWait, killWaitDefault)-killWaitMargin, time.Second)
}

// terminate is the end that Slurm announces: TERM now, KILL after KillWait. All
// is stopped in that time; then the controller, which mostly is being ended too,
// can still look and collect until the time is up.
func (a *agent) terminate(ctx context.Context, why string, lost <-chan error) error {
	budget := a.termBudget()
	limit := time.NewTimer(budget)
	defer limit.Stop()
	a.mu.Lock()
	a.terminating = true
	a.mu.Unlock()
	a.emit(deploy.Event{Kind: deploy.EventTerminating, Detail: why})
	// Killing and removing take their time after the grace.
	err := a.stopAll(ctx, budget*2/3)
	select {
	case <-a.closing:
	case <-limit.C:
	case lerr := <-lost:
		return errors.Join(lerr, err)
	}
	return err
}

// deadline is the silence after which a stream is given up: a connection is
// replaced at once, stdin and stdout are all there is.
func (a *agent) deadline() time.Duration {
	if a.opts.Stdio {
		return a.timing.Lost + a.timing.Redial
	}
	return a.timing.Lost
}

// emit tells the controller of an event, now or when it is back.
func (a *agent) emit(e deploy.Event) {
	e.Time, e.Node = time.Now(), a.hello.Info.Name
	// It fails only when the session is closed; then nobody is there to tell.
	_ = a.sess.Notify(deploy.NoteEvent, e)
}

// stopAll stops every workload at once and lets nothing new start.
func (a *agent) stopAll(ctx context.Context, grace time.Duration) error {
	a.mu.Lock()
	a.ending = true
	var all []*workload
	for _, w := range a.workloads {
		all = append(all, w)
	}
	a.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, w := range all {
		wg.Go(func() {
			if err := w.stop(ctx, min(grace, w.spec.Grace)); err != nil {
				errs[i] = fmt.Errorf("stop %s: %w", w.spec.ID, err)
			}
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err != nil {
		a.opts.Log.Error("stop workloads", zap.Error(err))
	}
	return err
}

func (a *agent) removeScratch() {
	if a.scratch == nil {
		return
	}
	if err := a.scratch.remove(); err != nil {
		a.opts.Log.Error("remove scratch directory", zap.Error(err))
	}
}
