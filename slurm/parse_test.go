package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/slurm/hostlist"
	"github.com/disagg/disagg/slurm/slurmtest"
)

func TestParseTimeLeft(t *testing.T) {
	t.Parallel()
	known := func(d time.Duration) TimeLeft { return TimeLeft{Known: true, Left: d} }
	for in, want := range map[string]TimeLeft{
		"UNLIMITED":     {Known: true, Unlimited: true},
		"4:58":          known(4*time.Minute + 58*time.Second),
		"0:00":          known(0),
		"1:02:03":       known(time.Hour + 2*time.Minute + 3*time.Second),
		"364-23:59:59":  known(364*24*time.Hour + 23*time.Hour + 59*time.Minute + 59*time.Second),
		"-5:00":         known(0),
		"-1-00:00:01":   known(0),
		"INVALID":       {},
		"NOT_SET":       {},
		"":              {},
		"5":             {},
		"1-05:00":       {},
		"1:2:3:4":       {},
		"a:b":           {},
		"1:-2":          {},
		"99999999:00":   {},
		"1-2-03:00:00 ": {},
	} {
		if got := parseTimeLeft(in); got != want {
			t.Errorf("parseTimeLeft(%q) = %+v, want %+v", in, got, want)
		}
	}
}

func TestParseJobID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][3]string{
		"48213\n": {"48213"},
		"48213":   {"48213"},
		"lua: job routed to qos normal\n48213;mi355\n": {"48213", "mi355", "lua: job routed to qos normal"},
		"48213\nbye\n":                 {"48213", "", "bye"},
		" 48213 \r\n":                  {"48213"},
		"1\n2\n":                       {"2", "", "1"},
		"0\n":                          {"", "", "0"},
		"job 48213\n48213.0\n48213;\n": {"", "", "job 48213\n48213.0\n48213;"},
		"99999999999999999999\n":       {"", "", "99999999999999999999"},
		"":                             {},
	} {
		id, cluster, noise, ok := parseJobID([]byte(in))
		if got := [3]string{id, cluster, noise}; got != want || ok != (want[0] != "") {
			t.Errorf("parseJobID(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func TestGresGPUs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"": 0, "(null)": 0, "N/A": 0, "gpu": 1, "gpu:8": 8, "gpu:mi355x:8": 8, "gpu:mi355x:8(S:0-1)": 8, "gres:gpu:8": 8, "gres/gpu:8": 8,
		"gpu:8(IDX:0,2-7),nvme:4": 8, "nvme:4": 0, "gpu:a:1(IDX:0),gpu:b:3(IDX:1,2-3)": 4, "gpu:x": -1, "gpu:-1": -1, "gpus:8": 0, "gpu:8(IDX:0": 8, "gpu:1)),gpu:2": -1,
	} {
		if got := gresGPUs(in); got != want {
			t.Errorf("gresGPUs(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestParseDetailsIsNotFooledByFreeText(t *testing.T) {
	t.Parallel()
	d := parseDetails([]byte("JobId=7 JobName=Requeue=0 ExitCode=9:9\n   Requeue=0 ExitCode=1:2\n   Comment=Requeue=0 ExitCode=8:8\n   Requeue=0 ExitCode=7:7\n     Nodes=x[ CPU_IDs=0\n"))
	if d.exit == nil || *d.exit != (ExitCode{1, 2}) || d.nodes != nil {
		t.Errorf("got %+v", d)
	}
	for _, bad := range []string{"", "3", "a:0", "0:b"} {
		if e := parseExitCode(bad); e != nil {
			t.Errorf("parseExitCode(%q) = %+v", bad, e)
		}
	}
}

// TestCapturesAreComplete reads every captured answer with the parser of its
// program: none may be silently unread.
func TestCapturesAreComplete(t *testing.T) {
	t.Parallel()
	names := slurmtest.Captures(t)
	if len(names) < 15 {
		t.Fatalf("only %d captures", len(names))
	}
	for _, name := range names {
		c := slurmtest.Captured(t, name)
		lines := strings.Count(c.Stdout, "\n")
		got := lines
		switch {
		case c.Program == "squeue" && slices.Contains(c.Args, "--steps"):
			id := strings.TrimPrefix(c.Args[2], "--jobs=")
			got = len(parseSteps([]byte(c.Stdout), id))
		case c.Program == "squeue":
			got = len(parseJobs([]byte(c.Stdout)))
		case c.Program == "sinfo":
			got = len(parseNodes([]byte(c.Stdout)))
		case c.Program == "scontrol" && c.Args[1] == "node":
			got = lines * len(parseArchitectures([]byte(c.Stdout), "")["x86_64"]) / 4
		case c.Program == "scontrol" && parseDetails([]byte(c.Stdout)).exit == nil:
			got = 0
		}
		if got != lines {
			t.Errorf("%s: %d of %d lines were read", name, got, lines)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1\x1fRUNNING\x1fNone\x1froot\x1fmain\x1fn[1-3]\x1f3\x1f7:59\x1f/s\x1fn\x1fc\n"))
	f.Add([]byte("n1\x1fidle*\x1f1\x1f1\x1fgpu:8(S:0)\x1fp\x1fnone\n"))
	f.Add([]byte("   Requeue=1 ExitCode=3:0\n     Nodes=n[1-3] CPU_IDs=0 Mem=1 GRES=gpu:8(IDX:0-7)\n"))
	f.Add([]byte("KillWait                = 30 sec\n"))
	f.Add([]byte("7.0\x1fn1\x1fx\n48213;mi355\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, j := range parseJobs(b) {
			if checkID(j.ID) != nil || j.Presence != Present || len(j.Nodes) > hostlist.MaxHosts {
				t.Errorf("job %+v", j)
			}
			_ = Explain(j, nil)
		}
		Summary(parseNodes(b))
		for _, s := range parseSteps(b, "7") {
			if !strings.HasPrefix(s.ID, "7.") {
				t.Errorf("step %+v", s)
			}
		}
		for _, n := range parseDetails(b).nodes {
			if n.gpus < -1 {
				t.Errorf("node %+v", n)
			}
		}
		parseArchitectures(b, "p")
		if wait, ok := parseKillWait(b); ok && wait < 0 {
			t.Errorf("KillWait %s", wait)
		}
		if id, _, _, ok := parseJobID(b); ok && checkID(id) != nil {
			t.Errorf("id %q", id)
		}
		if l := parseTimeLeft(string(b)); l.Left < 0 {
			t.Errorf("time left %+v", l)
		}
		if p := plain(string(b)); strings.ContainsAny(p, "\n\x1b\x00") {
			t.Errorf("plain left %q", p)
		}
	})
}
