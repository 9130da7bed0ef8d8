package ssh

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/models"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestConnect: the whole way, past a login banner, and a second time without
// copying.
func TestConnect(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newServer(t, h.public, func(s *server) { s.noise = "*** Authorised users only ***\nLast login: Mon\nrdma0\n" })
	h.knows(t, s)
	tr := h.transport(t, s, nil)
	for n := range 2 {
		c, err := tr.Connect(within(t, 30*time.Second), "node")
		if err != nil {
			t.Fatal(err)
		}
		if i := c.Info(); i.Name != "node" || i.Version != "test" {
			t.Errorf("info = %+v", i)
		}
		r, err := c.Exec(t.Context(), deploy.ExecRequest{Argv: []string{"echo", "hello"}})
		if err != nil || string(r.Stdout) != "hello\n" {
			t.Errorf("exec = %+v, %v", r, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Err(); err != nil {
			t.Errorf("Err after Close = %v", err)
		}
		s.mu.Lock()
		copies := 0
		for _, cmd := range s.cmds {
			if strings.HasPrefix(cmd, "scp ") {
				copies++
			}
		}
		s.mu.Unlock()
		if copies != 1 { // scp failed for the noise, cat did it
			t.Errorf("after connection %d: copied %d times, want 1", n+1, copies)
		}
	}
	files, err := os.ReadDir(tr.opts.Site.Dir)
	if err != nil || len(files) != 1 || !strings.HasPrefix(files[0].Name(), "disagg-") {
		t.Errorf("directory holds %v, %v", files, err)
	}
	if st, err := os.Stat(tr.opts.Site.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory = %v, %v", st, err)
	}
	// A damaged copy is replaced.
	path := filepath.Join(tr.opts.Site.Dir, files[0].Name())
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	c, err := tr.Connect(within(t, 30*time.Second), "node")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestLinkLost: nothing on the node survives the loss of the link, although sshd
// ends nothing.
func TestLinkLost(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newServer(t, h.public, nil)
	h.knows(t, s)
	tr := h.transport(t, s, nil)
	c, err := tr.Connect(within(t, 30*time.Second), "node")
	if err != nil {
		t.Fatal(err)
	}
	w := deploy.Workload{RunID: tr.opts.Setup.RunID, ID: "w", Runtime: tr.opts.Setup.Runtime, Argv: []string{"sleep", "1000"}, LogPath: filepath.Join(t.TempDir(), "log"), Grace: time.Second}
	r, err := c.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Env, func(v deploy.ReceiptVar) bool { return v.Name == shim.RunVar }) {
		t.Errorf("receipt = %+v", r)
	}
	if err := c.Release(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	s.cut()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	if err := c.Err(); !errors.Is(err, deploy.ErrLost) {
		t.Errorf("Err = %v", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(tr.opts.Setup.Scratch, "dsg-*"))
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the agent is still there: %v, %v", left, err)
		}
	}
}

func TestJumpHosts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, b, node := newServer(t, h.public, nil), newServer(t, h.public, nil), newServer(t, h.public, nil)
	h.knows(t, a, b, node)
	tr := h.transport(t, nil, func(o *Options) {
		write(t, filepath.Join(h.dir, ".ssh", "config"), fmt.Sprintf(`
Host first
 HostName 127.0.0.1
 Port %d
Host second
 HostName 127.0.0.1
 Port %d
 ProxyJump first
Host n*
 HostName 127.0.0.1
 Port %d
 ProxyJump second
`, a.port(), b.port(), node.port()))
	})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			c, err := tr.Connect(within(t, 60*time.Second), fmt.Sprint("n", i))
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for end := time.Now().Add(10 * time.Second); node.logins.Load() < 6 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if a.logins.Load() != 1 || b.logins.Load() != 1 || node.logins.Load() != 6 {
		t.Errorf("logins: %d at the first jump host, %d at the second, %d at the node; want 1, 1, 6", a.logins.Load(), b.logins.Load(), node.logins.Load())
	}
	// A jump host that went away is reached again.
	a.cut()
	c, err := tr.Connect(within(t, 60*time.Second), "n9")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestHandshakesAreBounded: a fan-out through one sshd never has more than the
// allowed number of connections that have not logged in.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newServer(t, h.public, nil)
	h.knows(t, s)
	tr := h.transport(t, s, func(o *Options) { o.Site.MaxHandshakes = 3 })
	hops, err := tr.resolve.route("node")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c, err := tr.connect(within(t, 60*time.Second), hops)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	if s.most.Load() > 3 || s.most.Load() < 2 {
		t.Errorf("at most %d logins at once, want 3", s.most.Load())
	}
}

func TestThrottled(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newServer(t, h.public, func(s *server) { s.drop.Store(2) })
	h.knows(t, s)
	tr := h.transport(t, s, nil)
	hops, err := tr.resolve.route("node")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.connect(within(t, 30*time.Second), hops)
	if err != nil {
		t.Fatalf("after two drops: %v", err)
	}
	c.Close()
	s.drop.Store(1000)
	_, err = tr.connect(within(t, 2*time.Second), hops)
	if deploy.ClassOf(err) != deploy.ClassSSHThrottled || !strings.Contains(err.Error(), "MaxStartups") {
		t.Errorf("dropped for ever: %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	other := newKey(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	closed.Close()

	tests := []struct {
		name   string
		change func(*server)
		site   func(*Options, *server)
		known  func(*server) string
		class  deploy.Class
		want   []string
		after  time.Duration // the deadline
	}{
		{name: "no sshd", site: func(o *Options, _ *server) { o.Site.Port = closedPort }, class: deploy.ClassSSHRefused,
			want: []string{"node (tester@127.0.0.1:" + fmt.Sprint(closedPort) + ")", "no sshd listens"}},
		{name: "mute server", change: func(s *server) { s.mute.Store(true) }, class: deploy.ClassSSHTimeout, after: 300 * time.Millisecond,
			want: []string{"accepted the connection, but the login did not end in time"}},
		{name: "unknown name", site: func(o *Options, _ *server) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "node", IsNotFound: true}
			}
		}, class: deploy.ClassSSHUnreachable, want: []string{"no such host"}},
		{name: "wrong key", change: func(s *server) { s.user = other.PublicKey() }, class: deploy.ClassSSHAuth,
			want: []string{"accepts none of the keys", h.identity + " " + ssh.FingerprintSHA256(h.public)}},
		{name: "no key", site: func(o *Options, _ *server) { o.Site.Identity = []string{"/nonexistent/id"} }, class: deploy.ClassSSHAuth,
			want: []string{"there is no key to log in with; looked for /nonexistent/id"}},
		{name: "unknown host key", known: func(*server) string { return "" }, class: deploy.ClassSSHHostKey,
			want: []string{"is not known", "ssh-keyscan -p "}},
		{name: "changed host key", known: func(s *server) string {
			return "# comment\n" + knownhosts.Line([]string{s.l.Addr().String()}, other.PublicKey()) + "\n"
		}, class: deploy.ClassSSHHostKey,
			want: []string{"has changed", "known_hosts:2 holds ssh-ed25519 " + ssh.FingerprintSHA256(other.PublicKey()), "re-imaged", "ssh-keygen -R '[127.0.0.1]:"}},
		{name: "revoked host key", known: func(s *server) string {
			return "@revoked * " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.key.PublicKey()))) + "\n"
		}, class: deploy.ClassSSHHostKey, want: []string{"known_hosts:1 marks as revoked"}},
		{name: "hostile directory", site: func(o *Options, _ *server) { o.Site.Dir = "/tmp/x; rm -rf /" }, class: deploy.ClassSSHBinary,
			want: []string{"is not a plain absolute path"}},
		{name: "directory cannot be made", site: func(o *Options, _ *server) { o.Site.Dir = "/proc/none" }, class: deploy.ClassSSHBinary,
			want: []string{"/proc/none"}},
		{name: "directory is a link", site: func(o *Options, _ *server) {
			o.Site.Dir = filepath.Join(o.Setup.Scratch, "link")
			if err := os.Symlink("/tmp", o.Site.Dir); err != nil {
				panic(err)
			}
		}, class: deploy.ClassSSHBinary, want: []string{"link is a symbolic link"}},
		{name: "no scp and no cat", change: func(s *server) { s.env = []string{"PATH=" + onlyTools(t)} }, class: deploy.ClassSSHBinary,
			want: []string{"by scp: ", "by cat: "}},
		{name: "binary does not run", site: func(o *Options, _ *server) {
			o.Binary = filepath.Join(o.Setup.Scratch, "bad")
			write(t, o.Binary, "#!/nonexistent/interpreter\n")
		}, class: deploy.ClassSSHBinary, want: []string{"start agent on node", "exit code 127"}},
		{name: "binary says something else", site: func(o *Options, _ *server) {
			o.Binary = filepath.Join(o.Setup.Scratch, "bad")
			write(t, o.Binary, "#!/bin/sh\necho GLIBC_2.99 not found >&2; exit 3\n")
		}, class: deploy.ClassSSHBinary, want: []string{"exit code 3: GLIBC_2.99 not found"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, h.public, tt.change)
			mine := home{dir: t.TempDir(), identity: h.identity, public: h.public}
			if tt.known != nil {
				write(t, filepath.Join(mine.dir, ".ssh", "known_hosts"), tt.known(s))
			} else {
				mine.knows(t, s)
			}
			tr := mine.transport(t, s, func(o *Options) {
				o.Site.Identity = []string{h.identity}
				if tt.site != nil {
					tt.site(o, s)
				}
			})
			if tt.after == 0 {
				tt.after = 30 * time.Second
			}
			c, err := tr.Connect(within(t, tt.after), "node")
			if err == nil {
				c.Close()
				t.Fatal("connected")
			}
			if deploy.ClassOf(err) != tt.class || !strings.HasPrefix(err.Error(), "ssh to node: ") {
				t.Errorf("class %q, want %q: %v", deploy.ClassOf(err), tt.class, err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q: %v", w, err)
				}
			}
		})
	}
}

// onlyTools is a directory with what the commands on the node need, but scp and cat.
func onlyTools(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"sh", "mkdir", "chmod", "uname", "sha256sum", "cut", "mv", "rm", "id"} {
		for _, at := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(at + tool); err == nil {
				if err := os.Symlink(at+tool, filepath.Join(dir, tool)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	return dir
}

func TestJumpFailures(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	jump := newServer(t, h.public, nil)
	strict := newServer(t, h.public, func(s *server) { s.forbid = true })
	locked := newServer(t, nil, nil)
	node := newServer(t, h.public, nil)
	h.knows(t, jump, strict, locked, node)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := []struct {
		name, jump string
		port       int
		class      deploy.Class
		want       string
	}{
		{"the node refuses", fmt.Sprintf("127.0.0.1:%d", jump.port()), closed.Addr().(*net.TCPAddr).Port, deploy.ClassSSHRefused, "node (tester@127.0.0.1:%d) via 127.0.0.1: "},
		{"forwarding is forbidden", fmt.Sprintf("127.0.0.1:%d", strict.port()), node.port(), deploy.ClassSSHUnreachable, "AllowTcpForwarding"},
		{"the jump host lets nobody in", fmt.Sprintf("bob@127.0.0.1:%d", locked.port()), node.port(), deploy.ClassSSHAuth, "bob@127.0.0.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mine := home{dir: t.TempDir()}
			write(t, filepath.Join(mine.dir, ".ssh", "config"), "Host node\n HostName 127.0.0.1\n")
			tr := mine.transport(t, nil, func(o *Options) {
				o.Site.ProxyJump, o.Site.Port, o.Site.Identity = tt.jump, tt.port, []string{h.identity}
				o.Site.KnownHosts = []string{filepath.Join(h.dir, ".ssh", "known_hosts")}
			})
			_, err := tr.Connect(within(t, 30*time.Second), "node")
			want := tt.want
			if strings.Contains(want, "%d") {
				want = fmt.Sprintf(want, tt.port)
			}
			if deploy.ClassOf(err) != tt.class || !strings.Contains(err.Error(), want) {
				t.Errorf("class %q: %v", deploy.ClassOf(err), err)
			}
		})
	}
}

func TestAgentKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newServer(t, h.public, nil)
	h.knows(t, s)
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: h.private}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sa")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, c)
		}
	}()
	if err := os.Rename(h.identity, h.identity+".away"); err != nil {
		t.Fatal(err)
	}
	dial := func(change func(*Options)) error {
		tr := h.transport(t, s, func(o *Options) {
			o.AgentSocket = socket
			if change != nil {
				change(o)
			}
		})
		hops, err := tr.resolve.route("node")
		if err != nil {
			return err
		}
		c, err := tr.connect(within(t, 20*time.Second), hops)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := dial(nil); err != nil {
		t.Errorf("with the agent's key: %v", err)
	}
	// Only what is named is offered, and the agent has it.
	config := filepath.Join(h.dir, ".ssh", "config")
	only := func(o *Options) {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		write(t, config, string(text)+" IdentitiesOnly yes\n")
	}
	if err := dial(only); deploy.ClassOf(err) != deploy.ClassSSHAuth {
		t.Errorf("the agent's key was offered although only named ones shall be: %v", err)
	}
	write(t, h.identity+".pub", string(ssh.MarshalAuthorizedKey(h.public)))
	if err := dial(only); err != nil {
		t.Errorf("with a named key that the agent holds: %v", err)
	}
	// A locked file is unlocked by the agent, or explained.
	block, err := ssh.MarshalPrivateKeyWithPassphrase(h.private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, h.identity, string(pem.EncodeToMemory(block)))
	if err := dial(only); err != nil {
		t.Errorf("with a locked key that the agent holds: %v", err)
	}
	err = dial(func(o *Options) { o.AgentSocket = filepath.Join(dir, "none") })
	if deploy.ClassOf(err) != deploy.ClassSSHAuth || !strings.Contains(err.Error(), "is locked with a passphrase") || !strings.Contains(err.Error(), "ssh agent: dial unix") {
		t.Errorf("with a locked key and no agent: %v", err)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".ssh", "config"), `
Host gpu-*
  HostName %h.cluster
  User alice
  Port 2222
  IdentityFile ~/.ssh/%u-key
  ProxyJump bob@login:2200,inner
Host inner
  HostName 10.0.0.9
Host login
  ProxyJump gate
Host loop1
  ProxyJump loop2
Host loop2
  ProxyJump loop1
Host command
  ProxyCommand nc %h %p
Host direct
  ProxyJump none
Host badport
  Port many
Host alias
  HostKeyAlias known-as
`)
	r, err := newResolver(models.SSHSite{}, dir, "me")
	if err != nil {
		t.Fatal(err)
	}
	show := func(hops []hop) string {
		var out []string
		for _, h := range hops {
			out = append(out, h.String())
		}
		return strings.Join(out, " | ")
	}
	hops, err := r.route("gpu-1")
	if err != nil || show(hops) != "me@gate | bob@login:2200 | inner (me@10.0.0.9) | gpu-1 (alice@gpu-1.cluster:2222)" {
		t.Errorf("route = %s, %v", show(hops), err)
	}
	if got := hops[len(hops)-1].identities; !slices.Equal(got, []string{filepath.Join(dir, ".ssh", "me-key")}) {
		t.Errorf("identities = %q", got)
	}
	if hops, err = r.route("other"); err != nil || show(hops) != "me@other" || len(hops[0].identities) != 3 {
		t.Errorf("route = %s, %v", show(hops), err)
	}
	if hops, err = r.route("direct"); err != nil || show(hops) != "me@direct" {
		t.Errorf("route = %s, %v", show(hops), err)
	}
	if hops, err = r.route("alias"); err != nil || hops[0].keyAddr() != "known-as:22" {
		t.Errorf("alias = %+v, %v", hops, err)
	}
	for node, want := range map[string]string{"loop1": "goes in a circle", "command": "ProxyCommand", "badport": `"many"`} {
		if _, err := r.route(node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
	site := models.SSHSite{User: "ops", Port: 22022, ProxyJump: "ssh://[fd00::1]:23", Identity: []string{"/k"}, KnownHosts: []string{"~/kh"}}
	if r, err = newResolver(site, dir, "me"); err != nil {
		t.Fatal(err)
	}
	hops, err = r.route("gpu-1")
	if err != nil || show(hops) != "ops@fd00::1:23 | gpu-1 (ops@gpu-1.cluster:22022)" {
		t.Errorf("route = %s, %v", show(hops), err)
	}
	if h := hops[1]; h.identities[0] != "/k" || !slices.Equal(h.knownHosts, []string{filepath.Join(dir, "kh")}) || hops[0].addr() != "[fd00::1]:23" {
		t.Errorf("hops = %+v", hops)
	}
	for _, bad := range []string{"a b", "@", "x:99999", "user@", "h:port"} {
		if _, err := r.jumpHop(bad); err == nil {
			t.Errorf("jump host %q was accepted", bad)
		}
	}
	if _, err := newResolver(models.SSHSite{Config: filepath.Join(dir, "none")}, dir, "me"); err == nil {
		t.Error("a named configuration that does not exist was accepted")
	}
	write(t, filepath.Join(dir, "exec"), "Match exec \"true\"\n User x\n")
	if _, err := newResolver(models.SSHSite{Config: filepath.Join(dir, "exec")}, dir, "me"); err == nil || !strings.Contains(err.Error(), "ssh.config in the site file") {
		t.Errorf("a configuration that cannot be understood: %v", err)
	}
}

// TestSafePath: what any shell would read as more than a path is refused.
func TestSafePath(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{
		"/tmp/disagg-1000": true, "/a/b_c.d+e": true,
		"": false, "tmp": false, "/a b": false, "/a'": false, "/a$b": false, "/a\n": false, "/a;b": false, "/a*": false, "~/x": false, "/é": false,
	} {
		if got := safePath(p); got != want {
			t.Errorf("%q = %t", p, got)
		}
	}
}

func TestKeyTypesThatAreKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := newKey(t)
	write(t, filepath.Join(dir, "kh"), knownhosts.Line([]string{"n1"}, key.PublicKey())+"\n")
	k, err := newHostKeys(hop{host: "n1", port: 22, knownHosts: []string{filepath.Join(dir, "kh"), filepath.Join(dir, "none")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.algorithms(); !slices.Equal(got, []string{"ssh-ed25519"}) {
		t.Errorf("known host: %q", got)
	}
	k.hop.host = "n2"
	if got := k.algorithms(); got != nil {
		t.Errorf("unknown host: %q", got)
	}
}
