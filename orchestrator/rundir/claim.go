package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Claim says which controller took a run.
type Claim struct {
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Job  string    `json:"job,omitempty"` // scheduler's job id
	Time time.Time `json:"time"`
}

// Claim takes the run for one controller. A second claim is refused with
// ErrClaimed: a requeued job starts the same script with the same id again, and
// mixing its files with the first attempt's would make both worthless.
func (d *Dir) Claim(c Claim) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("claim run: %w", err)
	}
	path := d.Join(ClaimFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return d.claimed()
	}
	if err != nil {
		return fmt.Errorf("claim run: %w", err)
	}
	_, werr := f.Write(append(data, '\n'))
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("claim run: %w", err)
	}
	return nil
}

func (d *Dir) claimed() error {
	c, err := d.Claimed()
	if err != nil || c == nil {
		return fmt.Errorf("claim %s: %w; submit it again as a new run", d.ID(), ErrClaimed)
	}
	return fmt.Errorf("claim %s: %w by process %d on %s at %s; submit it again as a new run", d.ID(), ErrClaimed, c.PID, c.Host, c.Time.UTC().Format(time.RFC3339))
}

// Claimed tells which controller took the run; nil: none yet.
func (d *Dir) Claimed() (*Claim, error) {
	return note[Claim](d, ClaimFile, "read claim")
}

// note reads a small record that may not be there: then it is nil.
func note[T any](d *Dir, name, doing string) (*T, error) {
	data, err := os.ReadFile(d.Join(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return &v, nil
}
