package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
)

// look searches the node for what is left of a run. It asks the container
// daemon, the process table, the socket tables and the file system, not this
// agent's memory.
func (a *agent) look(ctx context.Context, runID string, ports []int) deploy.Leftovers {
	l := deploy.Leftovers{Node: a.hello.Info.Name}
	ids := map[string]bool{}
	a.lookContainers(ctx, runID, &l, ids)
	a.lookFiles(runID, &l, ids)
	lookProcesses(runID, ids, &l)
	lookPorts("/proc", ports, &l)
	return l
}

// lookContainers lists containers by label and collects their ids.
func (a *agent) lookContainers(ctx context.Context, runID string, l *deploy.Leftovers, ids map[string]bool) {
	kind := a.boot.Runtime.Kind
	if kind != "docker" && kind != "podman" {
		return
	}
	err := a.containersErr
	var found []runtime.Found
	if a.containers != nil {
		found, err = a.containers.List(ctx, runID, "")
	}
	if err != nil {
		l.Unverified = append(l.Unverified, fmt.Sprintf("containers: %v; on the node: %s ps --all --filter label=%s=%s", err, kind, runtime.LabelRun, runID))
		return
	}
	for _, f := range found {
		l.Containers = append(l.Containers, f.String())
		ids[f.ID] = true
	}
}

// lookFiles looks for scratch directories of the run: those of dead agents, and
// what workloads left in those of live ones. It collects the ids in the ledgers.
func (a *agent) lookFiles(runID string, l *deploy.Leftovers, ids map[string]bool) {
	base := cmp.Or(a.boot.Scratch, "/tmp")
	dirs, err := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
	if err != nil {
		l.Unverified = append(l.Unverified, fmt.Sprintf("scratch directories: %v", err))
		return
	}
	for _, dir := range dirs {
		m, ok := readMarker(dir)
		if !ok || m.RunID != runID {
			continue
		}
		entries, err := readLedger(dir)
		if err != nil {
			l.Unverified = append(l.Unverified, fmt.Sprintf("ledger: %v", err))
		}
		for _, e := range entries {
			if e.Unit != "" && !strings.HasPrefix(e.Unit, "pid ") {
				ids[e.Unit] = true
			}
		}
		if startTime(m.PID) != m.Start {
			l.Files = append(l.Files, dir)
			continue
		}
		work, err := os.ReadDir(dir)
		if err != nil {
			l.Unverified = append(l.Unverified, fmt.Sprintf("scratch directory: %v", err))
			continue
		}
		for _, e := range work {
			if _, err := strconv.Atoi(e.Name()); err == nil {
				l.Files = append(l.Files, filepath.Join(dir, e.Name()))
			}
		}
	}
}

// lookProcesses finds processes by their environment and, where that may not be
// read, by the control group of a container of the run.
func lookProcesses(runID string, ids map[string]bool, l *deploy.Leftovers) {
	seen := map[int]bool{}
	for _, m := range runtime.FindMarked("/", runID, "") {
		seen[m.PID] = true
		l.Processes = append(l.Processes, fmt.Sprintf("%d %s", m.PID, m.Command))
	}
	if len(ids) == 0 {
		return
	}
	names, err := os.ReadDir("/proc")
	if err != nil {
		l.Unverified = append(l.Unverified, fmt.Sprintf("processes: %v", err))
		return
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || seen[pid] {
			continue
		}
		group, err := os.ReadFile(filepath.Join("/proc", n.Name(), "cgroup"))
		if err != nil || !ofContainer(string(group), ids) {
			continue
		}
		if f := statFields(pid); f == nil || f[0] == "Z" || f[0] == "X" {
			continue
		}
		l.Processes = append(l.Processes, fmt.Sprintf("%d %s", pid, firstLine(filepath.Join("/proc", n.Name(), "comm"))))
	}
}

// ofContainer says whether a control group path names one of the containers.
func ofContainer(cgroup string, ids map[string]bool) bool {
	for id := range ids {
		if len(id) >= 32 && strings.Contains(cgroup, id) {
			return true
		}
	}
	return false
}

// lookPorts finds the planned ports on which something still listens.
func lookPorts(proc string, ports []int, l *deploy.Leftovers) {
	if len(ports) == 0 {
		return
	}
	inodes := map[string]listener{}
	read := 0
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(proc, "net", table))
		if errors.Is(err, os.ErrNotExist) && table == "tcp6" {
			continue // IPv6 is off
		}
		if err != nil {
			l.Unverified = append(l.Unverified, fmt.Sprintf("ports: %v; on the node: ss -ltnp", err))
			continue
		}
		read++
		for _, s := range parseListeners(string(b)) {
			if slices.Contains(ports, s.port) {
				inodes[s.inode] = s
			}
		}
	}
	if read == 0 || len(inodes) == 0 {
		return
	}
	holders := socketHolders(proc, inodes)
	var out []string
	for inode, s := range inodes {
		who := holders[inode]
		if who == "" {
			who = fmt.Sprintf("held by a process this user cannot see; on the node: sudo ss -ltnp 'sport = :%d'", s.port)
		}
		out = append(out, fmt.Sprintf("%s %s", s.addr, who))
	}
	slices.Sort(out)
	l.Ports = append(l.Ports, out...)
}

// listener is a listening socket.
type listener struct {
	addr  string
	port  int
	inode string
}

// parseListeners reads /proc/net/tcp or tcp6.
func parseListeners(table string) []listener {
	const listen = "0A"
	var out []listener
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listen {
			continue
		}
		host, port, ok := strings.Cut(f[1], ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			continue
		}
		ip := parseAddr(host)
		if ip == nil {
			continue
		}
		out = append(out, listener{addr: net.JoinHostPort(ip.String(), fmt.Sprint(n)), port: int(n), inode: f[9]})
	}
	return out
}

// parseAddr reads an address as the kernel prints it: 32-bit words in the
// machine's order, which is little-endian wherever this runs.
func parseAddr(s string) net.IP {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return nil
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	return net.IP(b)
}

// socketHolders finds which processes hold sockets, as far as this user may see.
func socketHolders(proc string, inodes map[string]listener) map[string]string {
	out := map[string]string{}
	names, err := os.ReadDir(proc)
	if err != nil {
		return out
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		fds, err := os.ReadDir(filepath.Join(proc, n.Name(), "fd"))
		if err != nil {
			continue
		}
		for _, fd := range fds {
			target, err := os.Readlink(filepath.Join(proc, n.Name(), "fd", fd.Name()))
			if err != nil {
				continue
			}
			inode, ok := strings.CutPrefix(target, "socket:[")
			inode = strings.TrimSuffix(inode, "]")
			if _, wanted := inodes[inode]; ok && wanted && out[inode] == "" {
				out[inode] = fmt.Sprintf("held by pid %d %s", pid, firstLine(filepath.Join(proc, n.Name(), "comm")))
				if run := runtime.RunOf(proc, pid); run != "" {
					out[inode] += " of run " + run
				}
			}
		}
	}
	return out
}
