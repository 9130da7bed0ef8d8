package cli

import (
	"github.com/disagg/disagg/internal/peers"
	"github.com/disagg/disagg/orchestrator"
	"github.com/spf13/cobra"
)

// newPeers is what nodes are asked with whether they reach one another.
func newPeers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    orchestrator.PeersVerb,
		Short:  "Check that this node and its peers reach one another (started by the tool itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return peers.Main(cmd.Context(), a.In, a.Out)
		},
	}
}
