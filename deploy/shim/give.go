package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// giveLimit bounds the giving away of files: their number is not known, and the
// run waits for it.
const giveLimit = 20 * time.Second

// Give names directories that are somebody's, whoever the program runs as.
type Give struct {
	UID  int      `json:"uid"`
	GID  int      `json:"gid"`
	Dirs []string `json:"dirs"` // as the program sees them
}

// do makes files the owner's that the program left in the directories. A program
// that runs as root in a container would else leave files there that their user
// can neither read nor remove. Links are not followed.
func (g *Give) do() error {
	if g == nil || os.Getuid() != 0 || g.UID == 0 {
		return nil
	}
	until := time.Now().Add(giveLimit)
	var errs []error
	for _, dir := range g.Dirs {
		errs = append(errs, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if time.Now().After(until) {
				return fmt.Errorf("not done after %s, at %s", giveLimit, path)
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone meanwhile
			}
			if err != nil {
				return err
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == g.UID {
				return nil
			}
			return os.Lchown(path, g.UID, g.GID)
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("give the program's files to user %d: %w", g.UID, err)
	}
	return nil
}
