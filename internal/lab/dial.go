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
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	pid := l.pid("")
	go func() {
		// The thread is never unlocked, so it ends with this goroutine and no
		// other code runs on it in the lab's network.
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err != nil {
			done <- result{err: fmt.Errorf("enter the lab's network: %w", err)}
			return
		}
		// addr must be numeric: the dialer then makes the socket right here.
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// HTTPClient is a client whose connections start on the controller node.
func (l *Lab) HTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}}
}
