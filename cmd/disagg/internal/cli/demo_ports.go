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

// pickPorts takes the ports that a plan would choose, and others below the
// kernel's own range when this host uses one of them already: port 8000 often is.
func pickPorts(ctx context.Context) (demoPorts, error) {
	usual := demoPorts{Prefill: 8000, Bootstrap: 8998, Decode: 8100, Router: 30000}
	if free(ctx, usual.Prefill) && free(ctx, usual.Bootstrap) && free(ctx, usual.Decode) && free(ctx, usual.Router) {
		return usual, nil
	}
	// From a place of its own for each process, so that two demos that start at
	// once do not choose the same.
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
