package procgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain also is the program of the tests that need a parent which dies.
func TestMain(m *testing.M) {
	if script := os.Getenv("PROCGROUP_TEST_PARENT"); script != "" {
		p, err := Start(context.Background(), Command{
			Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
			Stdout: os.Stdout, ParentDeathSignal: syscall.SIGKILL,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		p.Wait()
		return
	}
	goleak.VerifyTestMain(m)
}

// startSh starts a script and returns it with a reader of its stdout.
func startSh(t *testing.T, ctx context.Context, c Command) (*Process, *bufio.Reader) {
	t.Helper()
	r, w := io.Pipe()
	c.Stdout = w
	p, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		p.Stop(0)
	})
	return p, bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read the program's output: %v", err)
	}
	return strings.TrimSuffix(s, "\n")
}

func TestStartTalksThroughPipes(t *testing.T) {
	t.Parallel()
	c := Command{Argv: []string{"/bin/cat"}, StdinPipe: true}
	p, out := startSh(t, t.Context(), c)
	for _, s := range []string{"one", "two"} {
		if _, err := io.WriteString(p.Stdin, s+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := line(t, out); got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	}
	p.Stdin.Close()
	if got := p.Wait(); got != (Exit{}) {
		t.Errorf("cat ended with %s", got)
	}
	if left := p.Stop(0); left != nil {
		t.Errorf("left over: %v", left)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Signal to a group that is gone: %v", err)
	}
}

func TestStartHandsOverFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	write(t, in, "from the file\n")
	inFile, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer inFile.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := sh("cat; echo three >&3; echo err >&2")
	c.StdinFile, c.Stdout, c.Stderr, c.ExtraFiles = inFile, log, log, []*os.File{w}
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	extra, err := io.ReadAll(r)
	if err != nil || string(extra) != "three\n" {
		t.Errorf("descriptor 3 gave %q, %v", extra, err)
	}
	if e := p.Wait(); e != (Exit{}) {
		t.Error(e)
	}
	if got, _ := os.ReadFile(log.Name()); string(got) != "from the file\nerr\n" {
		t.Errorf("log holds %q", got)
	}
	p.Stop(0)
}

func TestStartMakesGroupOrSession(t *testing.T) {
	t.Parallel()
	for _, session := range []bool{false, true} {
		c := sh(`read -r pid comm state ppid pgrp sid rest < /proc/$$/stat; echo $pid $pgrp $sid`)
		c.Session = session
		p, out := startSh(t, t.Context(), c)
		var pid, pgrp, sid int
		if _, err := fmt.Sscan(line(t, out), &pid, &pgrp, &sid); err != nil {
			t.Fatal(err)
		}
		if pid != p.PID() || pgrp != pid || (sid == pid) != session {
			t.Errorf("session %v: pid %d (PID says %d), group %d, session %d", session, pid, p.PID(), pgrp, sid)
		}
		p.Wait()
	}
}

func TestStopEscalates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		grace  time.Duration
		want   Exit
	}{
		"TERM is enough":     {"trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done", prompt, Exit{Code: 4}},
		"TERM is ignored":    {"trap '' TERM; sleep 300 & echo up; while :; do sleep 300; done", 200 * time.Millisecond, Exit{Code: -1, Signal: "SIGKILL"}},
		"no grace":           {"trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done", 0, Exit{Code: -1, Signal: "SIGKILL"}},
		"stopped by SIGSTOP": {"trap 'exit 5' TERM; echo up; kill -STOP $$; while :; do sleep 0.05; done", prompt, Exit{Code: 5}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, out := startSh(t, t.Context(), sh(tt.script))
			line(t, out)
			if name == "stopped by SIGSTOP" {
				waitFor(t, "the stop", func() bool {
					s := survivors(p.PID())
					return len(s) == 1 && s[0].State == "T"
				})
			}
			begin := time.Now()
			if left := p.Stop(tt.grace); left != nil || time.Since(begin) > prompt/2 {
				t.Errorf("after %s left %v", time.Since(begin), left)
			}
			if got := p.Wait(); got != tt.want {
				t.Errorf("ended with %s, want %s", got, tt.want)
			}
			if left := p.Stop(tt.grace); left != nil {
				t.Errorf("a second Stop left %v", left)
			}
			if left := survivors(p.PID()); left != nil {
				t.Errorf("Stop said done, but there is %v", left)
			}
		})
	}
}

func TestStopShortenedByALaterOne(t *testing.T) {
	t.Parallel()
	p, out := startSh(t, t.Context(), sh("trap '' TERM; echo up; while :; do sleep 300; done"))
	line(t, out)
	first := make(chan []Survivor)
	begin := time.Now()
	go func() { first <- p.Stop(time.Hour) }()
	if left := p.Stop(0); left != nil {
		t.Errorf("left %v", left)
	}
	if left := <-first; left != nil || time.Since(begin) > prompt {
		t.Errorf("the patient Stop took %s and left %v", time.Since(begin), left)
	}
}

func TestWaitReportsTheLeaderAndStopEndsItsChildren(t *testing.T) {
	t.Parallel()
	p, out := startSh(t, t.Context(), sh("sleep 300 & echo $!; exit 0"))
	child := line(t, out)
	begin := time.Now()
	if e := p.Wait(); e != (Exit{}) || time.Since(begin) > prompt {
		t.Errorf("after %s: %s", time.Since(begin), e)
	}
	if s := survivors(p.PID()); len(s) != 1 || s[0].Command != "sleep" || fmt.Sprint(s[0].PID) != child {
		t.Errorf("in the group: %v, want the sleep %s", s, child)
	}
	if left := p.Stop(prompt); left != nil {
		t.Errorf("left %v", left)
	}
	wantGone(t, child)
}

func TestContextStopsAStartedGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"the program runs":        "sleep 300 & echo $! $$; wait",
		"only its child is there": "sleep 300 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, out := startSh(t, ctx, sh(script))
			pids := line(t, out)
			if strings.HasPrefix(name, "only") {
				p.Wait()
			}
			cancel()
			wantGone(t, pids)
			p.Wait()
		})
	}
}

func TestOutputIsReadToTheEndThoughTheWriterFails(t *testing.T) {
	t.Parallel()
	c := sh("head -c 3000000 /dev/zero && exit 9")
	r, w := io.Pipe()
	r.Close()
	c.Stdout = w
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e != (Exit{Code: 9}) {
		t.Errorf("the program ended with %s: it felt the reader's trouble", e)
	}
	p.Stop(0)
}

func TestParentDeathEndsTheChild(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Command{Argv: []string{self}, Env: []string{"PROCGROUP_TEST_PARENT=echo $$; exec sleep 300"}}
	p, out := startSh(t, t.Context(), c)
	child := line(t, out)
	// Kill the parent alone; its child leads another group.
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	wantGone(t, child)
}

func TestStartRefusesWhatIsForRun(t *testing.T) {
	t.Parallel()
	c := sh("exit 0")
	c.Timeout = time.Second
	if _, err := Start(t.Context(), c); err == nil || err.Error() != "start program: Timeout and MaxOutput are for Run" {
		t.Errorf("got %v", err)
	}
}

// slowOnce is a writer that holds up its first call, as a process does that is not let
// run for a while.
type slowOnce struct {
	once sync.Once
	n    atomic.Int64
}

func (w *slowOnce) Write(p []byte) (int, error) {
	w.once.Do(func() { time.Sleep(drainDelay + 100*time.Millisecond) })
	w.n.Add(int64(len(p)))
	return len(p), nil
}

// TestOutputOfAStarvedReader: what the program wrote before its end is delivered,
// although it was not read in time.
func TestOutputOfAStarvedReader(t *testing.T) {
	t.Parallel()
	var w slowOnce
	p, err := Start(t.Context(), Command{Argv: []string{"sh", "-c", "printf x; sleep 0.05; head -c 60000 /dev/zero"}, Env: os.Environ(), Stdout: &w})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if n := w.n.Load(); n != 60001 {
		t.Errorf("%d bytes of 60001 were delivered", n)
	}
}
