package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// engine is one rank of one worker.
type engine struct {
	flags  flags
	log    *logger
	faults *faults

	mode  string // prefill, decode or null (both in one)
	host  string
	port  int
	model string // path
	name  string // as served
	limit int    // context length in tokens
	rank  int
	nodes int

	// vllm is set when the engine plays vLLM.
	vllm *vllm

	rooms   *rooms
	metrics *metrics
	ready   atomic.Bool
	deaf    atomic.Bool
}

// loadTime is how long loading takes without a fault; STANDIN_LOAD_SECONDS
// changes it.
const loadTime = 200 * time.Millisecond

// tokenTime is the time between two tokens; STANDIN_TOKEN_MS changes it.
const tokenTime = 2 * time.Millisecond

func engineMain(ctx context.Context, args []string, stderr io.Writer) int {
	if life, err := time.ParseDuration(os.Getenv(orphanChild)); err == nil {
		linger(life)
		return 0
	}
	e, err := newEngine(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "launch_server:", err)
		return 2
	}
	return e.main(ctx, append([]string{"engine"}, args...))
}

// main runs the engine to its end. argv starts it again as a child.
func (e *engine) main(ctx context.Context, argv []string) int {
	if code, done := e.faults.reparent(ctx, argv); done {
		return code
	}
	ctx, stop := withTerm(ctx, e.faults)
	defer stop()
	if err := e.run(ctx); err != nil {
		e.log.line("Scheduler hit an exception: " + err.Error())
		return 1
	}
	return 0
}

// withTerm ends ctx at SIGTERM or SIGINT, unless the fault says that they
// change nothing.
func withTerm(ctx context.Context, f *faults) (context.Context, func()) {
	if f.has("ignore-term") {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
}

func newEngine(args []string, stderr io.Writer) (*engine, error) {
	f := parseFlags(args)
	e := &engine{
		flags: f,
		mode:  f.text("null", "disaggregation-mode"),
		host:  f.text("127.0.0.1", "host"),
		port:  f.number(30000, "port"),
		model: f.text("", "model-path", "model"),
		limit: f.number(131072, "context-length"),
		rank:  f.number(0, "node-rank"),
		nodes: f.number(1, "nnodes"),
		rooms: newRooms(),
	}
	e.log = &logger{w: stderr, tag: fmt.Sprintf(" TP%d", e.rank*f.number(1, "tp-size", "tp", "tensor-parallel-size")/max(1, e.nodes))}
	if e.model == "" {
		return nil, errors.New("error: the following arguments are required: --model-path/--model")
	}
	if e.rank >= e.nodes {
		return nil, fmt.Errorf("error: --node-rank %d with --nnodes %d", e.rank, e.nodes)
	}
	var err error
	if e.faults, err = newFaults(place{role: e.mode, port: e.port, rank: e.rank}, e.log); err != nil {
		return nil, err
	}
	e.name = f.text(e.model, "served-model-name")
	if x, ok := e.faults.find("wrong-model"); ok {
		e.name = x.text("name", "other/model")
	}
	e.metrics = newMetrics(e.name)
	return e, nil
}

// run is a rank's life: load, join the other ranks, serve until ctx ends.
func (e *engine) run(ctx context.Context) error {
	e.faults.crash("start")
	e.faults.orphan()
	e.faults.background()
	e.log.line("server_args=ServerArgs(" + strings.Join(e.argsShown(), ", ") + ")")
	if err := e.load(ctx); err != nil {
		return err
	}
	if err := e.joinStore(ctx); err != nil {
		return err
	}
	peers, err := e.joinRanks(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	defer peers.close()
	if e.rank > 0 {
		return e.follow(ctx, peers)
	}
	return e.serve(ctx, peers)
}

func (e *engine) argsShown() []string {
	out := []string{}
	for name, v := range e.flags {
		if strings.Contains(name, "key") {
			continue
		}
		out = append(out, fmt.Sprintf("%s=%q", strings.ReplaceAll(name, "-", "_"), strings.Join(v, " ")))
	}
	return out
}

// load plays the loading of weights: a model directory must hold a config.
func (e *engine) load(ctx context.Context) error {
	e.log.line("Load weight begin. avail mem=191.08 GB")
	if filepath.IsAbs(e.model) {
		if _, err := os.Stat(filepath.Join(e.model, "config.json")); err != nil {
			return fmt.Errorf("OSError: can't load the configuration of %q: %w", e.model, err)
		}
	}
	e.faults.crash("load")
	total, progress := duration("STANDIN_LOAD_SECONDS", time.Second, loadTime), true
	if x, ok := e.faults.find("slow-load"); ok {
		total, progress = x.seconds("seconds", 10), x.text("progress", "true") == "true"
	}
	const shards = 8
	for i := range shards {
		if !pause(ctx, total/shards) {
			return nil
		}
		if progress {
			e.log.raw(fmt.Sprintf("Loading safetensors checkpoint shards: %3d%% Completed | %d/%d", (i+1)*100/shards, i+1, shards))
		}
	}
	e.log.line("Load weight end. type=StandinForCausalLM, dtype=torch.bfloat16, avail mem=41.20 GB, mem usage=149.88 GB.")
	return nil
}

// serve opens the ports of rank 0 and answers until ctx ends.
func (e *engine) serve(ctx context.Context, peers *peers) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !e.faults.has("ignore-peers") {
		go func() {
			if who, ok := peers.lost(ctx); ok {
				cancel(fmt.Errorf("rank %s %w", who, errPeerLeft))
			}
		}()
	}
	if e.mode == "prefill" && !e.faults.has("no-bootstrap") {
		l, err := listen(ctx, e.host, e.bootstrapPort())
		if err != nil {
			return err
		}
		defer l.Close()
		go func() { _ = http.Serve(l, e.bootstrapHandler()) }()
	}
	if e.vllm != nil {
		go e.vllm.register(ctx, e)
	}
	server := &http.Server{Handler: e.handler(), ReadHeaderTimeout: time.Minute}
	if !e.faults.has("not-listening") {
		l, err := listen(ctx, e.host, e.port)
		if err != nil {
			return err
		}
		go func() { _ = server.Serve(l) }()
		e.log.line(fmt.Sprintf("Uvicorn running on http://%s (Press CTRL+C to quit)", net.JoinHostPort(e.host, strconv.Itoa(e.port))))
	}
	// The real one sends itself a first request before it calls itself healthy.
	if !pause(ctx, 50*time.Millisecond) {
		return nil
	}
	e.ready.Store(true)
	if e.vllm != nil {
		e.log.line("Application startup complete.")
	} else {
		e.log.line("The server is fired up and ready to roll!")
	}
	e.faults.crash("ready")
	if x, ok := e.faults.find("deaf"); ok {
		time.AfterFunc(x.seconds("after", 0), func() { e.deaf.Store(true) })
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); errors.Is(cause, errPeerLeft) {
		return cause
	}
	e.log.line("SIGTERM received. Draining requests and shutting down")
	drain, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_ = server.Shutdown(drain)
	return nil
}

// bootstrapPort is where a prefill worker hands over KV.
func (e *engine) bootstrapPort() int {
	if e.vllm != nil {
		return e.vllm.handshake
	}
	return e.flags.number(8998, "disaggregation-bootstrap-port")
}

// listen opens a port on every address the real server would.
func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("[Errno 98] error while attempting to bind on address ('%s', %d): address already in use", host, port)
	}
	return l, err
}

// pause waits and says whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// duration reads a number of units from the environment.
func duration(name string, unit, def time.Duration) time.Duration {
	n, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil || n < 0 {
		return def
	}
	return time.Duration(n * float64(unit))
}
