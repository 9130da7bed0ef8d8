package orchestrator

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archiveNode answers Fetch with given bytes.
type archiveNode struct {
	Node
	data []byte
	err  error
}

func (n archiveNode) Fetch(_ context.Context, _ string, w io.Writer) error {
	_, err := w.Write(n.data)
	return errors.Join(err, n.err)
}

type tarEntry struct {
	name string
	kind byte
	body string
}

func archive(t *testing.T, entries ...tarEntry) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.body))}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size, e.body = e.body, 0, ""
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestFetchTakesOnlyWhatItShould(t *testing.T) {
	t.Parallel()
	good := []tarEntry{
		{"logs", tar.TypeDir, ""}, {"logs/a.log", tar.TypeReg, "one"}, {"results/c8/deep/out.json", tar.TypeReg, "two"},
		{"plan.json", tar.TypeReg, "forged"}, {"logs/link", tar.TypeSymlink, "/etc/passwd"}, {"logs/fifo", tar.TypeFifo, ""},
	}
	dst := t.TempDir()
	if err := os.WriteFile(filepath.Join(dst, "plan.json"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fetchInto(t.Context(), archiveNode{data: archive(t, good...)}, "/x", dst, "logs", "results"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.WalkDir(dst, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dst, p)
		got[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"logs/a.log": "one", "results/c8/deep/out.json": "two", "plan.json": "mine"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	whole := archive(t, tarEntry{"logs/a.log", tar.TypeReg, strings.Repeat("x", 4096)})
	for _, tc := range []struct {
		name string
		node archiveNode
		want string
	}{
		{"a path that climbs out", archiveNode{data: archive(t, tarEntry{"../../etc/cron.d/x", tar.TypeReg, "bad"})}, "lies outside of the directory"},
		{"an absolute path", archiveNode{data: archive(t, tarEntry{"/etc/cron.d/x", tar.TypeReg, "bad"})}, "lies outside of the directory"},
		{"half an archive", archiveNode{data: whole[:1500]}, "unexpected EOF"},
		{"a node that fails on the way", archiveNode{data: whole[:1500], err: errors.New("connection lost")}, "connection lost"},
		{"no archive", archiveNode{data: []byte(strings.Repeat("no archive ", 100))}, "invalid tar header"},
	} {
		if err := fetchInto(t.Context(), tc.node, "/x", t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	// A link that is there already must not lead a file out of the directory.
	dst, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dst, "logs")); err != nil {
		t.Fatal(err)
	}
	if err := fetchInto(t.Context(), archiveNode{data: whole}, "/x", dst); err == nil {
		t.Error("wrote through a link that leads outside")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("outside: %v", left)
	}
}

// TestStaleFiles: what is older than the point was left by another run.
func TestStaleFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, age time.Duration) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(`{"completed":5}`), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	check := func(globs ...string) string {
		t.Helper()
		files, err := listFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		return checkFiles(dir, files, globs)
	}
	write(pointMark, time.Minute)
	write("old.json", time.Hour)
	if got, want := check("*.json"), `it left no file that matches "*.json" in `+dir+" (old.json is older than the point)"; got != want {
		t.Errorf("a stale file only: %q, want %q", got, want)
	}
	if got := check(); !strings.Contains(got, "older than the point") {
		t.Errorf("without patterns: %q", got)
	}
	write("new.json", time.Minute-time.Second)
	if got := check("*.json"); got != "" {
		t.Errorf("with a fresh one: %q", got)
	}
}

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, body := range files {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		globs []string
		want  string // "": fine
	}{
		{"nothing", nil, nil, "it left no result file"},
		{"only the mark", map[string]string{pointMark: "x"}, nil, "it left no result file"},
		{"an empty file", map[string]string{"a.json": ""}, nil, "it left no result file"},
		{"any file", map[string]string{"a.txt": "x"}, nil, ""},
		{"deep file", map[string]string{"deep/a.json": "{}"}, []string{"deep/*.json"}, ""},
		{"glob without match", map[string]string{"a.txt": "x"}, []string{"*.json"}, `no file that matches "*.json"`},
		{"glob with empty match", map[string]string{"a.json": ""}, []string{"*.json"}, `the files that match "*.json" in`},
		{"one filled of two", map[string]string{"a.json": "", "b.json": "{}"}, []string{"*.json"}, ""},
		{"broken glob", map[string]string{"a.json": "{}"}, []string{"[a"}, `the pattern "[a" of its results is broken`},
		{"not a summary", map[string]string{"a.json": `[1]`, "b.json": `{"completed":"many"}`, "c.json": `{"x": NaN}`, "d.json": "text\n"}, nil, ""},
		{"cut off", map[string]string{"a.json": `{"completed":100,"failed":0,"latencies":[0.1,0.`}, nil, "its result a.json is cut off"},
		{"cut off in its last line", map[string]string{"a.jsonl": "{\"completed\":5}\n{\"compl"}, nil, "its result a.jsonl is cut off"},
		{"lines in a .json", map[string]string{"a.json": "{\"completed\":5}\n{\"completed\":6}\n"}, nil, ""},
		{"all served", map[string]string{"a.json": `{"completed":100,"failed":1,"total_output_tokens":5}`}, nil, ""},
		{"too many failed", map[string]string{"a.json": `{"completed":98,"failed":2}`}, nil, "only 98 of 100 requests were completed"},
		{"none served", map[string]string{"a.json": `{"completed":0,"failed":512}`}, nil, "no request was completed"},
		{"no tokens", map[string]string{"a.json": `{"completed":5,"total_output_tokens":0}`}, nil, "no token was generated"},
		{"one bad line of several", map[string]string{"a.jsonl": "{\"completed\":5}\n{\"completed\":0}\n"}, nil, "no request was completed"},
	} {
		dir := write(tc.files)
		files, err := listFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := checkFiles(dir, files, tc.globs)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
