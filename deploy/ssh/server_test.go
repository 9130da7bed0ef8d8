package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/agent"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/models"
)

// TestMain lets the test binary be the one that is put on nodes.
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
	var err error
	switch os.Args[1] {
	case "agent":
		err = agent.Run(ctx, agent.Options{Stdio: true, Stdin: os.Stdin, Stdout: os.Stdout, Version: "test"})
	case "shim":
		_, err = shim.Run(ctx, shim.Options{Dir: os.Args[3], Version: "test"})
	case "shim-exec":
		err = shim.Exec(ctx, os.Args[3])
	default:
		err = fmt.Errorf("unknown verb %s", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// server is an sshd of which every misbehaviour can be asked for.
type server struct {
	t    *testing.T
	l    net.Listener
	key  ssh.Signer
	user ssh.PublicKey // whom it lets in

	drop    atomic.Int32 // so many connections are hung up on before the greeting
	mute    atomic.Bool  // connections are accepted and never answered
	noise   string       // what login scripts print before each command
	env     []string     // of commands
	forbid  bool         // no forwarding
	logins  atomic.Int32
	pending atomic.Int32 // connections that are logging in
	most    atomic.Int32 // the most of these at once

	mu    sync.Mutex
	conns []net.Conn
	cmds  []string
}

func newServer(t *testing.T, user ssh.PublicKey, change func(*server)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, l: l, key: newKey(t), user: user, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}}
	if change != nil {
		change(s)
	}
	t.Cleanup(s.close)
	go s.serve()
	return s
}

func (s *server) close() {
	s.l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// cut ends all present connections.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *server) port() int { return s.l.Addr().(*net.TCPAddr).Port }

func (s *server) serve() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		if s.mute.Load() {
			continue
		}
		if s.drop.Add(-1) >= 0 {
			c.Close()
			continue
		}
		go s.login(c)
	}
}

func (s *server) login(raw net.Conn) {
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		// Counted where the client cannot be through yet.
		n := s.pending.Add(1)
		for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
		}
		time.Sleep(10 * time.Millisecond) // long enough for logins to overlap
		s.pending.Add(-1)
		if s.user == nil || string(k.Marshal()) != string(s.user.Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(s.key)
	_, chans, reqs, err := ssh.NewServerConn(raw, cfg)
	if err != nil {
		raw.Close()
		return
	}
	s.logins.Add(1)
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		switch nc.ChannelType() {
		case "session":
			go s.session(nc)
		case "direct-tcpip":
			go s.forward(nc)
		default:
			nc.Reject(ssh.UnknownChannelType, "")
		}
	}
}

func (s *server) forward(nc ssh.NewChannel) {
	if s.forbid {
		nc.Reject(ssh.Prohibited, "administratively prohibited")
		return
	}
	var to struct {
		Host string
		Port uint32
		From string
		Fp   uint32
	}
	ssh.Unmarshal(nc.ExtraData(), &to)
	c, err := net.Dial("tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		nc.Reject(ssh.ConnectionFailed, "connect failed: "+err.Error())
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	go func() { io.Copy(ch, c); ch.Close() }()
	io.Copy(c, ch)
	c.Close()
}

// session runs commands as sshd does: the end of the session closes the
// command's stdin and ends nothing.
func (s *server) session(nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	for r := range reqs {
		if r.Type != "exec" {
			r.Reply(false, nil)
			continue
		}
		var p struct{ Command string }
		ssh.Unmarshal(r.Payload, &p)
		s.mu.Lock()
		s.cmds = append(s.cmds, p.Command)
		s.mu.Unlock()
		r.Reply(true, nil)
		go func() {
			io.WriteString(ch, s.noise)
			c := exec.Command("/bin/sh", "-c", p.Command)
			c.Env = s.env
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.Stdout, c.Stderr = ch, ch.Stderr()
			in, _ := c.StdinPipe()
			status := struct{ Status uint32 }{255}
			if err := c.Start(); err == nil {
				go func() { io.Copy(in, ch); in.Close() }()
				c.Wait()
				status.Status = uint32(c.ProcessState.ExitCode())
			}
			ch.SendRequest("exit-status", false, ssh.Marshal(status))
			ch.Close()
		}()
	}
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// home is a user's home directory with a key.
type home struct {
	dir, identity string
	public        ssh.PublicKey
	private       ed25519.PrivateKey
}

func newHome(t *testing.T) home {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := home{dir: t.TempDir(), private: key}
	h.identity = filepath.Join(h.dir, ".ssh", "id_ed25519")
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, h.identity, string(pem.EncodeToMemory(block)))
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	h.public = s.PublicKey()
	return h
}

// knows writes the servers' keys into known_hosts.
func (h home) knows(t *testing.T, servers ...*server) {
	t.Helper()
	var out strings.Builder
	for _, s := range servers {
		out.WriteString(knownhosts.Line([]string{fmt.Sprintf("127.0.0.1:%d", s.port())}, s.key.PublicKey()) + "\n")
	}
	write(t, filepath.Join(h.dir, ".ssh", "known_hosts"), out.String())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// transport is one over which the server is known as "node".
func (h home) transport(t *testing.T, s *server, change func(*Options)) *Transport {
	t.Helper()
	scratch, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(scratch) })
	if s != nil {
		write(t, filepath.Join(h.dir, ".ssh", "config"), fmt.Sprintf("Host node\n HostName 127.0.0.1\n Port %d\n", s.port()))
	}
	o := Options{
		Setup: deploy.Setup{RunID: "run-" + filepath.Base(scratch), Version: "test", Scratch: scratch, Runtime: models.Runtime{Kind: "none"},
			Timing: deploy.Timing{Beat: 100 * time.Millisecond, Lost: 3 * time.Second, Redial: 3 * time.Second}},
		Site: models.SSHSite{User: "tester", Dir: filepath.Join(scratch, "bin"), KnownHosts: []string{filepath.Join(h.dir, ".ssh", "known_hosts")}},
		Home: h.dir, User: "me", AgentSocket: "none", Binary: os.Args[0],
	}
	if change != nil {
		change(&o)
	}
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}
