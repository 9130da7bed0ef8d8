package rundir

import (
	"encoding/json"
	"fmt"
	"time"
)

// Cancel says who asked a run to end: to its controller, one signal looks like
// another.
type Cancel struct {
	User string    `json:"user"`
	Host string    `json:"host"`
	Time time.Time `json:"time"`
}

// String names user and host.
func (c Cancel) String() string { return c.User + " on " + c.Host }

// NoteCancel leaves word for the controller, before it is signalled. It fails
// where the user may not write to the run directory.
func (d *Dir) NoteCancel(c Cancel) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("note who cancels: %w", err)
	}
	return d.Put(CancelFile, append(data, '\n'), 0o600)
}

// Cancelled says who asked the run to end with `disagg cancel`; nil: nobody did.
func (d *Dir) Cancelled() (*Cancel, error) {
	return note[Cancel](d, CancelFile, "read who cancelled")
}
