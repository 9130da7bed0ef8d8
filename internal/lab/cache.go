package lab

import (
	"errors"
	"os"
	"path/filepath"
)

// ModuleRoot is the directory of go.mod above the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the module: no go.mod above the working directory")
		}
		dir = up
	}
}

// CacheDir is where labs keep what is costly to make: .lab/cache in the module.
func CacheDir() (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".lab", "cache")
	return dir, os.MkdirAll(dir, 0o755)
}
