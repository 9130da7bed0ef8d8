package slurmtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/procgroup"
)

// judge is a test that notes its failures instead of failing.
type judge struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (j *judge) Errorf(format string, args ...any) {
	j.failures = append(j.failures, fmt.Sprintf(format, args...))
}
func (j *judge) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }

func ask(t *testing.T, f *Fake, argv ...string) procgroup.Result {
	t.Helper()
	res, err := procgroup.Run(t.Context(), procgroup.Command{Argv: argv, Env: f.Environ("A=1"), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestFakeAnswersAsTold(t *testing.T) {
	t.Parallel()
	f := New(t,
		Call{Program: "squeue", Args: []string{"-j", "7"}, Stdout: "first\x1f\n", Times: 2},
		Call{Program: "squeue", Args: []string{"-j", "7"}, Stderr: "second\n", Exit: 3},
		Call{Program: "scancel", Exit: -1},
		Call{Program: "sinfo", Args: []string{"never"}, Times: -1},
	)
	for i, want := range []string{"first\x1f\n0", "first\x1f\n0", "second\n3"} {
		res := ask(t, f, "squeue", "-j", "7")
		if got := fmt.Sprintf("%s%s%d", res.Stdout, res.Stderr, res.Code); got != want {
			t.Errorf("answer %d: %q, want %q", i, got, want)
		}
	}
	if res := ask(t, f, "scancel"); res.Signal != "SIGKILL" {
		t.Errorf("scancel ended with %s", res.Exit)
	}
	made := f.Made()
	if len(made) != 4 || made[0].Program != "squeue" || !made[3].Expected || !strings.Contains(strings.Join(made[0].Environ, "\n"), "A=1") {
		t.Errorf("made %+v", made)
	}
}

func TestFakeFailsForWhatWasNotAgreed(t *testing.T) {
	t.Parallel()
	j := &judge{TB: t}
	f := New(j, Call{Program: "squeue", Args: []string{"-j", "7"}}, Call{Program: "squeue", Args: []string{"-j", "8"}, Times: 2})
	ask(t, f, "squeue", "-j", "7")
	ask(t, f, "squeue", "-j", "8")
	for _, argv := range [][]string{{"squeue", "-j", "7"}, {"squeue", "-j"}, {"scancel", "-j", "8"}} {
		if res := ask(t, f, argv...); res.Code != 97 || !strings.HasPrefix(string(res.Stderr), "fake: call that was not expected: ") {
			t.Errorf("%q: %s", argv, res.Describe())
		}
	}
	for _, c := range j.cleanups {
		c()
	}
	want := []string{
		`call that was not expected: squeue ["-j" "7"]`,
		`call that was not expected: squeue ["-j"]`,
		`call that was not expected: scancel ["-j" "8"]`,
		`call that did not come (1 times left): squeue ["-j" "8"]`,
	}
	if diff := cmp.Diff(want, j.failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCapturesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, name := range Captures(t) {
		c := Captured(t, name)
		b, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		file, err := testdata.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(file), string(b)); diff != "" {
			t.Errorf("%s (-file +written again):\n%s", name, diff)
		}
		if c.Program == "" || len(c.Args) == 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if got := (Call{Args: []string{"a", "b"}}).At("c"); !cmp.Equal(got.Args, []string{"a", "c"}) {
		t.Errorf("At gave %q", got.Args)
	}
}
