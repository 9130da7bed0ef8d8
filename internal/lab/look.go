package lab

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The functions here look at a node from outside, through the host's /proc and
// the node's Docker socket, without any code of the product: tests judge the
// product by them.

// Process is one process of a node, inside or outside containers.
type Process struct {
	PID   int // in the node's process table
	PPID  int
	State string // one letter, as in ps
	Name  string // comm
	Argv  []string

	start uint64
}

// String is the process as a failed test shows it.
func (p Process) String() string {
	return fmt.Sprintf("%d (parent %d, %s) %s: %s", p.PID, p.PPID, p.State, p.Name, strings.Join(p.Argv, " "))
}

// Processes are all processes of a node by id; none when it is off.
func (l *Lab) Processes(node string) ([]Process, error) {
	pid := l.pid(node)
	if pid == 0 {
		return nil, nil
	}
	return processes(fmt.Sprintf("/proc/%d/root/proc", pid))
}

func processes(proc string) ([]Process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	var out []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // ended meanwhile
		}
		p, ok := parseStat(pid, string(stat))
		if !ok {
			continue
		}
		if argv, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline")); err == nil && len(argv) > 0 {
			p.Argv = strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00")
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	return out, nil
}

// parseStat reads a line of /proc/PID/stat. The name is in parentheses and may
// itself hold blanks and parentheses.
func parseStat(pid int, line string) (Process, bool) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return Process{}, false
	}
	f := strings.Fields(line[end+1:])
	if len(f) < 20 {
		return Process{}, false
	}
	ppid, err1 := strconv.Atoi(f[1])
	start, err2 := strconv.ParseUint(f[19], 10, 64)
	return Process{PID: pid, PPID: ppid, State: f[0], Name: line[open+1 : end], start: start}, err1 == nil && err2 == nil
}

// Strays are the processes of a node that were not there when it came up: what
// jobs, containers and ssh sessions have running, or left.
func (l *Lab) Strays(node string) ([]Process, error) {
	all, err := l.Processes(node)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.baseline[node]
	return slices.DeleteFunc(all, func(p Process) bool { return base[p.PID] == p.start }), nil
}

// remember notes the processes of every node as its own daemons.
func (l *Lab) remember() error {
	for _, n := range l.Nodes() {
		if err := l.rememberNode(n); err != nil {
			return err
		}
	}
	return nil
}

// rememberNode does so for one node that has just come up; what runs on the
// others meanwhile stays what it was.
func (l *Lab) rememberNode(node string) error {
	ps, err := l.Processes(node)
	if err != nil {
		return err
	}
	base := map[int]uint64{}
	for _, p := range ps {
		base[p.PID] = p.start
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.baseline == nil {
		l.baseline = map[string]map[int]uint64{}
	}
	l.baseline[node] = base
	return nil
}

// Listener is one listening TCP socket of a node.
type Listener struct {
	Addr netip.AddrPort
	// PID and Name of a process that holds it, in the node's table; 0: none found.
	PID  int
	Name string
}

// String is the listener as a failed test shows it.
func (l Listener) String() string { return fmt.Sprintf("%s held by %d (%s)", l.Addr, l.PID, l.Name) }

// ListeningPorts are the listening TCP sockets of a node, without those of its
// own sshd and slurmd.
func (l *Lab) ListeningPorts(node string) ([]Listener, error) {
	pid := l.pid(node)
	if pid == 0 {
		return nil, nil
	}
	inodes := map[string]Listener{}
	for _, name := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			return nil, fmt.Errorf("look at ports: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" {
				continue
			}
			addr, err := parseAddr(f[1])
			if err != nil {
				return nil, fmt.Errorf("look at ports: %w", err)
			}
			if addr.Port() != 22 && addr.Port() != 6818 {
				inodes[f[9]] = Listener{Addr: addr}
			}
		}
	}
	ps, err := l.Processes(node)
	if err != nil {
		return nil, err
	}
	proc := fmt.Sprintf("/proc/%d/root/proc", pid)
	for _, p := range ps {
		fds, _ := filepath.Glob(filepath.Join(proc, strconv.Itoa(p.PID), "fd", "*"))
		for _, fd := range fds {
			link, _ := os.Readlink(fd)
			inode, ok := strings.CutPrefix(strings.TrimSuffix(link, "]"), "socket:[")
			if have, found := inodes[inode]; ok && found {
				have.PID, have.Name = p.PID, p.Name
				inodes[inode] = have
			}
		}
	}
	var out []Listener
	for _, x := range inodes {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Listener) int { return a.Addr.Compare(b.Addr) })
	return out, nil
}

// parseAddr reads an address of /proc/net/tcp: hex words in the machine's byte
// order, here little-endian as on every machine with these GPUs.
func parseAddr(s string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if !ok || err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q", s)
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q", s)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// Log is what one of a node's daemons wrote: sshd, dockerd, slurmd or init.
func (l *Lab) Log(node, daemon string) string {
	data, err := os.ReadFile(l.spec().NodePath(node, daemon+".log"))
	if err != nil {
		return err.Error()
	}
	return string(bytes.ToValidUTF8(data, []byte("?")))
}

// Leftovers is everything on the nodes that is not the lab's own: processes,
// containers and listening ports, one line each. What could not be looked at is
// an error.
func (l *Lab) Leftovers() ([]string, error) {
	var out []string
	for _, n := range l.Nodes() {
		if l.pid(n) == 0 {
			continue
		}
		cs, err := l.Containers(n)
		if err != nil {
			return nil, err
		}
		for _, c := range cs {
			if !c.Foreign() {
				out = append(out, n+": container "+c.String())
			}
		}
		ls, err := l.ListeningPorts(n)
		if err != nil {
			return nil, err
		}
		for _, x := range ls {
			out = append(out, n+": port "+x.String())
		}
		ps, err := l.Strays(n)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			if !l.ofForeign(n, p, cs) {
				out = append(out, n+": process "+p.String())
			}
		}
	}
	return out, nil
}

// MustBeClean fails the test unless every running node is free of leftovers
// within the time.
func (l *Lab) MustBeClean(t testing.TB, within time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		left, err := l.Leftovers()
		if err != nil {
			t.Fatalf("look for leftovers: %v", err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left on the nodes after %s:\n%s", within, strings.Join(left, "\n"))
		}
	}
}

// pid is the host's process id of a node's init, or of the controller's when
// node is empty; 0: the node is off, or there is none of that name.
func (l *Lab) pid(node string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if node == "" {
		return l.state.Ctl
	}
	for _, n := range l.state.Nodes {
		if n.Name == node {
			return n.PID
		}
	}
	return 0
}
