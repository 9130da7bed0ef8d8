package shim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SendFile gives the process at the other end a descriptor of f, before anything
// else is said. So the log is opened by whoever submitted the run: it belongs to
// them whatever user a container runs as, also where root is squashed.
func SendFile(c *net.UnixConn, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var werr error
	if err := raw.Control(func(fd uintptr) {
		_, _, werr = c.WriteMsgUnix([]byte{'F'}, unix.UnixRights(int(fd)), nil)
	}); err != nil {
		return err
	}
	return werr
}

// ReceiveFile takes what SendFile gave.
func ReceiveFile(ctx context.Context, c *net.UnixConn) (*os.File, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	one := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(one, oob)
	if err != nil {
		return nil, err
	}
	if n != 1 || one[0] != 'F' {
		return nil, errors.New("something else came")
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if len(msgs) != 1 {
		return nil, fmt.Errorf("%d control messages came", len(msgs))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%d descriptors came", len(fds))
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "log"), nil
}

// sealDescriptors keeps whatever this process was started with, beyond stdin,
// stdout and stderr, from what it starts or becomes: an inherited pipe held by an
// engine would keep its reader waiting for as long as the engine lives.
func sealDescriptors() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	// Kernels before 5.11 do not know it.
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list own descriptors: %w", err)
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
