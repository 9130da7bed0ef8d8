package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to an address of the lab from its controller node. The test
// process itself stays where it is: only the socket is made inside the lab.
func (l *Lab) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var conn net.Conn
	err := inNetwork(l.pid(""), func() (err error) {
		// addr must be numeric: the dialer then makes the socket right here.
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// inNetwork calls do on a thread that is in the network namespace of a process.
// The thread is never given back, so it ends with its goroutine.
func inNetwork(pid int, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread cannot end, and what it is in counts as the
			// process's own: hold it while another thread does the work.
			done <- inNetwork(pid, do)
			runtime.UnlockOSThread()
			return
		}
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err != nil {
			done <- fmt.Errorf("enter the lab's network: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// HTTPClient is a client whose connections start on the controller node.
func (l *Lab) HTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}}
}
