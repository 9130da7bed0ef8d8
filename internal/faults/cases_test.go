package faults

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disagg/disagg/internal/lab"
)

// TestMatrixIsComplete: every fault says what is needed of it.
func TestMatrixIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range Matrix() {
		harmless := slices.Equal(f.Codes, []int{0})
		switch {
		case seen[f.ID]:
			t.Errorf("%s is in the matrix twice", f.ID)
		case f.What == "" || len(f.Codes) == 0 || !slices.Contains(Groups(), f.Group):
			t.Errorf("%s is incomplete: %+v", f.ID, f)
		case harmless && (f.Cause != "" || f.Bound != 0 || f.Printed != ""):
			t.Errorf("%s harms nobody, and has a cause or a bound", f.ID)
		case !harmless && (f.Cause == "" || f.Bound == 0 || f.Printed == ""):
			t.Errorf("%s has no cause, no bound, or no line as it is printed", f.ID)
		}
		seen[f.ID] = true
		if re, err := regexp.Compile(f.Cause); err != nil {
			t.Errorf("%s: %v", f.ID, err)
		} else if f.Printed != "" && !re.MatchString(f.Printed) {
			t.Errorf("%s: the printed line %q is not what is wanted, %q", f.ID, f.Printed, f.Cause)
		}
	}
}

// TestEveryCaseIsTried: each known failure is a fault of the matrix or a test that
// exists, or says why not.
func TestEveryCaseIsTried(t *testing.T) {
	t.Parallel()
	root, err := lab.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, f := range Matrix() {
		ids[f.ID] = true
	}
	for _, c := range Cases() {
		if c.What == "" || len(c.Faults)+len(c.Tests) == 0 && c.Why == "" {
			t.Errorf("%s: %q is not tried, and nobody says why", c.Area, c.What)
		}
		for _, id := range c.Faults {
			if !ids[id] {
				t.Errorf("%q names fault %s, which is not in the matrix", c.What, id)
			}
		}
		for _, name := range c.Tests {
			if err := hasTest(root, name); err != nil {
				t.Errorf("%q: %v", c.What, err)
			}
		}
	}
}

// hasTest says whether a test, as Case names it, is in the tree.
func hasTest(root, name string) error {
	dir, test, _ := strings.Cut(name, ".Test")
	test, of, _ := strings.Cut("Test"+test, "/")
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte("func "+test+"(")) && (of == "" || bytes.Contains(data, []byte(strconv.Quote(of)))) {
			return nil
		}
	}
	return errors.New("there is no test " + name)
}
