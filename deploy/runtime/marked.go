package runtime

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy/shim"
)

// Marked is a process that carries the marks of a run in its environment.
type Marked struct {
	PID      int
	State    string
	Command  string
	Run      string
	Workload string
	UID      int // its owner

	start string // start time, which tells it from a later process of the same number
}

// String writes the process the way an operator looks for it.
func (m Marked) String() string {
	return fmt.Sprintf("pid %d state %s %s", m.PID, m.State, m.Command)
}

// FindMarked lists the live processes below root's /proc that carry the marks
// of a run, and of one workload of it unless that is empty. Processes whose
// environment this user may not read are not found.
func FindMarked(root, runID, workload string) []Marked {
	if runID == "" {
		return nil
	}
	return scan(root, func(run, of string) bool { return run == runID && (workload == "" || of == workload) })
}

// AllMarked lists the live processes below root's /proc that carry the marks of
// any run.
func AllMarked(root string) []Marked {
	return scan(root, func(run, _ string) bool { return run != "" })
}

// scan lists the live marked processes that are wanted.
func scan(root string, wanted func(run, workload string) bool) []Marked {
	dir, err := os.Open(filepath.Join(root, "proc"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []Marked
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		base := filepath.Join(root, "proc", name)
		env, err := os.ReadFile(filepath.Join(base, "environ"))
		if err != nil {
			continue
		}
		run, of := marks(env)
		if !wanted(run, of) {
			continue
		}
		m := Marked{PID: pid, Run: run, Workload: of, UID: -1}
		if st, err := os.Stat(base); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				m.UID = int(sys.Uid)
			}
		}
		if m.State, m.start = stateOf(base); m.State == "" || m.State == "Z" || m.State == "X" {
			continue
		}
		cmd, err := os.ReadFile(filepath.Join(base, "cmdline"))
		if err != nil {
			continue
		}
		m.Command = strings.TrimSpace(strings.ToValidUTF8(string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})), "\uFFFD"))
		if r := []rune(m.Command); len(r) > 120 {
			m.Command = string(r[:120]) + "…"
		}
		out = append(out, m)
	}
	return out
}

// RunOf says of which run a process carries the marks; empty: of none, or its
// environment may not be read.
func RunOf(proc string, pid int) string {
	env, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	run, _ := marks(env)
	return run
}

// marks finds the run and the workload in an environment.
func marks(env []byte) (run, workload string) {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(shim.RunVar+"=")); ok {
			run = string(v)
		} else if v, ok := bytes.CutPrefix(kv, []byte(shim.WorkloadVar+"=")); ok {
			workload = string(v)
		}
	}
	return run, workload
}

// stateOf reads state and start time of a process, or nothing when it is gone.
func stateOf(base string) (state, start string) {
	b, err := os.ReadFile(filepath.Join(base, "stat"))
	if err != nil {
		return "", ""
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return "", ""
	}
	return f[0], f[19]
}

// Kill kills the process if it is still the same.
func (m Marked) Kill() { KillExact(m.PID, m.start) }

// KillExact kills a process if it is the one that started at that time, in clock
// ticks after boot.
func KillExact(pid int, start string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	// The descriptor holds on to whoever has the number now; only after that
	// can it be told whether that is the process that was found.
	if _, now := stateOf("/proc/" + strconv.Itoa(pid)); now != start {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.Signal(syscall.SIGKILL), nil, 0)
}
