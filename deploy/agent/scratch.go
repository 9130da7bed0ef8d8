package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy/shim"
)

const (
	scratchPrefix = "dsg-"
	markerFile    = "marker.json"
	ledgerFile    = "ledger.jsonl"
	// maxSocketPath is the longest path of a unix socket on Linux.
	maxSocketPath = 107
)

// marker is in every scratch directory; only what carries the right one is ever
// removed.
type marker struct {
	RunID string `json:"run_id"`
	UID   int    `json:"uid"`
	PID   int    `json:"pid"` // of the agent
	// Start is the agent's start time in clock ticks after boot, which tells it
	// from a later process of the same number.
	Start string `json:"start"`
}

// entry is a line of the ledger: a unit that is about to be, or has been,
// started.
type entry struct {
	Workload string `json:"workload"`
	Unit     string `json:"unit,omitempty"` // container id or "pid N"; empty: about to be
}

// scratch is an agent's own directory on its node.
type scratch struct {
	dir   string
	runID string

	mu     sync.Mutex
	binary string // a copy that containers can be given
}

// newScratch makes the directory, readable by its owner only.
func newScratch(base, runID string) (*scratch, error) {
	if !filepath.IsAbs(base) {
		return nil, fmt.Errorf("make scratch directory: %q is not an absolute path", base)
	}
	dir, err := os.MkdirTemp(base, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	s := &scratch{dir: dir, runID: runID}
	if p := filepath.Join(dir, "9999", shim.SocketFile); len(p) > maxSocketPath {
		os.Remove(dir)
		return nil, fmt.Errorf("make scratch directory: sockets below %s have paths of %d bytes, the kernel takes %d; use a shorter directory such as /tmp", base, len(p), maxSocketPath)
	}
	m := marker{RunID: runID, UID: os.Getuid(), PID: os.Getpid(), Start: startTime(os.Getpid())}
	b, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, markerFile), b, 0o600)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	return s, nil
}

// readMarker reads a scratch directory's marker; ok is false for anything else.
func readMarker(dir string) (m marker, ok bool) {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return m, false
	}
	b, err := os.ReadFile(filepath.Join(dir, markerFile))
	if err != nil || json.Unmarshal(b, &m) != nil {
		return m, false
	}
	return m, m.RunID != ""
}

// remove removes the directory, if it still is the one that was made.
func (s *scratch) remove() error {
	m, ok := readMarker(s.dir)
	if !ok || m.RunID != s.runID || m.PID != os.Getpid() {
		return fmt.Errorf("remove %s: it does not carry this run's marker any more", s.dir)
	}
	return os.RemoveAll(s.dir)
}

// workDir makes the directory that agent and shim of one workload share.
func (s *scratch) workDir(n int) (string, error) {
	dir := filepath.Join(s.dir, fmt.Sprint(n))
	return dir, os.Mkdir(dir, 0o700)
}

// record appends to the ledger, before a unit is started and after.
func (s *scratch) record(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(s.dir, ledgerFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// readLedger reads what was started from a scratch directory.
func readLedger(dir string) ([]entry, error) {
	b, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []entry
	for line := range strings.Lines(string(b)) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil { // the last line may be cut
			out = append(out, e)
		}
	}
	return out, nil
}

// binaryFor gives a binary that a container can be given: a copy in the scratch
// directory, because a container daemon, being root, may not be able to read the
// run's directory on a file server that squashes root. Where the scratch
// directory does not allow execution it is the original.
func (s *scratch) binaryFor(self string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.binary != "" {
		return s.binary, nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		s.binary = self
		return self, nil
	}
	path := filepath.Join(s.dir, "disagg")
	if err := copyFile(self, path, 0o755); err != nil {
		return "", fmt.Errorf("copy the binary for containers: %w", err)
	}
	s.binary = path
	return path, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close(), os.Chmod(to, mode))
}
