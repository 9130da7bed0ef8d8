package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
)

func TestAgentKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"obedient", "daemon"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := local(t)
			argv := []string{"sleep", "1000"}
			limit := 2 * time.Second
			if kind == "daemon" {
				argv = []string{shim.SelfProgram, "engine", "daemon"}
				limit += 5 * time.Second // its stubborn child gets its grace
			}
			pid := b.run("w", argv...)
			if kind == "daemon" {
				b.awaitLog("w", "ready")
			}
			syscall.Kill(b.conn.Info().PID, syscall.SIGKILL)
			pidGone(t, pid, limit)
			goneWithin(t, "something of the run", limit, func() bool {
				out, _ := exec.Command("sh", "-c", "grep -lz 'DISAGG_RUN="+b.s.RunID+"$' /proc/[0-9]*/environ 2>/dev/null").Output()
				return len(out) > 0
			})
			select {
			case <-b.conn.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the loss was not noticed")
			}
			if err := b.conn.Err(); !errors.Is(err, deploy.ErrLost) || !strings.Contains(err.Error(), "SIGKILL") || !strings.Contains(err.Error(), "node node1") {
				t.Errorf("Err = %v", err)
			}
			if _, err := b.conn.Exec(t.Context(), deploy.ExecRequest{Argv: []string{"true"}}); err == nil {
				t.Error("a lost node answers")
			}
		})
	}
}

func TestControllerKilled(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	c := exec.Command(os.Args[0], "controller", dir, "listen")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(out)
	var pid, agentPID int
	if _, err := fmt.Sscan(string(said), &pid, &agentPID); err != nil {
		t.Fatalf("the controller said %q: %v", said, err)
	}
	if !alive(pid) {
		t.Fatal("the engine does not run")
	}
	c.Process.Kill()
	c.Wait()
	pidGone(t, pid, 2*time.Second)
	pidGone(t, agentPID, 3*time.Second)
	goneWithin(t, "the scratch directory", time.Second, func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "dsg-*"))
		return len(left) > 0
	})
}

func TestShimKilled(t *testing.T) {
	t.Parallel()
	b := local(t)
	pid := b.run("w", shim.SelfProgram, "engine", "daemon")
	b.awaitLog("w", "ready")
	l, err := b.conn.Look(t.Context(), b.s.RunID, nil)
	if err != nil {
		t.Fatal(err)
	}
	shimPID := 0
	for _, p := range l.Processes {
		if strings.Contains(p, " shim --dir") {
			fmt.Sscan(p, &shimPID)
		}
	}
	if len(l.Processes) != 3 || shimPID == 0 {
		t.Fatalf("processes = %q", l.Processes)
	}
	syscall.Kill(shimPID, syscall.SIGKILL)
	pidGone(t, pid, 2*time.Second)
	e := b.await(deploy.EventExited, "w")
	if e.Exit.Code != -1 || e.Exit.Asked || !strings.Contains(e.Exit.Error, "shim is gone") {
		t.Errorf("exit = %+v", e.Exit)
	}
	b.await(deploy.EventGone, "w")
	if l, err := b.conn.Look(t.Context(), b.s.RunID, nil); err != nil || !l.Clean() {
		t.Errorf("left: %+v, %v", l, err)
	}
}

// TestAgentFrozen: an agent that is there but does nothing keeps no lease.
func TestAgentFrozen(t *testing.T) {
	t.Parallel()
	b := local(t)
	pid := b.run("w", "sleep", "1000")
	agent := b.conn.Info().PID
	syscall.Kill(agent, syscall.SIGSTOP)
	defer syscall.Kill(agent, syscall.SIGKILL)
	start := time.Now()
	e := b.await(deploy.EventDetached, "")
	if !strings.Contains(e.Detail, "no sign of life") || !alive(pid) {
		t.Errorf("detached: %q; engine alive: %t", e.Detail, alive(pid))
	}
	pidGone(t, pid, 10*time.Second)
	if took := time.Since(start); took < quick().Lost+quick().Redial {
		t.Errorf("ended after %s, before its time", took)
	}
	select {
	case <-b.conn.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	if err := b.conn.Err(); !errors.Is(err, deploy.ErrLost) || !strings.Contains(err.Error(), "no sign of life") {
		t.Errorf("Err = %v", err)
	}
}

// TestAgentThaws: a short pause costs nothing.
func TestAgentThaws(t *testing.T) {
	t.Parallel()
	b := local(t)
	pid := b.run("w", "sleep", "1000")
	agent := b.conn.Info().PID
	syscall.Kill(agent, syscall.SIGSTOP)
	b.await(deploy.EventDetached, "")
	syscall.Kill(agent, syscall.SIGCONT)
	b.await(deploy.EventAttached, "")
	if !alive(pid) {
		t.Error("the engine was ended")
	}
	if err := b.conn.Stop(t.Context(), "w", time.Second); err != nil {
		t.Error(err)
	}
}

// TestReattach cuts the connection while a command runs and a workload ends:
// nothing is lost, nothing is done twice.
func TestReattach(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	r.run("w", "sh", "-c", "sleep 0.7; exit 5")
	mark := filepath.Join(r.dir, "mark")
	type answer struct {
		res deploy.ExecResult
		err error
	}
	got := make(chan answer, 1)
	go func() {
		res, err := r.conn.Exec(t.Context(), deploy.ExecRequest{Argv: []string{"sh", "-c", "echo x >> " + mark + "; sleep 1; echo done"}})
		got <- answer{res, err}
	}()
	goneWithin(t, "the wait for the command", 5*time.Second, func() bool { _, err := os.Stat(mark); return err != nil })
	r.cable.set(false, true)
	r.await(deploy.EventDetached, "")
	time.Sleep(900 * time.Millisecond) // the workload ends in the dark
	r.cable.set(false, false)
	r.await(deploy.EventAttached, "")
	a := <-got
	if a.err != nil || string(a.res.Stdout) != "done\n" {
		t.Errorf("command = %+v, %v", a.res, a.err)
	}
	if d, err := os.ReadFile(mark); err != nil || string(d) != "x\n" {
		t.Errorf("the command ran %d times, %v", len(d)/2, err)
	}
	if e := r.await(deploy.EventExited, "w"); e.Exit.Code != 5 || e.Exit.Asked {
		t.Errorf("exit = %+v", e.Exit)
	}
	r.await(deploy.EventGone, "w")
}

// TestSilenceIsALoss: a connection over which nothing comes is replaced.
func TestSilenceIsALoss(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	pid := r.run("w", "sleep", "1000")
	r.cable.set(true, false)
	e := r.await(deploy.EventDetached, "")
	if !strings.Contains(e.Detail, "no sign of life") {
		t.Errorf("detached: %q", e.Detail)
	}
	r.cable.set(false, true)
	r.cable.set(false, false)
	r.await(deploy.EventAttached, "")
	if !alive(pid) {
		t.Error("the workload did not survive a short cut")
	}
}

func TestControllerStaysAway(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	pid := r.run("w", "sleep", "1000")
	r.cable.set(false, true)
	start := time.Now()
	time.Sleep(quick().Redial / 2)
	if !alive(pid) {
		t.Error("the workload was ended before the agent's patience was over")
	}
	pidGone(t, pid, 10*time.Second)
	if took := time.Since(start); took < quick().Redial {
		t.Errorf("ended after %s, patience is %s", took, quick().Redial)
	}
	select {
	case err := <-r.ended:
		if err == nil || !strings.Contains(r.said.String(), agentLost) {
			t.Errorf("agent ended with %v: %s", err, r.said)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the agent did not end")
	}
	if s := r.scratch(); len(s) > 0 {
		t.Errorf("scratch directories are left: %v", s)
	}
	select {
	case <-r.conn.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	if err := r.conn.Err(); !errors.Is(err, deploy.ErrLost) {
		t.Errorf("Err = %v", err)
	}
}

const agentLost = "the controller is gone"

// TestStdinEnds: the end of stdin means that the controller is gone, however
// well the connection does.
func TestStdinEnds(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	pid := r.run("w", "sleep", "1000")
	r.stdin.Close()
	pidGone(t, pid, 2*time.Second)
	if e := r.await(deploy.EventExited, "w"); !e.Exit.Asked {
		t.Errorf("exit = %+v", e.Exit)
	}
	select {
	case <-r.conn.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the end was not told")
	}
	if err := r.conn.Err(); err == nil || !strings.Contains(err.Error(), "stdin has ended") {
		t.Errorf("Err = %v", err)
	}
	<-r.ended
}

// TestTerm: Slurm's announcement. Everything is stopped, and the controller can
// still look and close.
// TestTermAfterStdin: Slurm ends the job after its batch script; then there is less
// time than a lost controller leaves by itself.
func TestTermAfterStdin(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	w := workload(r.s, r.dir, "s", shim.SelfProgram, "engine", "stubborn")
	w.Grace = time.Minute
	if _, err := r.conn.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Release(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	r.awaitLog("s", "ready")
	begun := time.Now()
	r.stdin.Close()
	time.Sleep(200 * time.Millisecond)
	r.cmd.Process.Signal(syscall.SIGTERM)
	<-r.ended
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the agent ended after %s; the grace after TERM is less than 3 s", took)
	}
	if left := r.scratch(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestTerm(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	pid := r.run("w", "sleep", "1000")
	stubborn := r.run("s", shim.SelfProgram, "engine", "stubborn")
	r.awaitLog("s", "ready")
	r.cmd.Process.Signal(syscall.SIGHUP) // means nothing
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.await(deploy.EventTerminating, "")
	pidGone(t, pid, 2*time.Second)
	pidGone(t, stubborn, 5*time.Second)
	if e := r.await(deploy.EventExited, "w"); !e.Exit.Asked || e.Exit.Signal != "SIGTERM" {
		t.Errorf("exit = %+v", e.Exit)
	}
	r.await(deploy.EventGone, "s")
	if _, err := r.conn.Create(t.Context(), workload(r.s, r.dir, "late", "true")); err == nil || !strings.Contains(err.Error(), "ending") {
		t.Errorf("created after TERM: %v", err)
	}
	if l, err := r.conn.Look(t.Context(), r.s.RunID, nil); err != nil || !l.Clean() {
		t.Errorf("left: %+v, %v", l, err)
	}
	if err := r.conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("agent ended with %v: %s", err, r.said)
	}
}

// TestTermAlone: nobody closes a terminated agent; it ends before KILL comes.
func TestTermAlone(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	r.run("w", "sleep", "1000")
	start := time.Now()
	r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("agent ended with %v: %s", err, r.said)
		}
	case <-time.After(r.s.KillWait):
		t.Fatalf("the agent outlasted KillWait (%s)", time.Since(start))
	}
	<-r.conn.Done()
	if s := r.scratch(); len(s) > 0 {
		t.Errorf("scratch directories are left: %v", s)
	}
}

// TestClosedStdoutAndStderr: an agent whose outputs nobody reads lives on.
func TestClosedStdoutAndStderr(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := &remote{bench: b, ended: make(chan error, 1)}
	var err error
	if r.l, err = deploy.Listen(t.Context(), b.s, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer r.l.Close()
	line, err := r.l.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "agent")
	c.Stdout, c.Stderr = pw, pw
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pw.Close()
	pr.Close()
	defer c.Wait()
	defer in.Close()
	in.Write([]byte(strings.Replace(string(line), `"runtime"`, `"loopback":true,"runtime"`, 1)))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if b.conn, err = r.l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	b.run("w", "sh", "-c", "echo hello; exit 4")
	if e := b.await(deploy.EventExited, "w"); e.Exit.Code != 4 {
		t.Errorf("exit = %+v", e.Exit)
	}
	if err := b.conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestTurnedAway(t *testing.T) {
	t.Parallel()
	r := dialBack(t)
	first, ended := r.conn, r.ended

	t.Log("a node that cannot take part")
	r.ended = make(chan error, 1)
	r.start("node8", "nosuchif0")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := r.l.Accept(ctx)
	unfit, ok := errors.AsType[*deploy.UnfitError](err)
	if !ok || unfit.Node != "node8" || !strings.Contains(unfit.Why, "nosuchif0") {
		t.Errorf("accept = %v", err)
	}
	if err := <-r.ended; err == nil || !strings.Contains(r.said.String(), "nosuchif0") {
		t.Errorf("agent ended with %v: %s", err, r.said)
	}

	t.Log("a second agent on one node")
	r.start("node7", "")
	if err := <-r.ended; err == nil || !strings.Contains(r.said.String(), "node node7 has an agent already") {
		t.Errorf("agent ended with %v: %s", err, r.said)
	}

	t.Log("an agent that another run started")
	other, err := deploy.Listen(t.Context(), setup(r.dir, nil), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	foreign, err := other.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := r.l.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "agent")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, crossed(t, foreign, mine))
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "did not start you") {
		t.Errorf("agent ended with %v: %s", err, said.String())
	}
	if first.Err() != nil || len(ended) > 0 {
		t.Error("the first agent was disturbed")
	}
}

// crossed is a bootstrap that leads to one controller with another's token.
func crossed(t *testing.T, token, rest []byte) string {
	t.Helper()
	grab := func(line []byte) string {
		_, after, ok := strings.Cut(string(line), `"token":"`)
		if !ok {
			t.Fatal("no token")
		}
		tok, _, _ := strings.Cut(after, `"`)
		return tok
	}
	return strings.Replace(strings.Replace(string(rest), grab(rest), grab(token), 1), `"runtime"`, `"loopback":true,"runtime"`, 1)
}
