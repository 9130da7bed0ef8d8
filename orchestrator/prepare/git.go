package prepare

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models"
)

// gitLimit bounds each question to git: the answer is for the record only, and a
// large repository on a slow file server must not hold up a run.
const gitLimit = 3 * time.Second

// commits notes for each input file which commit it is from, as far as git says.
func commits(files []models.InputFile) []models.InputFile {
	heads := map[string]string{}
	out := slices.Clone(files)
	for i := range out {
		f := &out[i]
		if st, err := os.Stat(f.Path); err != nil || !st.Mode().IsRegular() {
			continue // made by this program, from the old scripts' arguments
		}
		dir := filepath.Dir(f.Path)
		head, asked := heads[dir]
		if !asked {
			head, _ = git(dir, "rev-parse", "--verify", "HEAD")
			heads[dir] = head
		}
		if head == "" {
			continue
		}
		changes, ok := git(dir, "status", "--porcelain", "--ignored", "--", filepath.Base(f.Path))
		if ok {
			f.Commit, f.Modified = head, changes != ""
		}
	}
	return out
}

// git asks git about a directory; ok is false when it gave no good answer.
func git(dir string, args ...string) (out string, ok bool) {
	// A surrounding git command's variables would name another repository.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	res, err := procgroup.Run(context.Background(), procgroup.Command{
		Argv: append([]string{"git", "-C", dir}, args...), Timeout: gitLimit,
		Env: append(env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0"), // nothing is written to the repository
	})
	if err != nil || !res.OK() {
		return "", false
	}
	return strings.TrimSpace(string(res.Stdout)), true
}
