package parse

import (
	"encoding/json"
	"strconv"
	"strings"
)

// SMIGPU is what an SMI tool says of one GPU. nil means not said, or N/A.
type SMIGPU struct {
	Index     int
	BDF       string
	Partition *int   // partition id inside the card; nil where not said
	Mode      string // compute/memory partition, SPX/NPS1
	Used      *int64 // VRAM in bytes
	Total     *int64
	UsedPct   *int64 // where only a percentage is printed
	UE        *int64 // uncorrectable errors
	CE        *int64
	Deferred  *int64
	Busy      *int64 // percent
	Width     *int64 // PCIe lanes
	Speed     *float64
	Recovery  *int64 // L0 to recovery count
	Replays   *int64
	TempC     *float64
	PowerW    *float64
	CapW      *float64
	// NA lists the values that were printed as not known.
	NA    []string
	Lines []string
}

// AMDSMI reads the JSON of "amd-smi list", "metric" and "static", in the shape of
// ROCm 6 (a list) and of ROCm 7 (gpu_data).
func AMDSMI(text string) []SMIGPU {
	var out []SMIGPU
	for _, doc := range documents(text) {
		if d := get(doc, "gpu_data"); d != nil {
			doc = d
		}
		for _, e := range list(doc) {
			idx := measureInt(get(e, "gpu"))
			if idx == nil {
				continue
			}
			g := SMIGPU{Index: int(*idx)}
			g.fromJSON(e)
			out = append(out, g)
		}
	}
	return out
}

func (g *SMIGPU) fromJSON(e any) {
	g.BDF, _ = BDF(str(get(e, "bdf")))
	if n := measureInt(get(e, "partition_id")); n != nil {
		g.Partition = ptr(int(*n))
	}
	compute, memory := str(get(e, "compute_partition")), str(get(e, "memory_partition"))
	if p := get(e, "partition"); p != nil {
		compute, memory = str(get(p, "compute_partition")), str(get(p, "memory_partition"))
	}
	if !NA(compute) || !NA(memory) {
		g.Mode = compute + "/" + memory
	}
	note := func(name string, v any, got bool) {
		if v != nil && !got {
			g.NA = append(g.NA, name)
		}
		if v != nil {
			b, err := json.Marshal(v)
			if err == nil {
				g.Lines = append(g.Lines, name+": "+string(b))
			}
		}
	}
	mem := get(e, "mem_usage")
	if mem == nil {
		mem = get(e, "mem")
	}
	g.Used = measureBytes(get(mem, "used_vram"))
	note("used_vram", get(mem, "used_vram"), g.Used != nil)
	g.Total = measureBytes(get(mem, "total_vram"))
	count := func(name string) *int64 {
		v := get(e, "ecc", name)
		n := measureInt(v)
		note(name, v, n != nil)
		return n
	}
	g.UE, g.CE, g.Deferred = count("total_uncorrectable_count"), count("total_correctable_count"), count("total_deferred_count")
	pcie := get(e, "pcie")
	g.Width = measureInt(get(pcie, "width"))
	if n, _, ok := measure(get(pcie, "speed")); ok {
		g.Speed = &n
	}
	g.Recovery = measureInt(get(pcie, "l0_to_recovery_count"))
	g.Replays = measureInt(get(pcie, "replay_count"))
	g.Busy = measureInt(get(e, "usage", "gfx_activity"))
	if n, _, ok := measure(get(e, "temperature", "hotspot")); ok {
		g.TempC = &n
	}
	if n, _, ok := measure(get(e, "power", "socket_power")); ok {
		g.PowerW = &n
	}
}

// AMDSMIText reads the text form of "amd-smi metric" and "amd-smi process".
func AMDSMIText(text string) (gpus []SMIGPU, procs []GPUProcess) {
	inProc := false
	for _, l := range Lines(text) {
		label, value, ok := KV(l)
		if !ok {
			continue
		}
		if label == "gpu" {
			n, ok := number(value)
			if !ok {
				continue
			}
			gpus = append(gpus, SMIGPU{Index: int(n)})
			inProc = false
			continue
		}
		if len(gpus) == 0 {
			continue
		}
		g := &gpus[len(gpus)-1]
		if label == "process_info" {
			if value == "" {
				procs = append(procs, GPUProcess{GPU: g.Index})
				inProc = true
			}
			continue
		}
		if inProc {
			procs[len(procs)-1].fromText(label, value, l)
			continue
		}
		g.fromText(label, value, l)
	}
	return gpus, procs
}

func (g *SMIGPU) fromText(label, value, line string) {
	keep := true
	ints := map[string]**int64{
		"width": &g.Width, "l0_to_recovery_count": &g.Recovery, "replay_count": &g.Replays,
		"total_uncorrectable_count": &g.UE, "total_correctable_count": &g.CE, "total_deferred_count": &g.Deferred,
	}
	switch dst, isInt := ints[label]; {
	case isInt && !NA(value):
		if n, ok := number(value); ok {
			*dst = &n
		}
	case isInt:
		g.NA = append(g.NA, label)
	case label == "speed":
		if n, ok := float(value); ok {
			g.Speed = &n
		}
	case label == "used_vram":
		if n, ok := Bytes(value); ok {
			g.Used = &n
		} else {
			g.NA = append(g.NA, label)
		}
	case label == "total_vram":
		if n, ok := Bytes(value); ok {
			g.Total = &n
		}
	case label == "bdf":
		g.BDF, _ = BDF(value)
	default:
		keep = false
	}
	if keep {
		g.Lines = append(g.Lines, strings.TrimSpace(line))
	}
}

// GPUProcess is one process that a tool lists for a GPU.
type GPUProcess struct {
	GPU  int // index; -1 where the tool gives only a number of GPUs
	PID  int
	Name string // empty where not known
	VRAM int64  // bytes
	Line string
}

func (p *GPUProcess) fromText(label, value, line string) {
	switch label {
	case "name":
		if !NA(value) {
			p.Name = value
		}
	case "pid":
		if n, ok := number(value); ok {
			p.PID = int(n)
		}
	case "vram_mem", "mem_usage":
		if n, ok := Bytes(value); ok {
			p.VRAM = max(p.VRAM, n)
			if n > 0 {
				p.Line = strings.TrimSpace(line)
			}
		}
	}
}

// AMDSMIProcess reads "amd-smi process --json". ok is false where the text is not
// such a report: an empty list of processes is an answer, no JSON is none.
func AMDSMIProcess(text string) (procs []GPUProcess, ok bool) {
	for _, doc := range documents(text) {
		if d := get(doc, "gpu_data"); d != nil {
			doc = d
		}
		for _, e := range list(doc) {
			idx := measureInt(get(e, "gpu"))
			if idx == nil {
				continue
			}
			ok = true
			for _, item := range list(get(e, "process_list")) {
				info := item
				if v := get(item, "process_info"); v != nil {
					info = v
				}
				// An idle GPU has a sentence here instead of an object.
				pid := measureInt(get(info, "pid"))
				if pid == nil {
					continue
				}
				p := GPUProcess{GPU: int(*idx), PID: int(*pid)}
				if name := str(get(info, "name")); !NA(name) {
					p.Name = name
				}
				// Either of the two may be zero while the other is right.
				for _, v := range []any{get(info, "mem_usage"), get(info, "memory_usage", "vram_mem"), get(info, "vram_mem"), get(info, "mem")} {
					if n := measureBytes(v); n != nil {
						p.VRAM = max(p.VRAM, *n)
					}
				}
				p.Line = "pid " + strconv.Itoa(p.PID) + " name " + str(get(info, "name")) + " vram " + strconv.FormatInt(p.VRAM, 10) + " B"
				procs = append(procs, p)
			}
		}
	}
	return procs, ok
}

// BadPages are the bad memory pages of one GPU.
type BadPages struct {
	GPU                            int
	Retired, Pending, Unreserved   int
	UnknownRetired, UnknownPending bool
	Line                           string
}

// AMDSMIBadPages reads "amd-smi bad-pages --json". Each of the three lists may be
// a sentence, one object or a list.
func AMDSMIBadPages(text string) []BadPages {
	var out []BadPages
	for _, doc := range documents(text) {
		if d := get(doc, "gpu_data"); d != nil {
			doc = d
		}
		for _, e := range list(doc) {
			idx := measureInt(get(e, "gpu"))
			if idx == nil {
				continue
			}
			b := BadPages{GPU: int(*idx)}
			var unknown bool
			b.Retired, b.UnknownRetired = countPages(get(e, "retired"))
			b.Pending, b.UnknownPending = countPages(get(e, "pending"))
			b.Unreserved, unknown = countPages(get(e, "un_res"))
			b.UnknownPending = b.UnknownPending || unknown
			b.Line = "gpu " + strconv.Itoa(b.GPU) + ": retired " + strconv.Itoa(b.Retired) + ", pending " + strconv.Itoa(b.Pending) + ", unreservable " + strconv.Itoa(b.Unreserved)
			out = append(out, b)
		}
	}
	return out
}

func countPages(v any) (n int, unknown bool) {
	switch v := v.(type) {
	case nil:
		return 0, false
	case string:
		return 0, !strings.Contains(strings.ToLower(v), "no bad pages")
	case []any:
		return len(v), false
	case map[string]any:
		return 1, false
	}
	return 0, true
}

// GPULink is the connection between two GPUs.
type GPULink struct {
	A, B string // indexes or PCI addresses
	Type string // XGMI, PCIE, …
	// Down: the link is listed as not accessible.
	Down bool
	Hops *int64
	Line string
}

// AMDSMITopology reads "amd-smi topology --json" in its old and its new shape.
// Every pair is given once for each direction that is listed.
func AMDSMITopology(text string) []GPULink {
	var out []GPULink
	for _, doc := range documents(text) {
		if d := get(doc, "gpu_data"); d != nil {
			doc = d
		}
		for _, e := range list(doc) {
			idx := measureInt(get(e, "gpu"))
			if idx == nil {
				continue
			}
			a := strconv.FormatInt(*idx, 10)
			for _, l := range list(get(e, "links")) {
				b := measureInt(get(l, "gpu"))
				if b == nil {
					continue
				}
				out = appendLink(out, a, strconv.FormatInt(*b, 10), str(get(l, "link_type")), str(get(l, "link_status")), measureInt(get(l, "num_hops")))
			}
			types, _ := get(e, "link_type").(map[string]any)
			for _, k := range sortedKeys(types) {
				b := strings.TrimPrefix(k, "gpu_")
				out = appendLink(out, a, b, str(types[k]), str(get(e, "link_accessibility", k)), measureInt(get(e, "hops", k)))
			}
		}
	}
	return out
}

func appendLink(out []GPULink, a, b, kind, status string, hops *int64) []GPULink {
	if kind == "SELF" || a == b {
		return out
	}
	return append(out, GPULink{A: a, B: b, Type: kind, Down: strings.EqualFold(status, "DISABLED"), Hops: hops,
		Line: "gpu " + a + " – gpu " + b + ": " + kind + " " + status})
}

// AMDSMIPartition reads "amd-smi partition --json": several documents and a
// legend. GPU index → compute/memory mode.
func AMDSMIPartition(text string) map[int]string {
	out := map[int]string{}
	for _, g := range AMDSMI(text) {
		if g.Mode != "" {
			out[g.Index] = g.Mode
		}
	}
	return out
}

// AMDSMIVersion reads "amd-smi version --json".
func AMDSMIVersion(text string) (tool, rocm string) {
	for _, doc := range documents(text) {
		for _, e := range list(doc) {
			tool, rocm = str(get(e, "amdsmi_library_version")), str(get(e, "rocm_version"))
			if tool != "" {
				return tool, rocm
			}
		}
	}
	return "", ""
}
