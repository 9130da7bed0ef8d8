package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Marker identifies a whole run directory.
type Marker struct {
	Layout  int       `json:"layout"`
	Run     string    `json:"run"`
	Created time.Time `json:"created"`
	UID     int       `json:"uid"`
	// PlanSHA256 is the hash of plan.json's bytes.
	PlanSHA256 string `json:"plan_sha256"`
	// BinarySHA256 is the hash of bin/disagg; empty when none was installed.
	BinarySHA256 string `json:"binary_sha256,omitempty"`
}

// Reasons why a directory is refused; use errors.Is.
var (
	// ErrNotRun: there is no run directory at that place.
	ErrNotRun = errors.New("not a run directory")
	// ErrIncomplete: its making was broken off; nothing was ever submitted from it.
	ErrIncomplete = errors.New("run directory is incomplete")
	// ErrForeign: it belongs to another user, or to another run.
	ErrForeign = errors.New("run directory belongs to someone else")
	// ErrChanged: a file is not the one that was sealed.
	ErrChanged = errors.New("run directory was changed after it was made")
	// ErrClaimed: a controller has taken the run already.
	ErrClaimed = errors.New("run was started already")
)

// Open checks that path is a whole run directory of this user and opens it.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	info, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open %s: %w", abs, ErrNotRun)
	}
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("open %s: %w: owner is uid %d, you are uid %d", abs, ErrForeign, st.Uid, os.Geteuid())
	}
	data, err := os.ReadFile(filepath.Join(abs, MarkerFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, perr := os.Stat(filepath.Join(abs, LogsDir)); perr != nil {
			return nil, fmt.Errorf("open %s: %w: it has no %s", abs, ErrNotRun, MarkerFile)
		}
		return nil, fmt.Errorf("open %s: %w: it has no %s; it can be deleted", abs, ErrIncomplete, MarkerFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	d := &Dir{path: abs}
	if err := json.Unmarshal(data, &d.marker); err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Join(MarkerFile), err)
	}
	if d.marker.Layout != layoutVersion {
		return nil, fmt.Errorf("open %s: it was made by another version of disagg (layout %d, this build reads %d); use the binary in its bin directory", abs, d.marker.Layout, layoutVersion)
	}
	if d.marker.Run != d.ID() {
		return nil, fmt.Errorf("open %s: %w: it is run %q under another name", abs, ErrForeign, d.marker.Run)
	}
	return d, nil
}

// Verify checks that the plan is the one that was sealed and, when want is not
// empty, that its hash is the wanted one (the hash the batch script carries).
// It returns the plan's bytes.
func (d *Dir) Verify(want string) ([]byte, error) {
	plan, err := os.ReadFile(d.Join(PlanFile))
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	got := sha(plan)
	if got != d.marker.PlanSHA256 {
		return nil, fmt.Errorf("verify %s: %w: its hash is %s, %s was sealed", d.Join(PlanFile), ErrChanged, short(got), short(d.marker.PlanSHA256))
	}
	if want != "" && want != got {
		return nil, fmt.Errorf("verify %s: %w: its hash is %s, the job was submitted with %s", d.Join(PlanFile), ErrChanged, short(got), short(want))
	}
	return plan, nil
}

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}
