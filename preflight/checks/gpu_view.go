package checks

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const (
	sysDRM      = "/sys/class/drm"
	sysKFD      = "/sys/class/kfd/kfd/topology/nodes"
	sysKFDProc  = "/sys/class/kfd/kfd/proc"
	vendorAMD   = "0x1002"
	classAccel  = "0x12"   // processing accelerator
	classScreen = "0x0380" // display controller without a screen, as older cards say
	linkXGMI    = 11       // io_link type in KFD
)

// GPU is one physical GPU as the kernel shows it.
type GPU struct {
	Name     string // PCI address, else card name
	BDF      string
	Card     string // card1
	Device   string // 75a3
	Used     *int64
	Total    *int64
	NUMA     string
	Compute  string
	Memory   string
	KFDIDs   []string // one for each partition
	KFDNodes []string
}

// gpuSet is what the kernel's three lists say.
type gpuSet struct {
	list []GPU
	// byDRM, byKFD and byPCI are the GPUs of each list; nil where the list was
	// not read.
	byDRM, byKFD, byPCI []string
}

// dir is the sysfs directory of the card's PCI device.
func (g GPU) dir() string {
	if g.Card != "" {
		return sysDRM + "/" + g.Card + "/device"
	}
	return sysPCI + "/" + g.BDF
}

// GPUs lists the node's physical GPUs in the order of their PCI addresses.
func (v *View) GPUs() []GPU { return v.gpuSet().list }

func (v *View) gpuSet() *gpuSet {
	if v.gpus != nil {
		return v.gpus
	}
	set := &gpuSet{}
	byName := map[string]*GPU{}
	add := func(name string) *GPU {
		if byName[name] == nil {
			byName[name] = &GPU{Name: name}
		}
		return byName[name]
	}
	if v.gathered(sysDRM) {
		set.byDRM = []string{}
		for _, card := range v.children(sysDRM) {
			// card0-DP-1 is a connector, and card0 is often the BMC's.
			if !strings.HasPrefix(card, "card") || strings.Contains(card, "-") {
				continue
			}
			dir := sysDRM + "/" + card + "/device"
			if v.onlyRAS(dir) {
				// An excerpt that holds nothing else.
			} else if v.text(dir+"/vendor") != vendorAMD {
				continue
			}
			name := card
			if t := v.Facts.Files[dir].Target; t != "" {
				if bdf, ok := parse.BDF(t[strings.LastIndexByte(t, '/')+1:]); ok {
					name = bdf
				}
			}
			g := add(name)
			g.Card = card
			if name != card {
				g.BDF = name
			}
			g.Device = strings.TrimPrefix(v.text(dir+"/device"), "0x")
			g.Used, g.Total = v.int(dir+"/mem_info_vram_used"), v.int(dir+"/mem_info_vram_total")
			g.NUMA = v.text(dir + "/numa_node")
			g.Compute, g.Memory = v.text(dir+"/current_compute_partition"), v.text(dir+"/current_memory_partition")
			set.byDRM = append(set.byDRM, name)
		}
	}
	if v.gathered(sysKFD) {
		set.byKFD = []string{}
		for _, n := range v.children(sysKFD) {
			p := parse.Properties(v.text(sysKFD + "/" + n + "/properties"))
			if p["simd_count"] == 0 || p["vendor_id"] != 0x1002 {
				continue
			}
			bdf := parse.LocationBDF(p["domain"], p["location_id"])
			// Partitions of one card differ in the function number only.
			card := bdf[:len(bdf)-1] + "0"
			g := add(card)
			g.BDF = card
			g.Device = or(g.Device, fmt.Sprintf("%04x", p["device_id"]))
			g.KFDNodes = append(g.KFDNodes, n)
			if id := v.text(sysKFD + "/" + n + "/gpu_id"); id != "" && id != "0" {
				g.KFDIDs = append(g.KFDIDs, id)
			}
			if !slices.Contains(set.byKFD, card) {
				set.byKFD = append(set.byKFD, card)
			}
		}
	}
	if v.gathered(sysPCI) {
		set.byPCI = []string{}
		for _, bdf := range v.children(sysPCI) {
			dir := sysPCI + "/" + bdf
			class := v.text(dir + "/class")
			if v.text(dir+"/vendor") != vendorAMD || !strings.HasPrefix(class, classAccel) && !strings.HasPrefix(class, classScreen) {
				continue
			}
			g := add(bdf)
			g.BDF = bdf
			g.Device = or(g.Device, strings.TrimPrefix(v.text(dir+"/device"), "0x"))
			g.NUMA = or(g.NUMA, v.text(dir+"/numa_node"))
			set.byPCI = append(set.byPCI, bdf)
		}
	}
	for _, g := range byName {
		set.list = append(set.list, *g)
	}
	sort.Slice(set.list, func(i, j int) bool { return NaturalLess(set.list[i].Name, set.list[j].Name) })
	v.gpus = set
	return set
}

// onlyRAS says that of a card nothing but error counters is known.
func (v *View) onlyRAS(dir string) bool {
	c := v.children(dir)
	return len(c) == 1 && c[0] == "ras"
}

// smi is what one SMI command said about GPUs.
type smi struct {
	source string
	gpus   []parse.SMIGPU
}

// SMI lists what the SMI tools say, one entry a command that gave GPUs.
func (v *View) SMI() []smi {
	if v.once("smi") {
		v.smis = v.readSMI()
	}
	return v.smis
}

func (v *View) readSMI() []smi {
	var out []smi
	add := func(id string, read func(string) []parse.SMIGPU) {
		if c, ok := v.command(id); ok {
			if g := read(c.Stdout); len(g) > 0 {
				out = append(out, smi{typed(c), g})
			}
		}
	}
	add(facts.AMDSMIList, func(s string) []parse.SMIGPU {
		if g := parse.AMDSMI(s); len(g) > 0 {
			return g
		}
		g, _ := parse.AMDSMIText(s)
		return g
	})
	add(facts.AMDSMIMetric, func(s string) []parse.SMIGPU {
		if g := parse.AMDSMI(s); len(g) > 0 {
			return g
		}
		g, _ := parse.AMDSMIText(s)
		return g
	})
	add(facts.AMDSMIPartition, parse.AMDSMI)
	add(facts.AMDSMITable, func(s string) []parse.SMIGPU { g, _, _ := parse.AMDSMITable(s); return g })
	add(facts.AMDSMIMonitor, parse.AMDSMIMonitor)
	add(facts.ROCmSMI, func(s string) []parse.SMIGPU { return parse.ReadROCmSMI(s).GPUs })
	return out
}

// smiName names a GPU as an SMI tool does, with its PCI address where known.
func (v *View) smiName(g parse.SMIGPU) string {
	name := fmt.Sprintf("GPU %d", g.Index)
	if bdf := or(g.BDF, v.smiBDF(g.Index)); bdf != "" {
		return bdf + " (" + name + ")"
	}
	return name
}

// smiBDF finds the PCI address of an SMI index.
func (v *View) smiBDF(index int) string {
	for _, id := range []string{facts.AMDSMIList, facts.AMDSMITable, facts.ROCmSMI} {
		c, ok := v.command(id)
		if !ok {
			continue
		}
		var gpus []parse.SMIGPU
		switch id {
		case facts.AMDSMIList:
			gpus = parse.AMDSMI(c.Stdout)
		case facts.AMDSMITable:
			gpus, _, _ = parse.AMDSMITable(c.Stdout)
		default:
			gpus = parse.ReadROCmSMI(c.Stdout).GPUs
		}
		for _, g := range gpus {
			if g.Index == index && g.BDF != "" {
				return g.BDF
			}
		}
	}
	return ""
}

// holder is one process that holds GPU memory or has a GPU open.
type holder struct {
	pid   int
	name  string
	user  string
	cmd   string
	owner parse.Owner
	// vram is bytes by GPU name; total is what is known where no split is.
	vram  map[string]int64
	total int64
	// alive says whether the process exists; nil where nobody looked.
	alive  *bool
	zombie bool
	ev     []Evidence
}

// Holders lists the processes that KFD or an SMI tool names, largest first.
// listed says that at least one source gave a list, also an empty one.
func (v *View) Holders() (hs []holder, listed bool) {
	if !v.once("holders") {
		return v.procs, v.done["holders.listed"]
	}
	byPID := map[int]*holder{}
	get := func(pid int) *holder {
		if byPID[pid] == nil {
			byPID[pid] = &holder{pid: pid, vram: map[string]int64{}}
		}
		return byPID[pid]
	}
	if d, ok := v.Facts.Dirs[sysKFDProc]; ok && d.Err == "" || len(v.children(sysKFDProc)) > 0 {
		listed = true
		gpuOf := map[string]string{}
		for _, g := range v.GPUs() {
			for _, id := range g.KFDIDs {
				gpuOf[id] = g.Name
			}
		}
		for _, p := range v.children(sysKFDProc) {
			pid, err := strconv.Atoi(p)
			if err != nil {
				continue
			}
			h := get(pid)
			for _, f := range v.children(sysKFDProc + "/" + p) {
				id, ok := strings.CutPrefix(f, "vram_")
				path := sysKFDProc + "/" + p + "/" + f
				n := v.int(path)
				if !ok || n == nil {
					continue
				}
				h.vram[or(gpuOf[id], "gpu_id "+id)] += *n
				if *n > 0 {
					h.ev = append(h.ev, evidence("cat "+path, fmt.Sprint(*n)))
				}
			}
		}
	}
	for _, r := range v.smiProcs() {
		listed = true
		for _, p := range r.procs {
			h := get(p.PID)
			h.name = or(h.name, p.Name)
			// The same total is repeated under every GPU a process uses.
			h.total = max(h.total, p.VRAM)
			if p.VRAM > 0 {
				h.ev = append(h.ev, evidence(r.source, p.Line))
			}
		}
	}
	for _, h := range byPID {
		v.identify(h)
		v.procs = append(v.procs, *h)
	}
	sort.Slice(v.procs, func(i, j int) bool {
		a, b := v.procs[i], v.procs[j]
		if a.bytes() != b.bytes() {
			return a.bytes() > b.bytes()
		}
		return a.pid < b.pid
	})
	v.done["holders.listed"] = listed
	return v.procs, listed
}

type smiProcList struct {
	source string
	procs  []parse.GPUProcess
}

func (v *View) smiProcs() []smiProcList {
	var out []smiProcList
	if c, ok := v.command(facts.AMDSMIProcess); ok {
		if p, listed := parse.AMDSMIProcess(c.Stdout); listed {
			out = append(out, smiProcList{typed(c), p})
		} else if g, p := parse.AMDSMIText(c.Stdout); len(g) > 0 {
			out = append(out, smiProcList{typed(c), p})
		}
	}
	if c, ok := v.command(facts.AMDSMITable); ok {
		if _, p, listed := parse.AMDSMITable(c.Stdout); listed {
			out = append(out, smiProcList{typed(c), p})
		}
	}
	if c, ok := v.command(facts.ROCmSMI); ok {
		if r := parse.ReadROCmSMI(c.Stdout); r.ProcsListed {
			out = append(out, smiProcList{typed(c), r.Procs})
		}
	}
	return out
}

// identify finds out who a process is, from the files of /proc.
func (v *View) identify(h *holder) {
	dir := fmt.Sprintf("/proc/%d", h.pid)
	if f, looked := v.Facts.Files[dir+"/status"]; looked {
		alive := f.Err == ""
		h.alive = &alive
		st := parse.Status(f.Data)
		h.name = or(st["Name"], h.name)
		h.zombie = strings.HasPrefix(st["State"], "Z")
		if uid := strings.Fields(st["Uid"]); len(uid) > 0 {
			h.user = v.userName(uid[0])
		}
	}
	if s, ok := v.file(dir + "/comm"); ok && s != "" {
		h.name = s
	}
	h.cmd = Redacted(v.text(dir + "/cmdline"))
	h.owner = parse.CgroupOwner(v.text(dir + "/cgroup"))
	if i := strings.LastIndexByte(h.name, '/'); i >= 0 {
		h.name = h.name[i+1:]
	}
}

// userName is the user's name where it is known.
func (v *View) userName(uid string) string {
	if n, err := strconv.Atoi(uid); err == nil && v.Facts.Host.Users[n] != "" {
		return v.Facts.Host.Users[n]
	}
	return "uid " + uid
}

// bytes is the memory of all GPUs the process holds.
func (h holder) bytes() int64 {
	var sum int64
	for _, n := range h.vram {
		sum += n
	}
	return max(sum, h.total)
}

// describe writes who it is.
func (h holder) describe() string {
	out := fmt.Sprintf("pid %d %s", h.pid, or(h.name, "(name not known)"))
	if h.user != "" {
		out += " of " + h.user
	}
	if h.owner.Kind != parse.OwnerUnknown && h.owner.Kind != "" {
		out += ", " + h.owner.String()
	}
	if len(h.cmd) > 120 {
		out += ": " + h.cmd[:120] + "…"
	} else if h.cmd != "" {
		out += ": " + h.cmd
	}
	return out
}

// gib writes bytes as GiB.
func gib(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// Redacted writes a command line (arguments separated by NUL) as text, without
// the values of arguments that look like secrets: it is somebody else's command
// and goes into reports.
func Redacted(cmdline string) string {
	args := strings.FieldsFunc(cmdline, func(r rune) bool { return r == 0 })
	for i, a := range args {
		name, _, assigned := strings.Cut(a, "=")
		if !secretName(name) {
			continue
		}
		if assigned {
			args[i] = name + "=***"
		} else if i+1 < len(args) && strings.HasPrefix(a, "-") {
			args[i+1] = "***"
		}
	}
	return strings.TrimSpace(strings.Join(args, " "))
}

func secretName(s string) bool {
	s = strings.ToLower(s)
	for _, w := range []string{"token", "secret", "password", "passwd", "api-key", "api_key", "apikey", "credential"} {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
