package labd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clientTimeout bounds every Slurm client call: without a usable controller
// they wait for ever.
const clientTimeout = 10 * time.Second

// controller is the lab's own node: bridge, munged, slurmctld, and the keeper
// of the compute nodes.
type controller struct {
	spec  Spec
	state State
	kids  *children

	mu    sync.Mutex
	nodes []*child // each node's init; nil: off
}

// RunCtl is the controller's whole life. It prints a Report on stdout and then
// serves requests until it is killed.
func RunCtl(dir string) error {
	// Replies go to the pipe only; children get no copy of it.
	out := os.Stdout
	spec, err := ReadSpec(dir)
	if err != nil {
		return report(out, nil, err)
	}
	c := &controller{spec: spec, kids: newChildren(), nodes: make([]*child, len(spec.Nodes))}
	if err := c.up(); err != nil {
		return report(out, nil, err)
	}
	listener, err := net.Listen("unix", spec.Path("ctl.sock"))
	if err != nil {
		return report(out, nil, err)
	}
	_ = report(out, &c.state, nil)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go c.serve(conn)
	}
}

func (c *controller) up() error {
	if err := unix.Sethostname([]byte(ctlName)); err != nil {
		return err
	}
	if err := writeFiles(c.spec, c.kids); err != nil {
		return err
	}
	if err := c.mounts(); err != nil {
		return err
	}
	if err := c.bridge(); err != nil {
		return err
	}
	if err := c.startMunge(); err != nil {
		return err
	}
	if _, err := c.kids.start(program{argv: []string{"slurmctld", "-D"}, log: c.spec.Path("slurm", "slurmctld.out")}); err != nil {
		return err
	}
	c.state = State{Spec: c.spec, Nodes: make([]NodeState, len(c.spec.Nodes))}
	errs := make([]error, len(c.spec.Nodes))
	var wg sync.WaitGroup
	for i := range c.spec.Nodes {
		wg.Go(func() { errs[i] = c.startNode(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.waitIdle(c.spec.Nodes, 30*time.Second)
}

// mounts gives the controller, and with it the nodes, the lab's own /etc, /opt
// and /run.
func (c *controller) mounts() error {
	// Slave: the host's later mounts appear, ours never reach the host.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	for _, dir := range []string{"etc", "opt"} {
		if err := mountOverlay(c.spec, dir); err != nil {
			return err
		}
	}
	for _, d := range c.spec.SmallDisks {
		if err := unix.Mount("tmpfs", c.spec.SmallDir(d.Name), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=1777", d.Bytes)); err != nil {
			return fmt.Errorf("mount small disk %s: %w", d.Name, err)
		}
	}
	return mountRun(c.spec)
}

func mountOverlay(s Spec, dir string) error {
	opts := fmt.Sprintf("lowerdir=/%s,upperdir=%s,workdir=%s", dir, s.Path(dir, "upper"), s.Path(dir, "work"))
	if err := unix.Mount("overlay", "/"+dir, "overlay", 0, opts); err != nil {
		return fmt.Errorf("mount the lab's /%s over the host's: %w", dir, err)
	}
	return nil
}

// mountRun mounts a private /run with the lab's munge socket in it.
func mountRun(s Spec) error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, d := range []string{"/run/munge", "/run/sshd", "/run/lock", "/run/user"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	return bind(s.Path("munge", "run"), "/run/munge")
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, to, err)
	}
	return nil
}

func (c *controller) bridge() error {
	_, err := c.kids.run(clientTimeout, "sh", "-ec", fmt.Sprintf(
		"ip link set lo up; ip link add br0 type bridge; ip addr add %s/%d dev br0; ip link set br0 up", ctlAddr, netPrefix))
	return err
}

func (c *controller) startMunge() error {
	dir := c.spec.Path("munge")
	ch, err := c.kids.start(program{
		argv: []string{"munged", "--foreground", "--force", "--key-file=" + dir + "/key", "--log-file=" + dir + "/log",
			"--pid-file=/run/munged.pid", "--seed-file=" + dir + "/seed", "--socket=/run/munge/munge.socket.2"},
		log: dir + "/out",
	})
	if err != nil {
		return err
	}
	return waitFor(10*time.Second, ch, "munged", dir+"/out", func() bool {
		conn, err := net.Dial("unix", "/run/munge/munge.socket.2")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// startNode starts a node. Its init may be gone before its network is linked, when
// something else on the machine ends it; then it is started once more.
func (c *controller) startNode(i int) error {
	err := c.tryNode(i)
	if errors.Is(err, errNotLinked) {
		err = c.tryNode(i)
	}
	return err
}

var errNotLinked = errors.New("its network was not linked")

// tryNode starts the init of node i, links its network and waits until its
// daemons answer.
func (c *controller) tryNode(i int) error {
	name := c.spec.Nodes[i]
	if err := makeCgroups(c.spec, name); err != nil {
		return err
	}
	if err := c.seedDocker(name); err != nil {
		return err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer inR.Close()
	defer inW.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outR.Close()
	ch, err := c.kids.start(program{
		argv:  []string{c.spec.Self, "node-join", c.spec.Dir, name},
		log:   c.spec.NodePath(name, "init.log"),
		extra: []*os.File{inR, outW},
		sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
				syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	})
	outW.Close()
	if err != nil {
		return err
	}
	if err := c.link(i, ch.pid); err != nil {
		how := "lives"
		select {
		case <-ch.done:
			how = describe(ch.status)
		default:
			_ = syscall.Kill(ch.pid, syscall.SIGKILL)
			<-ch.done
		}
		return fmt.Errorf("link %s: %w: %w; its init: %s: %s", name, errNotLinked, err, how, tail(c.spec.NodePath(name, "init.log")))
	}
	inW.Close() // the network is there: go on
	var hello nodeHello
	if err := json.NewDecoder(outR).Decode(&hello); err != nil {
		return fmt.Errorf("start %s: its init ended early: %s", name, tail(c.spec.NodePath(name, "init.log")))
	}
	if hello.Error != "" {
		return fmt.Errorf("start %s: %s", name, hello.Error)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i] = ch
	c.state.Nodes[i] = NodeState{Name: name, Addr: NodeAddr(i), PID: hello.PID}
	return nil
}

// seedDocker gives a node that starts for the first time its images.
func (c *controller) seedDocker(name string) error {
	dir := c.spec.NodePath(name, "docker")
	have, err := os.ReadDir(dir)
	if err != nil || len(have) > 0 || c.spec.DockerSeed == "" {
		return err
	}
	return CloneDocker(c.spec.DockerSeed, dir)
}

// port is the controller's end of a node's link.
func port(i int) string { return "port" + strconv.Itoa(i+1) }

// link connects a node's network namespace to the bridge. The link of a node
// that was powered off goes a moment after it, so it is taken away first.
func (c *controller) link(i, pid int) error {
	_, err := c.kids.run(clientTimeout, "sh", "-ec", fmt.Sprintf(
		"ip link del %[1]s 2>/dev/null || true; ip link add %[1]s type veth peer name eth0 netns %[2]d; ip link set %[1]s master br0; ip link set %[1]s up", port(i), pid))
	return err
}

// waitIdle waits until Slurm says the nodes can be used.
func (c *controller) waitIdle(nodes []string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	var last string
	for {
		out, err := c.kids.run(clientTimeout, "sinfo", "-h", "-N", "-o", "%N %T", "-n", strings.Join(nodes, ","))
		last = strings.TrimSpace(out)
		if err != nil {
			last = err.Error()
		} else if settled(last, len(nodes)) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nodes are not idle after %s: %s; slurmctld: %s", timeout, last, tail(c.spec.Path("slurm", "slurmctld.log")))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settled says whether n nodes have registered. Slurm may refuse what a test
// configured wrongly on purpose (inval); that is settled too. A node is listed
// once for each of its partitions.
func settled(sinfo string, n int) bool {
	nodes := map[string]bool{}
	for line := range strings.SplitSeq(sinfo, "\n") {
		name, state, _ := strings.Cut(line, " ")
		if state != "idle" && state != "inval" {
			return false
		}
		nodes[name] = true
	}
	return len(nodes) == n
}

// waitFor polls ready until it holds, the program ends or the time is over.
func waitFor(timeout time.Duration, ch *child, what, log string, ready func() bool) error {
	deadline := time.Now().Add(timeout)
	for !ready() {
		select {
		case <-ch.done:
			return fmt.Errorf("%s: %s: %s", what, describe(ch.status), tail(log))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not up after %s: %s", what, timeout, tail(log))
		}
	}
	return nil
}

// tail is the end of a log for an error message.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return strings.TrimSpace(string(data))
}
