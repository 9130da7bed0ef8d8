package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Memory of an idle GPU, in MiB.
const (
	vramFailMiB = 2048 // from here somebody else uses it
	vramWarnMiB = 600  // the driver itself keeps about 283
	// vramPercent is the fail limit where a tool prints whole percents only: one
	// percent of these GPUs is about 3 GiB.
	vramPercent = 1
	// daemonMiB is what a monitor may hold.
	daemonMiB = 64
	// disagreeMiB is how far two sources may be apart.
	disagreeMiB = 1024
)

// vram is the memory of one GPU by one source.
type vram struct {
	name        string
	used, total *int64
	percent     *int64
	na          bool
	hung        bool
	ev          Evidence
	samples     []int64
}

// VRAM lists the memory use of every GPU by the best source: the kernel, else the
// first SMI report that has it. second are the other sources.
func (v *View) VRAM() (best []vram, second [][]vram) {
	var all [][]vram
	var kernel []vram
	for _, g := range v.GPUs() {
		f := g.dir() + "/mem_info_vram_used"
		file, looked := v.Facts.Files[f]
		if !looked {
			continue
		}
		kernel = append(kernel, vram{name: g.Name, used: g.Used, total: g.Total, na: g.Used == nil, hung: file.Err == facts.ErrHung,
			ev: evidence("cat "+f, file.Data+file.Err), samples: v.Facts.Samples[f]})
	}
	if len(kernel) > 0 {
		all = append(all, kernel)
	}
	for _, s := range v.SMI() {
		var l []vram
		for _, g := range s.gpus {
			na := slices.ContainsFunc(g.NA, func(k string) bool { return strings.Contains(strings.ToLower(k), "vram") || k == "Mem-Usage" })
			if g.Used == nil && g.UsedPct == nil && !na {
				continue
			}
			l = append(l, vram{name: v.smiName(g), used: g.Used, total: g.Total, percent: g.UsedPct, na: na && g.Used == nil && g.UsedPct == nil, ev: evidence(s.source, g.Lines...)})
		}
		if len(l) > 0 {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all[1:]
}

// gpuVRAM: every GPU must have the memory the run needs.
func gpuVRAM() Check { return gpu("gpu.vram", true, judgeVRAM) }

func judgeVRAM(v *View) []Finding {
	best, second := v.VRAM()
	if len(best) == 0 {
		return []Finding{unknown("", "no source gives the memory use of the GPUs"+v.smiTrouble(), "look whether mem_info_vram_used is in "+sysDRM+", and run amd-smi by hand")}
	}
	failAt := int64(or(v.Expect.Site.GPU.VRAMFailMiB, vramFailMiB)) << 20
	warnAt := int64(or(v.Expect.Site.GPU.VRAMWarnMiB, vramWarnMiB)) << 20
	const fix = "see gpu.holders for who holds it; without an owner see gpu.stranded"
	var out []Finding
	for _, g := range best {
		switch {
		case g.hung:
			out = append(out, fail(g.name, "asking the driver hangs", "an answer", fixGPU, g.ev))
		case g.na:
			out = append(out, unknown(g.name, "memory use not known (N/A)", "ask another tool by hand", g.ev))
		case g.used == nil && *g.percent >= vramPercent:
			out = append(out, fail(g.name, fmt.Sprintf("%d %% of memory used", *g.percent), "0 %", fix, g.ev))
		case g.used == nil:
		case v.Expect.VRAMBytes > 0 && g.total != nil && *g.total-*g.used < v.Expect.VRAMBytes:
			out = append(out, fail(g.name, fmt.Sprintf("%s free of %s%s", gib(*g.total-*g.used), gib(*g.total), trend(g.samples)), gib(v.Expect.VRAMBytes)+" free, which the run needs", fix, g.ev))
		case *g.used >= failAt:
			out = append(out, fail(g.name, gib(*g.used)+" used"+trend(g.samples), "less than "+gib(failAt), fix, g.ev))
		case *g.used >= warnAt:
			out = append(out, warn(g.name, gib(*g.used)+" used"+trend(g.samples), "less than "+gib(warnAt), fix, g.ev))
		}
	}
	out = append(out, disagreements(best, second)...)
	return orPass(out, fmt.Sprintf("%d GPUs empty", len(best)))
}

// trend says where the memory goes, from samples taken one after the other.
func trend(samples []int64) string {
	if len(samples) < 2 {
		return ""
	}
	first, last := samples[0], samples[len(samples)-1]
	switch {
	case last < first-first/20:
		return fmt.Sprintf(" and falling (from %s)", gib(first))
	case last > first+first/20:
		return fmt.Sprintf(" and rising (from %s)", gib(first))
	}
	return ", not changing"
}

// disagreements finds GPUs about which two sources differ.
func disagreements(best []vram, second [][]vram) []Finding {
	var out []Finding
	for _, l := range second {
		for _, b := range l {
			for _, a := range best {
				if a.used == nil || b.used == nil || !sameGPU(a.name, b.name) {
					continue
				}
				d := *a.used - *b.used
				if d > disagreeMiB<<20 || d < -disagreeMiB<<20 {
					out = append(out, warn(a.name, fmt.Sprintf("%s by one source, %s by another", gib(*a.used), gib(*b.used)), "the same", "one of them is wrong or the use is changing: run the check again", a.ev, b.ev))
				}
			}
		}
	}
	return out
}

// sameGPU compares names that begin with a PCI address.
func sameGPU(a, b string) bool {
	x, _, _ := strings.Cut(a, " ")
	y, _, _ := strings.Cut(b, " ")
	return x == y
}

// isDaemon knows monitors that keep GPUs open without using them.
func (v *View) isDaemon(name string) bool {
	switch name {
	case "gpuagent", "rdcd", "rocm-smi-daemon", "amd-smi", "rocm-smi", "rocminfo", "amdgpu_exporter", "amd-metrics-exp", "nic_agent":
		return true
	}
	return strings.HasSuffix(name, "-exporter") || strings.HasSuffix(name, "_exporter") || slices.Contains(v.Expect.Site.GPU.Daemons, name)
}

// mine says that a process belongs to this very run.
func (v *View) mine(h holder) bool {
	switch h.owner.Kind {
	case parse.OwnerSlurm:
		return v.Expect.Run.Job != "" && h.owner.ID == v.Expect.Run.Job
	case parse.OwnerContainer:
		c, ok := v.container(h.owner.ID)
		return ok && v.Expect.Run.ID != "" && c.Labels["disagg.run"] == v.Expect.Run.ID
	}
	return false
}

// container finds a container of the node by id.
func (v *View) container(id string) (parse.Container, bool) {
	for _, c := range v.containers() {
		if c.ID == id || len(c.ID) >= 12 && strings.HasPrefix(id, c.ID) {
			return c, true
		}
	}
	return parse.Container{}, false
}

// containers are the node's running containers, with what inspect adds.
func (v *View) containers() []parse.Container {
	ps, _ := v.command(facts.DockerPS)
	ins, _ := v.command(facts.DockerInspect)
	out := parse.DockerPS(ps.Stdout)
	for _, c := range parse.DockerInspect(ins.Stdout) {
		found := false
		for i := range out {
			if out[i].ID == c.ID || strings.HasPrefix(out[i].ID, c.ID) {
				found = true
				out[i].PID, out[i].Privileged, out[i].Devices, out[i].Env = c.PID, c.Privileged, c.Devices, c.Env
				if len(c.Labels) > 0 {
					out[i].Labels = c.Labels
				}
			}
		}
		if !found {
			out = append(out, c)
		}
	}
	return out
}

// gpuHolders: nobody else may hold GPU memory, and if somebody does, who.
func gpuHolders() Check { return gpu("gpu.holders", true, judgeHolders) }

func judgeHolders(v *View) []Finding {
	hs, listed := v.Holders()
	if !listed {
		return []Finding{unknown("", "no source lists the processes on the GPUs"+v.smiTrouble(), "look whether "+sysKFDProc+" is readable, and run amd-smi process by hand")}
	}
	var out []Finding
	idle := 0
	for _, h := range hs {
		n := h.bytes()
		if n == 0 || v.isDaemon(h.name) && n < daemonMiB<<20 || v.mine(h) {
			idle++ // only has the device open
			continue
		}
		fix := "ask its owner to stop it; nothing here stops it for you"
		who := h.describe()
		switch h.owner.Kind {
		case parse.OwnerContainer:
			if c, ok := v.container(h.owner.ID); ok {
				who += " (" + c.Name + ", image " + c.Image + ")"
				if job := c.Job(); job != "" {
					who += " of Slurm job " + job
				}
			}
			fix = "a container outlives the job that started it: see whether its job still runs, then 'docker stop' it as its owner"
		case parse.OwnerSlurm:
			fix = "the node is shared with that job: ask for exclusive nodes, or wait for it (squeue -j " + h.owner.ID + ")"
		}
		object := fmt.Sprintf("pid %d", h.pid)
		observed := fmt.Sprintf("%s holds %s%s", who, gib(n), split(h.vram))
		switch {
		case h.zombie || h.alive != nil && !*h.alive:
			out = append(out, fail(object, observed+"; the process is dead", "no owner", "memory of a dead process comes back only with a driver reload or a reboot: drain the node", h.ev...))
		case n >= daemonMiB<<20:
			out = append(out, fail(object, observed, "nobody else on the GPUs", fix, h.ev...))
		default:
			out = append(out, warn(object, observed, "nobody else on the GPUs", fix, h.ev...))
		}
	}
	if idle > 0 {
		return orPass(out, fmt.Sprintf("no foreign process holds memory; %d only have a GPU open", idle))
	}
	return orPass(out, "no process on any GPU")
}

// split writes where the memory is.
func split(by map[string]int64) string {
	var parts []string
	for _, k := range sortedKeys(by) {
		if by[k] > 0 {
			parts = append(parts, k)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " on " + strings.Join(parts, ", ")
}

// gpuStranded: memory that is used and belongs to nobody. No process can be
// stopped to get it back.
func gpuStranded() Check { return gpu("gpu.stranded", true, judgeStranded) }

func judgeStranded(v *View) []Finding {
	best, _ := v.VRAM()
	hs, listed := v.Holders()
	switch {
	case len(best) == 0:
		return blockedBy("gpu.vram", "the memory use is not known")
	case !listed:
		if Worst(judgeVRAM(v)) == Pass {
			return []Finding{pass("no memory is used")}
		}
		return blockedBy("gpu.holders", "the processes are not known")
	}
	failAt := int64(or(v.Expect.Site.GPU.VRAMFailMiB, vramFailMiB)) << 20
	var out []Finding
	for _, g := range best {
		var used int64
		switch {
		case g.used != nil:
			used = *g.used
		case g.percent != nil && *g.percent >= vramPercent:
			used = failAt
		}
		if used < failAt {
			continue
		}
		var owned int64
		for _, h := range hs {
			if n, ok := h.vram[g.name]; ok {
				owned += n
			} else if len(h.vram) == 0 || !known(h.vram) {
				owned += h.total // not split by GPU: it may all be here
			}
		}
		if owned < used/2 {
			text := gib(used) + " used"
			if g.used == nil {
				text = fmt.Sprintf("%d %% used", *g.percent)
			}
			out = append(out, fail(g.name, fmt.Sprintf("%s, but processes account for %s%s", text, gib(owned), trend(g.samples)), "memory that belongs to a process",
				"the driver did not free it: no process can be stopped. If it does not fall by itself, drain the node and reload the driver or reboot; a reset of one GPU resets all of its hive, so see who else is on the node first", g.ev))
		}
	}
	return orPass(out, "all used memory has an owner")
}

// known says that the split names GPUs.
func known(by map[string]int64) bool {
	for k := range by {
		if strings.HasPrefix(k, "gpu_id") {
			return false
		}
	}
	return true
}

// HolderPIDs lists the process ids that KFD names, for whoever gathers what /proc
// says of them.
func (v *View) HolderPIDs() []string {
	var out []string
	for _, p := range v.children(sysKFDProc) {
		if digits(p) == p && p != "" {
			out = append(out, p)
		}
	}
	return out
}

// BusyMemory lists the memory files of the GPUs that are not empty, for whoever
// gathers how they change.
func (v *View) BusyMemory() []string {
	warnAt := int64(or(v.Expect.Site.GPU.VRAMWarnMiB, vramWarnMiB)) << 20
	var out []string
	for _, g := range v.GPUs() {
		if g.Used != nil && *g.Used >= warnAt {
			out = append(out, g.dir()+"/mem_info_vram_used")
		}
	}
	return out
}
