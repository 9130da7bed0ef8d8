// Package world is one test's corner of a lab: a site, weights, a binary under
// test, and the runs it makes. What a run left is looked for through the lab
// alone, never asked of the tool under test.
package world

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/standin"
)

// Suite is the lab and the binary that the tests of one package share.
type Suite struct {
	lab.Lazy

	once  sync.Once
	bin   string
	built error
}

// Main runs the tests and takes the lab down; for TestMain.
func (s *Suite) Main(m *testing.M) int {
	code := m.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// binary builds the binary under test, once. The go command writes it, and each
// test gets a link to it: a file that this process has just written cannot be
// executed while another of its threads forks.
func (s *Suite) binary(l *lab.Lab) (string, error) {
	s.once.Do(func() {
		root, err := lab.ModuleRoot()
		if err != nil {
			s.built = err
			return
		}
		s.bin = filepath.Join(l.Dir(), "shared", "disagg-under-test")
		s.built = lab.GoBuild(root, s.bin, "./cmd/disagg")
	})
	return s.bin, s.built
}

// World is one test's corner of the lab.
type World struct {
	*lab.Lab
	// T is the test.
	T testing.TB
	// Dir is the test's directory on the shared file system.
	Dir string
	// Bin is the binary under test.
	Bin string
	// RunsDir is where runs are, as the nodes see it; empty: runs below Dir.
	RunsDir string
	// User is who runs commands; empty: root.
	User string
	// Env are further variables of commands, NAME=VALUE: the submitting shell's.
	Env []string
}

// New gives the test a world of its own on the suite's lab, or skips the test.
func (s *Suite) New(t testing.TB) *World {
	t.Helper()
	l := s.Get(t)
	bin, err := s.binary(l)
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Lab: l, T: t, Dir: l.TempDir(t)}
	w.Bin = filepath.Join(w.Dir, "disagg")
	w.Must(os.Link(bin, w.Bin))
	w.Write("models/DeepSeek-R1-0528/config.json", "{}")
	w.Write("models/DeepSeek-R1-0528/model.safetensors", string(standin.Weights()))
	w.Site("")
	return w
}

// Must fails the test at once if err is set.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Write makes a file below the test's directory and returns its path.
func (w *World) Write(name, text string) string {
	w.T.Helper()
	path := filepath.Join(w.Dir, name)
	w.Must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.Must(os.WriteFile(path, []byte(text), 0o644))
	return path
}
