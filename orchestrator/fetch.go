package orchestrator

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fetchInto brings a directory of a node here, as a tar stream. Only regular
// files and directories below the named ones (none named: all) are taken, and
// none outside of dst: the archive comes from a machine that may be broken, and
// must not reach the run's own records.
func fetchInto(ctx context.Context, n Node, src, dst string, only ...string) error {
	if err := os.MkdirAll(dst, 0o700); err != nil {
		return fmt.Errorf("fetch %s: %w", src, err)
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", src, err)
	}
	defer func() { _ = root.Close() }()
	pr, pw := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := n.Fetch(ctx, src, pw)
		_ = pw.CloseWithError(err)
		sent <- err
	}()
	err = untar(root, pr, only)
	_ = pr.CloseWithError(err)
	return errors.Join(err, <-sent)
}

func untar(root *os.Root, from io.Reader, only []string) error {
	tr := tar.NewReader(from)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// What follows the archive is padding; the sender wants it read.
			_, err = io.Copy(io.Discard, from)
			return err
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		name := filepath.Clean(h.Name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("read archive: %q lies outside of the directory", h.Name)
		}
		if top, _, _ := strings.Cut(filepath.ToSlash(name), "/"); len(only) > 0 && !slices.Contains(only, top) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o700); err != nil {
				return fmt.Errorf("unpack %s: %w", name, err)
			}
		case tar.TypeReg:
			if err := unpack(root, name, tr); err != nil {
				return fmt.Errorf("unpack %s: %w", name, err)
			}
		}
	}
}

func unpack(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
