package slurm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/slurm"
	"github.com/disagg/disagg/slurm/slurmtest"
)

const captured = "slurm-22.05.8/"

// onFake is a client whose programs answer these calls and no other.
func onFake(t *testing.T, calls ...slurmtest.Call) (*slurm.Client, *slurmtest.Fake) {
	t.Helper()
	f := slurmtest.New(t, calls...)
	return &slurm.Client{
		User: "root", Environ: f.Environ(),
		QueryTimeout: 20 * time.Second, SubmitTimeout: 20 * time.Second, LookupTime: 20 * time.Second,
	}, f
}

// row is one line of squeue or sinfo.
func row(fields ...string) string { return strings.Join(fields, "\x1f") + "\n" }

const jobFields = "--format=%A\x1f%T\x1f%r\x1f%u\x1f%P\x1f%N\x1f%D\x1f%L\x1f%o\x1f%j\x1f%k"

// askJob is the question after one job, with an answer.
func askJob(id, stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{
		Program: "squeue", Args: []string{"--noheader", "--states=all", "--jobs=" + id, jobFields},
		Stdout: stdout, Stderr: stderr, Exit: exit,
	}
}

// askUser is the question after all jobs of the user, with an answer.
func askUser(stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{
		Program: "squeue", Args: []string{"--noheader", "--states=all", "--user=root", jobFields},
		Stdout: stdout, Stderr: stderr, Exit: exit,
	}
}

// askDetails is the question that only scontrol answers.
func askDetails(id, stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{Program: "scontrol", Args: []string{"--details", "show", "job", id}, Stdout: stdout, Stderr: stderr, Exit: exit}
}

// askAccounting is the question after a job that the controller has forgotten.
func askAccounting(id, stdout, stderr string, exit int) slurmtest.Call {
	return slurmtest.Call{
		Program: "sacct", Args: []string{"--noheader", "--parsable2", "--allocations", "--jobs=" + id,
			"--format=JobIDRaw,State,ExitCode,User,Partition,NodeList,JobName"},
		Stdout: stdout, Stderr: stderr, Exit: exit,
	}
}

const invalidID = "slurm_load_jobs error: Invalid job id specified\n"

const socketTimeout = "slurm_load_jobs error: Socket timed out on send/recv operation\n"

// runningRow is the row of a job that runs on two nodes.
func runningRow(id, user, comment string) string {
	return row(id, "RUNNING", "None", user, "main", "g[9-10]", "2", "1-02:03:04", "/shared/"+id+"/job.slurm", "bench", comment)
}
