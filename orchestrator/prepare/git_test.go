package prepare

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/disagg/disagg/models"
)

// TestCommits: an input is as committed, changed, or in no repository.
func TestCommits(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here: ", err)
	}
	repo, bare := t.TempDir(), t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	committed, changed := write(filepath.Join(repo, "a.yaml"), "a"), write(filepath.Join(repo, "b.yaml"), "b")
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write(changed, "other")
	never := write(filepath.Join(repo, "c.yaml"), "c")
	outside := write(filepath.Join(bare, "d.yaml"), "d")
	// What a surrounding git command sets names no other repository.
	t.Setenv("GIT_DIR", filepath.Join(bare, "nowhere"))
	t.Setenv("GIT_CEILING_DIRECTORIES", "")
	got := commits([]models.InputFile{{Path: committed}, {Path: changed}, {Path: never}, {Path: outside}, {Path: ""}, {Path: filepath.Join(repo, "no-such-file")}})
	hash := regexp.MustCompile("^[0-9a-f]{40,64}$")
	for i, want := range []struct{ known, modified bool }{{true, false}, {true, true}, {true, true}, {}, {}, {}} {
		if f := got[i]; hash.MatchString(f.Commit) != want.known || f.Modified != want.modified {
			t.Errorf("%+v, want commit known %v, modified %v", f, want.known, want.modified)
		}
	}
}
