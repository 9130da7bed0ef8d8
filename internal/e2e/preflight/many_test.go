package preflight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/preflight"
)

// hosts is the number of ssh servers on this machine, each on an address of its
// own below 127.0.0.0/8.
const hosts = 64

// servers starts the ssh servers and writes a site for them.
func servers(t testing.TB) (dir, binary string) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short leaves out what starts many servers")
	}
	if err := lab.Possible(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "disagg-many-") // sshd wants no link on the way
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, key := range []string{"host", "id"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	must(t, os.MkdirAll("/run/sshd", 0o755))
	pub, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	must(t, err)
	words := strings.Fields(string(pub))
	must(t, os.WriteFile(filepath.Join(dir, "known_hosts"), fmt.Appendf(nil, "[127.0.7.*]:2222 %s %s\n", words[0], words[1]), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "site.yaml"), fmt.Appendf(nil, `apiVersion: disagg/v1
kind: Site
name: many
gpus_per_node: 8
runs_dir: %[1]s
container: {runtime: none}
ssh: {user: root, port: 2222, identity: [%[1]s/id], known_hosts: [%[1]s/known_hosts], config: /dev/null, dir: %[1]s/nodes}
preflight:
  gpu: {devices: 0}
  rdma: {devices: 0}
  storage: {tmp_gib: 1, runs_gib: 1}
  waive: {gpu.kernel-log: whatever this machine has seen}
`, dir), 0o600))
	for i := range hosts {
		serve(t, dir, fmt.Sprintf("127.0.7.%d", i+1))
	}
	root, err := lab.ModuleRoot()
	must(t, err)
	binary = filepath.Join(dir, "disagg")
	must(t, lab.GoBuild(root, binary, "./cmd/disagg"))
	return dir, binary
}

// serve runs one sshd until the test ends.
func serve(t testing.TB, dir, addr string) {
	t.Helper()
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null",
		"-o", "ListenAddress="+addr, "-o", "Port=2222", "-o", "HostKey="+dir+"/host", "-o", "AuthorizedKeysFile="+dir+"/id.pub",
		// A shell that believes itself inside another one does not read what this
		// machine's user has it do at every login.
		"-o", "SetEnv=SHLVL=2", "-o", "StrictModes=no", "-o", "PasswordAuthentication=no", "-o", "UsePAM=no", "-o", "PermitRootLogin=yes", "-o", "PidFile=none")
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if t.Failed() && strings.Contains(log.String(), "error") {
			t.Logf("sshd on %s: %s", addr, log.String())
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check runs preflight on all servers.
func check(t testing.TB, dir, binary string) (preflight.Report, time.Duration) {
	t.Helper()
	cmd := exec.Command(binary, "preflight", "--nodes", fmt.Sprintf("127.0.7.[1-%d]", hosts), "--site", dir+"/site.yaml", "--output", "json")
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var r preflight.Report
	if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil {
		t.Fatalf("%v: %s\n%s", err, jerr, said.String())
	}
	return r, took
}

// TestSixtyFourHosts: sixty-four hosts are checked over ssh, and every one of them
// answers. How long that takes is for BenchmarkSixtyFourHosts to say; the bound
// here only catches hosts that wait for each other.
func TestSixtyFourHosts(t *testing.T) {
	dir, binary := servers(t)
	for _, what := range []string{"with the binary to copy", "with the binary there"} {
		r, took := check(t, dir, binary)
		t.Logf("%s: %s", what, took)
		if len(r.Nodes) != hosts {
			t.Fatalf("%s: %d nodes", what, len(r.Nodes))
		}
		for _, n := range r.Nodes {
			if n.Checks["node.reach"] != preflight.Pass {
				t.Errorf("%s: %s: %v\n%s", what, n.Node, n.Checks["node.reach"], trouble(r))
				break
			}
		}
		if took > 45*time.Second {
			t.Errorf("%s: took %s", what, took)
		}
	}
	left, err := filepath.Glob(dir + "/nodes/*.new-*")
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left half copied: %q", left)
	}
}

// BenchmarkSixtyFourHosts measures one command from start to report, the binary
// being there from an earlier visit.
func BenchmarkSixtyFourHosts(b *testing.B) {
	dir, binary := servers(b)
	check(b, dir, binary)
	for b.Loop() {
		r, _ := check(b, dir, binary)
		for _, n := range r.Nodes {
			if n.Checks["node.reach"] != preflight.Pass {
				b.Fatalf("%s was not reached", n.Node)
			}
		}
	}
}
