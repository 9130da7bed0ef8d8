package lab

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab/labd"
)

// ownerEnv tells the test binary to be the owner of a lab that its parent ends.
const ownerEnv = "LAB_TEST_OWNER"

// ownerMain starts a lab with work in it, says where, and waits to be ended in
// the way its parent chose.
func ownerMain() bool {
	how := os.Getenv(ownerEnv)
	if how == "" {
		return false
	}
	l, err := Start(2, WithImages())
	if err == nil {
		_, err = l.Exec("node1", "docker", "run", "-d", "--network", "host", "--memory", "64m", ToolImage, "sleep", "600")
	}
	if err != nil {
		fmt.Println("error:", err)
		return true
	}
	cmd := l.Command(context.Background(), "srun", "-N2", "sleep", "600")
	if err := cmd.Start(); err != nil {
		fmt.Println("error:", err)
		return true
	}
	for ps, _ := l.Strays("node2"); !named(ps, "sleep"); ps, _ = l.Strays("node2") {
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println(l.Dir())
	switch how {
	case "panic":
		panic("on purpose")
	case "exit":
		return true
	}
	select {}
}

// host is what the host has of anything that a lab might leave.
func host(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"/etc", "/run", "/opt", "/usr/local/sbin", "/dev", "/var/lib", "/var/log"} {
		depth := strings.Count(dir, "/") + 2
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(path, "/dev/pts") {
				return nil
			}
			line := path
			if info, err := d.Info(); err == nil && strings.HasPrefix(path, "/etc") {
				line += " " + info.ModTime().String()
			}
			out = append(out, line)
			if d.IsDir() && strings.Count(path, "/") >= depth {
				return fs.SkipDir
			}
			return nil
		})
	}
	links, _ := filepath.Glob("/sys/class/net/*")
	return append(out, links...)
}

// remains is what there still is of the lab in dir.
func remains(dir string, namespaces []string) []string {
	var out []string
	id := filepath.Base(dir)
	if exists(dir) {
		out = append(out, "directory "+dir)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + id)
	top, _ := filepath.Glob("/sys/fs/cgroup/" + id)
	for _, g := range append(groups, top...) {
		out = append(out, "control group "+g)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), dir) {
		out = append(out, "a mount")
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		ns, _ := os.Readlink(p + "/ns/net")
		args, _ := os.ReadFile(p + "/cmdline")
		if slices.Contains(namespaces, ns) || strings.Contains(string(args), dir) {
			out = append(out, "process "+p+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

func TestNothingIsLeftHoweverTheOwnerEnds(t *testing.T) {
	skipUnlessPossible(t)
	if _, err := seed(); err != nil {
		t.Fatal(err)
	}
	before := host(t)
	for _, how := range []string{"kill", "panic", "exit", "supervisor"} {
		t.Run(how, func(t *testing.T) {
			self, err := os.Executable()
			must(t, err)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), ownerEnv+"="+how)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			line, err := bufio.NewReader(out).ReadString('\n')
			dir := strings.TrimSpace(line)
			if err != nil || !strings.HasPrefix(dir, "/") {
				t.Fatalf("owner said %q, %v", line, err)
			}
			state, err := stateOf(dir)
			if err != nil && (how == "kill" || how == "supervisor") {
				t.Fatal(err)
			}
			switch how {
			case "kill":
				if len(remains(dir, state.namespaces)) < 10 {
					t.Fatalf("the look for remains sees too little of a running lab: %q", remains(dir, state.namespaces))
				}
				must(t, cmd.Process.Kill())
			case "supervisor":
				// Its files and control groups are for the next lab to remove.
				must(t, syscall.Kill(state.supervisor, syscall.SIGKILL))
				must(t, cmd.Process.Kill())
				waitUntil(t, "the supervisor to end", func() bool { return !labd.Alive(dir) })
				sweep(filepath.Dir(dir))
			}
			left := remains(dir, state.namespaces)
			for deadline := time.Now().Add(30 * time.Second); len(left) > 0; left = remains(dir, state.namespaces) {
				if time.Now().After(deadline) {
					t.Fatalf("left after 30s:\n%s", strings.Join(left, "\n"))
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	after := host(t)
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("new on the host: %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("gone from the host: %s", line)
		}
	}
}

type labState struct {
	supervisor int
	namespaces []string
}

// stateOf reads which processes and network namespaces a lab has.
func stateOf(dir string) (labState, error) {
	l, err := Open(dir)
	if err != nil {
		return labState{}, err
	}
	s := labState{supervisor: l.state.Supervisor}
	for _, n := range append([]string{""}, l.Nodes()...) {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", l.pid(n)))
		if err != nil {
			return s, err
		}
		s.namespaces = append(s.namespaces, ns)
	}
	return s, nil
}

func TestUpAndDownByHand(t *testing.T) {
	skipUnlessPossible(t)
	dir, err := DirByHand()
	must(t, err)
	dir += fmt.Sprint("-", os.Getpid())
	l, err := Up(dir, 1, WithoutDocker())
	must(t, err)
	t.Cleanup(func() { must(t, Down(dir)) })
	if _, err := Up(dir, 1); err == nil || !strings.Contains(err.Error(), "take it down first") {
		t.Errorf("a second lab in %s: %v", dir, err)
	}
	must(t, l.Close()) // leaves it up
	again, err := Open(dir)
	must(t, err)
	if got := again.MustRun(t, "srun", "hostname"); got != "node1\n" {
		t.Errorf("srun said %q", got)
	}
	state, err := stateOf(dir)
	must(t, err)
	must(t, Down(dir))
	if left := remains(dir, state.namespaces); len(left) > 0 {
		t.Errorf("left after down: %q", left)
	}
	must(t, Down(dir)) // nothing to do
}
