package standin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Environment words by which a child of ours knows its part.
const (
	servingChild = "STANDIN_CHILD"
	orphanChild  = "STANDIN_ORPHAN"
)

// reparent plays a launcher that hands its work to a renamed child and ends
// when the child serves. It says whether this process is such a launcher, and
// its exit code. argv starts the child's part.
func (f *faults) reparent(ctx context.Context, argv []string) (code int, done bool) {
	x, ok := f.find("reparent")
	part := "engine"
	if f.place.role == "router" {
		part = "router"
	}
	if os.Getenv(servingChild) != "" {
		rename("sglang::" + part)
		return 0, false
	}
	if !ok {
		return 0, false
	}
	if err := spawn(append([]string{"sglang::" + part}, argv...), servingChild+"=1", false); err != nil {
		f.log.line("standin: " + err.Error())
		return 1, true
	}
	for !listening(ctx, f.place.port) {
		if !pause(ctx, 20*time.Millisecond) {
			return 1, true
		}
	}
	return x.number("code", 0), true
}

// orphan leaves a helper behind that outlives everything that does not look
// for it.
func (f *faults) orphan() {
	if x, ok := f.find("orphan"); ok {
		life := orphanChild + "=" + x.seconds("seconds", 3600).String()
		if err := spawn([]string{"sglang::helper", "engine"}, life, true); err != nil {
			f.log.line("standin: " + err.Error())
		}
	}
}

// linger is the whole life of such a helper.
func linger(life time.Duration) {
	rename("sglang::helper")
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	time.Sleep(life)
}

// rename changes the process's name as the kernel shows it.
func rename(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

// spawn starts this program again under another name. The child keeps this
// process's output.
func spawn(argv []string, env string, session bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	p, err := os.StartProcess(self, argv, &os.ProcAttr{
		Env:   append(os.Environ(), env),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: session},
	})
	if err != nil {
		return fmt.Errorf("start child: %w", err)
	}
	return p.Release()
}

func listening(ctx context.Context, port int) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		conn.Close()
	}
	return err == nil
}
