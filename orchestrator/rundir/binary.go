package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// InstallBinary copies the program at path into the run directory, so that what
// was planned with is what runs, whatever is installed in between.
func (d *Dir) InstallBinary(path string) error {
	src, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("install binary: %w", err)
	}
	defer func() { _ = src.Close() }()
	sum := sha256.New()
	err = d.put(BinaryFile, 0o700, func(w io.Writer) error {
		_, err := io.Copy(io.MultiWriter(w, sum), src)
		return err
	})
	if err != nil {
		return fmt.Errorf("install binary: %w", err)
	}
	d.marker.BinarySHA256 = hex.EncodeToString(sum.Sum(nil))
	return d.VerifyBinary()
}

// VerifyBinary reads the installed binary back and compares its hash with the
// marker's.
func (d *Dir) VerifyBinary() error {
	f, err := os.Open(d.Join(BinaryFile))
	if err != nil {
		return fmt.Errorf("verify binary: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("verify binary: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.marker.BinarySHA256 {
		return fmt.Errorf("verify %s: %w: its hash is %s, %s was sealed", d.Join(BinaryFile), ErrChanged, short(got), short(d.marker.BinarySHA256))
	}
	return nil
}
