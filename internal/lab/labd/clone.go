package labd

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CloneDocker copies a Docker data directory of the overlay2 driver. The files
// of image layers, which nothing writes to, are shared by hard links where the
// file system allows it; everything else is copied.
func CloneDocker(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := cloneEntry(path, filepath.Join(to, rel), info, inLayer(rel)); err != nil {
			return fmt.Errorf("clone Docker's data: %w", err)
		}
		return nil
	})
}

// inLayer says whether a path below the data directory is content of a layer:
// overlay2/ID/diff/….
func inLayer(rel string) bool {
	parts := strings.SplitN(rel, "/", 4)
	return len(parts) == 4 && parts[0] == "overlay2" && parts[2] == "diff"
}

func cloneEntry(from, to string, info fs.FileInfo, share bool) error {
	st := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case mode.IsDir():
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
		return os.Chmod(to, mode)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case mode&fs.ModeCharDevice != 0: // a deleted file in an upper layer
		return unix.Mknod(to, st.Mode, int(st.Rdev))
	case mode.IsRegular():
		if share && os.Link(from, to) == nil {
			return nil
		}
		return copyFile(from, to, mode, st)
	}
	return nil // sockets and pipes of a daemon that is not running
}

func copyFile(from, to string, mode fs.FileMode, st *syscall.Stat_t) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}
