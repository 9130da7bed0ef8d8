package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/deploy/wire"
)

const (
	// endMargin is what a shim may need beyond the grace to kill, look and end.
	endMargin = 10 * time.Second
	// removeLimit bounds the removal of a container whose shim has ended.
	removeLimit = time.Minute
)

// errStopped says that a workload was stopped while it was being created.
var errStopped = errors.New("stopped while it was being created")

// workload is one program with its shim.
type workload struct {
	a      *agent
	spec   deploy.Workload
	cancel context.CancelCauseFunc // gives its creation up
	held   chan shim.Held          // cap 1
	gone   chan struct{}           // closed when nothing of it is left, or what is left is known

	mu     sync.Mutex
	dir    string
	unit   runtime.Unit
	sess   *wire.Session
	pid    int // of the shim, as this node sees it
	asked  bool
	exited *shim.Exited
	ended  *shim.Ended
	left   error // what could not be ended; valid after gone

	announced bool
	early     []deploy.Event // what happened before the controller knew of it
}

// create starts a workload up to the point where it is held and its environment
// is known. When it fails, nothing is left of it.
func (a *agent) create(ctx context.Context, spec deploy.Workload) (deploy.Receipt, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &workload{a: a, spec: spec, cancel: cancel, held: make(chan shim.Held, 1), gone: make(chan struct{})}
	if err := a.admit(w); err != nil {
		return deploy.Receipt{}, err
	}
	held, err := w.start(ctx)
	if err != nil {
		w.abandon(context.WithoutCancel(ctx))
		return deploy.Receipt{}, a.creationError(spec.ID, err)
	}
	w.announce()
	return held.Receipt, nil
}

// announce tells of the creation, then of what has happened since.
func (w *workload) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announced = true
	w.a.emit(deploy.Event{Workload: w.spec.ID, Kind: deploy.EventCreated})
	for _, e := range w.early {
		w.a.emit(e)
	}
	w.early = nil
}

// tell tells the controller of an event, unless it does not know of the workload
// yet. What fails to be created is told by the answer to that request alone.
func (w *workload) tell(e deploy.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Workload = w.spec.ID
	if !w.announced {
		w.early = append(w.early, e)
		return
	}
	w.a.emit(e)
}

// errEnding says that a workload is not created because the agent is to end.
func errEnding(id string) error {
	return &deploy.Fault{Class: deploy.ClassEnding, Msg: fmt.Sprintf("create %s: this agent is ending", id)}
}

// creationError is why a workload could not be created. While the agent is to end,
// that is the reason whatever went wrong: Slurm's TERM reaches the container command
// too.
func (a *agent) creationError(id string, err error) error {
	if a.toEnd() {
		return errEnding(id)
	}
	return fmt.Errorf("create %s: %w", id, err)
}

// toEnd says that the agent stops what it has started, and starts nothing more.
func (a *agent) toEnd() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ending || a.terminating
}

// admit lists a new workload.
func (a *agent) admit(w *workload) error {
	if w.spec.RunID != a.boot.RunID {
		return fmt.Errorf("create workload: it is of run %q, this agent works for run %q", w.spec.RunID, a.boot.RunID)
	}
	if w.spec.ID == "" || len(w.spec.Argv) == 0 {
		return errors.New("create workload: it has no id or no program")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending || a.terminating {
		return errEnding(w.spec.ID)
	}
	if old := a.workloads[w.spec.ID]; old != nil {
		select {
		case <-old.gone:
		default:
			return fmt.Errorf("create %s: a workload of that name is here already", w.spec.ID)
		}
	}
	a.workloads[w.spec.ID] = w
	return nil
}

// start does the work of create.
func (w *workload) start(ctx context.Context) (shim.Held, error) {
	rt, binary, err := w.a.runtimeFor(w.spec.Runtime.Kind)
	if err != nil {
		return shim.Held{}, err
	}
	owner, err := w.a.containerUser(ctx, w.spec)
	if err != nil {
		return shim.Held{}, err
	}
	log, err := openLog(w.spec.ID, w.spec.LogPath)
	if err != nil {
		return shim.Held{}, err
	}
	defer log.Close()
	if err := w.prepare(owner); err != nil {
		return shim.Held{}, err
	}
	door, err := listen(w.dir, owner)
	if err != nil {
		return shim.Held{}, err
	}
	defer door.Close()

	if err := w.a.scratch.record(entry{Workload: w.spec.ID}); err != nil {
		return shim.Held{}, err
	}
	unit, err := rt.Start(ctx, runtime.Spec{Workload: w.spec, Dir: w.dir, Binary: binary})
	if err != nil {
		return shim.Held{}, err
	}
	w.mu.Lock()
	w.unit = unit
	w.mu.Unlock()
	if err := w.a.scratch.record(entry{Workload: w.spec.ID, Unit: unit.ID()}); err != nil {
		return shim.Held{}, err
	}
	return w.meet(ctx, door, log)
}

// meet waits for the shim to connect and for its report.
func (w *workload) meet(ctx context.Context, door *door, log *os.File) (shim.Held, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	early := make(chan string, 1)
	go func() {
		if how := w.unit.Wait(ctx); how != "" {
			early <- how
			cancel(errors.New(how))
		}
	}()
	c, pid, err := door.accept(ctx)
	if err == nil {
		err = shim.SendFile(c, log)
	}
	var h wire.Hello
	if err == nil {
		h, err = wire.ReadHello(ctx, c)
	}
	if err == nil {
		err = wire.SendHello(c, wire.Hello{Version: w.a.opts.Version})
	}
	if err != nil {
		if c != nil {
			c.Close()
		}
		return shim.Held{}, w.explain(ctx, err)
	}
	t := w.a.timing
	sess := wire.NewSession(wire.Options{Beat: t.Beat, Lost: t.Lost, Dead: t.Lost + t.Redial, Note: w.note})
	w.mu.Lock()
	w.sess, w.pid = sess, pid
	w.mu.Unlock()
	go func() {
		err := sess.Run(c, h.Received)
		sess.Close(err)
		w.finish(err)
	}()
	select {
	case held := <-w.held:
		return held, nil
	case <-sess.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.exited != nil {
			return shim.Held{}, &deploy.Fault{Class: deploy.ClassProgram, Msg: describeExit(w.exited)}
		}
		return shim.Held{}, fmt.Errorf("the shim went away: %w", sess.Err())
	case how := <-early:
		return shim.Held{}, w.explain(ctx, errors.New(how))
	case <-ctx.Done():
		return shim.Held{}, fmt.Errorf("wait for the program's report: %w", context.Cause(ctx))
	}
}

func describeExit(e *shim.Exited) string {
	msg := e.Exit.Error
	if msg == "" {
		msg = "it ended before it was released"
	}
	if n := len(e.Log); n > 0 {
		msg += "; it wrote: " + e.Log[n-1]
	}
	return msg
}

// explain says why a shim did not come, in its own words where it left any.
func (w *workload) explain(ctx context.Context, err error) error {
	if b, rerr := os.ReadFile(filepath.Join(w.dir, shim.ErrorFile)); rerr == nil && len(b) > 0 {
		return &deploy.Fault{Class: deploy.ClassEntrypoint, Msg: "the shim could not work: " + string(b)}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("wait for the shim: %w", err)
	if w.spec.Runtime.Kind == "none" {
		return err
	}
	return &deploy.Fault{Class: deploy.ClassEntrypoint, Msg: err.Error(),
		Hint: "it left no word why; if it could not read its directory, look at SELinux (container.security_opt: label=disable) and at user namespaces of the container daemon"}
}

// abandon removes whatever a failed creation left.
func (w *workload) abandon(ctx context.Context) {
	w.mu.Lock()
	sess, unit := w.sess, w.unit
	w.asked = true
	w.mu.Unlock()
	if sess != nil {
		// Its end makes the shim end, and finish does the rest.
		_ = sess.Notify(shim.NoteStop, shim.Stop{})
		sess.Close(errStopped)
		<-w.gone
		return
	}
	var left error
	if unit != nil {
		ctx, cancel := context.WithTimeout(ctx, removeLimit)
		defer cancel()
		left = unit.Remove(ctx)
	}
	w.settle(left)
}

// settle marks the end: the directory is removed, and what is left is known.
func (w *workload) settle(left error) {
	w.mu.Lock()
	if w.dir != "" {
		left = errors.Join(left, os.RemoveAll(w.dir))
	}
	w.left = left
	w.mu.Unlock()
	if left == nil {
		w.tell(deploy.Event{Kind: deploy.EventGone})
	}
	close(w.gone)
}

// note takes what the shim tells.
func (w *workload) note(method string, body json.RawMessage) {
	switch method {
	case shim.NoteHeld:
		decode(body, func(h shim.Held) {
			select {
			case w.held <- h:
			default: // told twice
			}
		})
	case shim.NoteStarted:
		decode(body, func(s shim.Started) {
			w.tell(deploy.Event{Kind: deploy.EventStarted, PID: hostPID(w.pid, s.PID)})
		})
	case shim.NoteProgress:
		decode(body, func(p shim.Progress) {
			e := deploy.Event{Kind: deploy.EventProgress, LogBytes: p.LogBytes, RSSBytes: p.RSSBytes, ReadBytes: p.ReadBytes}
			if p.Last != "" {
				e.Log = []string{p.Last}
			}
			w.tell(e)
		})
	case shim.NoteExited:
		decode(body, w.exit)
	case shim.NoteEnded:
		decode(body, func(e shim.Ended) {
			w.mu.Lock()
			w.ended = &e
			w.mu.Unlock()
		})
	}
}

// decode reads a notice; what cannot be read is of another version and says
// nothing.
func decode[T any](body json.RawMessage, use func(T)) {
	var v T
	if json.Unmarshal(body, &v) == nil {
		use(v)
	}
}

// exit tells the controller of the program's end, once. Whether the end was asked
// for is the shim's to say: a program that died while a stop was on its way to it
// died by itself.
func (w *workload) exit(e shim.Exited) {
	ending := w.a.toEnd()
	w.mu.Lock()
	if w.exited != nil {
		w.mu.Unlock()
		return
	}
	e.Exit.Asked = e.Exit.Asked || ending
	w.exited = &e
	w.mu.Unlock()
	w.tell(deploy.Event{Kind: deploy.EventExited, Exit: &e.Exit, Log: e.Log, LogBytes: e.LogBytes})
}

// finish does what is to be done when the shim is gone, however that came.
func (w *workload) finish(why error) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	w.mu.Lock()
	unit, ended, known, asked := w.unit, w.ended, w.exited != nil, w.asked
	w.mu.Unlock()
	if !known {
		what := "the shim is gone without a report: " + why.Error()
		if how := w.lastWord(why); how != "" {
			what += "; " + how
		}
		w.exit(shim.Exited{Exit: deploy.Exit{Code: -1, Lost: true, Asked: asked, Error: what}})
	}
	left := unit.Remove(ctx)
	if left == nil && ended != nil && len(ended.Survivors) > 0 {
		// The shim saw them alive last; whether they still are is what counts.
		for _, m := range runtime.FindMarked("/", w.spec.RunID, w.spec.ID) {
			left = errors.Join(left, &deploy.Fault{Class: deploy.ClassLeftover, Msg: "still there after SIGKILL: " + m.String()})
		}
	}
	w.settle(left)
}

// lastWordLimit bounds the question what became of a unit: it holds up the news
// that a process has ended.
const lastWordLimit = time.Second

// lastWord is what the container runtime says of a unit whose shim closed its
// connection without a word; empty: it says nothing in time, or the unit lives.
func (w *workload) lastWord(why error) string {
	if !errors.Is(why, wire.ErrEnded) {
		return "" // it is silent, and may well live
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWordLimit)
	defer cancel()
	return w.unit.Wait(ctx)
}

// release lets the program go.
func (w *workload) release(ctx context.Context) error {
	w.mu.Lock()
	sess := w.sess
	w.mu.Unlock()
	if sess == nil {
		return fmt.Errorf("release %s: it is not held", w.spec.ID)
	}
	if err := sess.Call(ctx, shim.MethodRelease, nil, nil); err != nil {
		return fmt.Errorf("release %s: %w", w.spec.ID, deploy.FromWire(err))
	}
	return nil
}

// stop ends the workload and returns when nothing of it is left. It may be
// asked at any time and again.
func (w *workload) stop(ctx context.Context, grace time.Duration) error {
	w.mu.Lock()
	w.asked = true
	sess := w.sess
	w.mu.Unlock()
	w.cancel(errStopped)
	if sess != nil {
		// A closed session means that the end is under way.
		_ = sess.Notify(shim.NoteStop, shim.Stop{Grace: grace})
	}
	limit := time.NewTimer(grace + endMargin)
	defer limit.Stop()
	select {
	case <-w.gone:
		return w.leftover()
	case <-limit.C:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", w.spec.ID, context.Cause(ctx))
	}
	// The shim does not answer; its container or group is ended without it.
	if sess != nil {
		sess.Close(errors.New("the shim did not end in time"))
	}
	final := time.NewTimer(removeLimit + endMargin)
	defer final.Stop()
	select {
	case <-w.gone:
		return w.leftover()
	case <-final.C:
		return &deploy.Fault{Class: deploy.ClassLeftover, Msg: fmt.Sprintf("stop %s: its end could not be seen", w.spec.ID)}
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", w.spec.ID, context.Cause(ctx))
	}
}

func (w *workload) leftover() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left
}
