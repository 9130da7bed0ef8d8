package labd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nodeHello is the one message of a node's init to the controller.
type nodeHello struct {
	PID   int    `json:"pid"` // in the host's PID namespace
	Error string `json:"error,omitempty"`
}

// Descriptors that the controller hands to a node's init.
const (
	goFD    = 3 // ends when the network is linked
	helloFD = 4
)

// JoinNode moves the process into the node's control groups and becomes the
// node's init in a control-group namespace of its own. The namespace's root is
// the group at the moment it is made, hence the two steps.
func JoinNode(dir, name string) error {
	spec, err := ReadSpec(dir)
	if err != nil {
		return err
	}
	if err := joinCgroups(spec, name); err != nil {
		return err
	}
	unshare, err := lookPath("unshare")
	if err != nil {
		return err
	}
	return syscall.Exec(unshare, []string{"unshare", "--cgroup", spec.Self, "node", dir, name}, daemonEnv())
}

// node is the init of one compute node.
type node struct {
	spec  Spec
	name  string
	index int
	kids  *children
}

// RunNode is a node's whole life: it sets the node up, starts its daemons, says
// hello to the controller, and reaps orphans until the node is killed.
func RunNode(dir, name string) error {
	syscall.CloseOnExec(goFD)
	syscall.CloseOnExec(helloFD)
	hello := os.NewFile(helloFD, "hello")
	h := nodeHello{}
	// /proc is still the host's here, so the link holds the host's number.
	self, err := os.Readlink("/proc/self")
	if err == nil {
		h.PID, err = strconv.Atoi(self)
	}
	if err == nil {
		err = startNodeDaemons(dir, name)
	}
	if err != nil {
		h.Error = err.Error()
	}
	_ = json.NewEncoder(hello).Encode(h)
	hello.Close()
	if err != nil {
		return err
	}
	select {}
}

func startNodeDaemons(dir, name string) error {
	spec, err := ReadSpec(dir)
	if err != nil {
		return err
	}
	n := &node{spec: spec, name: name, kids: newChildren()}
	if n.index, err = spec.index(name); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	if err := n.mounts(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.NewFile(goFD, "go"))
	if err := n.network(); err != nil {
		return err
	}
	return n.daemons()
}

// mounts gives the node its own view: devices, /run, /tmp, /var/log, process
// table, /sys, control groups, tools and fixture tree.
func (n *node) mounts() error {
	if err := n.devices(); err != nil {
		return fmt.Errorf("make devices: %w", err)
	}
	if err := mountRun(n.spec); err != nil {
		return err
	}
	for _, m := range []struct{ kind, at, opts string }{
		{"tmpfs", "/tmp", "mode=1777"},
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, unix.MS_NOSUID|unix.MS_NODEV, m.opts); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := mountCgroups(); err != nil {
		return err
	}
	binds := map[string]string{
		n.spec.NodePath(n.name, "bin"):     "/usr/local/sbin",
		n.spec.NodePath(n.name, "log"):     "/var/log",
		n.spec.NodePath(n.name, "root"):    n.spec.NodeRoot(),
		n.spec.NodePath(n.name, "boot_id"): "/proc/sys/kernel/random/boot_id",
	}
	for _, name := range n.spec.NodeLocal {
		binds[n.spec.NodePath(n.name, "local", name)] = n.spec.LocalDir(name)
	}
	for from, to := range binds {
		if err := bind(from, to); err != nil {
			return err
		}
	}
	return nil
}

// devices mounts a /dev of the node's own. The GPUs and RDMA devices are null
// devices under the real names: they can be opened, passed to containers and
// named in gres.conf.
func (n *node) devices() error {
	// The node's /tmp is not mounted yet, and what it will hide is not needed.
	const staging = "/tmp"
	if err := unix.Mount("tmpfs", staging, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "fuse", "kmsg"} {
		var st unix.Stat_t
		if err := unix.Stat("/dev/"+name, &st); err != nil {
			continue
		}
		if err := mknod(filepath.Join(staging, name), st.Mode, int(st.Rdev)); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(to, filepath.Join(staging, name)); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm", "mqueue", "dri", "infiniband"} {
		if err := os.Mkdir(filepath.Join(staging, d), 0o755); err != nil {
			return err
		}
	}
	null := int(unix.Mkdev(1, 3))
	fakes := []string{}
	if n.spec.GPUs > 0 {
		fakes = append(fakes, "kfd")
	}
	for i := range n.spec.GPUs {
		fakes = append(fakes, gpuDevice(i), fmt.Sprintf("dri/card%d", i))
	}
	if n.spec.NICs > 0 {
		fakes = append(fakes, "infiniband/rdma_cm")
	}
	for i := range n.spec.NICs {
		fakes = append(fakes, fmt.Sprintf("infiniband/uverbs%d", i))
	}
	for _, name := range fakes {
		if err := mknod(filepath.Join(staging, name), unix.S_IFCHR|0o666, null); err != nil {
			return err
		}
	}
	for _, m := range []struct{ kind, at, opts string }{
		{"devpts", "pts", "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"tmpfs", "shm", "mode=1777"},
		{"mqueue", "mqueue", ""},
	} {
		if err := unix.Mount(m.kind, filepath.Join(staging, m.at), m.kind, unix.MS_NOSUID, m.opts); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", m.at, err)
		}
	}
	// The lab itself may be in the host's /dev/shm, which the new one hides.
	if rel, ok := strings.CutPrefix(n.spec.Dir, "/dev/"); ok {
		if err := os.MkdirAll(filepath.Join(staging, rel), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(n.spec.Dir, filepath.Join(staging, rel), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	return unix.Mount(staging, "/dev", "", unix.MS_MOVE, "")
}

// gpuDevice is the device file of a GPU below /dev. Render nodes count from 128.
func gpuDevice(i int) string { return fmt.Sprintf("dri/renderD%d", 128+i) }

func mknod(path string, mode uint32, dev int) error {
	if err := unix.Mknod(path, mode, dev); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return os.Chmod(path, os.FileMode(mode&0o777))
}

func (n *node) network() error {
	_, err := n.kids.run(clientTimeout, "sh", "-ec", fmt.Sprintf(
		"ip link set lo up; ip addr add %s/%d dev eth0; ip link set eth0 up; ip route add default via %s",
		NodeAddr(n.index), netPrefix, ctlAddr))
	return err
}

func (n *node) daemons() error {
	log := func(name string) string { return n.spec.NodePath(n.name, name+".log") }
	sshd, err := n.kids.start(program{
		argv: []string{"/usr/sbin/sshd", "-D", "-e", "-f", n.spec.NodePath(n.name, "sshd_config")}, log: log("sshd"),
	})
	if err != nil {
		return err
	}
	var dockerd *child
	if n.spec.Docker {
		if dockerd, err = n.kids.start(program{argv: []string{
			"dockerd", "--config-file", n.spec.Path("docker.json"), "--data-root", n.spec.NodePath(n.name, "docker"),
		}, log: log("dockerd")}); err != nil {
			return err
		}
	}
	// slurmd waits long before it tries again when nobody answers at first.
	if err := waitFor(20*time.Second, sshd, "slurmctld", n.spec.Path("slurm", "slurmctld.log"), answers("tcp", ctlAddr+":"+ctldPort)); err != nil {
		return err
	}
	slurmd, err := n.kids.start(program{argv: []string{"slurmd", "-D", "-N", n.name}, log: log("slurmd.out")})
	if err != nil {
		return err
	}
	const boot = 60 * time.Second
	if err := waitFor(boot, sshd, "sshd", log("sshd"), answers("tcp", NodeAddr(n.index)+":22")); err != nil {
		return err
	}
	if n.spec.Docker {
		if err := waitFor(boot, dockerd, "dockerd", log("dockerd"), dockerAnswers); err != nil {
			return err
		}
	}
	return waitFor(boot, slurmd, "slurmd", log("slurmd"), answers("tcp", NodeAddr(n.index)+":6818"))
}

// answers says whether something accepts connections at addr.
func answers(network, addr string) func() bool {
	return func() bool {
		conn, err := net.DialTimeout(network, addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
}

// dockerAnswers asks the node's Docker daemon for its ping. The socket alone is
// there before the daemon can serve.
func dockerAnswers() bool {
	conn, err := net.DialTimeout("unix", "/run/docker.sock", time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	head := make([]byte, 12)
	_, err = io.ReadFull(conn, head)
	return err == nil && string(head[9:]) == "200"
}
