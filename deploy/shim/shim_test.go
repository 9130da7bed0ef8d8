package shim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
)

// TestEnvironmentArrivesExactly: whatever bytes a value has, the program has the
// same, the receipt says the same, and nothing is on a command line.
func TestEnvironmentArrivesExactly(t *testing.T) {
	t.Parallel()
	allBytes := make([]byte, 255)
	for i := range allBytes {
		allBytes[i] = byte(i + 1)
	}
	env := []deploy.EnvEntry{
		{Name: "NEWLINES", Value: []byte("\n{\n  \"a\": 1\n}\n")},
		{Name: "QUOTES", Value: []byte(`'"` + "`$(id) ${HOME} \\ ")},
		{Name: "EQUALS", Value: []byte("a=b=c")},
		{Name: "COMMA", Value: []byte("a,b, c")},
		{Name: "EMPTY", Value: []byte{}},
		{Name: "ALL_BYTES", Value: allBytes},
		{Name: "LONG", Value: bytes.Repeat([]byte("0123456789"), 10_000)},
		{Name: "odd.name-x", Value: []byte("1")},
		{Name: "IMAGE_VAR", Value: []byte("from the plan")},
		{Name: "HF_TOKEN", Value: []byte("hf_abcdef123"), Secret: true},
	}
	out := filepath.Join(t.TempDir(), "environ")
	a := launch(t, Spec{Argv: self("environ", out), ReceiptKey: []byte("key")}, env...)
	held := await[Held](a, NoteHeld)

	for _, f := range []string{SpecFile, EnvFile} {
		if _, err := os.Stat(filepath.Join(a.dir, f)); !os.IsNotExist(err) {
			t.Errorf("%s is still there while the program is held: %v", f, err)
		}
	}
	for _, pid := range []int{a.cmd.Process.Pid, held.PID} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), "environ") || strings.Contains(string(line), "hf_") {
			t.Errorf("command line of the held program shows the engine: %q", line)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Error("the program ran before it was released")
	}
	if e := a.run(); e.Exit.Code != 0 || e.Exit.Error != "" || e.Exit.Asked {
		t.Fatalf("exit = %+v", e)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for kv := range strings.SplitSeq(string(got), "\x00") {
		name, v, _ := strings.Cut(kv, "=")
		seen[name] = v
	}
	for _, e := range env {
		if v, ok := seen[e.Name]; !ok || v != string(e.Value) {
			t.Errorf("%s arrived as %.60q (%t), want %.60q", e.Name, v, ok, e.Value)
		}
		r, ok := value(held.Receipt, e.Name)
		switch {
		case !ok:
			t.Errorf("%s is not in the receipt", e.Name)
		case e.Secret:
			mac := hmac.New(sha256.New, []byte("key"))
			mac.Write(e.Value)
			if r.HMAC != hex.EncodeToString(mac.Sum(nil)) || r.Value != nil {
				t.Errorf("receipt of the secret = %+v", r)
			}
		case !bytes.Equal(r.Value, e.Value) || r.HMAC != "":
			t.Errorf("receipt of %s = %.60q, %q", e.Name, r.Value, r.HMAC)
		}
	}
	want := []string{"PATH", "HOME", RunVar, WorkloadVar}
	for _, e := range env {
		want = append(want, e.Name)
	}
	var have []string
	for _, r := range held.Receipt.Env {
		have = append(have, r.Name)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("names in the receipt (-want +got):\n%s", d)
	}
	if seen[RunVar] != "run-x" || seen[WorkloadVar] != "decode-0.0" {
		t.Errorf("marks = %q, %q", seen[RunVar], seen[WorkloadVar])
	}
}

func TestExits(t *testing.T) {
	t.Parallel()
	sh := func(s string) []string { return []string{"/bin/sh", "-c", s} }
	tests := []struct {
		name string
		spec Spec
		want deploy.Exit
		log  string
	}{
		{"code 0", Spec{Argv: sh("echo out; echo err >&2")}, deploy.Exit{}, "out\nerr\n"},
		{"code 7", Spec{Argv: sh("exit 7")}, deploy.Exit{Code: 7}, ""},
		{"signal", Spec{Argv: self("kill-self")}, deploy.Exit{Code: -1, Signal: "SIGKILL"}, ""},
		{"name on PATH", Spec{Argv: []string{"sh", "-c", "exit 3"}}, deploy.Exit{Code: 3}, ""},
		{"working directory", Spec{Argv: sh("pwd"), Dir: "/"}, deploy.Exit{}, "/\n"},
		{"stdin", Spec{Argv: []string{"cat"}, Stdin: true}, deploy.Exit{}, "from stdin\n"},
		{"stdin is empty", Spec{Argv: []string{"cat"}}, deploy.Exit{}, ""},
		{"descriptors", Spec{Argv: sh("ls /proc/$$/fd")}, deploy.Exit{}, "0\n1\n2\n"},
		{"login shell", Spec{Argv: sh("echo $0 $PPID >/dev/null; shopt 2>/dev/null; echo hi"), Shell: "login"}, deploy.Exit{}, "hi\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := launch(t, tt.spec)
			e := a.run()
			if d := cmp.Diff(tt.want, e.Exit); d != "" {
				t.Errorf("exit (-want +got):\n%s", d)
			}
			if got := a.text(); got != tt.log {
				t.Errorf("log = %q, want %q", got, tt.log)
			}
			if e.LogBytes != int64(len(tt.log)) {
				t.Errorf("log bytes = %d", e.LogBytes)
			}
			if d := await[Ended](a, NoteEnded); len(d.Survivors) > 0 {
				t.Errorf("survivors: %v", d.Survivors)
			}
		})
	}
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"no such file", Spec{Argv: []string{"/nonexistent/sglang"}}, "no such file"},
		{"not on PATH", Spec{Argv: []string{"no-such-engine"}}, `"no-such-engine" on PATH `},
		{"not executable", Spec{Argv: []string{"/etc/passwd"}}, "permission denied"},
		{"working directory", Spec{Argv: []string{"/bin/true"}, Dir: "/nonexistent/dir"}, "enter working directory: chdir /nonexistent/dir"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := launch(t, tt.spec)
			err := deploy.FromWire(a.release())
			if err == nil || !strings.Contains(err.Error(), tt.want) || deploy.ClassOf(err) != deploy.ClassProgram {
				t.Errorf("release = %v (class %q), want %q", err, deploy.ClassOf(err), tt.want)
			}
			e := await[Exited](a, NoteExited)
			if !strings.Contains(e.Exit.Error, tt.want) {
				t.Errorf("exit = %+v", e.Exit)
			}
			a.over()
		})
	}
}

func TestNoBash(t *testing.T) {
	t.Parallel()
	s := &shim{opts: Options{Self: "/x", Dir: "/d"}, spec: Spec{Shell: "zsh"}}
	if _, err := s.heldArgv(); err == nil || !strings.Contains(err.Error(), `"zsh" is unknown`) {
		t.Errorf("unknown shell: %v", err)
	}
	s.spec.Shell = "login"
	got, err := s.heldArgv()
	if err != nil {
		t.Skip("no bash here: ", err)
	}
	want := []string{got[0], "-lc", `exec "$0" "$@"`, "/x", "shim-exec", "--dir", "/d"}
	if d := cmp.Diff(want, got); d != "" || filepath.Base(got[0]) != "bash" {
		t.Error(d)
	}
}

func TestSecretNeverReachesTheLog(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("say", "token hf_abc", "def123 used\n", "again hf_abcdef123\n")},
		deploy.EnvEntry{Name: "HF_TOKEN", Value: []byte("hf_abcdef123"), Secret: true})
	e := a.run()
	want := "token [redacted:HF_TOKEN] used\nagain [redacted:HF_TOKEN]\n"
	if got := a.text(); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if d := cmp.Diff([]string{"token [redacted:HF_TOKEN] used", "again [redacted:HF_TOKEN]"}, e.Log); d != "" {
		t.Errorf("tail:\n%s", d)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		argv   []string
		grace  time.Duration
		signal string
	}{
		{"obedient", []string{"sleep", "1000"}, 10 * time.Second, "SIGTERM"},
		{"stubborn", self("stubborn"), 300 * time.Millisecond, "SIGKILL"},
		{"no grace", []string{"sleep", "1000"}, 0, "SIGKILL"},
		{"child in another session", self("daemon"), 300 * time.Millisecond, "SIGTERM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := launch(t, Spec{Argv: tt.argv})
			if err := a.release(); err != nil {
				t.Fatal(err)
			}
			pids := []int{await[Held](a, NoteHeld).PID}
			if tt.argv[0] == SelfProgram {
				pids = append(pids, a.spokenPID())
			}
			if err := a.sess.Notify(NoteStop, Stop{Grace: tt.grace}); err != nil {
				t.Fatal(err)
			}
			e := await[Exited](a, NoteExited)
			if !e.Exit.Asked {
				t.Errorf("exit = %+v, want asked", e.Exit)
			}
			// With no grace TERM may still be the one that arrives first.
			if e.Exit.Signal != tt.signal && tt.grace > 0 {
				t.Errorf("signal = %q, want %q", e.Exit.Signal, tt.signal)
			}
			a.over()
			if d := await[Ended](a, NoteEnded); len(d.Survivors) > 0 {
				t.Errorf("survivors: %v", d.Survivors)
			}
			for _, p := range pids {
				if alive(p) {
					t.Errorf("process %d is still there", p)
				}
			}
		})
	}
}

// spokenPID waits for "pid N" in the log.
func (a *agent) spokenPID() int {
	a.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(a.text()) {
			if n, ok := strings.CutPrefix(line, "pid "); ok && strings.HasSuffix(n, "\n") {
				pid, err := strconv.Atoi(strings.TrimSpace(n))
				if err != nil {
					a.t.Fatal(err)
				}
				return pid
			}
		}
	}
	a.t.Fatal("the program did not say its process id")
	return 0
}

func TestStopWhileHeld(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"sleep", "1000"}})
	await[Held](a, NoteHeld)
	a.sess.Notify(NoteStop, Stop{Grace: 5 * time.Second})
	e := await[Exited](a, NoteExited)
	if !e.Exit.Asked || e.Exit.Error != errNeverRan.Error() {
		t.Errorf("exit = %+v", e.Exit)
	}
	a.over()
}

func TestShorterGraceWins(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("stubborn")})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	pid := a.spokenPID()
	a.sess.Notify(NoteStop, Stop{Grace: time.Hour})
	time.Sleep(50 * time.Millisecond)
	if !alive(pid) {
		t.Fatal("killed before its grace was over")
	}
	a.sess.Notify(NoteStop, Stop{Grace: 0})
	goneWithin(t, pid, 5*time.Second)
	a.over()
}

// TestGrandchildHoldsThePipe: the exit is reported at once although the output
// never ends, and the grandchild is ended after that.
func TestGrandchildHoldsThePipe(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("daemon", "leave"), Grace: 300 * time.Millisecond})
	start := time.Now()
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	e := await[Exited](a, NoteExited)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("exit was reported after %s", took)
	}
	if e.Exit.Asked || e.Exit.Code != 0 || !slices.Contains(e.Log, "leaving") {
		t.Errorf("exit = %+v", e)
	}
	child := a.spokenPID()
	a.over()
	goneWithin(t, child, time.Second)
}

func TestAgentGone(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held=%t", held), func(t *testing.T) {
			t.Parallel()
			a := launch(t, Spec{Argv: []string{"sleep", "1000"}})
			pid := await[Held](a, NoteHeld).PID
			if !held {
				if err := a.release(); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			a.conn.Close()
			goneWithin(t, pid, 2*time.Second)
			a.over()
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("the shim took %s", took)
			}
		})
	}
}

// TestAgentSilent: an agent that is there but says nothing is gone after the
// time it may be without controller.
func TestAgentSilent(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"sleep", "1000"}, Timing: deploy.Timing{
		Beat: 50 * time.Millisecond, Lost: 300 * time.Millisecond, Redial: 300 * time.Millisecond,
	}})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	pid := await[Held](a, NoteHeld).PID
	// The session's end closes the stream; holding a copy of the descriptor
	// keeps it open and mute.
	f, err := a.conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a.sess.Close(nil)
	goneWithin(t, pid, 5*time.Second)
	a.over()
}

// TestShimKilled: with the shim the engine dies.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("stubborn")})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	pid := a.spokenPID()
	a.cmd.Process.Kill()
	a.over()
	goneWithin(t, pid, 2*time.Second)
}

// TestShimTerminated: TERM to the shim, as a container runtime's stop sends it,
// stops the engine, but nobody of the run asked for that.
func TestShimTerminated(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"sleep", "1000"}})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	a.cmd.Process.Signal(syscall.SIGTERM)
	e := await[Exited](a, NoteExited)
	if e.Exit.Asked || e.Exit.Signal != "SIGTERM" {
		t.Errorf("exit = %+v", e.Exit)
	}
	a.over()
}

func TestZombiesAreReaped(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("zombies")})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	engine := await[Held](a, NoteHeld).PID
	shim := a.cmd.Process.Pid
	orphans := func() (live, dead int) {
		for _, p := range table() {
			if p.ppid == shim && p.pid != engine {
				if p.zombie() {
					dead++
				} else {
					live++
				}
			}
		}
		return live, dead
	}
	seen := 0
	for end := time.Now().Add(20 * time.Second); !strings.Contains(a.text(), "spawned"); time.Sleep(2 * time.Millisecond) {
		live, _ := orphans()
		seen = max(seen, live)
		if time.Now().After(end) {
			t.Fatal("the engine did not get ready")
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		live, dead := orphans()
		seen = max(seen, live+dead)
		if live+dead == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("left: %d live, %d dead", live, dead)
		}
	}
	if seen == 0 {
		t.Error("no orphan came to the shim")
	}
	a.sess.Notify(NoteStop, Stop{Grace: time.Second})
	a.over()
}

// TestFlood: much output without a line end arrives whole and grows nothing.
func TestFlood(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("flood", "16")})
	e := a.run()
	if st, err := os.Stat(a.log); err != nil || st.Size() != 16<<20 || e.LogBytes != 16<<20 {
		t.Errorf("log has %v bytes (reported %d), %v", st.Size(), e.LogBytes, err)
	}
	if len(e.Log) != 1 || len(e.Log[0]) > tailLine+8 {
		t.Errorf("tail has %d lines", len(e.Log))
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"/bin/sh", "-c", "echo loading; exec sleep 1000"}})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	p := await[Progress](a, NoteProgress)
	if p.Last != "loading" || p.LogBytes != 8 || p.RSSBytes < 100<<10 {
		t.Errorf("progress = %+v", p)
	}
	time.Sleep(2500 * time.Millisecond)
	a.mu.Lock()
	n := 0
	for _, f := range a.heard {
		if f.Method == NoteProgress {
			n++
		}
	}
	a.mu.Unlock()
	if n != 1 {
		t.Errorf("%d notices of progress while nothing moved, want 1", n)
	}
	a.sess.Notify(NoteStop, Stop{})
	a.over()
}

// TestReadingIsProgress: a program that reads much and says nothing moves.
func TestReadingIsProgress(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=1M"}})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var all []Progress
		a.mu.Lock()
		for _, f := range a.heard {
			var p Progress
			if f.Method == NoteProgress && json.Unmarshal(f.Body, &p) == nil {
				all = append(all, p)
			}
		}
		a.mu.Unlock()
		if len(all) >= 3 {
			for _, p := range all {
				if p.ReadBytes < last+readStep {
					t.Errorf("read %d bytes after %d", p.ReadBytes, last)
				}
				last = p.ReadBytes
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d notices of progress, want 3", len(all))
		}
	}
	a.sess.Notify(NoteStop, Stop{})
	a.over()
}

func TestReleaseOnce(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: []string{"sleep", "1000"}})
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	if err := a.release(); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("second release = %v", err)
	}
	a.sess.Notify(NoteStop, Stop{})
	a.over()
}
