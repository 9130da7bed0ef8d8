package shim

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// process is one entry of the process table.
type process struct {
	pid, ppid int
	state     byte
	command   string
	rss       int64 // bytes
}

// read is how many bytes the process has read so far: by calls, or by touching
// files that it has mapped; 0 where that may not be seen.
func (p process) read() int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/io")
	if err != nil {
		return 0
	}
	return parseIO(b)
}

// parseIO reads /proc/PID/io. What comes from a disk is in both counters, so the
// larger counts.
func parseIO(b []byte) int64 {
	var most int64
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(line, ":")
		if name != "rchar" && name != "read_bytes" {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// zombie says that the process has ended and only waits to be reaped.
func (p process) zombie() bool { return p.state == 'Z' || p.state == 'X' }

// table reads the process table. Processes that end meanwhile are left out.
func table() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	page := int64(os.Getpagesize())
	out := make([]process, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(b, page); ok {
			out = append(out, p)
		}
	}
	return out
}

// parseStat reads /proc/PID/stat. The command is in parentheses and may hold
// any byte, a closing parenthesis too.
func parseStat(b []byte, page int64) (process, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	if err != nil {
		return process{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 22 || len(f[0]) != 1 {
		return process{}, false
	}
	ppid, err := strconv.Atoi(f[1])
	if err != nil {
		return process{}, false
	}
	pages, err := strconv.ParseInt(f[21], 10, 64)
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, ppid: ppid, state: f[0][0], command: string(b[open+1 : end]), rss: pages * page}, true
}

// below returns the processes of a table that descend from root.
func below(root int, all []process) []process {
	children := make(map[int][]process, len(all))
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var out []process
	queue := []int{root}
	for len(queue) > 0 {
		kids := children[queue[0]]
		queue = queue[1:]
		for _, k := range kids {
			out = append(out, k)
			queue = append(queue, k.pid)
		}
	}
	return out
}

// descendants returns the live processes below this one. As this process
// adopts orphans, that is everything the program has started, however it tried
// to get away.
func descendants() []process {
	var out []process
	for _, p := range below(os.Getpid(), table()) {
		if !p.zombie() {
			out = append(out, p)
		}
	}
	return out
}
