package shim

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKills counts how often the kernel has killed for memory in the control
// group of this process; ok is false where the kernel does not tell.
func oomKills(root string) (n int64, ok bool) {
	own, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0, false
	}
	for _, file := range oomFiles(own) {
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		if n, ok := parseOOM(b); ok {
			return n, true
		}
	}
	return 0, false
}

// oomFiles lists where the count can be, best first. Inside a container the
// paths of /proc/self/cgroup may be those of the host while only the
// container's own group is mounted, at the top.
func oomFiles(cgroup []byte) []string {
	var out []string
	sc := bufio.NewScanner(bytes.NewReader(cgroup))
	for sc.Scan() {
		f := strings.SplitN(sc.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			out = append(out, filepath.Join("sys/fs/cgroup", f[2], "memory.events"), "sys/fs/cgroup/memory.events")
		case hasField(f[1], "memory"):
			out = append(out, filepath.Join("sys/fs/cgroup/memory", f[2], "memory.oom_control"), "sys/fs/cgroup/memory/memory.oom_control")
		}
	}
	return out
}

func hasField(list, want string) bool {
	for f := range strings.SplitSeq(list, ",") {
		if f == want {
			return true
		}
	}
	return false
}

// parseOOM reads the line "oom_kill N" of memory.events and memory.oom_control.
func parseOOM(b []byte) (int64, bool) {
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
