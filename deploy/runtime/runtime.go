package runtime

import (
	"context"

	"github.com/disagg/disagg/deploy"
)

// Spec is one shim to start.
type Spec struct {
	Workload deploy.Workload
	// Dir is the directory that agent and shim share.
	Dir string
	// Binary is the disagg binary on this node, readable by the container
	// runtime's daemon.
	Binary string
}

// Unit is a container or a plain process with a shim in it.
type Unit interface {
	// ID names it for people and for the ledger: a container id, or "pid N".
	ID() string
	// Wait waits until it has ended by itself and says how, as far as that is
	// known.
	Wait(ctx context.Context) string
	// Remove makes sure that nothing of it is left: what still runs is killed.
	// The error names what could not be ended.
	Remove(ctx context.Context) error
}

// Runtime starts units.
type Runtime interface {
	// Start starts a shim. When it fails, nothing is left of the attempt.
	Start(ctx context.Context, s Spec) (Unit, error)
}
