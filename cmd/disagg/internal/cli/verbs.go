package cli

import "github.com/spf13/cobra"

// verbs lists the commands in the order a run is lived: plan it, start it,
// watch it, end it; then what the tool calls itself.
func verbs(a *app) []*cobra.Command {
	return []*cobra.Command{
		newPlan(a),
		newRender(a),
		newPreflight(a),
		newSubmit(a),
		newRun(a),
		newStatus(a),
		newLogs(a),
		newEnv(a),
		newCancel(a),
		newWait(a),
		newDemo(a),
		newCleanup(a),
		newSweep(a),
		newModels(a),
		newImport(a),
		newChangelog(a),
		newVersion(a),

		newController(a),
		newAgent(a),
		newShim(a),
		newShimExec(a),
		newFacts(a),
		newPeers(a),
		newStandin(a),
	}
}
