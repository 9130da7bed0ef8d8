package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Daemons that can be killed and started again. Slurmctld is the controller's
// and goes with the empty node name.
const (
	Dockerd   = "dockerd"
	Slurmd    = "slurmd"
	Slurmctld = "slurmctld"
)

// daemonStart bounds the start of a daemon.
const daemonStart = 60 * time.Second

// SignalDaemon sends a signal to a daemon of a node.
func (l *Lab) SignalDaemon(node, name string, sig syscall.Signal) error {
	pids, err := l.daemon(node, name)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %s on %q: %w", name, node, err)
		}
	}
	return nil
}

// daemon finds a daemon in this process's own table: by its name and the mount
// namespace of its node.
func (l *Lab) daemon(node, name string) ([]int, error) {
	home, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", l.pid(node)))
	if err != nil {
		return nil, fmt.Errorf("find %s on %q: %w", name, node, err)
	}
	all, err := processes("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, p := range all {
		if p.Name != name || p.State == "Z" {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "ns", "mnt")); err == nil && ns == home {
			out = append(out, p.PID)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("find %s on %q: it does not run", name, node)
	}
	return out, nil
}

// StartDaemon starts a daemon that was killed, as the lab started it, and waits
// until it answers. What comes up with it counts as the node's own again.
func (l *Lab) StartDaemon(node, name string) error {
	s := l.spec()
	var start []string
	var ready func() error
	switch name {
	case Dockerd:
		start = []string{"dockerd", "--config-file", s.Path("docker.json"), "--data-root", s.NodePath(node, "docker")}
		ready = func() error { _, err := l.Exec(node, "docker", "version"); return err }
	case Slurmd:
		start = []string{"slurmd", "-D", "-N", node}
		ready = func() error { return l.accepts(node, "6818") }
	case Slurmctld:
		start = []string{"slurmctld", "-D"}
		ready = func() error { _, err := l.Run("sh", "-c", "scontrol ping | grep -q UP"); return err }
	default:
		return fmt.Errorf("start daemon: %q is not one that the lab starts alone", name)
	}
	where := Where{Node: node}
	log := s.Path(name + ".again.log")
	if node != "" {
		log = s.NodePath(node, name+".again.log")
	}
	const script = `log=$1; shift; rm -f /run/docker.pid; setsid "$@" >>"$log" 2>&1 </dev/null &`
	if _, err := l.output(where, append([]string{"sh", "-c", script, "sh", log}, start...)); err != nil {
		return err
	}
	deadline := time.Now().Add(daemonStart)
	for {
		err := ready()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start %s on %q: not ready after %s: %w", name, node, daemonStart, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return l.adopt(node)
}

// accepts says whether something takes connections on a port of a node.
func (l *Lab) accepts(node, port string) error {
	i := slices.Index(l.Nodes(), node)
	if i < 0 {
		return fmt.Errorf("the lab has no node %q", node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := l.Dial(ctx, "tcp", net.JoinHostPort(l.NodeIP(i), port))
	if err != nil {
		return err
	}
	return c.Close()
}

// adopt counts the daemons that run on a node now as the node's own.
func (l *Lab) adopt(node string) error {
	if node == "" {
		return nil // the controller has no strays to tell them from
	}
	ps, err := l.Processes(node)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range ps {
		switch p.Name {
		case Dockerd, Slurmd, "containerd":
			l.baseline[node][p.PID] = p.start
		}
	}
	return nil
}
