package labd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the name of a lab's control group in every hierarchy.
const cgroupPrefix = "disagg-lab-"

// hierarchy is one mounted control-group tree.
type hierarchy struct {
	dir string // mount point
	v2  bool
	opt string // mount option that names it (v1): memory, name=systemd, …
}

// hierarchies lists the control-group mounts below /sys/fs/cgroup.
func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []hierarchy
	for line := range strings.Lines(string(data)) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 || !strings.HasPrefix(left[4], "/sys/fs/cgroup") {
			continue
		}
		switch right[0] {
		case "cgroup2":
			out = append(out, hierarchy{dir: left[4], v2: true})
		case "cgroup":
			out = append(out, hierarchy{dir: left[4], opt: controllers(right[2])})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no control groups are mounted below /sys/fs/cgroup")
	}
	return out, nil
}

// controllers picks the words of a v1 super block's options that choose the
// hierarchy.
func controllers(opts string) string {
	var keep []string
	named := false
	for _, o := range strings.Split(opts, ",") {
		switch o {
		case "rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode":
			continue
		}
		if strings.HasPrefix(o, "release_agent=") {
			continue
		}
		named = named || strings.HasPrefix(o, "name=")
		keep = append(keep, o)
	}
	if named {
		keep = append([]string{"none"}, keep...)
	}
	return strings.Join(keep, ",")
}

func (s Spec) cgroup() string { return cgroupPrefix + s.ID }

// makeCgroups makes the control groups of one node in every hierarchy. What an
// earlier life of the node left there goes first: a v2 group that has handed
// its controllers on takes no process.
func makeCgroups(s Spec, node string) error {
	if err := removeCgroups(filepath.Join(s.cgroup(), node)); err != nil {
		return err
	}
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hs {
		top := filepath.Join(h.dir, s.cgroup())
		dir := filepath.Join(top, node)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		for _, d := range []string{top, dir} {
			if err := inheritCpuset(d); err != nil {
				return err
			}
		}
		if h.v2 {
			enableControllers(h.dir)
			enableControllers(top)
		}
	}
	return nil
}

// inheritCpuset copies CPUs and memory nodes from the parent: a new v1 cpuset
// is empty and takes no process until it has both.
func inheritCpuset(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || len(bytes.TrimSpace(have)) > 0 {
			continue
		}
		from, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			continue // a v2 root has no such file
		}
		if err := os.WriteFile(filepath.Join(dir, name), from, 0o644); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// enableControllers hands every controller a v2 group has to its children. A
// controller that cannot be handed on is left out: Docker then says so itself.
func enableControllers(dir string) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, c := range strings.Fields(string(have)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
	}
}

// joinCgroups moves the calling process into the node's control groups.
func joinCgroups(s Spec, node string) error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hs {
		path := filepath.Join(h.dir, s.cgroup(), node, "cgroup.procs")
		if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return nil
}

// mountCgroups mounts, in a node with its own cgroup namespace, the same
// hierarchies as the host has; the node sees its own groups as the roots.
func mountCgroups() error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	if len(hs) == 1 && hs[0].v2 && hs[0].dir == "/sys/fs/cgroup" {
		if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mount control groups: %w", err)
		}
		// v2 lets only leaves hold processes once controllers are handed on.
		if err := os.Mkdir("/sys/fs/cgroup/init", 0o755); err != nil {
			return err
		}
		if err := os.WriteFile("/sys/fs/cgroup/init/cgroup.procs", []byte("0"), 0o644); err != nil {
			return err
		}
		enableControllers("/sys/fs/cgroup")
		return nil
	}
	if err := unix.Mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount control groups: %w", err)
	}
	for _, h := range hs {
		if err := os.MkdirAll(h.dir, 0o755); err != nil {
			return err
		}
		kind := "cgroup"
		if h.v2 {
			kind = "cgroup2"
		}
		if err := unix.Mount("cgroup", h.dir, kind, 0, h.opt); err != nil {
			return fmt.Errorf("mount control group %s: %w", h.dir, err)
		}
	}
	return nil
}

// removeCgroups removes a control group of that name, a lab's or below one, from
// every hierarchy. The kernel frees the groups of dead processes a moment after
// they ended.
func removeCgroups(name string) error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hs {
		top := filepath.Join(h.dir, name)
		var last error
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			last = removeTree(top)
			if last == nil || time.Now().After(deadline) {
				break
			}
		}
		errs = append(errs, last)
	}
	return errors.Join(errs...)
}

// removeTree removes a control group and those below it, deepest first. The
// files in it go with the directory.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove control group %s: %w", dir, err)
	}
	return nil
}
