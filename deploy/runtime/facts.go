package runtime

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/disagg/disagg/deploy"
)

// gather looks at the node for what the container's arguments depend on.
func gather(s Spec) (facts, error) {
	f := facts{uid: os.Getuid()}
	w := s.Workload
	var groups []int
	if w.Accelerated {
		var err error
		if f.devices, err = expandDevices(w.Runtime.Devices); err != nil {
			return f, err
		}
		// A process that is not root needs the groups that own the devices, by
		// number: the image may know other names for them.
		groups = deviceGroups(f.devices)
		for _, g := range w.Runtime.GroupAdd {
			id, err := groupID(g)
			if err != nil {
				return f, err
			}
			groups = append(groups, id)
		}
	}
	slices.Sort(groups)
	f.groups = slices.Compact(groups)

	for _, text := range slices.Concat(w.Runtime.Mounts, w.Mounts) {
		m, err := parseMount(text)
		if err != nil {
			return f, err
		}
		// What this user may not even look at may still be there for the daemon.
		if _, err := os.Stat(m.source); os.IsNotExist(err) {
			return f, &deploy.Fault{Class: deploy.ClassMount, Msg: fmt.Sprintf("%s, which shall be mounted at %s, does not exist on this node", m.source, m.target)}
		}
	}
	return f, nil
}

// expandDevices turns paths and globs into paths that exist on this node. A
// pattern that matches nothing is an error: a container without the device
// would fail later and less clearly.
func expandDevices(patterns []string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, &deploy.Fault{Class: deploy.ClassDevice, Msg: fmt.Sprintf("device pattern %q: %v", p, err)}
		}
		if len(found) == 0 {
			return nil, &deploy.Fault{Class: deploy.ClassDevice,
				Msg:  fmt.Sprintf("device %s does not exist on this node", p),
				Hint: "check that the driver is loaded, or correct container.devices in the site file"}
		}
		for _, d := range found {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// deviceGroups are the groups, but root's, that own devices or what is directly
// below a directory of devices.
func deviceGroups(devices []string) []int {
	var out []int
	add := func(path string) {
		st, err := os.Stat(path)
		if err != nil || st.Mode()&os.ModeCharDevice == 0 {
			return
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Gid != 0 && !slices.Contains(out, int(sys.Gid)) {
			out = append(out, int(sys.Gid))
		}
	}
	for _, d := range devices {
		add(d)
		entries, err := os.ReadDir(d)
		if err != nil {
			continue // not a directory
		}
		for _, e := range entries {
			add(filepath.Join(d, e.Name()))
		}
	}
	return out
}

// groupID resolves a group on this node.
func groupID(name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil && id >= 0 {
		return id, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, &deploy.Fault{Class: deploy.ClassDevice,
			Msg:  fmt.Sprintf("group %q of container.group_add does not exist on this node", name),
			Hint: "give its number; stat -c %g on the device shows it"}
	}
	return strconv.Atoi(g.Gid)
}

// describeOwner writes a file's mode and owner.
func describeOwner(st os.FileInfo) string {
	out := st.Mode().String()
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return out
	}
	owner, group := fmt.Sprint(sys.Uid), fmt.Sprint(sys.Gid)
	if u, err := user.LookupId(owner); err == nil {
		owner = u.Username
	}
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return strings.Join([]string{out, owner, group}, " ")
}
