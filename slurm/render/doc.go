// Package render writes a run's batch script. It is pure: the same job and view
// give the same bytes.
//
// The script is a few directives and one command. No value is spliced into
// shell text: what the run needs is in the run directory, and what stands on a
// directive or in the command goes through one quoting function each. Values
// that Slurm or the shell would cut or reread are refused.
package render
