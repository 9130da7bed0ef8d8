package preflight

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Deadlines of single commands.
const (
	quick     = 4 * time.Second  // tools that ask the kernel
	nicTool   = 8 * time.Second  // tools that ask the NIC's firmware, one after the other
	gpuTool   = 8 * time.Second  // tools that ask the GPU driver
	daemonCmd = 6 * time.Second  // tools that ask a daemon
	probeCmd  = 12 * time.Second // a probe that opens every GPU
)

// Gather gathers the facts of this node, as the spec asks, and returns within its
// budget whatever hangs. It only reads.
func Gather(ctx context.Context, s Spec) Facts {
	exe, err := os.Executable()
	if err != nil {
		exe = "/proc/self/exe"
	}
	return gather(ctx, s, []string{exe, "facts"})
}

// gather is Gather with the command that reads files for it.
func gather(ctx context.Context, s Spec, self []string) Facts {
	started := time.Now()
	budget := s.Budget.D()
	if budget <= 0 {
		budget = DefaultBudget
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	f := &Facts{Version: facts.Version, Node: s.Node, Context: s.Context, Started: started.UTC(),
		Commands: map[string]facts.Command{}, Files: map[string]facts.File{}, Dirs: map[string]facts.Dir{}, Paths: map[string]facts.Path{},
		Disks: map[string]facts.Disk{}, Trees: map[string]facts.Tree{}, Samples: map[string][]int64{}}
	f.Host = host(started)
	if f.Node == "" {
		f.Node = f.Host.Name
	}
	g := &gathering{runner: newRunner(s, f), ctx: ctx, spec: s, self: self}
	finished := make(chan struct{})
	go func() {
		switch s.Context {
		case ContextImage:
			g.image()
		case ContextRun:
			g.during()
		default:
			g.host()
		}
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		// Everything below watches ctx; what does not come back at once is left.
		t := time.NewTimer(time.Second)
		select {
		case <-finished:
		case <-t.C:
		}
		t.Stop()
		f.Cut = true
	}
	return g.snapshot(time.Since(started))
}

// gathering is one gathering under way.
type gathering struct {
	*runner
	ctx  context.Context
	spec Spec
	self []string
}

// snapshot copies the facts, because what was left behind may still write.
func (g *gathering) snapshot(d time.Duration) Facts {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := *g.facts
	out.Duration = d
	out.Host.Tools = clone(out.Host.Tools)
	out.Commands, out.Files, out.Dirs = clone(out.Commands), clone(out.Files), clone(out.Dirs)
	out.Paths, out.Disks, out.Trees, out.Samples = clone(out.Paths), clone(out.Disks), clone(out.Trees), clone(out.Samples)
	return out
}

func clone[V any](m map[string]V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// host is who and where we are.
func host(now time.Time) facts.Host {
	h := facts.Host{Now: now.UnixNano(), UID: os.Getuid(), Arch: runtime.GOARCH}
	h.Groups, _ = os.Getgroups()
	slices.Sort(h.Groups)
	h.Name, _ = os.Hostname()
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.BootID = strings.TrimSpace(string(b))
	}
	return h
}

// all runs tasks at once and waits for them.
func all(tasks ...func()) {
	var wg sync.WaitGroup
	for _, t := range tasks {
		wg.Go(t)
	}
	wg.Wait()
}

// view looks at what there is so far.
func (g *gathering) view() *checks.View {
	snap := g.snapshot(0)
	return checks.NewView(&snap, &g.spec.Expect)
}

// host gathers on the bare node: what needs nothing else at once, and what
// depends on the devices that were found when they are known.
func (g *gathering) host() {
	tasks := []func(){
		func() {
			g.read(readList{Deadline: kernelDeadline, Groups: kernelGroups()})
			all(g.second, g.nics)
		},
		g.smi, g.containers, g.kernelLog, g.system,
	}
	for _, l := range storageLists(g.spec) {
		tasks = append(tasks, func() { g.read(l) })
	}
	all(tasks...)
	g.users()
}

func (g *gathering) read(l readList) { g.helper(g.ctx, g.self, g.spec, l) }

func (g *gathering) second() {
	snap := g.snapshot(0)
	g.read(readList{Deadline: secondDeadline, Groups: secondGroups(&snap, &g.spec.Expect)})
}

// inOrder runs the commands of one tool one after the other, because the tool
// serialises in the firmware or driver anyway. After one that hangs the others
// are not started.
func (g *gathering) inOrder(timeout time.Duration, cmds []command) {
	hung := ""
	for _, c := range cmds {
		if hung != "" {
			g.keep(c.id, facts.Command{Argv: c.argv, Exit: -1, Error: "not run, because " + hung + " gave no answer"})
			continue
		}
		if r := g.run(g.ctx, c.id, timeout, c.argv...); r.TimedOut {
			hung = strings.Join(r.Argv, " ")
		}
	}
}

type command struct {
	id   string
	argv []string
}

func cmd(id string, argv ...string) command { return command{id, argv} }

// nics asks the tools of the NIC families that are there.
func (g *gathering) nics() {
	e := &g.spec.Expect
	if e.NoRDMA() != "" {
		return
	}
	v := g.view()
	family := map[string]bool{e.RDMA.Site.NIC: true}
	for _, n := range v.NICs() {
		family[n.Family] = true
	}
	root := g.asRoot
	tasks := []func(){func() {
		g.inOrder(quick, []command{cmd(facts.RDMALink, "rdma", "link", "show"), cmd(facts.RDMADev, "rdma", "dev", "show"), cmd(facts.RDMAStat, "rdma", "-j", "statistic", "show")})
	}, func() {
		g.run(g.ctx, facts.IBVDevinfo, quick, "ibv_devinfo", "-v")
	}, func() {
		g.inOrder(quick, []command{cmd(facts.IPAddr, "ip", "-o", "-4", "addr", "show"), cmd(facts.IPRule, "ip", "rule", "show")})
	}}
	if family[checks.Ionic] {
		tasks = append(tasks, func() {
			g.inOrder(nicTool, []command{
				cmd(facts.NicctlQoS, root([]string{"nicctl", "show", "qos"})...),
				cmd(facts.NicctlDCQCN, root([]string{"nicctl", "show", "dcqcn"})...),
				cmd(facts.NicctlPort, root([]string{"nicctl", "show", "port"})...),
				cmd(facts.NicctlCard, root([]string{"nicctl", "show", "card", "-j"})...),
				cmd(facts.NicctlFirmware, root([]string{"nicctl", "show", "version", "firmware"})...),
				cmd(facts.NicctlHost, root([]string{"nicctl", "show", "version", "host-software"})...),
				cmd(facts.NicctlStats, root([]string{"nicctl", "show", "port", "statistics", "-j"})...),
				cmd(facts.NicctlLif, root([]string{"nicctl", "show", "lif", "-j"})...),
				cmd(facts.NicctlQPs, root([]string{"nicctl", "show", "rdma", "queue-pair", "-j"})...),
				cmd(facts.NicctlRate, root([]string{"nicctl", "show", "port", "statistics", "--rate", "-j"})...),
			})
		})
	}
	if family[checks.Bnxt] {
		tasks = append(tasks, g.broadcom(v))
	}
	if family[checks.Mlx5] {
		tasks = append(tasks, func() {
			g.inOrder(quick, []command{cmd(facts.MlnxDev, "ibdev2netdev"), cmd(facts.MlnxGIDs, "show_gids")})
		})
	}
	for _, n := range v.NICs() {
		tasks = append(tasks, g.nic(n))
	}
	tasks = append(tasks, func() {
		for m := range family {
			for _, mod := range checks.Modules(m) {
				if f, ok := g.fileOf("/sys/module/" + mod + "/version"); ok && f.Err == "" {
					g.run(g.ctx, facts.Of(facts.Modinfo, mod), quick, "modinfo", "-F", "version", mod)
				}
			}
		}
	})
	all(tasks...)
}

func (g *gathering) fileOf(p string) (facts.File, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.facts.Files[p]
	return f, ok
}

// nic asks about one device.
func (g *gathering) nic(n checks.NIC) func() {
	var cmds []command
	if n.Netdev != "" {
		cmds = append(cmds, cmd(facts.Of(facts.EthtoolStat, n.Netdev), "ethtool", "-S", n.Netdev))
	}
	switch n.Family {
	case checks.Bnxt, checks.Mlx5:
		if n.Netdev != "" {
			cmds = append(cmds,
				cmd(facts.Of(facts.EthtoolPause, n.Netdev), "ethtool", "-a", n.Netdev),
				cmd(facts.Of(facts.DCBPFC, n.Netdev), "dcb", "pfc", "show", "dev", n.Netdev),
				cmd(facts.Of(facts.DCBApp, n.Netdev), "dcb", "-N", "app", "show", "dev", n.Netdev))
		}
	}
	switch n.Family {
	case checks.Bnxt:
		// grep prints path and value of every attribute, and makes nothing.
		cmds = append(cmds,
			cmd(facts.Of(facts.BnxtCC, n.Name), g.asRoot([]string{"grep", "-r", ".", "/sys/kernel/config/bnxt_re/" + n.Name + "/ports/1/cc"})...),
			cmd(facts.Of(facts.BnxtInfo, n.Name), g.asRoot([]string{"cat", "/sys/kernel/debug/bnxt_re/" + n.Name + "/info"})...))
	case checks.Mlx5:
		if n.Netdev != "" {
			cmds = append(cmds, cmd(facts.Of(facts.MlnxQoS, n.Netdev), g.asRoot([]string{"mlnx_qos", "-i", n.Netdev})...))
		}
		cmds = append(cmds, cmd(facts.Of(facts.CMATOS, n.Name), g.asRoot([]string{"cat", "/sys/kernel/config/rdma_cm/" + n.Name + "/ports/1/default_roce_tos"})...))
		if _, ok := g.look("mlxconfig"); ok && n.BDF != "" {
			cmds = append(cmds, cmd(facts.Of(facts.MlxConf, n.BDF), g.asRoot([]string{"mlxconfig", "-d", n.BDF, "q", "ROCE_CC_PRIO_MASK_P1"})...))
		}
	}
	return func() { g.inOrder(nicTool, cmds) }
}

// broadcom asks niccli about the ports that have an RDMA device.
func (g *gathering) broadcom(v *checks.View) func() {
	return func() {
		list := g.run(g.ctx, facts.NiccliList, nicTool, g.asRoot([]string{"niccli", "--list"})...)
		mine := map[string]bool{}
		for _, n := range v.NICs() {
			mine[n.BDF] = true
		}
		var cmds []command
		for _, n := range parse.NiccliList(list.Stdout) {
			if !mine[n.BDF] {
				continue
			}
			cmds = append(cmds,
				cmd(facts.Of(facts.NiccliQoS, n.Index), g.asRoot([]string{"niccli", "-i", n.Index, "qos", "--ets", "--show"})...),
				cmd(facts.Of(facts.NiccliCoSQ, n.Index), g.asRoot([]string{"niccli", "-i", n.Index, "qos", "--ingress", "--cosq", "--show"})...))
		}
		g.inOrder(nicTool, cmds)
	}
}

// smi asks the GPU tools.
func (g *gathering) smi() {
	if !g.spec.Expect.GPUs {
		return
	}
	all(func() {
		if _, ok := g.look("amd-smi"); !ok {
			g.keep(facts.AMDSMIVersion, facts.Command{Argv: []string{"amd-smi", "version", "--json"}, Exit: -1, Missing: true})
			g.run(g.ctx, facts.ROCmSMI, gpuTool, "rocm-smi", "--showmemuse", "--showmeminfo", "vram", "--showpids", "--showrasinfo", "all", "--showbus", "--showuse")
			return
		}
		// The cheapest first: it shows whether the driver answers at all.
		if v := g.run(g.ctx, facts.AMDSMIVersion, gpuTool, "amd-smi", "version", "--json"); v.TimedOut {
			return
		}
		all(func() {
			g.inOrder(gpuTool, []command{
				cmd(facts.AMDSMIList, "amd-smi", "list", "--json"),
				cmd(facts.AMDSMIMetric, "amd-smi", "metric", "--mem-usage", "--ecc", "--pcie", "--temperature", "--json"),
				cmd(facts.AMDSMIProcess, g.asRoot([]string{"amd-smi", "process", "--json"})...),
				cmd(facts.AMDSMIPartition, "amd-smi", "partition", "--json"),
			})
		}, func() {
			g.inOrder(gpuTool, []command{
				cmd(facts.AMDSMIBadPages, g.asRoot([]string{"amd-smi", "bad-pages", "--json"})...),
				cmd(facts.AMDSMITopology, "amd-smi", "topology", "--json"),
				cmd(facts.AMDSMIXGMI, "amd-smi", "xgmi"),
			})
		}, func() {
			g.inOrder(gpuTool, []command{
				cmd(facts.AMDSMITable, "amd-smi"),
				cmd(facts.AMDSMIMonitor, "amd-smi", "monitor", "-p", "-t", "-u", "-m"),
				cmd(facts.AMDSMICPER, g.asRoot([]string{"amd-smi", "ras", "--cper"})...),
			})
		})
	}, func() {
		g.inOrder(quick, []command{
			cmd(facts.LspciAll, "lspci", "-D", "-nn"),
			cmd(facts.LspciGPU, g.asRoot([]string{"lspci", "-D", "-nn", "-vvv", "-d", "1002:"})...),
			cmd(facts.LspciBridges, g.asRoot([]string{"lspci", "-D", "-nn", "-vvv", "-d", "::0604"})...),
		})
	}, func() {
		g.run(g.ctx, facts.GPUProbe, probeCmd, "rocminfo")
	})
}

// containers asks the container runtime, plainly or by sudo as the site says.
func (g *gathering) containers() {
	e := &g.spec.Expect
	if e.Site.Container.Enroot {
		g.run(g.ctx, facts.EnrootVersion, quick, "enroot", "version")
	}
	kind := e.Runtime.Kind
	if kind != "docker" && kind != "podman" {
		return
	}
	prefix := []string{kind}
	info := append(prefix, "info", "--format", "{{json .}}")
	if e.Runtime.Sudo == "always" {
		prefix = g.asRoot(prefix)
		info = append(prefix, "info", "--format", "{{json .}}")
	}
	c := g.run(g.ctx, facts.DockerInfo, daemonCmd, info...)
	if parse.DockerInfo(c.Stdout) == nil && e.Runtime.Sudo != "never" && e.Runtime.Sudo != "always" && !g.root && g.sudo != "" && !c.Missing && !c.TimedOut {
		p := g.asRoot([]string{kind})
		if c2 := g.try(g.ctx, daemonCmd, append(p, "info", "--format", "{{json .}}")); parse.DockerInfo(c2.Stdout) != nil {
			g.keep(facts.DockerInfo, c2)
			c, prefix = c2, p
		}
	}
	d := parse.DockerInfo(c.Stdout)
	if d == nil || d.Version == "" {
		return
	}
	with := func(args ...string) []string { return append(slices.Clone(prefix), args...) }
	tasks := []func(){func() {
		ps := g.run(g.ctx, facts.DockerPS, daemonCmd, with("ps", "--no-trunc", "--format", "{{json .}}")...)
		var ids []string
		for _, c := range parse.DockerPS(ps.Stdout) {
			ids = append(ids, c.ID)
		}
		if len(ids) > 0 {
			g.keep(facts.DockerInspect, withoutSecrets(g.try(g.ctx, daemonCmd, with(append([]string{"inspect"}, ids...)...))))
		}
	}}
	for _, img := range e.Images {
		tasks = append(tasks, func() { g.run(g.ctx, facts.Of(facts.DockerImage, img), daemonCmd, with("image", "inspect", img)...) })
	}
	if d.Root != "" && filepath.IsAbs(d.Root) && d.Root != "/var/lib/docker" {
		tasks = append(tasks, func() {
			g.read(readList{Deadline: mountDeadline, Groups: []readGroup{{Name: d.Root, Disks: []string{d.Root}}}})
		})
	}
	all(tasks...)
}

// withoutSecrets reduces docker's report of containers to what is judged: their
// environment may hold other people's tokens.
func withoutSecrets(c facts.Command) facts.Command {
	list := parse.DockerInspect(c.Stdout)
	if list == nil {
		c.Stdout = ""
		return c
	}
	type device struct{ PathOnHost string }
	type container struct {
		ID    string `json:"Id"`
		Name  string
		State struct {
			Pid    int
			Status string
		}
		Config struct {
			Image  string
			Labels map[string]string
			Env    []string
		}
		HostConfig struct {
			Privileged bool
			Devices    []device
		}
	}
	var out []container
	for _, x := range list {
		k := container{ID: x.ID, Name: x.Name}
		k.State.Pid, k.State.Status = x.PID, x.State
		k.Config.Image, k.Config.Labels = x.Image, x.Labels
		for _, name := range sortedKeys(x.Env) {
			k.Config.Env = append(k.Config.Env, name+"="+x.Env[name])
		}
		k.HostConfig.Privileged = x.Privileged
		for _, d := range x.Devices {
			k.HostConfig.Devices = append(k.HostConfig.Devices, device{d})
		}
		out = append(out, k)
	}
	b, err := encode(out)
	if err != nil {
		b = nil
	}
	c.Stdout = string(b)
	return c
}

// kernelLog reads the kernel's messages by whatever way is open.
func (g *gathering) kernelLog() {
	dmesg := []string{"dmesg", "-x", "--time-format=iso"}
	ways := [][]string{dmesg}
	if !g.root && g.sudo != "" {
		ways = append(ways, g.asRoot(dmesg))
	}
	ways = append(ways, []string{"journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-iso"})
	var first facts.Command
	for i, argv := range ways {
		c := g.try(g.ctx, daemonCmd, argv)
		if i == 0 {
			first = c
		}
		if c.Exit == 0 && strings.TrimSpace(c.Stdout) != "" {
			g.keep(facts.KernelLog, c)
			return
		}
	}
	g.keep(facts.KernelLog, first)
}

// system asks the rest.
func (g *gathering) system() {
	name, _, _ := strings.Cut(g.facts.Host.Name, ".")
	all(
		func() {
			// It goes through all processes for the holders' names.
			if len(g.spec.Expect.Ports) > 0 {
				g.run(g.ctx, facts.ListeningSocket, quick, g.asRoot([]string{"ss", "-tlnp"})...)
			}
		},
		func() {
			g.run(g.ctx, facts.TimeSync, quick, "timedatectl", "show", "--property=NTPSynchronized", "--property=NTP")
		},
		func() { g.run(g.ctx, facts.Squeue, quick, "squeue", "-h", "-w", name, "-o", "%A") },
	)
}

// image gathers inside a container image.
func (g *gathering) image() {
	e := &g.spec.Expect
	g.mu.Lock()
	g.facts.Image = g.spec.Image
	for _, kv := range os.Environ() {
		k, _, _ := strings.Cut(kv, "=")
		g.facts.Env = append(g.facts.Env, k)
	}
	slices.Sort(g.facts.Env)
	g.mu.Unlock()
	tasks := []func(){
		func() { g.read(readList{Deadline: kernelDeadline, Groups: imageGroups()}) },
		func() {
			if e.RDMA.Needed {
				g.run(g.ctx, facts.IBVDevinfo, nicTool, "ibv_devinfo", "-v")
			}
		},
		func() {
			for _, t := range e.Tools {
				if t.Image != g.spec.Image {
					continue
				}
				p, ok := g.look(t.Name)
				g.keep(facts.Of(facts.Tool, t.Name), facts.Command{Argv: []string{"command", "-v", t.Name}, Stdout: p, Missing: !ok})
			}
		},
	}
	for _, l := range storageLists(g.spec) {
		tasks = append(tasks, func() { g.read(l) })
	}
	all(tasks...)
}

// users names the users that other facts give by number.
func (g *gathering) users() {
	ids := map[int]bool{}
	snap := g.snapshot(0)
	for p, f := range snap.Files {
		if strings.HasSuffix(p, "/status") {
			if u := strings.Fields(parse.Status(f.Data)["Uid"]); len(u) > 0 {
				if n, err := strconv.Atoi(u[0]); err == nil {
					ids[n] = true
				}
			}
		}
	}
	for _, p := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, s := range parse.ProcTCP(snap.Files[p].Data) {
			ids[s.UID] = true
		}
	}
	for _, c := range parse.DockerPS(snap.Commands[facts.DockerPS].Stdout) {
		if n, err := strconv.Atoi(c.Labels["disagg.owner"]); err == nil {
			ids[n] = true
		}
	}
	names := map[int]string{}
	for id := range ids {
		if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
			names[id] = u.Username
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.facts.Host.Users = names
}
