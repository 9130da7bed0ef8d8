// Package slurmtest stands in for Slurm in tests: programs with Slurm's names
// that answer as a test tells them and refuse everything else, and what real
// programs have printed.
//
//	func TestJob(t *testing.T) {
//		f := slurmtest.New(t, slurmtest.Call{
//			Program: "squeue", Args: []string{"--jobs=7"}, Stdout: "…",
//		})
//		client := &slurm.Client{Environ: f.Environ()}
//		…
//	}
package slurmtest
