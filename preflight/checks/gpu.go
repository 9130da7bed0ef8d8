package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// gpu makes a check about GPUs: skipped where the run uses none.
func gpu(id string, hard bool, judge func(*View) []Finding) Check {
	return Check{ID: id, Hard: hard, Context: facts.ContextHost, Node: func(v *View) []Finding {
		if why := v.noGPU(); why != "" {
			return []Finding{skip(why)}
		}
		return judge(v)
	}}
}

// noGPU says why GPUs are not to be judged; "" where they are.
func (v *View) noGPU() string {
	if n := v.Expect.Site.GPU.Devices; n != nil && *n == 0 {
		return "the site says that its nodes have no GPUs"
	}
	if !v.Expect.GPUs {
		return "the run uses no GPU"
	}
	return ""
}

const fixGPU = "drain the node and reboot it; if the GPU stays away, report it for repair"

// gpuCount: every source must list all GPUs. One that fell off the bus is simply
// missing, and tools exit 0 without it.
func gpuCount() Check { return gpu("gpu.count", true, judgeGPUCount) }

func judgeGPUCount(v *View) []Finding {
	want := v.Expect.GPUsPerNode
	set := v.gpuSet()
	var rolls []roll
	kernel := func(dir string, list []string, what string) []Finding {
		d := v.Facts.Dirs[dir]
		switch d.Err {
		case facts.ErrMissing:
			return []Finding{fail(what, dir+" does not exist", "the amdgpu driver is loaded", "load the driver (modprobe amdgpu) and look at the kernel log for why it was not", evidence("ls "+dir))}
		case "":
			if list != nil {
				rolls = append(rolls, roll{source: "ls " + dir, names: list, n: len(list)})
			}
			return nil
		}
		return []Finding{unknown(what, dir+": "+d.Err, "look at the kernel log", evidence("ls "+dir))}
	}
	out := kernel(sysKFD, set.byKFD, "KFD")
	out = append(out, kernel(sysDRM, set.byDRM, "DRM")...)
	if len(set.byPCI) > 0 || set.byPCI != nil && len(rolls) == 0 {
		rolls = append(rolls, roll{source: "ls " + sysPCI, names: set.byPCI, n: len(set.byPCI)})
	}
	if c, ok := v.command(facts.LspciAll); ok {
		var l []string
		for _, d := range parse.Lspci(c.Stdout) {
			if isAccelerator(d) {
				l = append(l, d.BDF)
			}
		}
		if l != nil {
			rolls = append(rolls, roll{source: typed(c), names: l, n: len(l)})
		}
	}
	for _, s := range v.SMI() {
		var l []string
		seen := map[string]bool{}
		for _, g := range s.gpus {
			key := or(g.BDF, fmt.Sprint("index ", g.Index))
			if !seen[key] {
				seen[key] = true
				l = append(l, key)
			}
		}
		rolls = append(rolls, roll{source: s.source, names: l, n: len(l)})
	}
	if len(rolls) == 0 && len(out) == 0 {
		return []Finding{unknown("", "nothing lists the GPUs of the node"+v.smiTrouble(), "look whether /sys is readable and the amdgpu driver is loaded")}
	}
	all := map[string]bool{}
	for _, r := range rolls {
		for _, n := range r.names {
			if _, ok := parse.BDF(n); ok {
				all[n] = true
			}
		}
	}
	if want == 0 {
		for _, r := range rolls {
			want = max(want, r.n)
		}
	}
	for _, r := range rolls {
		if r.n == want {
			continue
		}
		observed := fmt.Sprintf("%d of %d", r.n, want)
		if m := missing(sortedKeys(all), r.names); m != "" {
			observed += ", missing " + m
		}
		out = append(out, fail(r.source, observed, fmt.Sprintf("%d GPUs", want), fixGPU, evidence(r.source, r.names...)))
	}
	return orPass(out, fmt.Sprintf("%d GPUs in every list", want))
}

// isAccelerator says that lspci's line is a GPU for computing.
func isAccelerator(d parse.PCIDevice) bool {
	if d.Vendor != "" && d.Vendor != "1002" {
		return false
	}
	return strings.HasPrefix(d.Text, "Processing accelerators") || strings.Contains(d.Text, "[1200]") || d.Vendor == "1002" && strings.HasPrefix(d.Text, "Display controller")
}

// smiTrouble says why no SMI tool gave anything.
func (v *View) smiTrouble() string {
	var out []string
	for _, id := range []string{facts.AMDSMIList, facts.AMDSMITable, facts.AMDSMIMetric, facts.ROCmSMI} {
		if c, ok := v.command(id); ok {
			if _, words := trouble(c, false); words != "" {
				out = append(out, strings.Join(c.Argv[:min(1, len(c.Argv))], "")+": "+words)
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(slices.Compact(out), "; ")
}

// gpuIdentity: all GPUs must be the same model, and the site's.
func gpuIdentity() Check {
	c := gpu("gpu.identity", true, judgeGPUIdentity)
	c.Fleet = func(vs []*View) []Finding {
		fs, _ := odd(vs, "GPU model", func(v *View) string {
			seen := map[string]bool{}
			for _, g := range v.GPUs() {
				seen[g.Device] = true
			}
			return strings.Join(sortedKeys(seen), ", ")
		})
		return remedy(fs, "use nodes of one kind for a run: constraint or exclude in the site")
	}
	return c
}

func judgeGPUIdentity(v *View) []Finding {
	count := map[string]int{}
	for _, g := range v.GPUs() {
		if g.Device != "" {
			count[g.Device]++
		}
	}
	if len(count) == 0 {
		return []Finding{unknown("", "the PCI device ids of the GPUs are not known", "look whether /sys is readable")}
	}
	want := strings.TrimPrefix(strings.ToLower(v.Expect.Site.GPU.DeviceID), "0x")
	if want == "" {
		for _, id := range sortedKeys(count) {
			if want == "" || count[id] > count[want] {
				want = id
			}
		}
	}
	var out []Finding
	for _, g := range v.GPUs() {
		if g.Device != "" && g.Device != want {
			out = append(out, fail(g.Name, "device "+g.Device, want, "another GPU model than expected: exclude the node, or correct preflight.gpu.device_id of the site", evidence("cat "+g.dir()+"/device", g.Device)))
		}
	}
	return orPass(out, fmt.Sprintf("%d × 1002:%s", count[want], want))
}

// gpuPartition: GPUs split into partitions multiply, and each is a fraction.
func gpuPartition() Check { return gpu("gpu.partition", true, judgePartition) }

func judgePartition(v *View) []Finding {
	want := strings.ToUpper(or(v.Expect.Site.GPU.Partition, "SPX/NPS1"))
	wantC, wantM, _ := strings.Cut(want, "/")
	const fix = "set the mode back on an idle node: amd-smi set -g all -C SPX -M NPS1"
	var out []Finding
	seen := 0
	judge := func(object, compute, memory string, ev Evidence) {
		if parse.NA(compute) && parse.NA(memory) {
			return
		}
		seen++
		// A tool may print the mode that is off instead: CPX_DISABLED.
		if !parse.NA(compute) && !strings.EqualFold(compute, wantC) && !strings.HasSuffix(strings.ToUpper(compute), "_DISABLED") {
			out = append(out, fail(object, "compute partition "+compute, wantC, fix, ev))
		}
		if !parse.NA(memory) && wantM != "" && !strings.EqualFold(memory, wantM) {
			out = append(out, fail(object, "memory partition "+memory, wantM, fix, ev))
		}
	}
	for _, g := range v.GPUs() {
		judge(g.Name, g.Compute, g.Memory, evidence("cat "+g.dir()+"/current_*_partition", g.Compute, g.Memory))
		if len(g.KFDNodes) > 1 && wantC == "SPX" {
			seen++
			out = append(out, fail(g.Name, fmt.Sprintf("%d partitions", len(g.KFDNodes)), "one", fix, evidence("ls "+sysKFD, g.KFDNodes...)))
		} else if len(g.KFDNodes) == 1 {
			seen++
		}
	}
	for _, s := range v.SMI() {
		parts := map[string]int{}
		for _, g := range s.gpus {
			if g.Mode != "" {
				c, m, _ := strings.Cut(g.Mode, "/")
				judge(v.smiName(g), c, m, evidence(s.source, g.Lines...))
			}
			if g.Partition != nil && g.BDF != "" {
				seen++
				parts[g.BDF]++
			}
		}
		for _, bdf := range sortedKeys(parts) {
			if parts[bdf] > 1 && wantC == "SPX" {
				out = append(out, fail(bdf, fmt.Sprintf("%d partitions", parts[bdf]), "one", fix, evidence(s.source)))
			}
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives the partition mode"+v.smiTrouble(), "run amd-smi partition by hand")}
	}
	return orPass(dedup(out), want)
}

// gpuAlive: a GPU that fell off the bus can still be listed.
func gpuAlive() Check { return gpu("gpu.alive", true, judgeAlive) }

func judgeAlive(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, g := range v.GPUs() {
		for _, dir := range []string{sysPCI + "/" + g.BDF, g.dir()} {
			f, ok := v.Facts.Files[dir+"/config"]
			switch {
			case !ok:
				continue
			case f.Err == facts.ErrHung:
				seen++
				out = append(out, fail(g.Name, "reading its configuration hangs", "an answer", fixGPU, evidence("cat "+dir+"/config")))
			case f.Err == "" && strings.HasPrefix(f.Data, "ffffffff"):
				seen++
				out = append(out, fail(g.Name, "its configuration reads all ones: it fell off the bus", "a device that answers", fixGPU, evidence("xxd -l 4 "+dir+"/config", f.Data)))
			default:
				seen++
			}
			break
		}
		if used, ok := v.Facts.Files[g.dir()+"/mem_info_vram_used"]; ok && used.Err == facts.ErrHung {
			seen++
			out = append(out, fail(g.Name, "asking the driver for its memory hangs", "an answer", fixGPU, evidence("cat "+g.dir()+"/mem_info_vram_used")))
		} else if ok && used.Err == "" {
			seen++
		}
	}
	if c, ok := v.command(facts.LspciAll); ok {
		for _, d := range parse.Lspci(c.Stdout) {
			if !isAccelerator(d) {
				continue
			}
			seen++
			if d.OffBus {
				out = append(out, fail(d.BDF, "lspci shows revision ff: it fell off the bus", "a device that answers", fixGPU, evidence(typed(c), d.Line)))
			}
		}
	}
	if c, ok := v.command(facts.GPUProbe); ok {
		seen++
		if _, words := trouble(c, strings.Contains(c.Stdout, "Agent")); words != "" && !c.Missing {
			f := unknown("", "rocminfo: "+words, "run rocminfo by hand", evidence(typed(c), parse.Lines(c.Stderr)...))
			if c.TimedOut {
				f.Verdict, f.Remedy = Fail, "a GPU hangs although it is listed: "+fixGPU
			}
			out = append(out, f)
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source shows whether the GPUs answer", "look whether "+sysPCI+" is readable")}
	}
	return orPass(out, "all answer")
}

// gpuAccess: the job's user must be able to open the devices.
func gpuAccess() Check { return gpu("gpu.access", true, judgeAccess) }

func judgeAccess(v *View) []Finding {
	var out []Finding
	if d, ok := v.Facts.Dirs["/sys/module/amdgpu"]; ok && d.Err == facts.ErrMissing {
		return []Finding{fail("", "the amdgpu driver is not loaded", "loaded", "modprobe amdgpu; look at the kernel log and at modprobe.blacklist on the kernel command line", evidence("ls /sys/module/amdgpu"))}
	}
	nodes := 0
	for _, p := range sortedKeys(v.Facts.Paths) {
		if p != "/dev/kfd" && !strings.HasPrefix(p, "/dev/dri/renderD") {
			continue
		}
		nodes++
		x := v.Facts.Paths[p]
		switch {
		case x.Err != "":
			out = append(out, fail(p, x.Err, "a device file", "load the amdgpu driver; run 'udevadm trigger'", evidence("stat "+p)))
		case !(x.Read && x.Write) && v.Expect.Runtime.Kind != "docker" && v.Expect.Runtime.Kind != "podman":
			// In a container another user opens them; the image probe looks there.
			out = append(out, fail(p, fmt.Sprintf("not readable and writable for the user (mode %04o, gid %d)", x.Mode, x.GID), "read and write access", "add the user to the groups render and video", evidence("ls -l "+p)))
		}
	}
	if nodes == 0 {
		return []Finding{unknown("", "/dev/kfd and /dev/dri were not looked at", "look at them by hand")}
	}
	return orPass(out, fmt.Sprintf("%d device files usable", nodes))
}

// gpuBusy: an engine that works without an owner is stuck.
func gpuBusy() Check { return gpu("gpu.busy", false, judgeBusy) }

// busyPercent is the load from which an idle GPU counts as busy.
const busyPercent = 20

func judgeBusy(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, g := range v.GPUs() {
		f := g.dir() + "/gpu_busy_percent"
		if n := v.int(f); n != nil {
			seen++
			if *n > busyPercent {
				out = append(out, warn(g.Name, fmt.Sprintf("busy %d %%", *n), "idle", "find out who uses it (gpu.holders); without an owner the GPU is stuck: "+fixGPU, evidence("cat "+f, fmt.Sprint(*n))))
			}
		}
	}
	if seen == 0 {
		for _, s := range v.SMI() {
			for _, g := range s.gpus {
				if g.Busy == nil {
					continue
				}
				seen++
				if *g.Busy > busyPercent {
					out = append(out, warn(v.smiName(g), fmt.Sprintf("busy %d %%", *g.Busy), "idle", "find out who uses it (gpu.holders)", evidence(s.source, g.Lines...)))
				}
			}
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives the load of the GPUs", "run amd-smi monitor by hand")}
	}
	return orPass(dedup(out), "all idle")
}

// gpuSMI: an SMI tool that is slow or hangs means a driver that hangs.
func gpuSMI() Check { return gpu("gpu.smi", false, judgeSMI) }

// Times an SMI tool may take for its version alone.
const (
	smiSlow = time.Second
	smiHung = 5 * time.Second
)

func judgeSMI(v *View) []Finding {
	var out, unsupported []Finding
	ran, useful := 0, 0
	asked := false
	// rocm-smi is only asked where amd-smi is not; each stands for itself.
	for _, id := range sortedKeys(v.Facts.Commands) {
		if !strings.HasPrefix(id, "amdsmi.") && id != facts.ROCmSMI || id == facts.AMDSMICPER {
			continue
		}
		c := v.Facts.Commands[id]
		asked = true
		if c.Missing {
			continue
		}
		ran++
		good := v.smiUseful(id, c)
		kind, words := trouble(c, good)
		ev := evidence(typed(c), append(parse.Lines(c.Stderr), parse.Lines(c.Stdout)...)...)
		switch {
		case c.TimedOut:
			out = append(out, fail(id, words, "an answer", fixFor(parse.FailTimeout, "amd-smi"), ev))
		case kind == parse.FailNoDevice:
			out = append(out, fail(id, words, "the node's GPUs", "the driver is not loaded or not initialised: look at the kernel log, reboot the node", ev))
		case !good:
			unsupported = append(unsupported, unknown(id, words, fixFor(kind, "amd-smi"), ev))
		case id == facts.AMDSMIVersion && c.Duration > smiHung:
			out = append(out, fail(id, fmt.Sprintf("its version took %.1f s", c.Duration.Seconds()), "less than 1 s", "the driver is about to hang: look at the kernel log", ev))
		case id == facts.AMDSMIVersion && c.Duration > smiSlow:
			out = append(out, warn(id, fmt.Sprintf("its version took %.1f s", c.Duration.Seconds()), "less than 1 s", "look at the kernel log for a driver in trouble", ev))
		}
		if good {
			useful++
		}
	}
	switch {
	case !asked:
		return []Finding{skip("no SMI tool was asked")}
	case ran == 0:
		return []Finding{warn("", "neither amd-smi nor rocm-smi is installed", "one of them, as a second source beside the kernel", "install amd-smi, or name its directory in preflight.tool_path of the site")}
	case useful == 0:
		// Single reports may be missing in a release; all of them are not.
		out = append(out, unsupported...)
	}
	return orPass(out, fmt.Sprintf("%d of %d reports answered", useful, ran))
}

// smiUseful says that a report holds something. rocm-smi prints nothing at all
// for an empty list of processes in JSON.
func (v *View) smiUseful(id string, c facts.Command) bool {
	switch id {
	case facts.AMDSMIVersion:
		tool, _ := parse.AMDSMIVersion(c.Stdout)
		return tool != ""
	case facts.AMDSMIProcess:
		_, ok := parse.AMDSMIProcess(c.Stdout)
		g, _ := parse.AMDSMIText(c.Stdout)
		return ok || len(g) > 0
	case facts.AMDSMIBadPages:
		return len(parse.AMDSMIBadPages(c.Stdout)) > 0
	case facts.AMDSMITopology:
		return len(parse.AMDSMITopology(c.Stdout)) > 0 || v.Expect.GPUsPerNode == 1
	case facts.AMDSMIXGMI:
		return len(parse.AMDSMIXGMI(c.Stdout)) > 0
	case facts.ROCmSMI:
		r := parse.ReadROCmSMI(c.Stdout)
		if strings.TrimSpace(c.Stdout) == "" && c.Exit == 0 && strings.Contains(c.Stderr, "No JSON data to report") {
			return true
		}
		return len(r.GPUs) > 0 || r.ProcsListed || len(r.Links) > 0
	}
	for _, s := range v.SMI() {
		if s.source == typed(c) {
			return true
		}
	}
	return false
}

// gpuVersions: nodes of one run need the same driver and firmware.
func gpuVersions() Check {
	c := gpu("gpu.versions", false, judgeVersions)
	c.Fleet = func(vs []*View) []Finding {
		var out []Finding
		for _, what := range []string{"amdgpu driver", "ROCm", "VBIOS"} {
			fs, _ := odd(vs, what, func(v *View) string { return v.gpuVersion(what) })
			out = append(out, softly(fs)...)
		}
		return remedy(out, "bring the node to the same release as the others")
	}
	return c
}

// gpuVersion is one of the node's versions.
func (v *View) gpuVersion(what string) string {
	switch what {
	case "amdgpu driver":
		return v.text("/sys/module/amdgpu/version")
	case "ROCm":
		return v.text("/opt/rocm/.info/version")
	}
	seen := map[string]bool{}
	for _, g := range v.GPUs() {
		if s := v.text(g.dir() + "/vbios_version"); s != "" {
			seen[s] = true
		}
	}
	return strings.Join(sortedKeys(seen), ", ")
}

func judgeVersions(v *View) []Finding {
	p := v.Expect.Site.GPU
	var out []Finding
	var have []string
	for _, x := range []struct{ what, pin, key string }{{"amdgpu driver", p.Driver, "driver"}, {"ROCm", p.ROCm, "rocm"}, {"VBIOS", p.VBIOS, "vbios"}} {
		got := v.gpuVersion(x.what)
		if got != "" {
			have = append(have, x.what+" "+got)
		}
		switch {
		case x.pin == "":
		case got == "":
			out = append(out, unknown(x.what, "its version cannot be read", "look for it by hand"))
		case parse.NormalVersion(got) != parse.NormalVersion(x.pin):
			out = append(out, fail(x.what, got, x.pin+" (preflight.gpu."+x.key+")", "install the pinned version"))
		}
	}
	if strings.Contains(v.gpuVersion("VBIOS"), ", ") {
		out = append(out, warn("VBIOS", v.gpuVersion("VBIOS"), "the same on all GPUs of the node", "update the GPUs' firmware bundle"))
	}
	if len(have) == 0 && len(out) == 0 {
		return []Finding{skip("no version can be read on this node")}
	}
	return orPass(out, strings.Join(have, ", "))
}
