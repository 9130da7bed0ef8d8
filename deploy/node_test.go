package deploy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
)

func TestExec(t *testing.T) {
	t.Parallel()
	b := local(t)
	tests := []struct {
		name string
		r    deploy.ExecRequest
		want deploy.ExecResult
	}{
		{"streams", deploy.ExecRequest{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			deploy.ExecResult{Exit: 3, Stdout: []byte("out\n"), Stderr: []byte("err\n")}},
		{"stdin and env", deploy.ExecRequest{Argv: []string{"sh", "-c", `cat; printf %s "$X"`}, Stdin: []byte("in\n"), Env: []deploy.EnvEntry{{Name: "X", Value: []byte("a\n\xff'")}}},
			deploy.ExecResult{Stdout: []byte("in\na\n\xff'"), Stderr: []byte{}}},
		{"itself", deploy.ExecRequest{Argv: []string{shim.SelfProgram, "engine", "flood", "2"}},
			deploy.ExecResult{Stdout: []byte("oo"), Stderr: []byte("ee")}},
		{"cut", deploy.ExecRequest{Argv: []string{"echo", "12345"}, MaxOutput: 3},
			deploy.ExecResult{Stdout: []byte("123"), Stderr: []byte{}, Truncated: true}},
		{"more than a message holds", deploy.ExecRequest{Argv: []string{shim.SelfProgram, "engine", "flood", strconv.Itoa(3 << 20)}},
			deploy.ExecResult{Stdout: bytes.Repeat([]byte("o"), 3<<20), Stderr: bytes.Repeat([]byte("e"), 3<<20)}},
		{"too slow", deploy.ExecRequest{Argv: []string{"sh", "-c", "echo begun; sleep 1000"}, Timeout: 300 * time.Millisecond},
			deploy.ExecResult{Exit: -1, Stdout: []byte("begun\n"), Stderr: []byte{}, TimedOut: true}},
	}
	for _, tt := range tests {
		got, err := b.conn.Exec(t.Context(), tt.r)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if len(tt.want.Stdout) > 1<<20 { // too long for a diff
			if !bytes.Equal(got.Stdout, tt.want.Stdout) || !bytes.Equal(got.Stderr, tt.want.Stderr) || got.Exit != 0 || got.Truncated {
				t.Errorf("%s: %d and %d bytes, exit %d, truncated %t", tt.name, len(got.Stdout), len(got.Stderr), got.Exit, got.Truncated)
			}
			continue
		}
		if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(deploy.ExecResult{}, "Duration"), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	got, err := b.conn.Exec(t.Context(), deploy.ExecRequest{Argv: []string{"no-such-program"}})
	if err != nil || got.Exit != -1 || !strings.Contains(got.Error, "no-such-program") {
		t.Errorf("not startable = %+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.conn.Exec(ctx, deploy.ExecRequest{Argv: []string{"sleep", "1000"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up = %v", err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	b := local(t)
	ctx := t.Context()
	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<15) // 2.5 MiB, three messages
	path := filepath.Join(b.dir, "new", "dir", "file")
	if err := b.conn.WriteFile(ctx, path, 0o755, big); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 || st.Size() != int64(len(big)) {
		t.Errorf("file = %v, %v", st, err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory = %v, %v", st, err)
	}
	data, size, err := b.conn.ReadFile(ctx, path, 0, 1<<30)
	if err != nil || size != int64(len(big)) || !bytes.Equal(data, big) {
		t.Errorf("read %d of %d bytes, %v", len(data), size, err)
	}
	data, size, err = b.conn.ReadFile(ctx, path, 5, 4)
	if err != nil || size != int64(len(big)) || string(data) != "5678" {
		t.Errorf("part = %q, %d, %v", data, size, err)
	}
	if data, _, err = b.conn.ReadFile(ctx, path, 1<<40, 4); err != nil || len(data) != 0 {
		t.Errorf("beyond the end = %q, %v", data, err)
	}
	if err := b.conn.WriteFile(ctx, path, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 0 || st.Mode().Perm() != 0o600 {
		t.Errorf("emptied file = %v, %v", st, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the file: %v, %v", entries, err)
	}
	for _, bad := range []string{"relative", filepath.Join(path, "below-a-file")} {
		if err := b.conn.WriteFile(ctx, bad, 0o600, []byte("x")); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	for _, bad := range []string{filepath.Join(b.dir, "none"), b.dir} {
		if _, _, err := b.conn.ReadFile(ctx, bad, 0, 1); err == nil || !strings.Contains(err.Error(), "node node1: read file") {
			t.Errorf("read %s: %v", bad, err)
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	b := local(t)
	src := filepath.Join(b.dir, "src")
	for name, text := range map[string]string{"a.json": "{}", "sub/b.log": strings.Repeat("x", 3<<20), "sub/empty": ""} {
		if err := b.conn.WriteFile(t.Context(), filepath.Join(src, name), 0o640, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := b.conn.Fetch(t.Context(), src, &buf); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	tr := tar.NewReader(&buf)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = fmt.Sprintf("%c %d %s", h.Typeflag, len(body), h.Linkname)
	}
	want := map[string]string{"a.json": "0 2 ", "sub/": "5 0 ", "sub/b.log": "0 3145728 ", "sub/empty": "0 0 ", "link": "2 0 /etc/passwd"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if err := b.conn.Fetch(t.Context(), filepath.Join(src, "none"), &buf); err == nil {
		t.Error("a missing directory was fetched")
	}
	if err := b.conn.Fetch(t.Context(), src, failing{}); err == nil {
		t.Error("a writer that fails was not noticed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWorkloadLife(t *testing.T) {
	t.Parallel()
	b := local(t)
	info := b.conn.Info()
	if info.Name != "node1" || info.Addr == "" || info.Interface == "" || info.PID == 0 || info.BootID == "" || info.SlurmProcID != -1 || info.Version != "test" {
		t.Errorf("info = %+v", info)
	}
	out := filepath.Join(b.dir, "environ")
	w := workload(b.s, b.dir, "decode-0.0", shim.SelfProgram, "engine", "environ", out)
	hostile := []byte("a\n'\"$(x) \xff\xfe=b")
	w.Env = []deploy.EnvEntry{
		{Name: "HOSTILE", Value: hostile},
		{Name: "LONG", Value: bytes.Repeat([]byte("y"), 100_000)},
		{Name: "HF_TOKEN", Value: []byte("hf_abcdef123"), Secret: true},
		{Name: "PATH", Value: []byte("/mine/bin:"), Prepend: true},
	}
	r, err := b.conn.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]deploy.ReceiptVar{}
	for _, v := range r.Env {
		seen[v.Name] = v
	}
	if !bytes.Equal(seen["HOSTILE"].Value, hostile) || len(seen["LONG"].Value) != 100_000 || seen["HF_TOKEN"].HMAC == "" || seen["HF_TOKEN"].Value != nil {
		t.Errorf("receipt = %.300v", r)
	}
	b.await(deploy.EventCreated, w.ID)
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Error("it ran before it was released")
	}
	if _, err := b.conn.Create(t.Context(), w); err == nil || !strings.Contains(err.Error(), "here already") {
		t.Errorf("created twice: %v", err)
	}
	if err := b.conn.Release(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	b.await(deploy.EventStarted, w.ID)
	e := b.await(deploy.EventExited, w.ID)
	if e.Exit == nil || *e.Exit != (deploy.Exit{}) || e.Node != "node1" {
		t.Errorf("exit = %+v", e)
	}
	b.await(deploy.EventGone, w.ID)
	d, err := os.ReadFile(out)
	env := strings.Split(string(d), "\x00")
	for _, kv := range []string{"HOSTILE=" + string(hostile), "PATH=/mine/bin:" + os.Getenv("PATH")} {
		if err != nil || !slices.Contains(env, kv) {
			t.Errorf("environment of the engine lacks %q: %.200q, %v", kv, d, err)
		}
	}
	if err := b.conn.Stop(t.Context(), w.ID, time.Second); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
	if err := b.conn.Stop(t.Context(), "never", 0); deploy.ClassOf(err) != deploy.ClassUnknown {
		t.Errorf("stopping what never was: %v", err)
	}
	if st, err := os.Stat(w.LogPath); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("log = %v, %v", st, err)
	}
	l, err := b.conn.Look(t.Context(), b.s.RunID, []int{1})
	if err != nil || !l.Clean() || l.Node != "node1" {
		t.Errorf("left: %+v, %v", l, err)
	}
	// The name is free again.
	w.Argv = []string{"true"}
	if _, err := b.conn.Create(t.Context(), w); err != nil {
		t.Errorf("created again: %v", err)
	}
	if err := b.conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := b.conn.Err(); err != nil {
		t.Errorf("Err after Close: %v", err)
	}
	if s := b.scratch(); len(s) > 0 {
		t.Errorf("scratch directories are left: %v", s)
	}
	if alive(info.PID) {
		t.Error("the agent is still there")
	}
	if _, err := b.conn.Exec(t.Context(), deploy.ExecRequest{Argv: []string{"true"}}); err == nil {
		t.Error("a closed connection answers")
	}
}

// TestSecondLife: what has ended and is gone may be created again under its name.
// The log then holds both lives, with a line between them, and its size counts both.
func TestSecondLife(t *testing.T) {
	t.Parallel()
	b := local(t)
	var sizes []int64
	for i, says := range []string{"one", "two"} {
		w := workload(b.s, b.dir, "decode-0.0", "sh", "-c", "echo life "+says+"; exit 3")
		if _, err := b.conn.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.awaitNth(deploy.EventCreated, w.ID, i+1)
		if err := b.conn.Release(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
		e := b.awaitNth(deploy.EventExited, w.ID, i+1)
		if e.Exit == nil || e.Exit.Code != 3 || len(e.Log) != 1 || e.Log[0] != "life "+says {
			t.Errorf("life %s ended with %+v, log %q", says, e.Exit, e.Log)
		}
		sizes = append(sizes, e.LogBytes)
		b.awaitNth(deploy.EventGone, w.ID, i+1)
		if err := b.conn.Stop(t.Context(), w.ID, 0); err != nil {
			t.Errorf("stop what is gone: %v", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "logs", "decode-0.0.log"))
	if err != nil || !regexp.MustCompile(`^life one\n\n\[disagg: decode-0\.0 is started again at \S+Z\]\nlife two\n$`).Match(text) {
		t.Errorf("log %q, %v", text, err)
	}
	if sizes[0] != int64(len("life one\n")) || sizes[1] != int64(len(text)) {
		t.Errorf("sizes %d, the log has %d bytes", sizes, len(text))
	}
}

// TestOthersSecretsStayOutOfTheLog: what a program is not given, and says all the
// same, is redacted like its own.
func TestOthersSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	b := local(t)
	w := workload(b.s, b.dir, "router", "sh", "-c", "echo authorization: Bearer sk-sentinel-1")
	w.Redact = map[string][]byte{"OPENAI_API_KEY": []byte("sk-sentinel-1")}
	b.start(w)
	e := b.await(deploy.EventExited, w.ID)
	const want = "authorization: Bearer [redacted:OPENAI_API_KEY]"
	if data, err := os.ReadFile(w.LogPath); err != nil || string(data) != want+"\n" || !slices.Equal(e.Log, []string{want}) {
		t.Errorf("log %q, %v; last words %q", data, err, e.Log)
	}
}

func TestCreateFails(t *testing.T) {
	t.Parallel()
	b := local(t)
	tests := []struct {
		name   string
		change func(*deploy.Workload)
		want   string
		class  deploy.Class
	}{
		{"other run", func(w *deploy.Workload) { w.RunID = "other" }, `it is of run "other"`, ""},
		{"no program", func(w *deploy.Workload) { w.Argv = nil }, "no program", ""},
		{"value with NUL", func(w *deploy.Workload) { w.Env = []deploy.EnvEntry{{Name: "A", Value: []byte{0}}} }, "NUL", deploy.ClassEnvironment},
		{"relative log", func(w *deploy.Workload) { w.LogPath = "x.log" }, "not an absolute path", ""},
		{"no such shell", func(w *deploy.Workload) { w.Shell = "fish" }, `shell "fish" is unknown`, deploy.ClassProgram},
		{"no container runtime here", func(w *deploy.Workload) { w.Runtime.Kind = "docker" }, "runs plain processes", deploy.ClassRuntimeAbsent},
	}
	for i, tt := range tests {
		w := workload(b.s, b.dir, fmt.Sprint("w", i), "true")
		tt.change(&w)
		_, err := b.conn.Create(t.Context(), w)
		if err == nil || !strings.Contains(err.Error(), tt.want) || deploy.ClassOf(err) != tt.class {
			t.Errorf("%s: %v (class %q)", tt.name, err, deploy.ClassOf(err))
		}
	}
	b.mu.Lock()
	if len(b.events) > 0 {
		t.Errorf("events of what was never created: %+v", b.events)
	}
	b.mu.Unlock()
	w := workload(b.s, b.dir, "gone", "/nonexistent/engine")
	if _, err := b.conn.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Release(t.Context(), "gone"); deploy.ClassOf(err) != deploy.ClassProgram || !strings.Contains(err.Error(), "/nonexistent/engine") {
		t.Errorf("release: %v", err)
	}
	e := b.await(deploy.EventExited, "gone")
	if !strings.Contains(e.Exit.Error, "/nonexistent/engine") {
		t.Errorf("exit = %+v", e.Exit)
	}
	b.await(deploy.EventGone, "gone")
	if l, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !l.Clean() {
		t.Errorf("left: %+v, %v", l, err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	b := local(t)
	pid := b.run("stubborn", shim.SelfProgram, "engine", "stubborn")
	b.awaitLog("stubborn", "ready")
	if err := b.conn.Stop(t.Context(), "stubborn", 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("stopped, but the process is there")
	}
	if e := b.await(deploy.EventExited, "stubborn"); !e.Exit.Asked || e.Exit.Signal != "SIGKILL" {
		t.Errorf("exit = %+v", e.Exit)
	}
	b.await(deploy.EventGone, "stubborn")

	b.run("daemon", shim.SelfProgram, "engine", "daemon")
	b.awaitLog("daemon", "ready")
	if err := b.conn.Stop(t.Context(), "daemon", 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	if l, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !l.Clean() {
		t.Errorf("left: %+v, %v", l, err)
	}

	// Held and never released.
	if _, err := b.conn.Create(t.Context(), workload(b.s, b.dir, "held", "true")); err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Stop(t.Context(), "held", time.Second); err != nil {
		t.Error(err)
	}
	if e := b.await(deploy.EventExited, "held"); !e.Exit.Asked {
		t.Errorf("exit = %+v", e.Exit)
	}
}

// TestLookFinds: what is left is found, also by an agent that did not start it.
func TestLookFinds(t *testing.T) {
	t.Parallel()
	b := local(t)
	pid := b.run("w", shim.SelfProgram, "engine", "listen")
	b.awaitLog("w", "port ")
	port, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(b.log("w"), "port ")))
	if err != nil {
		t.Fatal(err)
	}
	other, err := deploy.Local(t.Context(), setup(b.dir, nil), "node1", os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, c := range map[string]*deploy.Conn{"own agent": b.conn, "another agent": other} {
		l, err := c.Look(t.Context(), b.s.RunID, []int{port, 1})
		if err != nil || l.Clean() {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
		all := strings.Join(l.Processes, "\n")
		if len(l.Processes) != 2 || !strings.Contains(all, fmt.Sprintf("%d ", pid)) || !strings.Contains(all, "engine listen") || !strings.Contains(all, " shim --dir") {
			t.Errorf("%s: processes = %q", name, l.Processes)
		}
		if len(l.Ports) != 1 || !strings.HasPrefix(l.Ports[0], fmt.Sprintf("127.0.0.1:%d held by pid %d ", port, pid)) {
			t.Errorf("%s: ports = %q", name, l.Ports)
		}
		if len(l.Files) != 1 || !strings.HasSuffix(l.Files[0], "/1") {
			t.Errorf("%s: files = %q", name, l.Files)
		}
	}
	if l, err := other.Look(t.Context(), "another-run", []int{1}); err != nil || !l.Clean() {
		t.Errorf("of another run: %+v, %v", l, err)
	}
	if err := b.conn.Stop(t.Context(), "w", time.Second); err != nil {
		t.Error(err)
	}
	if l, err := other.Look(t.Context(), b.s.RunID, []int{port}); err != nil || !l.Clean() {
		t.Errorf("after the stop: %+v, %v", l, err)
	}
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	b := local(t)
	b.run("w", "sh", "-c", "echo loading; exec sleep 1000")
	e := b.await(deploy.EventProgress, "w")
	if len(e.Log) != 1 || e.Log[0] != "loading" || e.LogBytes != 8 || e.RSSBytes == 0 {
		t.Errorf("progress = %+v", e)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	b := local(t)
	w := workload(b.s, b.dir, "cat", "cat")
	w.Stdin = []byte("spec\n")
	if _, err := b.conn.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Release(t.Context(), "cat"); err != nil {
		t.Fatal(err)
	}
	b.await(deploy.EventGone, "cat")
	if got := b.log("cat"); got != "spec\n" {
		t.Errorf("log = %q", got)
	}
}
