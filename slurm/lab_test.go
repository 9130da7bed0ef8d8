package slurm_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/slurm"
)

// cluster has three good nodes and one whose driver shows a GPU too few.
var cluster = lab.Lazy{Nodes: 4, Options: []lab.Option{
	lab.WithoutDocker(),
	lab.WithGresConf("NodeName=node[1-3] Name=gpu File=/dev/dri/renderD[128-135]\nNodeName=node4 Name=gpu File=/dev/dri/renderD[128-134]\n"),
	// A short timeout, so that a controller that is stopped is noticed soon, and
	// a default memory far below the nodes', as many sites have.
	lab.WithSlurmConf("MessageTimeout=2", "DefMemPerNode=4096"),
}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := cluster.Close(); err != nil && code == 0 && !strings.Contains(err.Error(), "canceled") {
		os.Stderr.WriteString("take lab down: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func getLab(t *testing.T) *lab.Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the lab")
	}
	return cluster.Get(t)
}

// onLab is a client on the lab's controller node.
func onLab(t *testing.T, environ ...string) (*lab.Lab, *slurm.Client) {
	t.Helper()
	l := getLab(t)
	c := &slurm.Client{
		User:    "root",
		Environ: append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, environ...),
		Run: func(ctx context.Context, cmd procgroup.Command) (procgroup.Result, error) {
			cmd.Argv = l.Command(ctx, cmd.Argv...).Args
			return procgroup.Run(ctx, cmd)
		},
	}
	t.Cleanup(func() { emptyQueue(t, l) })
	return l, c
}

// emptyQueue ends all jobs and waits until the nodes are free.
func emptyQueue(t *testing.T, l *lab.Lab) {
	t.Helper()
	l.MustRun(t, "scancel", "--user=root")
	eventually(t, "an empty queue", func() bool { return l.MustRun(t, "squeue", "--noheader") == "" })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// await waits for a job to reach a state.
func await(t *testing.T, c *slurm.Client, id string, want slurm.State) slurm.Job {
	t.Helper()
	var j slurm.Job
	eventually(t, "job "+id+" to be "+string(want), func() bool {
		j = c.Job(t.Context(), id)
		if j.State.Ended() && j.State != want {
			t.Fatalf("job %s ended as %s (%s)", id, j.State, j.Reason)
		}
		return j.State == want
	})
	return j
}

// script writes a batch script to a fresh shared directory.
func script(t *testing.T, l *lab.Lab, token, body string, directives ...string) string {
	t.Helper()
	dir := l.TempDir(t)
	text := "#!/bin/sh\n#SBATCH --comment=" + token + "\n#SBATCH --output=/dev/null\n#SBATCH --chdir=/\n"
	for _, d := range directives {
		text += "#SBATCH " + d + "\n"
	}
	path := filepath.Join(dir, "job.slurm")
	if err := os.WriteFile(path, []byte(text+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func submit(t *testing.T, c *slurm.Client, path, token string) slurm.Submission {
	t.Helper()
	sub, err := c.Submit(t.Context(), slurm.SubmitRequest{Script: path, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// controller is the process id of the lab's slurmctld.
func controller(t *testing.T, l *lab.Lab) int {
	t.Helper()
	ns := strings.TrimSpace(l.MustRun(t, "readlink", "/proc/self/ns/net"))
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		comm, _ := os.ReadFile(d + "/comm")
		link, _ := os.Readlink(d + "/ns/net")
		if strings.TrimSpace(string(comm)) == "slurmctld" && link == ns {
			pid, err := strconv.Atoi(filepath.Base(d))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the lab has no slurmctld")
	return 0
}

// pause stops the controller daemon until the test ends or resume is called.
func pause(t *testing.T, l *lab.Lab) (resume func()) {
	t.Helper()
	pid := controller(t, l)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	return resume
}
