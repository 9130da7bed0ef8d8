package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/redact"
)

func TestEncodeEnvRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		e    deploy.EnvEntry
		want string
	}{
		{"NUL", deploy.EnvEntry{Name: "A", Value: []byte("x\x00y")}, "NUL"},
		{"no name", deploy.EnvEntry{Name: ""}, "not a name"},
		{"equals sign in the name", deploy.EnvEntry{Name: "A=B"}, "not a name"},
		{"too long for the kernel", deploy.EnvEntry{Name: "A", Value: make1(128 << 10)}, "at most 131071"},
	}
	for _, tt := range tests {
		if _, err := EncodeEnv([]deploy.EnvEntry{tt.e}); err == nil || !strings.Contains(err.Error(), tt.want) || deploy.ClassOf(err) != deploy.ClassEnvironment {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := EncodeEnv([]deploy.EnvEntry{{Name: "A", Value: make1(128<<10 - 3)}}); err != nil {
		t.Errorf("the longest that the kernel takes is refused: %v", err)
	}
}

func make1(n int) []byte { return []byte(strings.Repeat("1", n)) }

func FuzzDecodeEnv(f *testing.F) {
	f.Add([]byte("A=1\x00B=\x00"))
	f.Add([]byte("A=1"))
	f.Add([]byte("=\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		env, err := decodeEnv(in)
		if err != nil {
			return
		}
		var back strings.Builder
		for _, kv := range env {
			back.WriteString(kv + "\x00")
		}
		if back.String() != string(in) {
			t.Fatalf("%q became %q", in, env)
		}
	})
}

func TestLayer(t *testing.T) {
	t.Parallel()
	got := layer([]string{"A=1", "B=2", "junk", "=x"}, []string{"B=3", "C=", "C=4"}, []string{"A="})
	if d := cmp.Diff([]string{"A=", "B=3", "C=4"}, got); d != "" {
		t.Error(d)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " S 7 10 10 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 100 1000 25 1844674407"
	p, ok := parseStat([]byte("42 (a) (b\n)"+rest), 4096)
	want := process{pid: 42, ppid: 7, state: 'S', command: "a) (b\n", rss: 25 * 4096}
	if !ok || p != want {
		t.Errorf("got %+v, %t", p, ok)
	}
	for _, bad := range []string{"", "42", "42 (x", "x (y)" + rest, "42 (x) S", ")("} {
		if _, ok := parseStat([]byte(bad), 4096); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseIO(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"rchar: 4096\nwchar: 7\nsyscr: 1\nread_bytes: 81920\nwrite_bytes: 0\n": 81920,
		"rchar: 90000\nread_bytes: 0\n":                                        90000,
		"rchar: many\n":                                                        0,
		"":                                                                     0,
	} {
		if got := parseIO([]byte(text)); got != want {
			t.Errorf("parseIO(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	all := []process{{pid: 1}, {pid: 2, ppid: 1}, {pid: 3, ppid: 2}, {pid: 4, ppid: 3}, {pid: 5, ppid: 1}}
	var got []int
	for _, p := range below(2, all) {
		got = append(got, p.pid)
	}
	if d := cmp.Diff([]int{3, 4}, got); d != "" {
		t.Error(d)
	}
}

func TestOOMKills(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  int64
		ok    bool
	}{
		{"v2", map[string]string{
			"proc/self/cgroup":                           "0::/system.slice/x\n",
			"sys/fs/cgroup/system.slice/x/memory.events": "low 0\noom 1\noom_kill 3\noom_group_kill 0\n",
		}, 3, true},
		{"v2 inside a container", map[string]string{
			"proc/self/cgroup":            "0::/\n",
			"sys/fs/cgroup/memory.events": "oom_kill 2\n",
		}, 2, true},
		{"v1 with the host's path inside a container", map[string]string{
			"proc/self/cgroup":                        "9:cpu,cpuacct:/docker/abc\n8:memory:/docker/abc\n0::/x\n",
			"sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		}, 1, true},
		{"no count", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "low 0\n"}, 0, false},
		{"no groups", nil, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for name, text := range tt.files {
				p := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				put(t, p, []byte(text))
			}
			if n, ok := oomKills(root); n != tt.want || ok != tt.ok {
				t.Errorf("got %d, %t", n, ok)
			}
		})
	}
}

// fullDisk takes room bytes and no more.
type fullDisk struct {
	room int
	got  strings.Builder
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.got.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := &fullDisk{room: 10}
	s := &sink{file: disk, red: redact.New(nil)}
	for _, line := range []string{"0123456", "789ABC\n", "lost\n"} {
		if n, err := s.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write = %d, %v: the program would notice", n, err)
		}
	}
	lines, size := s.report()
	want := []string{"0123456789ABC", "lost", "[disagg: the last 9 bytes of output could not be written: no space left on device]"}
	if d := cmp.Diff(want, lines); d != "" || size != 10 {
		t.Errorf("size %d, tail:\n%s", size, d)
	}
	disk.room = 1 << 20
	s.Write([]byte("back\n"))
	if got, want := disk.got.String(), "0123456789\n[disagg: 9 bytes of output are missing here: no space left on device]\nback\n"; got != want {
		t.Errorf("file = %q, want %q", got, want)
	}
	if lines, _ := s.report(); len(lines) != 3 {
		t.Errorf("tail after recovery = %q", lines)
	}
}
