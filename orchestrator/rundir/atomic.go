package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put writes a file of the run directory whole or not at all: to a temporary
// name, synced, renamed, and the directory synced, so that neither a full disk
// nor a lost machine leaves half of it under its name.
func (d *Dir) Put(name string, data []byte, perm fs.FileMode) error {
	return d.put(name, perm, func(w io.Writer) error {
		_, err := w.Write(d.red.Bytes(data))
		return err
	})
}

func (d *Dir) put(name string, perm fs.FileMode, fill func(io.Writer) error) (err error) {
	final := d.Join(name)
	tmp, err := os.CreateTemp(filepath.Dir(final), ".tmp-"+filepath.Base(final)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", final, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", final, err), tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	if err = tmp.Chmod(perm); err != nil {
		return err
	}
	if err = fill(tmp); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), final); err != nil {
		return err
	}
	_ = tmp.Close() // synced and in place: closing can lose nothing
	return syncDir(filepath.Dir(final))
}

// syncDir makes a rename survive a crash. File systems that cannot sync a
// directory (some network ones) say EINVAL; they order renames themselves.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
