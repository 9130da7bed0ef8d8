package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesBelongToTheUser: what a program leaves as root in a result directory
// is its user's, and links are not followed out of it.
func TestFilesBelongToTheUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const user = 65534
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := launch(t, Spec{
		Argv: []string{"sh", "-c", `umask 077; mkdir -p "$0/a/b" && echo x >"$0/a/b/c" && ln -s "$1" "$0/link"`, dir, outside},
		Give: &Give{UID: user, GID: user, Dirs: []string{dir}},
	})
	await[Held](a, NoteHeld)
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	if e := await[Exited](a, NoteExited); e.Exit.Code != 0 {
		t.Fatalf("exit = %+v, log %q", e.Exit, e.Log)
	}
	owner := func(path string) int {
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(st.Sys().(*syscall.Stat_t).Uid)
	}
	for _, name := range []string{"", "a", "a/b", "a/b/c", "link"} {
		if got := owner(filepath.Join(dir, name)); got != user {
			t.Errorf("%q belongs to %d, want %d", name, got, user)
		}
	}
	if got := owner(outside); got != 0 {
		t.Errorf("a file outside belongs to %d now", got)
	}
}
