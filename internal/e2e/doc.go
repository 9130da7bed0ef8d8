// Package e2e holds the tests of whole runs: the real binary, a real Slurm
// cluster with a Docker daemon on each node (internal/lab), the real router, and
// stand-in engines. What a run leaves is looked for by the lab, never by the
// tool under test.
package e2e
