package ssh

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/models"
)

var cluster = lab.Lazy{Nodes: 3, Options: []lab.Option{
	lab.WithoutDocker(),
	lab.WithUser(lab.User{Name: "alice", UID: 20001}),
}}

// TestRealSSHD: OpenSSH's server and scp, as root and as a user, directly and
// through a node as jump host; nothing survives the loss of the connection.
func TestRealSSHD(t *testing.T) {
	l := cluster.Get(t)
	dir := l.TempDir(t)
	bin := filepath.Join(dir, "disagg")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	for _, tt := range []struct{ name, user, jump string }{{"root", "root", ""}, {"alice", "alice", ""}, {"through a jump host", "root", "node1"}} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			var hosts strings.Builder
			for i, n := range l.Nodes() {
				hosts.WriteString("Host " + n + "\n HostName " + l.NodeIP(i) + "\n HostKeyAlias " + n + "\n")
			}
			config := filepath.Join(home, ".ssh", "config")
			write(t, config, hosts.String())
			tr, err := New(Options{
				Setup: deploy.Setup{RunID: "run-" + filepath.Base(home) + tt.user, Version: "test", Runtime: models.Runtime{Kind: "none"}},
				Site: models.SSHSite{User: tt.user, ProxyJump: tt.jump, Config: config,
					Identity: []string{l.SSH().Identity}, KnownHosts: []string{l.SSH().KnownHosts}},
				Home: home, User: "root", AgentSocket: "none", Binary: bin, Dial: l.Dial,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			var wg sync.WaitGroup
			nodes := []string{"node2", "node3"}
			conns := make([]*deploy.Conn, len(nodes))
			for i, n := range nodes {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
					defer cancel()
					var err error
					if conns[i], err = tr.Connect(ctx, n); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				t.FailNow()
			}
			for i, c := range conns {
				if info := c.Info(); info.Name != nodes[i] || info.Host != nodes[i] || info.Addr != l.NodeIP(i+1) || (info.UID == 0) != (tt.user == "root") {
					t.Errorf("info = %+v", info)
				}
				w := deploy.Workload{RunID: tr.opts.Setup.RunID, ID: "w", Runtime: tr.opts.Setup.Runtime, Argv: []string{"sleep", "1000"}, LogPath: "/tmp/ssh-test-" + tt.user + "/log", Grace: time.Second}
				if _, err := c.Create(t.Context(), w); err != nil {
					t.Fatal(err)
				}
				if err := c.Release(t.Context(), "w"); err != nil {
					t.Fatal(err)
				}
			}
			if err := conns[0].Close(); err != nil {
				t.Error(err)
			}
			// The other one is lost: the agent's session is ended from outside.
			l.MustExec(t, nodes[1], "pkill", "-9", "-f", "agent --stdio")
			<-conns[1].Done()
			l.MustExec(t, nodes[1], "sh", "-c", "rm -rf /tmp/dsg-*")
			for _, n := range nodes {
				l.MustExec(t, n, "rm", "-r", "/tmp/ssh-test-"+tt.user)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			l.MustBeClean(t, 5*time.Second)
		})
	}
}
