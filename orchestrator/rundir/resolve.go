package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LatestRef is the reference that means the newest run.
const LatestRef = "latest"

// List names the whole run directories below runsDir, newest first. Directories
// that are not runs, are incomplete or belong to others are left out.
func List(runsDir string) ([]*Dir, error) {
	entries, err := os.ReadDir(runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var out []*Dir
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if d, err := Open(filepath.Join(runsDir, e.Name())); err == nil {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b *Dir) int {
		if c := b.marker.Created.Compare(a.marker.Created); c != 0 {
			return c
		}
		return strings.Compare(b.ID(), a.ID())
	})
	return out, nil
}

// Latest is the newest run below runsDir.
func Latest(runsDir string) (*Dir, error) {
	all, err := List(runsDir)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("find run: %w: %s holds none", ErrNotRun, runsDir)
	}
	return all[0], nil
}

// Resolve finds a run by what a user types: the path of its directory, its id,
// a prefix that only one id has, or LatestRef. runsDir may be empty when ref is
// a path.
func Resolve(runsDir, ref string) (*Dir, error) {
	if ref == "" {
		return nil, fmt.Errorf("find run: name one by id, prefix or path, or write %s", LatestRef)
	}
	if strings.ContainsRune(ref, filepath.Separator) || ref == "." || ref == ".." {
		return Open(ref)
	}
	if runsDir == "" {
		return nil, fmt.Errorf("find run %q: without a runs_dir only a path names a run", ref)
	}
	if ref == LatestRef {
		return Latest(runsDir)
	}
	exact := filepath.Join(runsDir, ref)
	if _, err := os.Lstat(exact); err == nil {
		return Open(exact)
	}
	all, err := List(runsDir)
	if err != nil {
		return nil, err
	}
	var hits []*Dir
	for _, d := range all {
		if strings.HasPrefix(d.ID(), ref) {
			hits = append(hits, d)
		}
	}
	switch len(hits) {
	case 0:
		return nil, fmt.Errorf("find run %q: %w: no run below %s has an id that begins so", ref, ErrNotRun, runsDir)
	case 1:
		return hits[0], nil
	}
	names := make([]string, len(hits))
	for i, d := range hits {
		names[i] = d.ID()
	}
	return nil, fmt.Errorf("find run %q: %d runs start so: %s; write more of the id", ref, len(hits), strings.Join(names, ", "))
}
