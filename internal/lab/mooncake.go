package lab

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// MooncakeVersion is the release of the real Mooncake master that the lab uses.
const MooncakeVersion = "0.3.13.post1"

// Mooncake lays a real mooncake_master out below dir, to be mounted at
// /usr/local of a container: the command, and every library that it needs, since
// an image that is made for something else has few of them.
func Mooncake(dir string) error {
	const name = "mooncake-transfer-engine-non-cuda"
	installed, err := pipRouter(name, MooncakeVersion, "")
	if err != nil {
		return err
	}
	program := filepath.Join(installed.site, "mooncake", "mooncake_master")
	for _, d := range []string{"bin", "lib"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return fmt.Errorf("lay out mooncake: %w", err)
		}
	}
	bundled := filepath.Join(installed.site, strings.ReplaceAll(name, "-", "_")+".libs")
	if err := withLibraries(program, filepath.Join(dir, "lib"), bundled, map[string]bool{}); err != nil {
		return fmt.Errorf("lay out mooncake: %w", err)
	}
	// The real name stays: the process is looked for by it.
	start := "#!/bin/sh\nexport LD_LIBRARY_PATH=/usr/local/lib\nexec /usr/local/lib/mooncake_master \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "mooncake_master"), []byte(start), 0o755); err != nil {
		return fmt.Errorf("lay out mooncake: %w", err)
	}
	return nil
}

// withLibraries copies a program or library to a directory, and what it needs:
// first what was bundled with it, then what this system has.
func withLibraries(path, to, bundled string, done map[string]bool) error {
	if done[filepath.Base(path)] {
		return nil
	}
	done[filepath.Base(path)] = true
	if err := copyProgram(path, filepath.Join(to, filepath.Base(path))); err != nil {
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, lib := range libs {
		at := filepath.Join(bundled, lib)
		if !exists(at) {
			at = findLibrary(lib, "")
		}
		if at == "" {
			return fmt.Errorf("%s needs %s, which is not installed (internal/lab/setup.sh installs it)", filepath.Base(path), lib)
		}
		if err := withLibraries(at, to, bundled, done); err != nil {
			return err
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
