package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
)

// demoPorts are the ports of the demo's processes.
type demoPorts struct{ Prefill, Bootstrap, Decode, Router int }

// pickPorts takes four free ports below the kernel's own range, from a place of
// its own for each process: the usual ones (8000, 30000) are often taken, and two
// demos that start at once must not choose the same.
func pickPorts(ctx context.Context) (demoPorts, error) {
	const low, high = 18000, 29000
	var found []int
	for i := 0; i < high-low && len(found) < 4; i++ {
		if p := low + (os.Getpid()*7+i)%(high-low); free(ctx, p) {
			found = append(found, p)
		}
	}
	if len(found) < 4 {
		return demoPorts{}, errors.New("find ports for the demo: this host has no four free ones between 18000 and 29000")
	}
	return demoPorts{found[0], found[1], found[2], found[3]}, nil
}

// free says whether a port can be listened on, on every address.
func free(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
