package cli

import "github.com/spf13/cobra"

// verbs lists the commands in the order a run is lived: plan it, start it,
// watch it, end it; then what the tool calls itself.
func verbs(a *app) []*cobra.Command {
	return []*cobra.Command{
		newPlan(a),
		newRender(a),
		newVersion(a),
	}
}
