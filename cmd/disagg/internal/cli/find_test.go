package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// TestAWordThatNamesNoRun: it is said in plain words, with what was most likely meant.
func TestAWordThatNamesNoRun(t *testing.T) {
	t.Parallel()
	none, some := t.TempDir(), t.TempDir()
	dir, err := rundir.Create(some, "x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(dir.WritePlan([]byte("{}")), dir.Seal(),
		os.WriteFile(dir.Join(filepath.Join(rundir.LogsDir, "router.node1.log")), []byte("hello\n"), 0o600),
		os.Mkdir(filepath.Join(some, "other"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	first := "there is no run yet in " + none + "; `disagg submit` or `disagg run` makes one, and --runs or --site names another place"
	begins := func(word string) string {
		return "no run in " + some + " has an id that begins with \"" + word + "\"; `disagg status --all` lists those that there are, and \"latest\" is the newest"
	}
	for _, tt := range []struct {
		runs string
		args []string
		want string
	}{
		{none, []string{"status"}, first},
		{none, []string{"logs", "router"}, first},
		{none, []string{"wait", "x"}, first},
		{some, []string{"status", "nope"}, begins("nope")},
		{some, []string{"logs", "nope"}, begins("nope")},
		{some, []string{"logs", "router"}, `"router" names a process and no run; name the run first: disagg logs latest router`},
		{some, []string{"logs", "rou"}, `"rou" names a process and no run; name the run first: disagg logs latest rou`},
		{some, []string{"logs", "nope", "router"}, begins("nope")},
		{some, []string{"env", "HF_TOKEN"}, `"HF_TOKEN" names a variable and no run; name the run first: disagg env latest HF_TOKEN`},
		{some, []string{"env", "nope"}, begins("nope")},
		{some, []string{"status", "other"}, "open " + filepath.Join(some, "other") + ": not a run directory: it has no .disagg"},
	} {
		var out, errs bytes.Buffer
		code := Main(append(tt.args, "--runs", tt.runs), Streams{Out: &out, Err: &errs, Now: time.Now, Dir: none})
		if got := strings.TrimSpace(errs.String()); code != orchestrator.ExitConfig || got != "disagg: "+tt.want {
			t.Errorf("%v: exit code %d, said %q, want %q", tt.args, code, got, tt.want)
		}
	}
}

// TestUsageHintNamesTheCommand: whoever mistypes a command reads how to see its help.
func TestUsageHintNamesTheCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"submit"}, "disagg submit"},
		{[]string{"status", "--nope"}, "disagg status"},
		{[]string{"status", "a", "b"}, "disagg status"},
		{[]string{"sweep", "status", "a", "b"}, "disagg sweep status"},
		{[]string{"nope"}, "disagg"},
		{[]string{"--nope"}, "disagg"},
	} {
		var out, errs bytes.Buffer
		code := Main(tt.args, Streams{Out: &out, Err: &errs, Now: time.Now, Dir: t.TempDir()})
		if want := "Run '" + tt.want + " --help' for usage.\n"; code != orchestrator.ExitUsage || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%v: exit code %d, said %q, want %q", tt.args, code, errs.String(), want)
		}
	}
}
