package slurmtest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed program.sh
var programText string

// Programs are the names that a fake has on its PATH.
func Programs() []string {
	return []string{"sbatch", "srun", "salloc", "squeue", "scontrol", "scancel", "sinfo", "sacct"}
}

// Call is one expected call and its answer.
type Call struct {
	Program string
	// Args are the exact arguments.
	Args []string
	// Stdout, Stderr and Exit are the answer; Delay comes before it. A negative
	// Exit ends the program by SIGKILL.
	Stdout, Stderr string
	Exit           int
	Delay          time.Duration
	// Times is how often the call comes; 0 means once, a negative number any
	// number of times. Equal calls are answered in the order given.
	Times int
}

// argv is the call as its program notes it: NUL behind each word.
func (c Call) argv() string {
	return c.Program + "\x00" + strings.Join(append(c.Args[:len(c.Args):len(c.Args)], ""), "\x00")
}

// Made is one call that was made.
type Made struct {
	Program  string
	Args     []string
	Environ  []string
	Expected bool
}

// Fake is a directory of programs for one test.
type Fake struct {
	t     testing.TB
	dir   string
	calls []Call
}

// New makes programs that answer these calls. When the test ends it fails for
// each call that was not expected and each that did not come.
func New(t testing.TB, calls ...Call) *Fake {
	t.Helper()
	f := &Fake{t: t, dir: t.TempDir(), calls: calls}
	for _, p := range Programs() {
		text := strings.NewReplacer("@DIR@", f.dir, "@PROGRAM@", p).Replace(programText)
		f.write(text, 0o755, "bin", p)
	}
	f.mkdir("made")
	for i, c := range calls {
		f.write(c.Stdout, 0o644, f.answer(i), "stdout")
		f.write(c.Stderr, 0o644, f.answer(i), "stderr")
		f.write(strconv.Itoa(c.Exit), 0o644, f.answer(i), "exit")
		f.write(strconv.FormatFloat(c.Delay.Seconds(), 'f', 3, 64), 0o644, f.answer(i), "delay")
		if c.Times < 0 {
			f.write("", 0o644, f.answer(i), "always")
		}
		for n := range max(1, c.Times) {
			f.mkdir(f.answer(i), "times", strconv.Itoa(n))
		}
	}
	t.Cleanup(f.verify)
	return f
}

// Bin is the directory of the programs.
func (f *Fake) Bin() string { return filepath.Join(f.dir, "bin") }

// Environ is an environment in which the programs are found, with more added.
func (f *Fake) Environ(more ...string) []string {
	return append([]string{"PATH=" + f.Bin() + ":/usr/bin:/bin", "HOME=/nonexistent"}, more...)
}

// Made lists the calls so far, in their order.
func (f *Fake) Made() []Made {
	f.t.Helper()
	var all []Made
	for n := 1; ; n++ {
		dir := filepath.Join(f.dir, "made", strconv.Itoa(n))
		argv, err := os.ReadFile(filepath.Join(dir, "argv"))
		if err != nil {
			return all
		}
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			f.t.Fatal(err)
		}
		_, err = os.Stat(filepath.Join(dir, "expected"))
		words := split(argv)
		all = append(all, Made{Program: words[0], Args: words[1:], Environ: split(environ), Expected: err == nil})
	}
}

// split cuts text at the NUL behind each word.
func split(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

func (f *Fake) verify() {
	f.t.Helper()
	for _, m := range f.Made() {
		if !m.Expected {
			f.t.Errorf("call that was not expected: %s %q", m.Program, m.Args)
		}
	}
	for i, c := range f.calls {
		left, err := os.ReadDir(filepath.Join(f.dir, f.answer(i), "times"))
		if err != nil {
			f.t.Error(err)
		}
		if c.Times >= 0 && len(left) > 0 {
			f.t.Errorf("call that did not come (%d times left): %s %q", len(left), c.Program, c.Args)
		}
	}
}

// answer is the directory of the i-th answer, below the one of all that answer
// the same call.
func (f *Fake) answer(i int) string {
	return filepath.Join("answers", fmt.Sprintf("%x", sha256.Sum256([]byte(f.calls[i].argv()))), fmt.Sprintf("%03d", i))
}

func (f *Fake) mkdir(elem ...string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.dir, filepath.Join(elem...)), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *Fake) write(text string, mode os.FileMode, elem ...string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.Join(elem...))
	f.mkdir(elem[:len(elem)-1]...)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
}
