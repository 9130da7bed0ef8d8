package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/wire"
)

// TestMain lets the test binary be the shim, the held program, and engines.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			code, err := Run(context.Background(), Options{Dir: os.Args[3], Version: "test"})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(code)
		case "shim-exec":
			fmt.Fprintln(os.Stderr, Exec(context.Background(), os.Args[3]))
			os.Exit(127)
		case "engine":
			engine(os.Args[2], os.Args[3:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// engine behaves as an engine does, or as it should not.
func engine(kind string, args []string) {
	switch kind {
	case "environ": // writes its environment as it has it
		if err := os.WriteFile(args[0], []byte(strings.Join(os.Environ(), "\x00")), 0o600); err != nil {
			panic(err)
		}
	case "stubborn": // does not end on TERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("pid", os.Getpid())
		if len(args) > 0 {
			os.NewFile(3, "ready").Close()
		}
		forever()
	case "daemon": // has a child in another session that ignores TERM
		c := exec.Command(os.Args[0], "engine", "stubborn", "tell")
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		c.ExtraFiles = []*os.File{w}
		if err := c.Start(); err != nil {
			panic(err)
		}
		w.Close()
		r.Read(make([]byte, 1)) // until the child is ready
		if len(args) > 0 {      // leave it behind
			fmt.Println("leaving")
			return
		}
		forever()
	case "say": // writes each argument, a moment apart
		for _, a := range args {
			os.Stdout.WriteString(a)
			time.Sleep(20 * time.Millisecond)
		}
	case "flood": // writes that many MiB without a line end
		n, _ := strconv.Atoi(args[0])
		chunk := []byte(strings.Repeat("f", 1<<20))
		for range n {
			os.Stdout.Write(chunk)
		}
	case "zombies": // leaves children behind that end at once
		for range 20 {
			c := exec.Command("/bin/sh", "-c", "(sleep 0.05 &) ; exit 0")
			c.Run()
		}
		fmt.Println("spawned")
		forever()
	case "kill-self":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
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

// agent is the other side: what the agent does, with everything it heard.
type agent struct {
	t    *testing.T
	dir  string
	log  string
	cmd  *exec.Cmd
	sess *wire.Session
	conn *net.UnixConn

	mu    sync.Mutex
	heard []wire.Frame
	news  chan struct{}
	ended chan error // of the shim process
}

// launch starts a shim for spec with these variables.
func launch(t *testing.T, spec Spec, env ...deploy.EnvEntry) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "dsgt") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &agent{t: t, dir: dir, log: filepath.Join(t.TempDir(), "engine.log"), news: make(chan struct{}, 1), ended: make(chan error, 1)}
	if spec.RunID == "" {
		spec.RunID, spec.Workload = "run-x", "decode-0.0"
	}
	if spec.Grace == 0 {
		spec.Grace = 10 * time.Second
	}
	b, err := EncodeEnv(env)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range env {
		if e.Secret {
			spec.Secrets = append(spec.Secrets, e.Name)
		}
	}
	put(t, filepath.Join(dir, EnvFile), b)
	j, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, SpecFile), j)
	if spec.Stdin {
		put(t, filepath.Join(dir, StdinFile), []byte("from stdin\n"))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, SocketFile), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	a.cmd = exec.Command(os.Args[0], "shim", "--dir", dir)
	a.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "IMAGE_VAR=from the image"}
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { a.ended <- a.cmd.Wait() }()
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		if p := a.enginePID(); p > 0 {
			syscall.Kill(p, syscall.SIGKILL)
		}
	})
	l.SetDeadline(time.Now().Add(10 * time.Second))
	if a.conn, err = l.AcceptUnix(); err != nil {
		t.Fatalf("shim did not connect: %v", err)
	}
	if err := SendFile(a.conn, f); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.ReadHello(t.Context(), a.conn); err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(a.conn, wire.Hello{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	a.sess = wire.NewSession(wire.Options{Beat: 100 * time.Millisecond, Lost: 20 * time.Second, Note: func(m string, b json.RawMessage) {
		a.mu.Lock()
		a.heard = append(a.heard, wire.Frame{Method: m, Body: b})
		a.mu.Unlock()
		select {
		case a.news <- struct{}{}:
		default:
		}
	}})
	go a.sess.Run(a.conn, 0)
	t.Cleanup(func() { a.sess.Close(nil) })
	return a
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// get returns the first notice of a kind, or false.
func (a *agent) get(method string, into any) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.heard {
		if f.Method == method {
			if err := json.Unmarshal(f.Body, into); err != nil {
				a.t.Errorf("%s: %v", method, err)
			}
			return true
		}
	}
	return false
}

// await waits for a notice.
func await[T any](a *agent, method string) T {
	a.t.Helper()
	var v T
	limit := time.After(20 * time.Second)
	for !a.get(method, &v) {
		select {
		case <-a.news:
		case <-limit:
			a.mu.Lock()
			defer a.mu.Unlock()
			var heard []string
			for _, f := range a.heard {
				heard = append(heard, fmt.Sprintf("%s %.200s", f.Method, f.Body))
			}
			a.t.Fatalf("no %q; heard %q", method, heard)
		}
	}
	return v
}

func (a *agent) release() error {
	ctx, cancel := context.WithTimeout(a.t.Context(), 20*time.Second)
	defer cancel()
	return a.sess.Call(ctx, MethodRelease, nil, nil)
}

// run releases the program and waits for its end and the shim's.
func (a *agent) run() Exited {
	a.t.Helper()
	if err := a.release(); err != nil {
		a.t.Errorf("release: %v", err)
	}
	e := await[Exited](a, NoteExited)
	a.over()
	return e
}

// over waits for the shim's own end.
func (a *agent) over() {
	a.t.Helper()
	select {
	case <-a.ended:
	case <-time.After(20 * time.Second):
		a.t.Fatal("the shim did not end")
	}
}

func (a *agent) enginePID() int {
	var h Held
	a.get(NoteHeld, &h)
	return h.PID
}

func (a *agent) text() string {
	b, err := os.ReadFile(a.log)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}

// self is a program of the test binary.
func self(args ...string) []string { return append([]string{SelfProgram, "engine"}, args...) }

// alive says whether a process exists and has not ended.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	p, ok := parseStat(b, 1)
	return ok && !p.zombie()
}

// goneWithin waits for the end of a process.
func goneWithin(t *testing.T, pid int, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is still there after %s", pid, limit)
		}
	}
}

func value(r deploy.Receipt, name string) (deploy.ReceiptVar, bool) {
	i := slices.IndexFunc(r.Env, func(v deploy.ReceiptVar) bool { return v.Name == name })
	if i < 0 {
		return deploy.ReceiptVar{}, false
	}
	return r.Env[i], true
}
