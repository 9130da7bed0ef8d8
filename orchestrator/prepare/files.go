package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/orchestrator"
)

// maxFile bounds an input file; the largest sensible recipe is far below.
const maxFile = 4 << 20

// SiteEnv names the variable that holds the path of the site file.
const SiteEnv = "DISAGG_SITE"

// input is one file that was read.
type input struct {
	path string // as the user wrote it, for messages
	data []byte
}

func (f input) record(role string) models.InputFile {
	sum := sha256.Sum256(f.data)
	return models.InputFile{Role: role, Path: f.path, SHA256: hex.EncodeToString(sum[:])}
}

// read reads one file that the user named. A directory, an empty name and a
// file of absurd size are refused with a sentence: an empty variable in a
// script must never turn into "everything below here".
func read(role, path string) (input, error) {
	if path == "" {
		return input{}, orchestrator.WithCode(orchestrator.ExitUsage, fmt.Errorf("read %s: the path is empty; name one file", role))
	}
	st, err := os.Stat(path)
	if err != nil {
		return input{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read %s: %w", role, err))
	}
	if st.IsDir() {
		return input{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read %s: %s is a directory; name one file", role, path))
	}
	if st.Size() > maxFile {
		return input{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read %s: %s has %d bytes, more than the %d that a %s can have", role, path, st.Size(), maxFile, role))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return input{}, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read %s: %w", role, err))
	}
	return input{path: path, data: data}, nil
}

// Read reads one file that the user named as being of a role.
func Read(role, path string) ([]byte, error) {
	f, err := read(role, path)
	return f.data, err
}

// ErrNoSite is the error of a search for a site file that found none.
var ErrNoSite = errors.New("find the site file")

// SiteFile finds the site file: the given path, else the environment's, else
// the user's, else the machine's. It returns where the answer came from, for
// people.
func SiteFile(given string, env func(string) (string, bool)) (path, from string, err error) {
	if given != "" {
		return given, "--site", nil
	}
	if p, ok := env(SiteEnv); ok && p != "" {
		return p, SiteEnv, nil
	}
	var tried []string
	for _, p := range siteCandidates(env) {
		if _, err := os.Stat(p); err == nil {
			return p, "found", nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", "", orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read site: %w", err))
		}
		tried = append(tried, p)
	}
	return "", "", orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("%w: none of %s exists; name one with --site or %s (start from examples/site-mi355x-ionic.yaml)", ErrNoSite, strings.Join(tried, ", "), SiteEnv))
}

func siteCandidates(env func(string) (string, bool)) []string {
	var list []string
	if dir, ok := env("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "disagg", "site.yaml"))
	} else if home, ok := env("HOME"); ok && home != "" {
		list = append(list, filepath.Join(home, ".config", "disagg", "site.yaml"))
	}
	return append(list, "/etc/disagg/site.yaml")
}

// text is the given text, or else the file's.
func text(role, path string, given []byte) (input, error) {
	if given != nil {
		return input{path: path, data: given}, nil
	}
	return read(role, path)
}

// Site reads the site file.
func Site(path string) (*models.Site, models.Positions, models.InputFile, error) {
	f, err := read("site", path)
	if err != nil {
		return nil, nil, models.InputFile{}, err
	}
	s, pos, err := models.LoadSite(f.path, f.data)
	if err != nil {
		return nil, nil, models.InputFile{}, err
	}
	return s, pos, f.record("site"), nil
}

// Catalog returns the embedded catalog with the files of the given directories
// over it. Relative directories are taken from base.
func Catalog(base string, dirs []string) (*catalog.Catalog, []models.InputFile, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, nil, err
	}
	var used []models.InputFile
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(base, dir)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read catalog directory: %w", err))
		}
		var list []catalog.File
		for _, e := range entries {
			if e.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(e.Name())) {
				continue
			}
			f, err := read("catalog", filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, nil, err
			}
			list = append(list, catalog.File{Path: f.path, Data: f.data})
			used = append(used, f.record("catalog"))
		}
		if len(list) == 0 {
			return nil, nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read catalog directory: %s holds no .yaml file", dir))
		}
		if cat, err = cat.With(list); err != nil {
			return nil, nil, err
		}
	}
	return cat, used, nil
}
