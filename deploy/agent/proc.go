package agent

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// statFields are the fields of /proc/PID/stat after the command, from the state
// on; nil when the process is gone.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return nil
	}
	return f
}

// startTime is a process's start in clock ticks after boot, or "".
func startTime(pid int) string {
	if f := statFields(pid); f != nil {
		return f[19]
	}
	return ""
}

// hostPID finds the process that is number inner below shimPID, which may have a
// process table of its own; 0 when it is not seen.
func hostPID(shimPID, inner int) int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		f := statFields(pid)
		if f == nil || f[1] != strconv.Itoa(shimPID) {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		if innermost(status) == inner {
			return pid
		}
	}
	return 0
}

// innermost is a process's number in its own process table, from its status.
func innermost(status []byte) int {
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(v)
			if len(f) == 0 {
				return 0
			}
			n, err := strconv.Atoi(f[len(f)-1])
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
