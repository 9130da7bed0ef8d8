package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A bundle is a directory with everything that was gathered: judged again anywhere
// it gives the same report.
//
//	spec.json            what was asked and expected
//	NODE.host.json       facts of one node
//	NODE.image.json      facts of one image on it; of further ones NODE.image.2.json
const (
	bundleSpec   = "spec.json"
	bundleSuffix = ".json"
)

// SaveBundle writes the spec and the facts into dir, which is made where it is
// missing. Only the user can read it: facts name other people's processes.
func SaveBundle(dir string, s Spec, all []Facts) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save bundle: %w", err)
	}
	s.Version, s.Node, s.Read = SpecVersion, "", nil
	if err := saveJSON(filepath.Join(dir, bundleSpec), s); err != nil {
		return fmt.Errorf("save bundle: %w", err)
	}
	seen := map[string]int{}
	for i := range all {
		name := fileName(all[i].Node) + "." + all[i].Context
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s.%d", name, seen[name])
		}
		name += bundleSuffix
		if err := saveJSON(filepath.Join(dir, name), &all[i]); err != nil {
			return fmt.Errorf("save bundle: %w", err)
		}
	}
	return nil
}

// fileName makes a node's name fit for a file.
func fileName(node string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == 0 || r == os.PathSeparator {
			return '_'
		}
		return r
	}, node)
}

// saveJSON writes a file whole or not at all.
func saveJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(append(b, '\n')); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// IsBundle says that a directory looks like a bundle.
func IsBundle(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, bundleSpec))
	return err == nil && st.Mode().IsRegular()
}

// LoadBundle reads what SaveBundle wrote. The facts are in the order of their file
// names.
func LoadBundle(dir string) (Spec, []Facts, error) {
	var s Spec
	err := loadJSON(filepath.Join(dir, bundleSpec), &s)
	if _, there := os.Stat(dir); there == nil && errors.Is(err, os.ErrNotExist) {
		return s, nil, fmt.Errorf("load bundle: %s is no bundle of preflight: it has no %s", dir, bundleSpec)
	}
	if err != nil {
		return s, nil, fmt.Errorf("load bundle: %w", err)
	}
	if s.Version != SpecVersion {
		return s, nil, fmt.Errorf("load bundle: %s is of version %d, this program reads version %d", bundleSpec, s.Version, SpecVersion)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s, nil, fmt.Errorf("load bundle: %w", err)
	}
	var all []Facts
	for _, e := range entries {
		if n := e.Name(); n == bundleSpec || !strings.HasSuffix(n, bundleSuffix) || strings.HasPrefix(n, ".") {
			continue
		}
		var f Facts
		if err := loadJSON(filepath.Join(dir, e.Name()), &f); err != nil {
			return s, nil, fmt.Errorf("load bundle: %w", err)
		}
		if f.Node == "" {
			return s, nil, fmt.Errorf("load bundle: %s holds no facts of a node", e.Name())
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return s, nil, fmt.Errorf("load bundle: no facts in %s", dir)
	}
	return s, all, nil
}

func loadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
