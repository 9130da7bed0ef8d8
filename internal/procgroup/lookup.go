package procgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LookPath finds the program that Run and Start would start for name with env:
// the first executable file of that name on the PATH in env, or on this
// process's own PATH when env has none. A name with a slash is taken as it is.
// The error is ErrNotFound where nothing fits.
func LookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return name, nil
	}
	path := os.Getenv("PATH")
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		// A relative entry would make the program depend on the working
		// directory, which is how a wrong or planted file gets started.
		if !filepath.IsAbs(dir) {
			continue
		}
		if p := filepath.Join(dir, name); executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w: %q on PATH %s", ErrNotFound, name, path)
}

// executable says why path cannot be executed, or nil.
func executable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return &fs.PathError{Op: "execute", Path: path, Err: errors.New("not a regular file")}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	return nil
}
