package labd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestControllersOfAMount(t *testing.T) {
	t.Parallel()
	for opts, want := range map[string]string{
		"rw,cpu,cpuacct":                 "cpu,cpuacct",
		"rw,xattr,name=systemd":          "none,name=systemd",
		"rw,memory,release_agent=/x":     "memory",
		"rw,cpuset,noprefix":             "cpuset",
		"rw,name=elogind,clone_children": "none,name=elogind",
	} {
		if got := controllers(opts); got != want {
			t.Errorf("controllers(%q) = %q, want %q", opts, got, want)
		}
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sinfo string
		n     int
		want  bool
	}{
		{"node1 idle\nnode2 idle", 2, true},
		{"node1 idle\nnode2 inval", 2, true},
		{"node1 idle", 2, false},
		{"node1 idle\nnode2 unknown", 2, false},
		{"node1 idle\nnode2 idle*", 2, false},
		{"", 1, false},
	} {
		if got := settled(tt.sinfo, tt.n); got != tt.want {
			t.Errorf("settled(%q, %d) = %v", tt.sinfo, tt.n, got)
		}
	}
}

func TestWithField(t *testing.T) {
	t.Parallel()
	const groups = "root:x:0:\ndocker:x:100:a\ndockerd:x:101:b\n"
	if got, want := withField(groups, "docker", 3, "c,d"), "root:x:0:\ndocker:x:100:c,d\ndockerd:x:101:b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSlurmConf(t *testing.T) {
	t.Parallel()
	conf := slurmConf(Spec{Dir: "/l", Nodes: []string{"a1", "b2"}, GPUs: 8, CPUs: 64, MemoryMB: 1000, SlurmConf: []string{"KillWait=9"}})
	for _, want := range []string{
		"SlurmctldHost=ctl(198.18.0.1)\n", "SlurmdSpoolDir=/l/nodes/%n/spool\n", "\nKillWait=9\n",
		"NodeName=b2 NodeAddr=198.18.0.12 CPUs=64 RealMemory=1000 State=UNKNOWN Gres=gpu:8\n",
		"PartitionName=main Nodes=a1,b2 Default=YES",
	} {
		if !strings.Contains(conf, want) {
			t.Errorf("slurm.conf lacks %q:\n%s", want, conf)
		}
	}
}

func TestCloneDockerSharesLayersOnly(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("overlay2/abc/diff/usr/bin/tool", "tool", 0o755)
	write("overlay2/abc/link", "L", 0o600)
	write("image/overlay2/repositories.json", "{}", 0o600)
	if err := os.Symlink("../abc/diff", filepath.Join(from, "overlay2/short")); err != nil {
		t.Fatal(err)
	}
	if err := CloneDocker(from, to); err != nil {
		t.Fatal(err)
	}
	inode := func(path string) uint64 {
		t.Helper()
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	for name, shared := range map[string]bool{
		"overlay2/abc/diff/usr/bin/tool": true, "overlay2/abc/link": false, "image/overlay2/repositories.json": false,
	} {
		if got := inode(filepath.Join(from, name)) == inode(filepath.Join(to, name)); got != shared {
			t.Errorf("%s shared: %v, want %v", name, got, shared)
		}
		a, _ := os.ReadFile(filepath.Join(from, name))
		b, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s is %q, want %q (%v)", name, b, a, err)
		}
	}
	if got, err := os.Readlink(filepath.Join(to, "overlay2/short")); err != nil || got != "../abc/diff" {
		t.Errorf("link is %q, %v", got, err)
	}
}
