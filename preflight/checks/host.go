package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

func host(id string, hard bool, judge func(*View) []Finding) Check {
	return Check{ID: id, Hard: hard, Context: facts.ContextHost, Node: judge}
}

// hostCmdline: kernel parameters that GPU and NIC peer traffic needs.
func hostCmdline() Check { return host("host.cmdline", false, judgeCmdline) }

func judgeCmdline(v *View) []Finding {
	s, ok := v.file("/proc/cmdline")
	if !ok {
		return []Finding{unknown("", "the kernel command line was not read", "cat /proc/cmdline")}
	}
	have := parse.Cmdline(s)
	want, verdict := []string{"iommu=pt", "pci=realloc=off"}, warn
	if l := v.Expect.Site.Host.Cmdline; len(l) > 0 {
		want, verdict = l, fail
	}
	var out []Finding
	for _, w := range want {
		k, val, _ := strings.Cut(w, "=")
		if !slices.Contains(have[k], val) {
			out = append(out, verdict(w, "not on the kernel command line", w, "add it to the boot loader's kernel parameters and reboot", evidence("cat /proc/cmdline", s)))
		}
	}
	return orPass(out, strings.Join(want, " "))
}

// hostNUMA: automatic balancing moves pages under the engine.
func hostNUMA() Check { return host("host.numa-balancing", false, judgeNUMABalancing) }

func judgeNUMABalancing(v *View) []Finding {
	const f = "/proc/sys/kernel/numa_balancing"
	s, ok := v.file(f)
	switch {
	case !ok && v.Facts.Files[f].Err == facts.ErrMissing:
		return []Finding{pass("the kernel has none")}
	case !ok:
		return []Finding{unknown("", f+" was not read", "cat "+f)}
	case s != "0":
		return []Finding{warn("", "on ("+s+")", "0", "sysctl kernel.numa_balancing=0", evidence("cat "+f, s))}
	}
	return []Finding{pass("off", evidence("cat "+f, s))}
}

// memlock is a check of the locked-memory limit where the facts come from.
func memlock(id, context string) Check {
	return Check{ID: id, Hard: true, Context: context, Node: func(v *View) []Finding { return v.judgeMemlock(context) }}
}

const memlockGiB = 32

func (v *View) judgeMemlock(context string) []Finding {
	if why := v.noRDMA(); why != "" {
		return []Finding{skip("nothing is locked in memory: " + why)}
	}
	s, ok := v.file("/proc/self/limits")
	if !ok {
		return []Finding{unknown("", "/proc/self/limits was not read", "ulimit -l")}
	}
	l, ok := parse.Limits(s)["max locked memory"]
	if !ok {
		return []Finding{unknown("", "/proc/self/limits has no locked memory", "ulimit -l")}
	}
	want := int64(or(v.Expect.Site.Host.MemlockGiB, memlockGiB)) << 30
	if l.Soft < 0 || l.Soft >= want {
		return []Finding{pass(l.Line)}
	}
	fix := "the limit comes from what started this process: LimitMEMLOCK=infinity for slurmd or sshd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, and /etc/security/limits.d"
	if context == facts.ContextImage {
		fix = "memlock: \"-1\" in container.ulimits of the site"
	}
	return []Finding{fail("", fmt.Sprintf("%d KiB", l.Soft>>10), fmt.Sprintf("unlimited, or %d GiB", want>>30), fix, evidence("cat /proc/self/limits", l.Line))}
}

// nofile is a check of the limit of open files.
func nofile(id, context string) Check {
	return Check{ID: id, Hard: false, Context: context, Node: func(v *View) []Finding {
		s, ok := v.file("/proc/self/limits")
		if !ok {
			return []Finding{unknown("", "/proc/self/limits was not read", "ulimit -n")}
		}
		l, ok := parse.Limits(s)["max open files"]
		if !ok {
			return []Finding{unknown("", "/proc/self/limits has no open files", "ulimit -n")}
		}
		// A connection costs the router two descriptors, and engines hold many
		// more of their own.
		want := max(int64(or(v.Expect.Site.Host.NoFile, 65536)), int64(4*v.Expect.MaxConns))
		if l.Hard >= 0 && l.Hard < want || context == facts.ContextImage && l.Soft >= 0 && l.Soft < want {
			return []Finding{warn("", fmt.Sprintf("%d, at most %d", l.Soft, l.Hard), fmt.Sprint(want), "raise nofile: in container.ulimits of the site, or the limits of the service that starts the run", evidence("cat /proc/self/limits", l.Line))}
		}
		return []Finding{pass(l.Line)}
	}}
}

// hostACS: access control on PCIe bridges sends traffic between devices through
// the root complex.
func hostACS() Check { return host("host.acs", false, judgeACS) }

func judgeACS(v *View) []Finding {
	c, ok := v.command(facts.LspciBridges)
	if !ok {
		return []Finding{skip("the PCIe bridges were not read")}
	}
	var out []Finding
	seen, hidden := 0, 0
	onPath := v.bridges()
	for i, d := range parse.Lspci(c.Stdout) {
		if len(onPath) > 0 && d.BDF != "" && !onPath[d.BDF] {
			continue
		}
		if d.Hidden && d.ACS == nil {
			hidden++
		}
		if d.ACS == nil {
			continue
		}
		seen++
		name := or(d.BDF, fmt.Sprintf("bridge %d of the report", i+1))
		ev := evidence(typed(c), d.Lines...)
		var redirect []string
		for _, f := range d.ACS {
			if f == "ReqRedir" || f == "CmpltRedir" || f == "UpstreamFwd" {
				redirect = append(redirect, f)
			}
		}
		const fix = "turn ACS off on bridges between GPUs and NICs: in the BIOS, or with setpci at boot; pci=disable_acs_redir where the kernel has it"
		switch {
		case len(redirect) > 0 && v.Expect.Site.Host.ACS == "warn":
			out = append(out, warn(name, strings.Join(redirect, ", ")+" on", "off", fix, ev))
		case len(redirect) > 0:
			out = append(out, fail(name, strings.Join(redirect, ", ")+" on: traffic between devices goes through the root complex", "off", fix, ev))
		case slices.Contains(d.ACS, "SrcValid"):
			out = append(out, warn(name, "source validation on", "off", fix, ev))
		}
	}
	switch {
	case seen == 0 && hidden > 0:
		return []Finding{unknown("", "the extended configuration of the bridges is hidden from this user", fixFor(parse.FailSudo, "lspci"), evidence(typed(c)))}
	case seen == 0 && strings.Contains(c.Stdout, "PCI bridge"):
		return []Finding{pass("no bridge has access control")}
	case seen == 0:
		kind, words := trouble(c, false)
		return []Finding{unknown("", words, fixFor(kind, "lspci"), evidence(typed(c), parse.Lines(c.Stderr)...))}
	}
	return orPass(out, fmt.Sprintf("off on %d bridges", seen))
}

// bridges are the PCIe bridges above the GPUs and rails, from the places of the
// devices in the kernel's tree; empty where those are not known.
func (v *View) bridges() map[string]bool {
	out := map[string]bool{}
	var devs []string
	for _, g := range v.GPUs() {
		devs = append(devs, g.BDF)
	}
	for _, n := range v.Rails() {
		devs = append(devs, n.BDF)
	}
	for _, d := range devs {
		parts := strings.Split(v.Facts.Files[sysPCI+"/"+d].Target, "/")
		for _, p := range parts[:max(0, len(parts)-1)] {
			if bdf, ok := parse.BDF(p); ok {
				out[bdf] = true
			}
		}
	}
	return out
}

// hostPorts: the run's TCP ports must be free.
func hostPorts() Check { return host("host.ports", true, judgePorts) }

func judgePorts(v *View) []Finding {
	if len(v.Expect.Ports) == 0 {
		return []Finding{skip("the run listens on no port")}
	}
	var socks []parse.Socket
	src, looked := "cat /proc/net/tcp /proc/net/tcp6", false
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if s, ok := v.file(f); ok {
			looked = true
			socks = append(socks, parse.ProcTCP(s)...)
		}
	}
	if c, ok := v.command(facts.ListeningSocket); ok {
		ss := parse.SS(c.Stdout)
		looked = looked || len(ss) > 0 || strings.Contains(c.Stdout, "State")
		// ss names the holder; it comes first so that its line is shown.
		socks = append(ss, socks...)
		src = typed(c)
	}
	if !looked {
		return []Finding{unknown("", "the listening sockets were not read", "ss -tlnp")}
	}
	var out []Finding
	for _, p := range v.Expect.Ports {
		for _, s := range socks {
			if s.Port != p.Number {
				continue
			}
			who := or(s.Holder, "")
			if who == "" && s.UID >= 0 {
				who = "user " + v.userName(fmt.Sprint(s.UID))
			}
			out = append(out, fail(fmt.Sprintf("port %d", p.Number), "in use by "+or(who, "a process of another user"), "free, for "+p.Of,
				"an engine of an earlier run may still be there: find it with 'ss -tlnp', and stop it as its owner", evidence(src, s.Line)))
			break
		}
	}
	return orPass(out, fmt.Sprintf("%d ports free", len(v.Expect.Ports)))
}

// hostClock: TLS, logs and timeouts need clocks that agree.
func hostClock() Check {
	c := host("host.clock", false, judgeClock)
	return c
}

// hardSkew is how many times the limit fails instead of warns.
const hardSkew = 30

func judgeClock(v *View) []Finding {
	limit := or(v.Expect.Site.Host.MaxSkew.D(), time.Second)
	h := v.Facts.Host
	var out []Finding
	if h.Now != 0 && h.Asked != 0 && h.Answered != 0 {
		// The node's clock was read somewhere between asking and answering.
		skew := time.Duration(0)
		if h.Now < h.Asked {
			skew = time.Duration(h.Asked - h.Now)
		} else if h.Now > h.Answered {
			skew = time.Duration(h.Now - h.Answered)
		}
		text := fmt.Sprintf("%s away from the controller", skew.Round(time.Millisecond))
		switch {
		case skew > hardSkew*limit:
			out = append(out, fail("", text, "within "+limit.String(), "start time synchronisation (chronyd) on the node"))
		case skew > limit:
			out = append(out, warn("", text, "within "+limit.String(), "start time synchronisation (chronyd) on the node"))
		}
	}
	if c, ok := v.command(facts.TimeSync); ok && !c.Missing {
		for _, l := range parse.Lines(c.Stdout) {
			if l == "NTPSynchronized=no" {
				out = append(out, warn("", "the clock is not synchronised", "NTPSynchronized=yes", "start time synchronisation (chronyd) on the node", evidence(typed(c), l)))
			}
		}
	}
	if h.Now == 0 {
		return append(out, unknown("", "the node's clock was not read", "date"))
	}
	return orPass(out, "agrees with the controller")
}

// hostMemory: a node that lost memory modules runs out of it late.
func hostMemory() Check { return host("host.memory", false, judgeMemory) }

func judgeMemory(v *View) []Finding {
	s, ok := v.file("/proc/meminfo")
	if !ok {
		return []Finding{unknown("", "/proc/meminfo was not read", "free -g")}
	}
	m := parse.Status(s)
	total, ok := parse.Bytes(strings.TrimSuffix(m["MemTotal"], "kB") + "kB")
	if !ok {
		return []Finding{unknown("", "/proc/meminfo has no MemTotal", "free -g")}
	}
	want := int64(v.Expect.Site.Host.MemoryGB) * 1e9
	if want == 0 {
		want = int64(v.Expect.NodeMemoryGB) * 1e9 * 97 / 100
	}
	if want > 0 && total < want {
		return []Finding{warn("", gib(total), gib(want)+" or more", "a memory module is missing: look at dmidecode and the BMC", evidence("cat /proc/meminfo", "MemTotal: "+m["MemTotal"]))}
	}
	return []Finding{pass(gib(total))}
}

// hostGovernor: power saving slows the launch of kernels.
func hostGovernor() Check { return host("host.governor", false, judgeGovernor) }

func judgeGovernor(v *View) []Finding {
	const dir = "/sys/devices/system/cpu"
	want := or(v.Expect.Site.Host.Governor, "performance")
	count := map[string]int{}
	for _, cpu := range v.children(dir) {
		if s, ok := v.file(dir + "/" + cpu + "/cpufreq/scaling_governor"); ok {
			count[s]++
		}
	}
	if len(count) == 0 {
		return []Finding{skip("the CPUs have no frequency governor")}
	}
	var out []Finding
	for _, g := range sortedKeys(count) {
		if g != want {
			out = append(out, warn("", fmt.Sprintf("%s on %d CPUs", g, count[g]), want, "cpupower frequency-set -g "+want, evidence("cat "+dir+"/cpu*/cpufreq/scaling_governor", g)))
		}
	}
	return orPass(out, want)
}

// hostKernel: nodes of a run should run the same kernel.
func hostKernel() Check {
	c := host("host.kernel", false, func(v *View) []Finding {
		k := v.Facts.Host.Kernel
		if k == "" {
			return []Finding{unknown("", "the kernel release was not read", "uname -r")}
		}
		if pin := v.Expect.Site.Host.Kernel; pin != "" && pin != k {
			return []Finding{fail("", k, pin+" (preflight.host.kernel)", "boot the pinned kernel")}
		}
		return []Finding{pass(k)}
	})
	c.Fleet = func(vs []*View) []Finding {
		fs, _ := odd(vs, "kernel", func(v *View) string { return v.Facts.Host.Kernel })
		return remedy(softly(fs), "boot the kernel of the other nodes")
	}
	return c
}

// hostDead: processes in uninterruptible sleep, and zombies that hold a GPU.
func hostDead() Check { return host("host.stuck", false, judgeStuck) }

func judgeStuck(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, pid := range v.children("/proc") {
		s, ok := v.file("/proc/" + pid + "/stat")
		if !ok {
			continue
		}
		seen++
		name, state := parse.ProcStat(s)
		if state == "D" {
			out = append(out, warn("pid "+pid, name+" is in uninterruptible sleep", "no process stuck in the kernel", "a driver or a file server hangs: see /proc/"+pid+"/stack as root", evidence("cat /proc/"+pid+"/stat", s)))
		}
	}
	if hs, _ := v.Holders(); len(hs) > 0 {
		for _, h := range hs {
			if h.zombie {
				out = append(out, fail(fmt.Sprintf("pid %d", h.pid), "a zombie that holds a GPU: "+h.describe(), "no dead process on a GPU", "its parent never collected it; end the parent, else reboot the node", h.ev...))
			}
		}
	}
	if seen == 0 {
		return []Finding{skip("the process table was not read")}
	}
	return orPass(out, fmt.Sprintf("%d processes, none stuck", seen))
}
