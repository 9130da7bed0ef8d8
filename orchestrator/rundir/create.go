package rundir

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// stampFormat is the time in a run id: sortable, UTC, no characters that a
// shell or a file name could stumble over.
const stampFormat = "20060102T150405Z"

// createAttempts bounds the search for a free name. Two runs of one name in one
// second meet with probability 2^-24.
const createAttempts = 8

// ValidName says whether a run may be called so: letters, digits, '.', '_' and
// '-', at most 64 bytes, starting with a letter or digit.
func ValidName(name string) bool {
	return len(name) <= 64 && regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(name)
}

// Create makes a new, still unsealed run directory below runsDir, which is made
// when it is missing. Seal completes it, Discard takes it away again.
func Create(runsDir, name string, now time.Time) (*Dir, error) {
	if !ValidName(name) {
		return nil, fmt.Errorf("create run directory: name %q may hold letters, digits, '.', '_' and '-' only, at most 64", name)
	}
	if !filepath.IsAbs(runsDir) {
		return nil, fmt.Errorf("create run directory: runs_dir %q is not absolute", runsDir)
	}
	if err := os.MkdirAll(runsDir, 0o700); err != nil {
		return nil, fmt.Errorf("create runs_dir: %w", err)
	}
	for range createAttempts {
		id := name + "-" + now.UTC().Format(stampFormat) + "-" + randomHex(3)
		path := filepath.Join(runsDir, id)
		err := os.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create run directory: %w", err)
		}
		d := &Dir{path: path, marker: Marker{Layout: layoutVersion, Run: id, Created: now.UTC(), UID: os.Geteuid()}}
		// An umask that takes the owner's bits away would make a directory that
		// nothing can be put in; one that adds none still leaves 0700.
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("create run directory: %w", err), d.Discard())
		}
		for _, sub := range []string{"bin", EnvDir, LogsDir, ResultsDir} {
			if err := os.Mkdir(d.Join(sub), 0o700); err != nil {
				return nil, errors.Join(fmt.Errorf("create run directory: %w", err), d.Discard())
			}
		}
		return d, nil
	}
	return nil, fmt.Errorf("create run directory below %s: no free name after %d attempts", runsDir, createAttempts)
}

// WritePlan stores the plan; its hash goes into the marker.
func (d *Dir) WritePlan(plan []byte) error {
	d.marker.PlanSHA256 = sha(plan)
	return d.Put(PlanFile, plan, 0o600)
}

// PlanSHA256 is the hash of the plan, for the batch script.
func (d *Dir) PlanSHA256() string { return d.marker.PlanSHA256 }

// Seal marks the directory as whole. It refuses one that has no plan.
func (d *Dir) Seal() error {
	if d.marker.PlanSHA256 == "" {
		return fmt.Errorf("seal %s: it has no plan", d.path)
	}
	data, err := json.MarshalIndent(d.marker, "", "  ")
	if err != nil {
		return fmt.Errorf("seal run directory: %w", err)
	}
	if err := d.reserve(); err != nil {
		return fmt.Errorf("seal run directory: %w", err)
	}
	return d.Put(MarkerFile, append(data, '\n'), 0o600)
}

// Discard deletes a directory that was created but never sealed. A sealed one
// holds evidence and stays.
func (d *Dir) Discard() error {
	if _, err := os.Lstat(d.Join(MarkerFile)); err == nil {
		return fmt.Errorf("discard %s: it is sealed", d.path)
	}
	if filepath.Base(d.path) != d.marker.Run || d.marker.Run == "" {
		return fmt.Errorf("discard %s: it was not created here", d.path)
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("discard run directory: %w", err)
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // documented never to fail
	return hex.EncodeToString(b)
}
