package deploy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/models"
)

// cluster has nodes with a Docker daemon each. alice may use its socket, bob
// needs sudo, carol may not at all.
var cluster = lab.Lazy{Nodes: 2, Options: []lab.Option{
	lab.WithUser(lab.User{Name: "alice", UID: 20001, Docker: true}),
	lab.WithUser(lab.User{Name: "bob", UID: 20002, Sudo: true}),
	lab.WithUser(lab.User{Name: "carol", UID: 20003}),
}}

// emptyImage holds nothing at all: whatever runs is the shim's binary.
const emptyImage = "deploy-test/empty:1"

// theLab is the lab with the images loaded and this test's binary, static.
func theLab(t *testing.T) (*lab.Lab, string) {
	t.Helper()
	l := cluster.Get(t)
	bin, err := prepared(l)
	if err != nil {
		t.Fatal(err)
	}
	return l, bin
}

var prepared = func() func(*lab.Lab) (string, error) {
	var once sync.Once
	var bin string
	var err error
	return func(l *lab.Lab) (string, error) {
		once.Do(func() { bin, err = prepare(l) })
		return bin, err
	}
}()

func prepare(l *lab.Lab) (string, error) {
	dir := filepath.Join(l.Dir(), "deploy-test")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "node")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return "", err
	}
	if err := tw.Close(); err != nil {
		return "", err
	}
	file, archive := filepath.Join(dir, "layer.tar"), filepath.Join(dir, "images.tar")
	if err := os.WriteFile(file, layer.Bytes(), 0o600); err != nil {
		return "", err
	}
	env := []string{"PATH=/bin", "IMAGE_VAR=from the image", "IMAGE_LIST=/image", "IMAGE_API_KEY=in-the-image"}
	if err := lab.WriteArchive(archive, lab.Image{Ref: emptyImage, Layers: []string{file}, Env: env}); err != nil {
		return "", err
	}
	for _, dev := range []string{"rdma10", "rdma0", "rdma2"} {
		if err := l.SetFixture("node1", "sys/class/infiniband/"+dev+"/node_desc", nil); err != nil {
			return "", err
		}
	}
	return bin, l.LoadImage(archive)
}

// onNode is a bench whose agent runs on a node of the lab.
func onNode(t *testing.T, user, node string) (*bench, *lab.Lab) {
	t.Helper()
	l, bin := theLab(t)
	b := newBench(t)
	b.dir = l.TempDir(t)
	b.s.RunID, b.s.Scratch = "run-"+filepath.Base(b.dir), ""
	b.s.Runtime = models.Runtime{Kind: "docker", Sudo: "auto", IPC: "host"}
	b.s.Root = l.FixtureRoot()
	if user != "" {
		uid := map[string]int{"alice": 20001, "bob": 20002, "carol": 20003}[user]
		if err := os.Chown(b.dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	cmd := l.CommandAt(context.Background(), lab.Where{Node: node, User: user}, bin, "agent", "--stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.conn, err = b.s.Open(ctx, deploy.Stdio{Node: node, In: in, Out: out,
		Hangup: func() { in.Close() },
		After: func(bool) string {
			go func() { cmd.Wait(); close(ended) }()
			return ""
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.conn.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
		}
	})
	return b, l
}

func (b *bench) container(id string, argv ...string) deploy.Workload {
	w := workload(b.s, b.dir, id, argv...)
	w.Image = emptyImage
	return w
}

// start creates and releases a workload and gives its process id.
func (b *bench) start(w deploy.Workload) int {
	b.t.Helper()
	if _, err := b.conn.Create(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.Release(b.t.Context(), w.ID); err != nil {
		b.t.Fatal(err)
	}
	return b.await(deploy.EventStarted, w.ID).PID
}

// own are the containers of the run, asked of the daemon itself.
func own(t *testing.T, l *lab.Lab, node, run string) []lab.Container {
	t.Helper()
	all, err := l.Containers(node)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c lab.Container) bool { return c.Labels[runtime.LabelRun] != run })
}

func nothingOwn(t *testing.T, l *lab.Lab, node, run string, within time.Duration) {
	t.Helper()
	goneWithin(t, "a container of "+run, within, func() bool { return len(own(t, l, node, run)) > 0 })
}

func TestContainerLife(t *testing.T) {
	for user, how := range map[string]string{"": "docker", "alice": "docker", "bob": "sudo -n docker"} {
		t.Run("as "+user, func(t *testing.T) {
			b, l := onNode(t, user, "node1")
			info := b.conn.Info()
			if info.Docker != how || info.DockerError != "" || info.Addr != l.NodeIP(0) || info.Host != "node1" || !slices.Equal(info.RDMA, []string{"rdma0", "rdma2", "rdma10"}) {
				t.Errorf("info = %+v", info)
			}
			out := filepath.Join(b.dir, "out")
			if err := b.conn.WriteFile(t.Context(), filepath.Join(out, "x"), 0o600, nil); err != nil {
				t.Fatal(err)
			}
			w := b.container("prefill-0.0", shim.SelfProgram, "engine", "environ", "/out/environ")
			hostile := []byte("a\n'\"$(x) \xff\xfe=b")
			w.Env = []deploy.EnvEntry{
				{Name: "HOSTILE", Value: hostile}, {Name: "EMPTY", Value: []byte{}},
				{Name: "LONG", Value: bytes.Repeat([]byte("y"), 100_000)},
				{Name: "HF_TOKEN", Value: []byte("hf_abcdef123"), Secret: true},
				{Name: "IMAGE_LIST", Value: []byte("/mine"), Prepend: true},
			}
			w.Mounts = []string{out + ":/out"}
			w.Labels = map[string]string{"site": "lab"}
			r, err := b.conn.Create(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]string{}
			for _, v := range r.Env {
				seen[v.Name] = string(v.Value)
				if (v.Name == "HF_TOKEN" || v.Name == "IMAGE_API_KEY") != (v.HMAC != "") {
					t.Errorf("receipt of %s: %+v", v.Name, v)
				}
			}
			if seen["HOSTILE"] != string(hostile) || len(seen["LONG"]) != 100_000 || seen["IMAGE_VAR"] != "from the image" || seen["IMAGE_LIST"] != "/mine:/image" {
				t.Errorf("receipt = %.400q", seen)
			}
			cs := own(t, l, "node1", b.s.RunID)
			if len(cs) != 1 || cs[0].Labels["site"] != "lab" || cs[0].Labels[runtime.LabelWorkload] != "prefill-0.0" || cs[0].Labels[runtime.LabelOwner] != fmt.Sprint(info.UID) {
				t.Fatalf("containers = %+v", cs)
			}
			inspect := l.MustExec(t, "node1", "docker", "inspect", cs[0].ID)
			for _, bad := range []string{"hf_abcdef", "HOSTILE", "environ"} {
				if strings.Contains(inspect, bad) {
					t.Errorf("docker inspect shows %q", bad)
				}
			}
			if err := b.conn.Release(t.Context(), w.ID); err != nil {
				t.Fatal(err)
			}
			if e := b.await(deploy.EventExited, w.ID); e.Exit.Code != 0 || e.Exit.Asked || e.Exit.Error != "" {
				t.Errorf("exit = %+v", e.Exit)
			}
			b.await(deploy.EventGone, w.ID)
			nothingOwn(t, l, "node1", b.s.RunID, 0)
			env, _, err := b.conn.ReadFile(t.Context(), filepath.Join(out, "environ"), 0, 1<<20)
			if user == "" && err != nil {
				t.Fatal(err)
			}
			if err == nil && !slices.Contains(strings.Split(string(env), "\x00"), "HOSTILE="+string(hostile)) {
				t.Errorf("environment of the engine: %.300q", env)
			}
			st, err := os.Stat(w.LogPath)
			if err != nil || st.Mode().Perm() != 0o640 || int(st.Sys().(*syscall.Stat_t).Uid) != info.UID {
				t.Errorf("log = %v, %v", st, err)
			}

			// A long one, which is stopped.
			pid := b.start(b.container("decode-0.0", shim.SelfProgram, "engine", "daemon"))
			b.awaitLog("decode-0.0", "ready")
			procs, err := l.Processes("node1")
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(procs, func(p lab.Process) bool { return p.PID == pid })
			if i < 0 || !slices.Equal(procs[i].Argv[1:], []string{"engine", "daemon"}) {
				t.Errorf("process %d of the node is not the engine", pid)
			}
			left, err := b.conn.Look(t.Context(), b.s.RunID, nil)
			if err != nil || len(left.Containers) != 1 || len(left.Processes) < 3 || len(left.Unverified) > 0 {
				t.Errorf("look = %+v, %v", left, err)
			}
			if err := b.conn.Stop(t.Context(), "decode-0.0", 300*time.Millisecond); err != nil {
				t.Error(err)
			}
			nothingOwn(t, l, "node1", b.s.RunID, 0)
			if left, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !left.Clean() {
				t.Errorf("look after stop = %+v, %v", left, err)
			}
			if err := b.conn.Close(); err != nil {
				t.Error(err)
			}
			l.MustBeClean(t, 5*time.Second)
		})
	}
}

func TestContainerRefusals(t *testing.T) {
	b, l := onNode(t, "", "node1")
	tests := []struct {
		name   string
		change func(*deploy.Workload)
		class  deploy.Class
		want   string
	}{
		{"privileged", func(w *deploy.Workload) { w.Runtime.Privileged = true }, deploy.ClassPrivileged, "container.privileged: false"},
		{"ulimit", func(w *deploy.Workload) { w.Runtime.Ulimits = map[string]string{"nofile": "1048576:1048576"} }, deploy.ClassUlimit, "container.ulimits"},
		{"no image", func(w *deploy.Workload) { w.Image = "nope:1" }, deploy.ClassImageMissing, "image nope:1 is not on this node"},
		{"no device", func(w *deploy.Workload) { w.Accelerated, w.Runtime.Devices = true, []string{"/dev/none*"} }, deploy.ClassDevice, "/dev/none*"},
		{"no mount", func(w *deploy.Workload) { w.Mounts = []string{"/none:/x"} }, deploy.ClassMount, "/none"},
		{"user by name", func(w *deploy.Workload) { w.Runtime.User = "sgl" }, deploy.ClassEntrypoint, "set container.user to a number"},
		{"no shell", func(w *deploy.Workload) { w.Shell = "login" }, deploy.ClassProgram, "needs bash"},
		{"bad option", func(w *deploy.Workload) { w.Runtime.ExtraArgs = []string{"--no-such-option"} }, "", "no-such-option"},
	}
	for i, tt := range tests {
		w := b.container(fmt.Sprint("w", i), "/x")
		tt.change(&w)
		_, err := b.conn.Create(t.Context(), w)
		if err == nil || deploy.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: class %q: %v", tt.name, deploy.ClassOf(err), err)
		}
		nothingOwn(t, l, "node1", b.s.RunID, time.Second)
	}
	if left, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !left.Clean() {
		t.Errorf("left = %+v, %v", left, err)
	}
}

func TestContainerUsers(t *testing.T) {
	b, _ := onNode(t, "", "node1")
	w := b.container("other", shim.SelfProgram, "engine", "id")
	w.Runtime.User = "4711:4712"
	b.start(w)
	if e := b.await(deploy.EventExited, "other"); e.Exit.Code != 0 || strings.Join(e.Log, " ") != "uid 4711 gid 4712" {
		t.Errorf("exit = %+v %q", e.Exit, e.Log)
	}
	if err := b.conn.Close(); err != nil {
		t.Fatal(err)
	}
	a, _ := onNode(t, "alice", "node1")
	w = a.container("own", shim.SelfProgram, "engine", "id")
	w.Runtime.User = "20001"
	a.start(w)
	if e := a.await(deploy.EventExited, "own"); e.Exit.Code != 0 || !strings.HasPrefix(strings.Join(e.Log, " "), "uid 20001 ") {
		t.Errorf("exit = %+v %q", e.Exit, e.Log)
	}
	w = a.container("foreign", "x")
	w.Runtime.User = "4711"
	if _, err := a.conn.Create(t.Context(), w); deploy.ClassOf(err) != deploy.ClassEntrypoint || !strings.Contains(err.Error(), "set container.user to 20001 or 0") {
		t.Errorf("user of somebody else: %v", err)
	}
}

func TestNameConflict(t *testing.T) {
	b, l := onNode(t, "", "node2")
	name := runtime.ContainerName(b.s.RunID, "w")
	foreign, err := l.Foreign("node2", name, emptyImage, "x")
	if foreign == "" {
		t.Fatal(err) // created, though it cannot be started: the image is empty
	}
	defer l.RemoveContainer("node2", foreign)
	_, err = b.conn.Create(t.Context(), b.container("w", "x"))
	if deploy.ClassOf(err) != deploy.ClassNameConflict || !strings.Contains(err.Error(), "which no run of disagg started") || !strings.Contains(err.Error(), foreign[:12]) {
		t.Errorf("foreign container: %v", err)
	}
	if cs, err := l.Containers("node2"); err != nil || !slices.ContainsFunc(cs, func(c lab.Container) bool { return c.ID == foreign }) {
		t.Errorf("the foreign container is gone: %v, %v", cs, err)
	}
	if left, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !left.Clean() {
		t.Errorf("left = %+v, %v", left, err)
	}
	if err := l.RemoveContainer("node2", foreign); err != nil {
		t.Fatal(err)
	}
	other := strings.TrimSpace(l.MustExec(t, "node2", "docker", "create", "--name", name, "--label", "disagg.run=older-run", "--label", "disagg.workload=w", "--label", "disagg.owner=7", emptyImage, "x"))
	defer l.RemoveContainer("node2", other)
	_, err = b.conn.Create(t.Context(), b.container("w", "x"))
	if deploy.ClassOf(err) != deploy.ClassNameConflict || !strings.Contains(err.Error(), "of run older-run (workload w, user id 7)") {
		t.Errorf("another run's container: %v", err)
	}
	// Look finds it for the run whose it is.
	if left, err := b.conn.Look(t.Context(), "older-run", nil); err != nil || len(left.Containers) != 1 || !strings.Contains(left.Containers[0], name) {
		t.Errorf("look = %+v, %v", left, err)
	}
}

func TestContainerAgentKilled(t *testing.T) {
	for _, kind := range []string{"listen", "daemon"} {
		t.Run(kind, func(t *testing.T) {
			b, l := onNode(t, "", "node1")
			b.start(b.container("w", shim.SelfProgram, "engine", kind))
			agent := b.conn.Info().PID
			l.MustExec(t, "node1", "kill", "-9", fmt.Sprint(agent))
			// The daemon's child ignores TERM and gets its grace.
			limit := map[string]time.Duration{"listen": 2 * time.Second, "daemon": 8 * time.Second}[kind]
			nothingOwn(t, l, "node1", b.s.RunID, limit)
			<-b.conn.Done()
			// What the dead agent could not remove itself, the next one does.
			c, _ := onNode(t, "", "node1")
			goneWithin(t, "the dead agent's directory", 5*time.Second, func() bool {
				left, err := c.conn.Look(t.Context(), b.s.RunID, nil)
				if err != nil || len(left.Containers)+len(left.Processes)+len(left.Unverified) > 0 {
					t.Fatalf("look = %+v, %v", left, err)
				}
				return !left.Clean()
			})
		})
	}
}

func TestContainerKilled(t *testing.T) {
	for name, kill := range map[string]string{
		"docker kill":       "docker kill $ID",
		"docker stop":       "docker stop -t 1 $ID",
		"docker rm":         "docker rm -f $ID",
		"its first process": "kill -9 $(docker inspect -f {{.State.Pid}} $ID)",
	} {
		t.Run(name, func(t *testing.T) {
			b, l := onNode(t, "", "node1")
			b.start(b.container("w", shim.SelfProgram, "engine", "listen"))
			id := own(t, l, "node1", b.s.RunID)[0].ID
			l.MustExec(t, "node1", "sh", "-c", "ID="+id+"; "+kill)
			e := b.await(deploy.EventExited, "w")
			if e.Exit.Asked || e.Exit.Code == 0 && e.Exit.Signal == "" {
				t.Errorf("exit = %+v", e.Exit)
			}
			b.await(deploy.EventGone, "w")
			if err := b.conn.Stop(t.Context(), "w", time.Second); err != nil {
				t.Error(err)
			}
			if left, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !left.Clean() {
				t.Errorf("left = %+v, %v", left, err)
			}
		})
	}
}

// TestContainerStuck: a shim that does not answer is ended without it.
func TestContainerStuck(t *testing.T) {
	b, l := onNode(t, "", "node1")
	b.start(b.container("w", shim.SelfProgram, "engine", "listen"))
	id := own(t, l, "node1", b.s.RunID)[0].ID
	l.MustExec(t, "node1", "docker", "pause", id)
	if err := b.conn.Stop(t.Context(), "w", 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	nothingOwn(t, l, "node1", b.s.RunID, 0)
	if e := b.await(deploy.EventExited, "w"); !e.Exit.Asked || e.Exit.Error == "" {
		t.Errorf("exit = %+v", e.Exit)
	}
}

func TestOutOfMemory(t *testing.T) {
	b, _ := onNode(t, "", "node1")
	w := b.container("w", shim.SelfProgram, "engine", "eat")
	w.Runtime.ExtraArgs = []string{"--memory", "96m", "--memory-swap", "96m"}
	b.start(w)
	if e := b.await(deploy.EventExited, "w"); e.Exit.Signal != "SIGKILL" || !e.Exit.OOM || e.Exit.Asked {
		t.Errorf("exit = %+v", e.Exit)
	}
}

func TestImage(t *testing.T) {
	b, l := onNode(t, "", "node2")
	want, err := l.ImageID("node2", emptyImage)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.conn.Image(t.Context(), emptyImage, "never")
	if err != nil || got.ID != want || got.Pulled {
		t.Errorf("image = %+v, %v, want id %s", got, err, want)
	}
	if _, err := b.conn.Image(t.Context(), "nope:1", "never"); deploy.ClassOf(err) != deploy.ClassImageMissing {
		t.Errorf("missing: %v", err)
	}
	if _, err := b.conn.Image(t.Context(), "127.0.0.1:1/nope:1", "missing"); deploy.ClassOf(err) != deploy.ClassRegistryDown {
		t.Errorf("no registry: %v", err)
	}
}

func TestNoDocker(t *testing.T) {
	b, _ := onNode(t, "carol", "node2")
	info := b.conn.Info()
	for _, want := range []string{"may not use the docker socket", "groups carol", "/var/run/docker.sock"} {
		if info.Docker != "" || !strings.Contains(info.DockerError, want) {
			t.Errorf("docker = %q, error %q lacks %q", info.Docker, info.DockerError, want)
		}
	}
	if _, err := b.conn.Create(t.Context(), b.container("w", "x")); deploy.ClassOf(err) != deploy.ClassRuntimeDenied {
		t.Errorf("create: %v", err)
	}
	left, err := b.conn.Look(t.Context(), b.s.RunID, nil)
	if err != nil || left.Clean() || len(left.Unverified) != 1 || !strings.Contains(left.Unverified[0], "docker ps --all --filter label=disagg.run=") {
		t.Errorf("look = %+v, %v", left, err)
	}
}
