package orchestrator

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/peers"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
)

// cluster is an in-memory cluster: nodes with agents, programs that are Go
// functions, and a network that only reaches programs that run. Tests script the
// programs; everything else behaves as the real thing is specified to.
type cluster struct {
	mu       sync.Mutex
	nodes    map[string]*fakeNode
	order    []string
	programs map[string]program // by process id
	servers  map[string]*server // by host:port
	events   chan<- deploy.Event
	ctx      context.Context
	closed   atomic.Bool
	unreach  map[string]error // nodes that cannot be reached
	never    map[string]bool  // nodes whose agent never answers
	rooms    map[int64]bool   // bootstrap rooms that prefill has filled
	routed   map[string]int   // requests the router has sent, by host:port
}

// program is what a released process does. It returns how it ends; ctx ends when
// it is told to stop.
type program func(ctx context.Context, p *fakeProc) deploy.Exit

// server is a listener of a running process.
type server struct {
	proc    *fakeProc
	handler http.Handler
}

type fakeProc struct {
	*cluster
	node *fakeNode
	w    deploy.Workload

	logFrom int64 // where this life begins in the log

	mu       sync.Mutex
	stop     context.CancelCauseFunc
	done     chan struct{}
	running  bool
	asked    bool
	stubborn bool // does not end by TERM
	silent   bool // nobody says how it ended
}

type fakeNode struct {
	*cluster
	info deploy.NodeInfo
	mu   sync.Mutex
	proc map[string]*fakeProc
	done chan struct{}
	err  error
	once sync.Once

	// Scripts of a test; nil: as it should be.
	onCreate func(w *deploy.Workload) error
	receipt  func(id string, env []deploy.ReceiptVar) []deploy.ReceiptVar
	onStop   func(ctx context.Context, id string) error
	look     func() (deploy.Leftovers, error)
	wall     string // the node that it does not reach
	exec     func(req deploy.ExecRequest) (deploy.ExecResult, error)
	image    func(ref string) (deploy.ImageInfo, error)
	reap     func() (deploy.Reaped, error)
	again    *fakeNode // the second agent, once this one is lost; nil: it cannot be reached
	blind    bool      // does not see the controller's files
	private  string
	looks    int
}

var _ Node = (*fakeNode)(nil)

var errKilled = errors.New("killed")

func newCluster(names ...string) *cluster {
	c := &cluster{
		nodes: map[string]*fakeNode{}, order: names, programs: map[string]program{}, servers: map[string]*server{},
		unreach: map[string]error{}, never: map[string]bool{}, rooms: map[int64]bool{}, routed: map[string]int{},
	}
	for i, name := range names {
		c.nodes[name] = &fakeNode{
			cluster: c, proc: map[string]*fakeProc{}, done: make(chan struct{}),
			info: deploy.NodeInfo{
				Name: name, Host: name, Addr: fmt.Sprintf("10.0.0.%d", i+1), Interface: "eno1",
				Addrs:  map[string]string{"eno1": fmt.Sprintf("10.0.0.%d", i+1), "eno2": fmt.Sprintf("10.1.0.%d", i+1)},
				BootID: "boot-" + name, UID: 1000, RDMA: []string{"rdma0", "rdma1"}, EphemeralPorts: [2]int{32768, 60999},
			},
		}
	}
	return c
}

// Start implements Launcher.
func (c *cluster) Start(ctx context.Context, nodes []string, events chan<- deploy.Event) (<-chan Connection, error) {
	if c.ctx == nil {
		c.ctx, c.events = ctx, events
	}
	out := make(chan Connection, len(nodes))
	for _, name := range nodes {
		switch {
		case c.unreach[name] != nil:
			out <- Connection{Name: name, Err: c.unreach[name]}
		case c.never[name]:
		case c.nodes[name].Err() != nil && c.nodes[name].again == nil:
			out <- Connection{Name: name, Err: errors.New("no route to host")}
		case c.nodes[name].Err() != nil:
			out <- Connection{Name: name, Node: c.nodes[name].again}
		default:
			out <- Connection{Name: name, Node: c.nodes[name]}
		}
	}
	if len(c.never) == 0 {
		close(out)
	}
	return out, nil
}

// Close implements Launcher.
func (c *cluster) Close(context.Context) error {
	c.closed.Store(true)
	return nil
}

func (c *cluster) send(e deploy.Event) {
	e.Time = time.Now()
	select {
	case c.events <- e:
	case <-c.ctx.Done():
	}
}

// RoundTrip implements http.RoundTripper: connections reach what listens.
func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	s := c.servers[req.URL.Host]
	c.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("dial tcp %s: %w", req.URL.Host, syscall.ECONNREFUSED)
	}
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.handler.ServeHTTP(rec, req)
	}()
	select {
	case <-done:
		return rec.Result(), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-s.proc.done:
		return nil, io.ErrUnexpectedEOF
	}
}

// listen serves a port of the process's node until the process ends.
func (p *fakeProc) listen(port int, h http.Handler) {
	key := fmt.Sprintf("%s:%d", p.node.info.Addr, port)
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	p.servers[key] = &server{p, h}
}

func (p *fakeProc) unlisten() {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	for k, s := range p.servers {
		if s.proc == p {
			delete(p.servers, k)
		}
	}
}

// log writes to the process's log and reports progress.
func (p *fakeProc) log(line string) {
	f, err := os.OpenFile(p.w.LogPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, line)
	info, _ := f.Stat()
	_ = f.Close()
	p.node.report(deploy.Event{Workload: p.w.ID, Kind: deploy.EventProgress, Log: []string{line}, LogBytes: info.Size()})
}

func (n *fakeNode) Info() deploy.NodeInfo { return n.info }
func (n *fakeNode) Done() <-chan struct{} { return n.done }
func (n *fakeNode) Err() error            { n.mu.Lock(); defer n.mu.Unlock(); return n.err }

// lose cuts the node off.
func (n *fakeNode) lose(err error) {
	n.once.Do(func() {
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
		close(n.done)
		if err == nil {
			return
		}
		// The lease ends what runs there.
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, p := range n.proc {
			p.mu.Lock()
			if p.stop != nil {
				p.stop(nil)
			}
			p.mu.Unlock()
		}
	})
}

// report sends an event, unless the node is cut off.
func (n *fakeNode) report(e deploy.Event) {
	select {
	case <-n.done:
	default:
		e.Node = n.info.Name
		n.send(e)
	}
}

func (n *fakeNode) Close() error { n.lose(nil); return nil }

func (n *fakeNode) Exec(_ context.Context, req deploy.ExecRequest) (deploy.ExecResult, error) {
	if n.exec != nil {
		return n.exec(req)
	}
	last := req.Argv[len(req.Argv)-1]
	switch {
	case last == PeersVerb:
		return n.lookForPeers(req)
	case req.Argv[0] == "rm":
		n.cluster.mu.Lock() // nobody sees half of it gone
		defer n.cluster.mu.Unlock()
		return deploy.ExecResult{}, os.RemoveAll(last)
	case len(req.Argv) == 3 && req.Argv[1] == "-e":
		if _, err := os.Stat(last); err != nil {
			return deploy.ExecResult{Exit: 1}, nil
		}
	}
	return deploy.ExecResult{}, nil
}

// lookForPeers answers as a node that reaches all others but those behind its wall.
func (n *fakeNode) lookForPeers(req deploy.ExecRequest) (deploy.ExecResult, error) {
	var ask peers.Ask
	var ans peers.Answer
	if err := json.Unmarshal(req.Stdin, &ask); err != nil {
		return deploy.ExecResult{Exit: 1, Stderr: []byte(err.Error())}, nil
	}
	for _, p := range ask.Peers {
		for _, port := range p.Ports {
			if p.Name == n.wall {
				ans.Unreached = append(ans.Unreached, peers.Unreached{Name: p.Name, Addr: fmt.Sprintf("%s:%d", p.Addr, port), Why: "no answer within 2s"})
			}
		}
	}
	out, err := json.Marshal(ans)
	return deploy.ExecResult{Stdout: out}, err
}

func (n *fakeNode) Image(_ context.Context, _ models.Runtime, ref string) (deploy.ImageInfo, error) {
	if n.image != nil {
		return n.image(ref)
	}
	return deploy.ImageInfo{ID: "sha256:" + ref}, nil
}

func (n *fakeNode) Create(_ context.Context, w deploy.Workload) (deploy.Receipt, error) {
	if n.onCreate != nil {
		if err := n.onCreate(&w); err != nil {
			return deploy.Receipt{}, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(w.LogPath), 0o700); err != nil {
		return deploy.Receipt{}, err
	}
	log, err := os.OpenFile(w.LogPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return deploy.Receipt{}, err
	}
	info, err := log.Stat()
	_ = log.Close()
	if err != nil {
		return deploy.Receipt{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc[w.ID] != nil {
		return deploy.Receipt{}, fmt.Errorf("%s exists", w.ID)
	}
	n.proc[w.ID] = &fakeProc{cluster: n.cluster, node: n, w: w, logFrom: info.Size(), done: make(chan struct{})}
	n.report(deploy.Event{Workload: w.ID, Kind: deploy.EventCreated})
	rec := []deploy.ReceiptVar{{Name: "PATH", Value: []byte("/bin")}}
	for _, e := range w.Env {
		v := deploy.ReceiptVar{Name: e.Name, Value: e.Value}
		if e.Secret || env.Secret(e.Name) {
			v = deploy.ReceiptVar{Name: e.Name, HMAC: sum(e.Value, w.ReceiptKey)}
		}
		rec = append(rec, v)
	}
	if n.receipt != nil {
		rec = n.receipt(w.ID, rec)
	}
	return deploy.Receipt{Workload: w.ID, Env: rec}, nil
}

func (n *fakeNode) Release(_ context.Context, id string) error {
	n.mu.Lock()
	p := n.proc[id]
	n.mu.Unlock()
	if p == nil {
		return fmt.Errorf("no workload %s", id)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	p.mu.Lock()
	p.stop, p.running = cancel, true
	p.mu.Unlock()
	run := n.programs[id]
	if run == nil {
		return fmt.Errorf("the test has no program for %s", id)
	}
	n.report(deploy.Event{Workload: id, Kind: deploy.EventStarted, PID: 4711})
	go func() {
		exit := run(ctx, p)
		p.unlisten()
		p.mu.Lock()
		if context.Cause(ctx) == errKilled {
			exit = deploy.Exit{Code: -1, Signal: "SIGKILL"}
		}
		exit.Asked = p.asked
		p.mu.Unlock()
		close(p.done)
		cancel(nil)
		data, _ := os.ReadFile(p.w.LogPath)
		var tail []string
		if text := strings.TrimSpace(string(data[min(p.logFrom, int64(len(data))):])); text != "" {
			tail = strings.Split(text, "\n")
		}
		if !p.silent {
			n.report(deploy.Event{Workload: id, Kind: deploy.EventExited, Exit: &exit, Log: tail, LogBytes: int64(len(data))})
		}
		n.remove(id)
		n.report(deploy.Event{Workload: id, Kind: deploy.EventGone})
	}()
	return nil
}

func (n *fakeNode) remove(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.proc, id)
}

func (n *fakeNode) Stop(ctx context.Context, id string, grace time.Duration) error {
	if n.onStop != nil {
		if err := n.onStop(ctx, id); err != nil {
			return err
		}
	}
	n.mu.Lock()
	p := n.proc[id]
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.asked = true
	stop, stubborn := p.stop, p.stubborn
	p.mu.Unlock()
	if stop == nil { // held
		n.remove(id)
		n.report(deploy.Event{Workload: id, Kind: deploy.EventGone})
		return nil
	}
	if !stubborn {
		stop(nil)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	stop(errKilled)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find gives a process that exists; nil: none.
func (c *cluster) find(id string) *fakeProc {
	for _, n := range c.nodes {
		n.mu.Lock()
		p := n.proc[id]
		n.mu.Unlock()
		if p != nil {
			return p
		}
	}
	return nil
}

// kill ends a process from outside, as an OOM killer or a user would.
func (c *cluster) kill(id string) {
	if p := c.find(id); p != nil {
		p.stop(errKilled)
	}
}

// vanish takes a container away from outside, with its shim.
func (c *cluster) vanish(id string) {
	p := c.find(id)
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	p.stop(errKilled)
}

func (n *fakeNode) Look(context.Context, string, []int) (deploy.Leftovers, error) {
	n.mu.Lock()
	n.looks++
	n.mu.Unlock()
	if n.look != nil {
		return n.look()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := deploy.Leftovers{Node: n.info.Name}
	for id := range n.proc {
		l.Processes = append(l.Processes, id)
	}
	slices.Sort(l.Processes)
	return l, nil
}

func (n *fakeNode) Reap(context.Context, deploy.ReapRequest) (deploy.Reaped, error) {
	if n.reap != nil {
		return n.reap()
	}
	return deploy.Reaped{}, nil
}

func (n *fakeNode) ReadFile(_ context.Context, path string, offset int64, limit int) ([]byte, int64, error) {
	if n.blind && !strings.HasPrefix(path, n.private) {
		return nil, 0, fs.ErrNotExist
	}
	n.cluster.mu.Lock()
	data, err := os.ReadFile(path)
	n.cluster.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	size := int64(len(data))
	data = data[min(offset, size):]
	return data[:min(limit, len(data))], size, nil
}

func (n *fakeNode) WriteFile(_ context.Context, path string, mode uint32, data []byte) error {
	if n.blind && !strings.HasPrefix(path, n.private) {
		return fs.ErrPermission
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, fs.FileMode(mode))
}

func (n *fakeNode) Fetch(_ context.Context, dir string, w io.Writer) error {
	tw := tar.NewWriter(w)
	if err := tw.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	return tw.Close()
}

// engine is a serving worker, shaped like sglang.
type engine struct {
	model    string
	role     string
	port     int
	load     time.Duration // how long it loads, a line each second
	served   atomic.Int64
	deaf     atomic.Bool
	metrics  bool
	inFlight atomic.Int64
	steps    atomic.Int64                                  // tokens of answers that have not ended
	awaiting atomic.Int64                                  // requests that wait for their KV
	boot     int                                           // prefill's bootstrap port; 0: it opens none
	says     string                                        // of itself; empty: it does not tell
	before   func(http.ResponseWriter, *http.Request) bool // true: answered
}

func (e *engine) run(ctx context.Context, p *fakeProc) deploy.Exit {
	e.served.Store(0)
	until := time.Now().Add(e.load)
	for time.Now().Before(until) {
		p.log("loading weights")
		if !pause(ctx, time.Second) {
			return deploy.Exit{Code: 143}
		}
	}
	p.log("ready")
	p.listen(e.port, e.handler(p))
	if e.boot != 0 {
		p.listen(e.boot, http.NotFoundHandler()) // the page differs between releases
	}
	<-ctx.Done()
	return deploy.Exit{Code: 143}
}

func (e *engine) handler(p *fakeProc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, `{"data":[{"id":%q}]}`, e.model) })
	mux.HandleFunc("GET /get_server_info", func(w http.ResponseWriter, r *http.Request) {
		if e.says == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, e.says)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !e.metrics {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total{model_name=\"m\"} %d\nsglang:inter_token_latency_seconds_count{model_name=\"m\"} %d\nsglang:num_running_reqs{model_name=\"m\"} %d\nsglang:num_decode_transfer_queue_reqs{model_name=\"m\"} %d\n", e.served.Load(), e.served.Load()+e.steps.Load(), e.inFlight.Load(), e.awaiting.Load())
		if e.role == models.RolePrefill {
			_, _ = io.WriteString(w, "sglang:num_prefill_inflight_queue_reqs{model_name=\"m\"} 0\n")
		}
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var req chatRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Model != e.model {
			http.Error(w, `{"message":"The model does not exist"}`, http.StatusNotFound)
			return
		}
		p.cluster.mu.Lock()
		if e.role == models.RolePrefill {
			p.rooms[req.BootstrapRoom] = true
		}
		p.cluster.mu.Unlock()
		for e.role == models.RoleDecode && !p.filled(req.BootstrapRoom) {
			if !pause(r.Context(), 10*time.Millisecond) {
				return
			}
		}
		e.served.Add(1)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"4"}}],"usage":{"completion_tokens":1}}`)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.deaf.Load() {
			<-r.Context().Done()
			return
		}
		if e.before != nil && e.before(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (p *fakeProc) filled(room int64) bool {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.rooms[room]
}

// fakeRouter routes to the pairs of a plan in turn.
type fakeRouter struct {
	port    int
	members func() string
	next    atomic.Int64
	broken  atomic.Bool
	pairs   [][2]string // host:port of prefill and decode
	before  func(http.ResponseWriter, *http.Request) bool
}

func (f *fakeRouter) run(ctx context.Context, p *fakeProc) deploy.Exit {
	p.log("router up")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("GET /workers", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, f.members()) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var req chatRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if f.broken.Load() {
			_, _ = io.WriteString(w, `{"error":{"message":"No available decode workers (all circuits open or unhealthy)"}}`)
			return
		}
		n := f.next.Add(1)
		pair := f.pairs[int(n)%len(f.pairs)]
		req.BootstrapRoom = -n
		body, _ := json.Marshal(req)
		var res *http.Response
		for _, host := range pair {
			p.cluster.mu.Lock()
			p.routed[host]++
			p.cluster.mu.Unlock()
			sub, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+host+chatPath, strings.NewReader(string(body)))
			var err error
			if res, err = p.RoundTrip(sub); err != nil {
				http.Error(w, `{"error":{"message":"`+err.Error()+`"}}`, http.StatusBadGateway)
				return
			}
			defer func() { _ = res.Body.Close() }()
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	})
	p.listen(29100, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.cluster.mu.Lock()
		defer p.cluster.mu.Unlock()
		for host, n := range p.routed {
			_, _ = fmt.Fprintf(w, "vllm_router_processed_requests_total{worker=\"http://%s\"} %d\n", host, n)
		}
	}))
	p.listen(f.port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.before == nil || !f.before(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	<-ctx.Done()
	return deploy.Exit{Code: 0}
}

// client writes one result file after some time.
func client(took time.Duration, content string) program {
	return func(ctx context.Context, p *fakeProc) deploy.Exit {
		p.log("benchmark running")
		if !pause(ctx, took) {
			return deploy.Exit{Code: 143}
		}
		dir := p.w.Argv[len(p.w.Argv)-1]
		if err := os.WriteFile(filepath.Join(dir, "out.json"), []byte(content), 0o600); err != nil {
			return deploy.Exit{Code: 1}
		}
		return deploy.Exit{}
	}
}
