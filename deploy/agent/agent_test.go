package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
)

func TestNaturalOrder(t *testing.T) {
	t.Parallel()
	got := []string{"mlx5_10", "rdma2", "mlx5_2", "ionic_0", "mlx5_0", "rdma10", "mlx5_bond_0"}
	slices.SortFunc(got, natural)
	want := []string{"ionic_0", "mlx5_0", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rdma2", "rdma10"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPortRange(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]int{"32768\t60999": {32768, 60999}, "": {}, "1": {}, "a b": {}} {
		if got := portRange(in); got != want {
			t.Errorf("%q = %v", in, got)
		}
	}
}

func TestInnermost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"Name:\tx\nNSpid:\t4711\t12\nFoo:\t1\n": 12,
		"NSpid:\t7\n":                           7,
		"NSpid:\n":                              0,
		"Pid:\t3\n":                             0,
	} {
		if got := innermost([]byte(in)); got != want {
			t.Errorf("%q = %d, want %d", in, got, want)
		}
	}
}

func TestScratch(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	s, err := newScratch(base, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.dir)
	if err != nil || st.Mode().Perm() != 0o700 || !strings.HasPrefix(filepath.Base(s.dir), scratchPrefix) {
		t.Errorf("directory = %v, %v", st, err)
	}
	m, ok := readMarker(s.dir)
	if !ok || m.RunID != "run-1" || m.PID != os.Getpid() || m.Start != startTime(os.Getpid()) || m.Start == "" {
		t.Errorf("marker = %+v, %t", m, ok)
	}
	if err := s.record(entry{Workload: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.record(entry{Workload: "a", Unit: "0123"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, ledgerFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"workload":"cut`)
	f.Close()
	got, err := readLedger(s.dir)
	if d := cmp.Diff([]entry{{Workload: "a"}, {Workload: "a", Unit: "0123"}}, got); d != "" || err != nil {
		t.Errorf("ledger: %v\n%s", err, d)
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// TestScratchIsNotRemovedBlindly: only the directory that was made goes.
func TestScratchIsNotRemovedBlindly(t *testing.T) {
	t.Parallel()
	precious := t.TempDir()
	keep := filepath.Join(precious, "keep")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*scratch) error{
		"a link to elsewhere": func(s *scratch) error {
			if err := os.RemoveAll(s.dir); err != nil {
				return err
			}
			return os.Symlink(precious, s.dir)
		},
		"no marker":       func(s *scratch) error { return os.Remove(filepath.Join(s.dir, markerFile)) },
		"another's":       func(s *scratch) error { s.runID = "run-2"; return nil },
		"an empty path":   func(s *scratch) error { s.dir = ""; return nil },
		"the root":        func(s *scratch) error { s.dir = "/"; return nil },
		"a broken marker": func(s *scratch) error { return os.WriteFile(filepath.Join(s.dir, markerFile), []byte("{"), 0o600) },
	} {
		s, err := newScratch(t.TempDir(), "run-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(s); err != nil {
			t.Fatal(err)
		}
		if err := s.remove(); err == nil {
			t.Errorf("%s: removed", name)
		}
		if _, err := os.Stat(keep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestScratchPlace(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for base, want := range map[string]string{
		"relative":         "not an absolute path",
		"/nonexistent/dir": "no such file",
		long:               "the kernel takes 107",
	} {
		if s, err := newScratch(base, "r"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, %v", base, s, err)
		}
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left in the refused place: %v, %v", left, err)
	}
}

func TestBinaryForContainers(t *testing.T) {
	t.Parallel()
	s, err := newScratch(t.TempDir(), "r")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := s.binaryFor(self)
		if err != nil || p != filepath.Join(s.dir, "disagg") {
			t.Fatalf("%q, %v", p, err)
		}
		if b, err := os.ReadFile(p); err != nil || string(b) != "binary" {
			t.Errorf("copy = %q, %v", b, err)
		}
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("copy = %v, %v", st, err)
		}
	}
}

func TestParseListeners(t *testing.T) {
	t.Parallel()
	const tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1 0 100 0 0 10 0
   2: 0500000A:1F40 0600000A:C350 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0 100 0 0 10 0
   3: junk
`
	const tcp6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 0 100 0 0 10 0
   1: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 555 1 0 100 0 0 10 0
`
	if d := cmp.Diff([]listener{{"0.0.0.0:8000", 8000, "111"}, {"127.0.0.1:30000", 30000, "222"}}, parseListeners(tcp), cmp.AllowUnexported(listener{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]listener{{"[::]:8000", 8000, "444"}, {"[2001:db8::1]:80", 80, "555"}}, parseListeners(tcp6), cmp.AllowUnexported(listener{})); d != "" {
		t.Error(d)
	}
}

func FuzzParseListeners(f *testing.F) {
	f.Add("   0: 0100007F:7530 00000000:0000 0A 0:0 0:0 0 0 0 222\n")
	f.Fuzz(func(t *testing.T, table string) {
		for _, l := range parseListeners(table) {
			if l.port < 0 || l.port > 65535 || l.addr == "" {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// TestLookPortsUnverified: tables that cannot be read are not "no listener".
func TestLookPortsUnverified(t *testing.T) {
	t.Parallel()
	var l deploy.Leftovers
	lookPorts(t.TempDir(), []int{8000}, &l)
	if len(l.Unverified) != 1 || !strings.Contains(l.Unverified[0], "ss -ltnp") || l.Clean() {
		t.Errorf("leftovers = %+v", l)
	}
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "net"), 0o700); err != nil {
		t.Fatal(err)
	}
	table := "  sl\n   0: 00000000:1F40 00000000:0000 0A 0:0 0:0 0 0 0 111 1\n"
	if err := os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	l = deploy.Leftovers{}
	lookPorts(proc, []int{8000, 8001}, &l)
	want := []string{"0.0.0.0:8000 held by a process this user cannot see; on the node: sudo ss -ltnp 'sport = :8000'"}
	if d := cmp.Diff(want, l.Ports); d != "" || len(l.Unverified) > 0 {
		t.Errorf("%v\n%s", l.Unverified, d)
	}
}

func TestOfContainer(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 32)
	ids := map[string]bool{id: true, "": true, "short": true}
	for cgroup, want := range map[string]bool{
		"0::/system.slice/docker-" + id + ".scope\n":                 true,
		"8:memory:/docker/" + id + "\n":                              true,
		"0::/system.slice/docker-" + strings.Repeat("cd", 32) + "\n": false,
		"0::/short\n": false,
	} {
		if got := ofContainer(cgroup, ids); got != want {
			t.Errorf("%q = %t", cgroup, got)
		}
	}
}
