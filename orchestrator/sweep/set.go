// Package sweep keeps the record of runs that were submitted as one set, and
// says how the set is doing.
//
// The limit on how many run at once needs no process that stays: the runs are
// dealt out to as many lanes, and each waits in the scheduler for the end of the
// one before it in its lane, however that ended.
package sweep

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// Names of the record: <runs_dir>/sets/<id>/set.json.
const (
	setsDir    = "sets"
	recordFile = "set.json"
)

// layout is the version of the record.
const layout = 1

// Set is the record of a set of runs.
type Set struct {
	Layout  int       `json:"layout"`
	ID      string    `json:"id"`
	Tool    string    `json:"tool"`
	Created time.Time `json:"created"`
	// Max is how many run at once.
	Max  int   `json:"max"`
	Runs []Run `json:"runs"`

	dir string
}

// Run is one run of a set. It is in the record before it is submitted.
type Run struct {
	// Name is the run's, and no other's in the set.
	Name   string              `json:"name"`
	Recipe string              `json:"recipe"`
	Point  []models.SweepValue `json:"point,omitempty"`
	// Points are the client points and the evaluation that its result must have.
	Points []string `json:"points"`
	// Lane is the run's lane, 0-based; After the job that it waits for.
	Lane  int    `json:"lane"`
	After string `json:"after,omitempty"`
	// ID, Dir and Job are set once the run was submitted.
	ID  string `json:"run,omitempty"`
	Dir string `json:"dir,omitempty"`
	Job string `json:"job_id,omitempty"`
	// Error is why it was not submitted.
	Error string `json:"error,omitempty"`
}

// Create writes the record of a set of which nothing has been submitted yet.
func Create(runsDir, name string, runs []Run, max int, tool string, now time.Time) (*Set, error) {
	if !rundir.ValidName(name) {
		return nil, fmt.Errorf("create set: name %q may hold letters, digits, '.', '_' and '-' only, at most 64", name)
	}
	b := make([]byte, 3)
	_, _ = rand.Read(b) // documented never to fail
	s := &Set{Layout: layout, Tool: tool, Created: now.UTC(), Max: max, Runs: runs,
		ID: name + "-" + now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b)}
	for i := range s.Runs {
		s.Runs[i].Lane = i % max
	}
	s.dir = filepath.Join(runsDir, setsDir, s.ID)
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
		return nil, fmt.Errorf("create set: %w", err)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create set: %w", err)
	}
	return s, s.Save()
}

// Dir is the directory of the record.
func (s *Set) Dir() string { return s.dir }

// Before returns the job that the i-th run waits for: that of the nearest run
// before it in its lane that was submitted. Empty: it waits for none.
func (s *Set) Before(i int) string {
	for j := i - s.Max; j >= 0; j -= s.Max {
		if s.Runs[j].Job != "" {
			return s.Runs[j].Job
		}
	}
	return ""
}

// Save writes the record whole or not at all.
func (s *Set) Save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write set: %w", err)
	}
	path := filepath.Join(s.dir, recordFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write set: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write set: %w", err)
	}
	return nil
}

// Open reads the record in a directory.
func Open(dir string) (*Set, error) {
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open set: %s holds no %s", dir, recordFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open set: %w", err)
	}
	s := &Set{dir: dir}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("open set %s: %w", dir, err)
	}
	if s.Layout != layout || s.Max < 1 {
		return nil, fmt.Errorf("open set %s: layout %d is not one that this build reads (%d)", dir, s.Layout, layout)
	}
	return s, nil
}

// Resolve finds a set by id, by a prefix that only one id has, or the newest as
// "latest".
func Resolve(runsDir, ref string) (*Set, error) {
	entries, err := os.ReadDir(filepath.Join(runsDir, setsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find set: %w", err)
	}
	var ids []string
	newest, created := "", time.Time{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if strings.HasPrefix(e.Name(), ref) {
			ids = append(ids, e.Name())
		}
		if ref != rundir.LatestRef {
			continue
		}
		if s, err := Open(filepath.Join(runsDir, setsDir, e.Name())); err == nil && s.Created.After(created) {
			newest, created = s.ID, s.Created
		}
	}
	if newest != "" {
		ids = []string{newest}
	}
	switch {
	case len(ids) == 0:
		return nil, fmt.Errorf("find set: no set below %s is called %q", filepath.Join(runsDir, setsDir), ref)
	case len(ids) > 1 && !slices.Contains(ids, ref):
		return nil, fmt.Errorf("find set: %q is the beginning of several: %s", ref, strings.Join(ids, ", "))
	case slices.Contains(ids, ref):
		ids = []string{ref}
	}
	return Open(filepath.Join(runsDir, setsDir, ids[0]))
}
