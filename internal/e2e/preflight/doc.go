// Package preflight tests the checks of nodes on the lab: nodes whose kernel files
// and tools are fixtures, each bad in its own way, reached by srun and by ssh.
package preflight
