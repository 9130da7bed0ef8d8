package nodetest

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func fifo(p string) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
		return err
	}
	return unix.Mkfifo(p, 0o644)
}
