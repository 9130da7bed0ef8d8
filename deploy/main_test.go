package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/agent"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/models"
)

// TestMain lets the test binary be every part of disagg on a node, an engine,
// and a controller that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-test.") {
		code := m.Run()
		if err := cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "take lab down:", err)
			code = 1
		}
		os.Exit(code)
	}
	ctx := context.Background()
	switch os.Args[1] {
	case "agent":
		err := agent.Run(ctx, agent.Options{Stdio: len(os.Args) > 2, Stdin: os.Stdin, Stdout: os.Stdout, Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "shim":
		code, err := shim.Run(ctx, shim.Options{Dir: os.Args[3], Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	case "shim-exec":
		fmt.Fprintln(os.Stderr, shim.Exec(ctx, os.Args[3]))
		os.Exit(127)
	case "engine":
		engine(os.Args[2:])
	case "controller":
		controller(os.Args[2], os.Args[3])
	default:
		fmt.Fprintln(os.Stderr, "unknown verb", os.Args[1])
		os.Exit(2)
	}
}

func engine(args []string) {
	switch args[0] {
	case "environ":
		if err := os.WriteFile(args[1], []byte(strings.Join(os.Environ(), "\x00")), 0o600); err != nil {
			panic(err)
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		forever()
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println("port", l.Addr().(*net.TCPAddr).Port)
		forever()
	case "id":
		fmt.Println("uid", os.Getuid(), "gid", os.Getgid())
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 4<<20)
			for i := range b {
				b[i] = 1
			}
			if all = append(all, b); len(all) > 1<<16 {
				return
			}
		}
	case "flood":
		n, _ := strconv.Atoi(args[1])
		os.Stdout.Write(bytes.Repeat([]byte("o"), n))
		os.Stderr.Write(bytes.Repeat([]byte("e"), n))
	case "daemon":
		c := exec.Command(os.Args[0], "engine", "stubborn")
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
		forever()
	}
}

// forever blocks; an empty select would be a deadlock to the runtime of a program
// without any other goroutine.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// controller runs one workload over a local agent until it is killed.
func controller(dir, kind string) {
	events := make(chan deploy.Event, 100)
	s := setup(dir, events)
	c, err := deploy.Local(context.Background(), s, "node1", os.Args[0])
	if err != nil {
		panic(err)
	}
	w := workload(s, dir, "w", shim.SelfProgram, "engine", kind)
	if _, err := c.Create(context.Background(), w); err != nil {
		panic(err)
	}
	if err := c.Release(context.Background(), "w"); err != nil {
		panic(err)
	}
	for e := range events {
		if e.Kind == deploy.EventStarted {
			fmt.Println(e.PID, c.Info().PID)
			os.Stdout.Close()
		}
	}
}

func quick() deploy.Timing {
	return deploy.Timing{Beat: 50 * time.Millisecond, Lost: 1500 * time.Millisecond, Redial: 1500 * time.Millisecond}
}

func setup(dir string, events chan<- deploy.Event) deploy.Setup {
	return deploy.Setup{
		RunID: "run-" + filepath.Base(dir), Version: "test", Scratch: dir, Timing: quick(),
		Runtime: models.Runtime{Kind: "none"}, Events: events, KillWait: 6 * time.Second,
	}
}

func workload(s deploy.Setup, dir, id string, argv ...string) deploy.Workload {
	return deploy.Workload{
		RunID: s.RunID, ID: id, Role: "decode", Runtime: s.Runtime, Argv: argv,
		LogPath: filepath.Join(dir, "logs", id+".log"), Grace: 5 * time.Second, ReceiptKey: []byte("key"),
	}
}

// tempDir is a short directory, since sockets will be below it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bench is a node with its connection and everything that was told.
type bench struct {
	t    *testing.T
	dir  string
	s    deploy.Setup
	conn *deploy.Conn

	mu     sync.Mutex
	events []deploy.Event
	news   chan struct{}
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: tempDir(t), news: make(chan struct{}, 1)}
	ch := make(chan deploy.Event)
	b.s = setup(b.dir, ch)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case e := <-ch:
				b.mu.Lock()
				b.events = append(b.events, e)
				b.mu.Unlock()
				select {
				case b.news <- struct{}{}:
				default:
				}
			case <-stop:
				return
			}
		}
	}()
	return b
}

// local is a bench with an agent that is a child process.
func local(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	var err error
	if b.conn, err = deploy.Local(t.Context(), b.s, "node1", os.Args[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	return b
}

// await waits for an event.
func (b *bench) await(kind deploy.EventKind, id string) deploy.Event {
	b.t.Helper()
	return b.awaitNth(kind, id, 1)
}

func (b *bench) awaitNth(kind deploy.EventKind, id string, nth int) deploy.Event {
	b.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		n := 0
		b.mu.Lock()
		for _, e := range b.events {
			if e.Kind == kind && e.Workload == id {
				if n++; n == nth {
					b.mu.Unlock()
					return e
				}
			}
		}
		b.mu.Unlock()
		select {
		case <-b.news:
		case <-limit:
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("no event %d of kind %q for %q; there were %+v", nth, kind, id, b.events)
		}
	}
}

// run creates and releases a workload and gives its process id.
func (b *bench) run(id string, argv ...string) int {
	b.t.Helper()
	if _, err := b.conn.Create(b.t.Context(), workload(b.s, b.dir, id, argv...)); err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.Release(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
	return b.await(deploy.EventStarted, id).PID
}

func (b *bench) log(id string) string {
	d, err := os.ReadFile(filepath.Join(b.dir, "logs", id+".log"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(d)
}

// awaitLog waits until a log holds a text.
func (b *bench) awaitLog(id, text string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(b.log(id), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("log of %s: %q", id, b.log(id))
		}
	}
}

// scratch lists the scratch directories.
func (b *bench) scratch() []string {
	dirs, err := filepath.Glob(filepath.Join(b.dir, "dsg-*"))
	if err != nil {
		b.t.Fatal(err)
	}
	return dirs
}

func alive(pid int) bool {
	d, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(d[bytes.LastIndexByte(d, ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}

func goneWithin(t *testing.T, what string, limit time.Duration, there func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); there(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is still there after %s", what, limit)
		}
	}
}

func pidGone(t *testing.T, pid int, limit time.Duration) {
	t.Helper()
	if pid == 0 {
		t.Fatal("the process id is not known")
	}
	goneWithin(t, fmt.Sprintf("process %d", pid), limit, func() bool { return alive(pid) })
}

// remote is a bench with an agent that dials back, through a wire that can be
// cut.
type remote struct {
	*bench
	l     *deploy.Listener
	cmd   *exec.Cmd
	stdin io.WriteCloser
	cable *cable
	ended chan error
	said  *bytes.Buffer // stderr; valid after ended
}

func dialBack(t *testing.T) *remote {
	t.Helper()
	b := newBench(t)
	r := &remote{bench: b, ended: make(chan error, 1)}
	var err error
	if r.l, err = deploy.Listen(t.Context(), b.s, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.l.Close() })
	r.start("node7", "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if b.conn, err = r.l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	return r
}

// start starts an agent whose address of the controller is the cable's end.
func (r *remote) start(node, iface string) {
	r.t.Helper()
	line, err := r.l.Bootstrap()
	if err != nil {
		r.t.Fatal(err)
	}
	var boot deploy.Bootstrap
	if err := json.Unmarshal(line, &boot); err != nil {
		r.t.Fatal(err)
	}
	r.cable = newCable(r.t, boot.Addrs[0])
	// The first address answers nobody; agents try all.
	boot.Addrs = []string{"127.0.0.1:1", r.cable.addr()}
	boot.Node, boot.Interface, boot.Loopback = node, iface, true
	if line, err = boot.Line(); err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command(os.Args[0], "agent")
	r.said = &bytes.Buffer{}
	r.cmd.Stderr = r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	cmd, ended := r.cmd, r.ended
	go func() { ended <- cmd.Wait() }()
	r.t.Cleanup(func() { cmd.Process.Kill() })
	if _, err := r.stdin.Write(line); err != nil {
		r.t.Fatal(err)
	}
}

// cable forwards TCP until it is cut (connections end) or held (nothing passes).
type cable struct {
	l      net.Listener
	target string

	mu    sync.Mutex
	cond  *sync.Cond
	held  bool
	cut   bool
	conns map[net.Conn]bool
}

func newCable(t *testing.T, target string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{l: l, target: target, conns: map[net.Conn]bool{}}
	c.cond = sync.NewCond(&c.mu)
	t.Cleanup(func() { l.Close(); c.set(false, true) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(in)
		}
	}()
	return c
}

func (c *cable) addr() string { return c.l.Addr().String() }

func (c *cable) carry(in net.Conn) {
	out, err := net.Dial("tcp", c.target)
	if err != nil {
		in.Close()
		return
	}
	c.mu.Lock()
	if c.cut {
		in.Close()
		out.Close()
	}
	c.conns[in], c.conns[out] = true, true
	c.mu.Unlock()
	go c.copy(in, out)
	c.copy(out, in)
}

func (c *cable) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		for c.held {
			c.cond.Wait()
		}
		c.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// set holds the cable, or cuts it, which ends all connections and refuses new
// ones.
func (c *cable) set(held, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.cut = held, cut
	if cut {
		for x := range c.conns {
			x.Close()
		}
		clear(c.conns)
	}
	c.cond.Broadcast()
}
