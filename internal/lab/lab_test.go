package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var cluster = Lazy{Nodes: 4, Options: []Option{
	WithImages(),
	WithUser(User{Name: "alice", UID: 20001, Docker: true}),
	WithUser(User{Name: "bob", UID: 20002, Sudo: true}),
	WithNodeLocal("scratch"),
	WithSSHD("Banner /etc/issue.net"),
}}

func TestMain(m *testing.M) {
	if ownerMain() {
		return
	}
	code := m.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "take lab down:", err)
		code = 1
	}
	os.Exit(code)
}

// sorted are the lines of a text, sorted.
func sorted(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

func TestSrunReachesEveryNode(t *testing.T) {
	l := cluster.Get(t)
	out := l.MustRun(t, "srun", "-N4", "--gres=gpu:8", "sh", "-c", `echo "$(hostname) $ROCR_VISIBLE_DEVICES $(docker info -f '{{.Driver}}') $(ls /dev/dri | wc -l)"`)
	want := []string{}
	for _, n := range l.Nodes() {
		want = append(want, n+" 0,1,2,3,4,5,6,7 overlay2 16")
	}
	if got := sorted(out); !slices.Equal(got, want) {
		t.Errorf("srun said %q, want %q", got, want)
	}
	l.MustBeClean(t, 5*time.Second)
}

func TestSbatchWritesToTheSharedFileSystem(t *testing.T) {
	l := cluster.Get(t)
	dir := l.TempDir(t)
	script := filepath.Join(dir, "job")
	if err := os.WriteFile(script, []byte("#!/bin/bash\nsrun -N2 hostname\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := l.Run("sbatch", "-W", "-N2", "-D", dir, "-o", filepath.Join(dir, "out"), script)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("sbatch -W ended with %v, want exit status 3", err)
	}
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if got := sorted(string(out)); !slices.Equal(got, []string{"node1", "node2"}) {
		t.Errorf("job said %q", got)
	}
	l.MustBeClean(t, 5*time.Second)
}

func TestCommandIsTheProgramItself(t *testing.T) {
	l := cluster.Get(t)
	cmd := l.Command(context.Background(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// nsenter and env become the program by exec.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		if err == nil && string(name) == "sleep\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("process is %q (%v), want sleep", name, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("ended with %v", err)
	}
}

func TestSSHAndUsers(t *testing.T) {
	l := cluster.Get(t)
	out := l.MustRun(t, "ssh", "node2", "hostname; id -un; echo $PATH")
	if want := "node2\nroot\n/usr/local/sbin:"; !strings.HasPrefix(out, want) {
		t.Errorf("ssh said %q, want it to begin with %q", out, want)
	}
	for user, docker := range map[string]string{"alice": "docker", "bob": "sudo -n docker"} {
		out, err := l.output(Where{User: user, Dir: "/"}, []string{"ssh", "node3", "id -un; " + docker + " info -f '{{.Driver}}'"})
		if err != nil || out != user+"\noverlay2\n" {
			t.Errorf("ssh as %s said %q, %v", user, out, err)
		}
		out, err = l.output(Where{User: user, Dir: "/"}, []string{"srun", "-N1", "id", "-un"})
		if err != nil || out != user+"\n" {
			t.Errorf("srun as %s said %q, %v", user, out, err)
		}
	}
	if out, err := l.output(Where{User: "alice", Node: "node1"}, []string{"bash", "-lc", "echo $PATH"}); err != nil || !strings.HasPrefix(out, "/usr/local/sbin:") {
		t.Errorf("a login shell has PATH %q, %v", out, err)
	}
	if _, err := l.output(Where{User: "bob", Node: "node1"}, []string{"docker", "info"}); err == nil {
		t.Error("bob may use the Docker socket without sudo")
	}
	l.MustBeClean(t, 5*time.Second)
}

func TestSSHDSaysWhatItWasTold(t *testing.T) {
	l := cluster.Get(t)
	banner, err := os.ReadFile("/etc/issue.net")
	must(t, err)
	cmd := l.Command(t.Context(), "ssh", "node1", "true")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != string(banner) {
		t.Errorf("ssh said %q, %v, want %q", out, err, banner)
	}
}

func TestNodesHaveTheirOwn(t *testing.T) {
	l := cluster.Get(t)
	for _, n := range []string{"node1", "node2"} {
		l.MustExec(t, n, "sh", "-c", `for d in /tmp /run /dev/shm `+l.NodeLocal("scratch")+`; do hostname > $d/of-a-lab-node; done`)
	}
	for _, d := range []string{"/tmp", "/run", "/dev/shm", l.NodeLocal("scratch")} {
		if got := l.MustExec(t, "node1", "cat", d+"/of-a-lab-node"); got != "node1\n" {
			t.Errorf("node1 reads %q in %s", got, d)
		}
		if _, err := os.Stat(d + "/of-a-lab-node"); err == nil {
			t.Errorf("%s of a node is the host's", d)
		}
	}
	boot := func(n string) string { return l.MustExec(t, n, "cat", "/proc/sys/kernel/random/boot_id") }
	if boot("node1") == boot("node2") {
		t.Error("two nodes have the same boot id")
	}
	for i, n := range l.Nodes() {
		if got := l.MustExec(t, n, "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(got, l.NodeIP(i)+"/24") {
			t.Errorf("%s has %q, want %s", n, got, l.NodeIP(i))
		}
	}
}

func TestToolsAndFixturesAreANodesOwn(t *testing.T) {
	l := cluster.Get(t)
	must(t, l.SetTool("", "nicctl", "#!/bin/sh\necho good\n"))
	must(t, l.SetTool("node2", "nicctl", "#!/bin/sh\necho bad\n"))
	must(t, l.SetFixture("node3", "sys/class/infiniband/rdma0/ports/1/state", []byte("1: DOWN\n")))
	out := l.MustRun(t, "srun", "-N4", "sh", "-c", `echo "$(hostname) $(nicctl) $(cat `+l.FixtureRoot()+`/sys/class/infiniband/rdma0/ports/1/state 2>/dev/null)."`)
	want := []string{"node1 good .", "node2 bad .", "node3 good 1: DOWN.", "node4 good ."}
	if got := sorted(out); !slices.Equal(got, want) {
		t.Errorf("nodes said %q, want %q", got, want)
	}
	must(t, l.RemoveTool("", "nicctl"))
}

func TestLookSeesWhatRuns(t *testing.T) {
	l := cluster.Get(t)
	l.MustExec(t, "node4", "docker", "run", "-d", "--name", "mine", "--network", "host", ToolImage, "nc", "-l", "-p", "7777")
	id, err := l.Foreign("node4", "theirs", ToolImage, "sleep", "600")
	must(t, err)
	waitUntil(t, "a listener", func() bool {
		ls, err := l.ListeningPorts("node4")
		must(t, err)
		return len(ls) == 1 && ls[0].Addr.Port() == 7777 && ls[0].Name == "nc"
	})
	left, err := l.Leftovers()
	must(t, err)
	text := strings.Join(left, "\n")
	for _, want := range []string{"node4: container ", "/mine lab/tools:1 (running)", "node4: port [::]:7777 held by ", "nc -l -p 7777"} {
		if !strings.Contains(text, want) {
			t.Errorf("leftovers lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "theirs") || strings.Contains(text, "sleep 600") {
		t.Errorf("leftovers hold the foreign container:\n%s", text)
	}
	l.MustExec(t, "node4", "docker", "rm", "-f", "mine")
	l.MustBeClean(t, 5*time.Second)
	must(t, l.RemoveContainer("node4", id))
}

func TestImagesHaveTheSameIDEverywhere(t *testing.T) {
	l := cluster.Get(t)
	first, err := l.ImageID("node1", EngineImage)
	must(t, err)
	for _, n := range l.Nodes() {
		if id, err := l.ImageID(n, EngineImage); err != nil || id != first {
			t.Errorf("%s has %s (%v), node1 %s", n, id, err, first)
		}
	}
}

func TestPowerAndNetwork(t *testing.T) {
	t.Parallel()
	l := New(t, 2)
	must(t, l.KillNode(1))
	if ps, err := l.Processes("node2"); err != nil || len(ps) != 0 {
		t.Errorf("a dead node has processes %v, %v", ps, err)
	}
	if _, err := Open(l.Dir()); err != nil {
		t.Errorf("with a node off: %v", err)
	}
	must(t, l.StartNode(1))
	again, err := Open(l.Dir())
	must(t, err)
	if out, err := again.Exec("node2", "hostname"); err != nil || out != "node2\n" {
		t.Errorf("on a node that was off and is on again: %q, %v", out, err)
	}
	waitUntil(t, "the node to work again", func() bool {
		out, err := l.Run("timeout", "5", "srun", "-w", "node2", "docker", "info", "-f", "{{.Driver}}")
		return err == nil && out == "overlay2\n"
	})
	ping := []string{"timeout", "2", "bash", "-c", "echo > /dev/tcp/" + l.NodeIP(1) + "/22"}
	if _, err := l.Exec("node1", ping...); err != nil {
		t.Errorf("before the cut: %v", err)
	}
	must(t, l.CutNetwork(1))
	if _, err := l.Exec("node1", ping...); err == nil {
		t.Error("a cut node answers")
	}
	must(t, l.Heal(1))
	if _, err := l.Exec("node1", ping...); err != nil {
		t.Errorf("after healing: %v", err)
	}
}

func TestGresCountWithoutFilesIsInvalid(t *testing.T) {
	t.Parallel()
	l := New(t, 1, WithoutDocker(), WithGresConf("Name=gpu Count=8\n"))
	out := l.MustRun(t, "sinfo", "-h", "-o", "%T %E")
	if !strings.HasPrefix(out, "inval gres/gpu count reported lower than configured") {
		t.Errorf("node is %q", out)
	}
}

func TestTwoLabsDoNotMeet(t *testing.T) {
	a, b := cluster.Get(t), New(t, 1, WithoutDocker(), WithNames("gpu-01"))
	if got := b.MustRun(t, "sinfo", "-h", "-N", "-o", "%N"); got != "gpu-01\n" {
		t.Errorf("the second lab has %q", got)
	}
	if got := a.MustRun(t, "srun", "-N1", "hostname"); got != "node1\n" {
		t.Errorf("the first lab said %q", got)
	}
}

func TestDialReachesNodes(t *testing.T) {
	l := cluster.Get(t)
	conn, err := l.Dial(t.Context(), "tcp", l.NodeIP(0)+":22")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	banner := make([]byte, 4)
	if _, err := conn.Read(banner); err != nil || string(banner) != "SSH-" {
		t.Errorf("read %q, %v", banner, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func waitUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30s in vain for %s", what)
		}
	}
}
