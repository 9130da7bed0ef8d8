// Package launcher starts agents: as children on this host, through one srun
// over all nodes of a job, or over ssh. Each launcher joins a transport of
// package deploy with what is needed to get there, and hands the orchestrator
// one outcome a node.
package launcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
)

// node is a connection as the orchestrator sees it.
type node struct{ *deploy.Conn }

// Image implements orchestrator.Node: the agent knows the runtime, only the pull
// policy is the call's.
func (n node) Image(ctx context.Context, rt models.Runtime, ref string) (deploy.ImageInfo, error) {
	return n.Conn.Image(ctx, ref, rt.Pull)
}

var _ orchestrator.Node = node{}

// connected and failed are the two outcomes of reaching a node.
func connected(name string, c *deploy.Conn) orchestrator.Connection {
	return orchestrator.Connection{Name: name, Node: node{c}}
}

func failed(name string, err error) orchestrator.Connection {
	if unfit, ok := errors.AsType[*deploy.UnfitError](err); ok {
		return orchestrator.Connection{Name: name, Err: errors.New("it answers, but is not fit: " + unfit.Why)}
	}
	return orchestrator.Connection{Name: name, Err: fmt.Errorf("reach %s: %w", name, err)}
}
