package rundir

import (
	"crypto/rand"
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
//
// On a full disk the directory's reserve is given up for it.
func (d *Dir) Put(name string, data []byte, perm fs.FileMode) error {
	fill := func(w io.Writer) error {
		_, err := w.Write(d.red.Bytes(data))
		return err
	}
	err := d.put(name, perm, fill)
	if full(err) && os.Remove(d.Join(ReserveFile)) == nil {
		return d.put(name, perm, fill)
	}
	return err
}

// PutSpare is Put for a file that a run can do without: it makes the directories
// above it, and leaves the reserve alone.
func (d *Dir) PutSpare(name string, data []byte, perm fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(d.Join(name)), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.put(name, perm, func(w io.Writer) error {
		_, err := w.Write(d.red.Bytes(data))
		return err
	})
}

// full says that a write failed for want of room.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// reserveBytes is the size of the reserve: many times a result and the last
// events of a run.
const reserveBytes = 1 << 20

// reserve puts bytes aside that hold room for the end of the run. They are random,
// because some file systems store nothing for zeros.
func (d *Dir) reserve() error {
	data := make([]byte, reserveBytes)
	_, _ = rand.Read(data) // documented never to fail
	return d.put(ReserveFile, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// FreeReserve gives the reserve back when it has served. There may be none.
func (d *Dir) FreeReserve() {
	_ = os.Remove(d.Join(ReserveFile))
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
