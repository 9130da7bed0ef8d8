package cli

import (
	"github.com/disagg/disagg/preflight"
	"github.com/spf13/cobra"
)

// newFacts is what nodes and images are asked with.
func newFacts(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "facts",
		Short:  "Gather what preflight wants to know of this node (started by the tool itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return preflight.FactsMain(cmd.Context(), a.In, a.Out)
		},
	}
}
