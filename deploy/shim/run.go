package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/wire"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/internal/redact"
	"github.com/disagg/disagg/models/env"
)

const (
	// leaseGrace bounds the grace of a program whose agent is gone: nobody waits
	// for it any more, and somebody may wait for its GPUs.
	leaseGrace = 10 * time.Second
	// orphanGrace is what the children of a program that ended by itself get.
	orphanGrace = 5 * time.Second
	// settleLimit bounds the wait for a disk to take the last output.
	settleLimit = 5 * time.Second
	// rssStep is how far memory must grow beyond its highest so far to count as
	// progress; a hung program's memory wavers by less.
	rssStep = 1 << 20
	// readStep is how much must be read from files since the last report to count as
	// progress: weights that go straight to a GPU grow neither log nor memory. A hung
	// program reads less in all its life.
	readStep = 16 << 20
	// connectLimit bounds the way to the agent, which waits at that moment.
	connectLimit = 20 * time.Second
)

// Options are what the shim needs.
type Options struct {
	// Dir is the directory shared with the agent.
	Dir string
	// Self is this binary; empty means the running one.
	Self    string
	Version string
}

// Run is the shim's life. It returns the exit code of the program, as a shell
// would give it, and an error when the program could not be started or the agent
// could not be reached.
func Run(ctx context.Context, o Options) (int, error) {
	if o.Self == "" {
		self, err := os.Executable()
		if err != nil {
			return 1, fmt.Errorf("find this binary: %w", err)
		}
		o.Self = self
	}
	s := &shim{opts: o, requests: make(chan Stop, 16), lease: make(chan struct{}), ready: make(chan struct{})}
	if err := s.connect(ctx); err != nil {
		// Without the agent this file is the only way to say why.
		// The directory is closed to others; the agent's user may be another.
		werr := os.WriteFile(filepath.Join(o.Dir, ErrorFile), []byte(err.Error()), 0o644)
		return 1, errors.Join(err, werr)
	}
	defer s.sess.Close(nil)
	code, err := s.live(ctx)
	select {
	case <-s.lease: // an agent that is gone hears no goodbye
	default:
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		// All is ended already; the agent sees the end of the stream too.
		_ = s.sess.Goodbye(bye, "ended")
	}
	return code, err
}

type shim struct {
	opts Options
	spec Spec
	env  []string // that the held program is started with
	plan overlay  // that goes over what it finds then
	wit  witness
	log  *os.File
	sink *sink
	sess *wire.Session

	requests chan Stop
	lease    chan struct{} // closed when the agent is gone
	ready    chan struct{} // closed when the program can be released
	gate     *gate
	proc     *procgroup.Process
	exec     execState
}

// connect reads what the agent left and opens the conversation.
func (s *shim) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := s.load(); err != nil {
		return err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(s.opts.Dir, SocketFile))
	if err != nil {
		return fmt.Errorf("reach the agent: %w", err)
	}
	if s.log, err = ReceiveFile(ctx, c.(*net.UnixConn)); err != nil {
		return fmt.Errorf("get the log file from the agent: %w", err)
	}
	s.sink.file = s.log
	if st, err := s.log.Stat(); err == nil {
		s.sink.size = st.Size() // an earlier life may have written to it
	}
	answer, err := wire.Greet(ctx, c, wire.Hello{Version: s.opts.Version})
	if err != nil {
		return fmt.Errorf("greet the agent: %w", err)
	}
	t := s.spec.Timing.Filled()
	s.sess = wire.NewSession(wire.Options{
		// The agent may be slow or stopped for a while; only when it is silent
		// for as long as it could have been without controller is it gone.
		Beat: t.Beat, Lost: t.Lost, Dead: t.Lost + t.Redial,
		Handle: s.handle,
		Note:   s.note,
	})
	go func() {
		// However it ended: without agent there is no lease.
		_ = s.sess.Run(c, answer.Received)
		close(s.lease)
	}()
	return nil
}

// load reads the specification and the environment and removes them.
func (s *shim) load() error {
	raw, err := take(filepath.Join(s.opts.Dir, SpecFile))
	if err != nil {
		return fmt.Errorf("read specification: %w", err)
	}
	if err := json.Unmarshal(raw, &s.spec); err != nil {
		return fmt.Errorf("read specification: %w", err)
	}
	if len(s.spec.Argv) == 0 {
		return errors.New("read specification: it names no program")
	}
	raw, err = take(filepath.Join(s.opts.Dir, EnvFile))
	if err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	own, err := decodeEnv(raw)
	if err != nil {
		return err
	}
	s.prepare(os.Environ(), own)
	return nil
}

// prepare works out what the held program is started with, what goes over it, and
// what must not be shown. base is the shim's own environment.
func (s *shim) prepare(base, own []string) {
	marks := []string{RunVar + "=" + s.spec.RunID, WorkloadVar + "=" + s.spec.Workload}
	// What goes before what is there waits for what the login shell puts there.
	whole := slices.DeleteFunc(slices.Clone(own), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(s.spec.Prepend, name)
	})
	s.env = layer(base, whole, marks)
	s.plan = overlay{Set: raws(slices.Concat(own, marks)), Prepend: s.spec.Prepend}

	secrets := map[string][]byte{}
	maps.Copy(secrets, s.spec.Redact)
	for _, kv := range slices.Concat(base, own) {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(s.spec.Secrets, name) || env.Secret(name) || env.SecretValue(value) {
			secrets[name] = []byte(value)
		}
	}
	red := redact.New(secrets)
	s.sink = &sink{red: red}
	s.wit = witness{
		workload: s.spec.Workload, base: base, planned: own, prepend: s.spec.Prepend, marks: marks,
		secrets: s.spec.Secrets, red: red, key: s.spec.ReceiptKey,
	}
}

// take reads a file and removes it.
func take(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return b, os.Remove(path)
}

// live starts the program and stays until nothing of it is left.
func (s *shim) live(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Orphans come to this process instead of to init, so that nothing below it
	// gets away.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s.fail(fmt.Errorf("become subreaper: %w", err))
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	// Having a handler, unlike ignoring, is not inherited by the program.
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(unheard)
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	defer signal.Stop(child)

	kills, countsOOM := oomKills("/")
	out, err := s.start(ctx)
	if err != nil {
		return s.fail(err)
	}
	defer s.gate.close()
	go reapOrphans(ctx, s.proc, child)
	go s.report(ctx)

	stop := newStopper(s.proc)
	asked := s.watch(ctx, stop, signals)

	exit := s.proc.Wait()
	out.settle(settleLimit)
	if err := s.spec.Give.do(); err != nil {
		_, _ = fmt.Fprintf(s.sink, "\n[disagg: %v]\n", err) // a sink never fails
	}
	s.sink.flush()
	ended := Exited{Exit: deploy.Exit{Code: exit.Code, Signal: exit.Signal, Asked: asked, Error: s.exec.failure()}}
	if now, ok := oomKills("/"); ok && countsOOM && exit.Signal == "SIGKILL" && !asked {
		ended.Exit.OOM = now > kills
	}
	ended.Log, ended.LogBytes = s.sink.report()
	_ = s.sess.Notify(NoteExited, ended)

	stop.stop(min(s.spec.Grace, orphanGrace))
	for waiting := true; waiting; {
		select {
		case r := <-s.requests:
			stop.stop(r.Grace)
		case <-stop.done:
			waiting = false
		}
	}
	out.settle(time.Second)
	out.close(time.Second)
	s.sink.flush()
	_ = s.log.Close()
	_ = s.sess.Notify(NoteEnded, Ended{Survivors: stop.left})
	if len(stop.left) > 0 {
		err = fmt.Errorf("end the program: still there: %s", strings.Join(stop.left, ", "))
	}
	return shellCode(exit), err
}

// fail reports a program that could not be started.
func (s *shim) fail(err error) (int, error) {
	_ = s.sess.Notify(NoteExited, Exited{Exit: deploy.Exit{Code: -1, Error: err.Error()}})
	_ = s.sess.Notify(NoteEnded, Ended{})
	return 1, err
}

// start starts the held program, its output on its way into the sink.
func (s *shim) start(ctx context.Context) (*pump, error) {
	argv, err := s.heldArgv()
	if err != nil {
		return nil, err
	}
	if s.gate, err = openGate(s.opts.Dir); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.gate.close()
		return nil, err
	}
	defer w.Close()
	cmd := procgroup.Command{Argv: argv, Env: s.env, Stdout: w, Stderr: w, ParentDeathSignal: syscall.SIGKILL}
	if s.spec.Stdin {
		path := filepath.Join(s.opts.Dir, StdinFile)
		if cmd.StdinFile, err = os.Open(path); err != nil {
			s.gate.close()
			r.Close()
			return nil, fmt.Errorf("open the program's input: %w", err)
		}
		defer cmd.StdinFile.Close()
		os.Remove(path)
	}
	// The program's end is this package's business alone, whatever becomes of
	// the context.
	if s.proc, err = procgroup.Start(context.WithoutCancel(ctx), cmd); err != nil {
		s.gate.close()
		r.Close()
		return nil, err
	}
	return startPump(r, s.sink)
}

// heldArgv is the command line of the held program: nothing of the engine is on
// it.
func (s *shim) heldArgv() ([]string, error) {
	held := []string{s.opts.Self, "shim-exec", "--dir", s.opts.Dir}
	switch s.spec.Shell {
	case "":
		return held, nil
	case "login":
		bash := "/bin/bash"
		if _, err := os.Stat(bash); err != nil {
			if bash, err = procgroup.LookPath("bash", s.env); err != nil {
				return nil, errors.New("shell: login needs bash, and there is none at /bin/bash nor on PATH; use an image that has it, or leave shell: out")
			}
		}
		return append([]string{bash, "-lc", `exec "$0" "$@"`}, held...), nil
	}
	return nil, fmt.Errorf("shell %q is unknown; it is login or empty", s.spec.Shell)
}

// report waits for the held program's report and passes it on, then tells of
// progress until ctx ends.
func (s *shim) report(ctx context.Context) {
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.proc.Done(): // nobody will report
			cancel()
		case <-held.Done():
		}
	}()
	rep, err := s.gate.accept(held, s.proc.PID(), s.plan)
	if err != nil {
		s.exec.fail(errNeverRan)
		return
	}
	_ = s.sess.Notify(NoteHeld, Held{PID: s.proc.PID(), Receipt: s.wit.receipt(rep)})
	close(s.ready)
	s.progress(ctx)
}

// progress tells once a second of growth of the log, of the memory, or of what was
// read from files.
func (s *shim) progress(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var log, most, read int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.proc.Done():
			return
		case <-tick.C:
		}
		var now Progress
		now.Last, now.LogBytes = s.sink.progress()
		for _, p := range descendants() {
			now.RSSBytes += p.rss
			now.ReadBytes += p.read()
		}
		read = min(read, now.ReadBytes) // what has ended does not count any more
		if now.LogBytes > log || now.RSSBytes >= most+rssStep || now.ReadBytes >= read+readStep {
			log, most, read = now.LogBytes, max(most, now.RSSBytes), now.ReadBytes
			_ = s.sess.Notify(NoteProgress, now)
		}
	}
}

// watch waits for the program's end and stops it when the agent asks, when the
// agent is gone, or when somebody ends this process. It says whether the end was
// asked for by the run.
func (s *shim) watch(ctx context.Context, stop *stopper, signals <-chan os.Signal) (asked bool) {
	lease := s.lease
	for {
		select {
		case <-s.proc.Done():
			return asked
		case r := <-s.requests:
			asked = true
			stop.stop(r.Grace)
		case <-lease:
			asked, lease = true, nil
			stop.stop(min(s.spec.Grace, leaseGrace))
		case <-signals:
			stop.stop(s.spec.Grace)
		case <-ctx.Done():
			stop.stop(s.spec.Grace)
			ctx = context.WithoutCancel(ctx)
		}
	}
}

// handle answers the agent's requests.
func (s *shim) handle(ctx context.Context, method string, _ json.RawMessage) (any, error) {
	if method != MethodRelease {
		return nil, fmt.Errorf("%q is unknown", method)
	}
	select {
	case <-s.ready:
	case <-s.lease:
		return nil, errNeverRan
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return nil, s.exec.once(func() error {
		argv := s.spec.Argv
		if argv[0] == SelfProgram {
			argv = append([]string{s.opts.Self}, argv[1:]...)
		}
		if err := s.gate.release(program{Argv: argv, Dir: s.spec.Dir}); err != nil {
			return deploy.ToWire(&deploy.Fault{Class: deploy.ClassProgram, Msg: "start the program: " + err.Error()})
		}
		return s.sess.Notify(NoteStarted, Started{PID: s.proc.PID()})
	})
}

// note takes the agent's notices.
func (s *shim) note(method string, body json.RawMessage) {
	var r Stop
	if method == NoteStop && json.Unmarshal(body, &r) == nil {
		select {
		case s.requests <- r:
		case <-s.sess.Done():
		}
	}
}

// shellCode is the exit code as a shell gives it.
func shellCode(e procgroup.Exit) int {
	if e.Signal != "" {
		return 128 + int(unix.SignalNum(e.Signal))
	}
	return max(e.Code, 0)
}
