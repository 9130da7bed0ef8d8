package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/internal/redact"
)

var noon = time.Date(2026, 3, 4, 12, 0, 5, 0, time.UTC)

func sealed(t *testing.T, runs, name string, at time.Time) *Dir {
	t.Helper()
	d, err := Create(runs, name, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WritePlan([]byte(`{"name":"` + name + `"}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.Seal(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCreateLayout(t *testing.T) {
	t.Parallel()
	d := sealed(t, filepath.Join(t.TempDir(), "runs"), "first-light", noon)
	if !strings.HasPrefix(d.ID(), "first-light-20260304T120005Z-") || len(d.ID()) != len("first-light-20260304T120005Z-")+6 {
		t.Errorf("id = %q", d.ID())
	}
	modes := map[string]os.FileMode{}
	err := filepath.WalkDir(d.Path(), func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		rel, _ := filepath.Rel(d.Path(), p)
		modes[rel] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := os.ModeDir | 0o700
	want := map[string]os.FileMode{".": dir, "bin": dir, "env": dir, "logs": dir, "results": dir, "plan.json": 0o600, ".disagg": 0o600, ".reserve": 0o600}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	if got := LogName("prefill-0.1", "gpu-03"); got != "logs/prefill-0.1.gpu-03.log" {
		t.Errorf("LogName = %q", got)
	}
	if got := PointName(16); got != "results/c16" {
		t.Errorf("PointName = %q", got)
	}
}

// TestInMemory needs a file system in memory, which Linux has at this place.
func TestInMemory(t *testing.T) {
	t.Parallel()
	var shm unix.Statfs_t
	if unix.Statfs("/dev/shm", &shm) == nil && shm.Type == unix.TMPFS_MAGIC && !InMemory("/dev/shm") {
		t.Error("/dev/shm is in memory")
	}
	for _, p := range []string{"/proc", "/sys", filepath.Join(t.TempDir(), "nothing")} {
		if InMemory(p) {
			t.Errorf("%s is not in memory", p)
		}
	}
}

func TestCreateAtOnceGivesDifferentDirectories(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			d, err := Create(runs, "same", noon)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[d.ID()] = true
		})
	}
	wg.Wait()
	if len(ids) != 20 {
		t.Errorf("%d different ids, want 20", len(ids))
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ runs, name, want string }{
		{t.TempDir(), "a b", `name "a b" may hold`},
		{t.TempDir(), "", `name "" may hold`},
		{t.TempDir(), "../up", `name "../up" may hold`},
		{t.TempDir(), strings.Repeat("x", 65), "at most 64"},
		{"relative", "ok", `runs_dir "relative" is not absolute`},
	} {
		if _, err := Create(tc.runs, tc.name, noon); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Create(%q, %q) = %v, want %q", tc.runs, tc.name, err, tc.want)
		}
	}
}

func TestOpenTellsWhole(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	half, err := Create(runs, "half", noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := half.Seal(); err == nil {
		t.Error("sealed a run without a plan")
	}
	whole := sealed(t, runs, "whole", noon)
	moved := sealed(t, runs, "moved", noon)
	if err := os.Rename(moved.Path(), filepath.Join(runs, "renamed")); err != nil {
		t.Fatal(err)
	}
	old := sealed(t, runs, "old", noon)
	if err := os.WriteFile(old.Join(MarkerFile), []byte(`{"layout":99,"run":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := sealed(t, runs, "broken", noon)
	if err := os.WriteFile(broken.Join(MarkerFile), []byte(`{"layout":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		want       error
		text       string
	}{
		{"whole", whole.Path(), nil, ""},
		{"missing", filepath.Join(runs, "nothing"), ErrNotRun, "not a run directory"},
		{"other directory", t.TempDir(), ErrNotRun, "it has no .disagg"},
		{"half made", half.Path(), ErrIncomplete, "it can be deleted"},
		{"renamed", filepath.Join(runs, "renamed"), ErrForeign, "under another name"},
		{"other layout", old.Path(), nil, "layout 99, this build reads 1"},
		{"unreadable marker", broken.Path(), nil, "unexpected end of JSON"},
	} {
		d, err := Open(tc.path)
		if tc.text == "" {
			if err != nil || d.ID() != filepath.Base(tc.path) {
				t.Errorf("%s: Open = %v, %v", tc.name, d, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.text) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: Open = %v, want %q", tc.name, err, tc.text)
		}
	}
}

func TestOpenRefusesAnotherUsersRun(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("giving a directory to another user needs root")
	}
	d := sealed(t, t.TempDir(), "theirs", noon)
	if err := os.Chown(d.Path(), 4711, -1); err != nil {
		t.Skipf("cannot give the directory away: %v", err)
	}
	if _, err := Open(d.Path()); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "owner is uid 4711") {
		t.Errorf("Open = %v, want ErrForeign naming uid 4711", err)
	}
}

func TestVerifyPlan(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "p", noon)
	want := d.PlanSHA256()
	if len(want) != 64 {
		t.Fatalf("PlanSHA256 = %q", want)
	}
	again, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := again.Verify(want)
	if err != nil || string(plan) != `{"name":"p"}` {
		t.Errorf("Verify = %q, %v", plan, err)
	}
	if _, err := again.Verify(strings.Repeat("0", 64)); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "submitted with 000000000000") {
		t.Errorf("other hash: %v", err)
	}
	if err := os.WriteFile(d.Join(PlanFile), []byte(`{"name":"q"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Verify(""); !errors.Is(err, ErrChanged) {
		t.Errorf("changed plan: %v", err)
	}
}

func TestPutKeepsTheOldFileWhenItFails(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "p", noon)
	if err := d.Put("result.json", []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Put("nowhere/result.json", []byte("two"), 0o600); err == nil {
		t.Error("wrote into a directory that does not exist")
	}
	// A directory in the way makes the rename fail after the data was written.
	if err := os.MkdirAll(d.Join("blocked/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Put("blocked", []byte("two"), 0o600); err == nil {
		t.Error("replaced a directory")
	}
	got, err := os.ReadFile(d.Join("result.json"))
	if err != nil || string(got) != "one" {
		t.Errorf("result.json = %q, %v", got, err)
	}
	tmps, _ := filepath.Glob(d.Join(".tmp-*"))
	if len(tmps) != 0 {
		t.Errorf("left behind: %v", tmps)
	}
}

func TestInstallBinary(t *testing.T) {
	t.Parallel()
	d, err := Create(t.TempDir(), "b", noon)
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(src, []byte("#!/bin/true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.InstallBinary(src); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Join(BinaryFile))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	if d.Marker().BinarySHA256 != sha([]byte("#!/bin/true\n")) {
		t.Errorf("hash = %s", d.Marker().BinarySHA256)
	}
	if err := os.WriteFile(d.Join(BinaryFile), []byte("#!/bin/false\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.VerifyBinary(); !errors.Is(err, ErrChanged) {
		t.Errorf("VerifyBinary of another program = %v", err)
	}
}

func TestSecretsRoundTrip(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "s", noon)
	if got, err := d.Secrets(); err != nil || len(got) != 0 {
		t.Errorf("none stored: %v, %v", got, err)
	}
	want := map[string][]byte{"HF_TOKEN": []byte("a b\n=\xff'\"$"), "EMPTY_KEY": {}}
	if err := d.WriteSecrets(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if err := os.Chmod(d.Join(SecretsFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Secrets(); err == nil || !strings.Contains(err.Error(), "mode 0640, want 0600") {
		t.Errorf("readable by the group: %v", err)
	}
	for _, bad := range []map[string][]byte{{"A=B": nil}, {"": nil}, {"A": []byte("x\x00y")}} {
		if err := d.WriteSecrets(bad); err == nil {
			t.Errorf("stored %q", bad)
		}
	}
}

func TestSecretsGoAway(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "s", noon)
	if err := d.WriteSecrets(map[string][]byte{"HF_TOKEN": []byte("hf_sentinel")}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // none there is as good
		if err := d.RemoveSecrets(); err != nil {
			t.Error(err)
		}
	}
	if got, err := d.Secrets(); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestPutRedacts: once a controller has said what is secret, no file that it
// writes here holds it.
func TestPutRedacts(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "s", noon)
	d.Redact(redact.New(map[string][]byte{"HF_TOKEN": []byte("hf_sentinel")}))
	if err := d.Put(ResultFile, []byte(`{"cause":"401 for hf_sentinel"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(d.Join(ResultFile)); err != nil || string(data) != `{"cause":"401 for [redacted:HF_TOKEN]"}` {
		t.Errorf("%s, %v", data, err)
	}
}

func TestClaimOnce(t *testing.T) {
	t.Parallel()
	d := sealed(t, t.TempDir(), "c", noon)
	if c, err := d.Claimed(); c != nil || err != nil {
		t.Errorf("Claimed = %v, %v", c, err)
	}
	if err := d.Claim(Claim{Host: "gpu-01", PID: 7, Job: "42", Time: noon}); err != nil {
		t.Fatal(err)
	}
	err := d.Claim(Claim{Host: "gpu-02", PID: 8, Time: noon.Add(time.Hour)})
	want := "claim " + d.ID() + ": run was started already by process 7 on gpu-01 at 2026-03-04T12:00:05Z; submit it again as a new run"
	if !errors.Is(err, ErrClaimed) || err.Error() != want {
		t.Errorf("second claim = %v\nwant %s", err, want)
	}
}

func TestDiscardOnlyUnsealed(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	d, err := Create(runs, "x", noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Path()); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	s := sealed(t, runs, "y", noon)
	if err := s.Discard(); err == nil {
		t.Error("discarded a sealed run")
	}
	if _, err := os.Stat(s.Join(PlanFile)); err != nil {
		t.Error(err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	a := sealed(t, runs, "deep", noon)
	b := sealed(t, runs, "deeper", noon.Add(time.Minute))
	if _, err := Create(runs, "zz-unfinished", noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ ref, want, err string }{
		{a.ID(), a.ID(), ""},
		{a.Path(), a.ID(), ""},
		{"deeper", b.ID(), ""},
		{"latest", b.ID(), ""},
		{"deep-", a.ID(), ""},
		{"deep", "", "2 runs start so: " + b.ID() + ", " + a.ID()},
		{"nope", "", "not a run directory"},
		{"", "", "name one by id"},
		{runs + "/nope", "", "not a run directory"},
	} {
		d, err := Resolve(runs, tc.ref)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Resolve(%q) = %v, want %q", tc.ref, err, tc.err)
			}
			continue
		}
		if err != nil || d.ID() != tc.want {
			t.Errorf("Resolve(%q) = %v, %v, want %s", tc.ref, d, err, tc.want)
		}
	}
	if _, err := Resolve("", "deep"); err == nil {
		t.Error("resolved an id without a runs_dir")
	}
	if all, err := List(filepath.Join(runs, "nowhere")); err != nil || len(all) != 0 {
		t.Errorf("List of a missing directory = %v, %v", all, err)
	}
}
