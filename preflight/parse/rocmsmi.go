package parse

import (
	"regexp"
	"strconv"
	"strings"
)

// ROCmSMI is what one rocm-smi report said. Any part may be missing.
type ROCmSMI struct {
	GPUs []SMIGPU
	// Procs are the listed processes; ProcsListed says that there was a list,
	// also an empty one.
	Procs       []GPUProcess
	ProcsListed bool
	Links       []GPULink
}

// GPU returns the entry for index i, making it where it is new.
func (r *ROCmSMI) gpu(i int) *SMIGPU {
	for k := range r.GPUs {
		if r.GPUs[k].Index == i {
			return &r.GPUs[k]
		}
	}
	r.GPUs = append(r.GPUs, SMIGPU{Index: i})
	return &r.GPUs[len(r.GPUs)-1]
}

var (
	rocmGPU  = regexp.MustCompile(`^GPU\[(\d+)\]\s*:\s*(.*)$`)
	rocmProc = regexp.MustCompile(`^(\d+)\s+(\S.*?)\s+(\d+|UNKNOWN)\s+(\d+)\s+(\d+)\s+(\S+)\s*$`)
	rocmPair = regexp.MustCompile(`(\d+) and (\d+)`)
	rasRow   = regexp.MustCompile(`^\s+([A-Z0-9_]+)\s+(ENABLED|DISABLED)\s+(\d+|N/A)?\s*(\d+|N/A)?\s*$`)
)

// ReadROCmSMI reads rocm-smi, as text or with --json, for any set of its reports:
// memory use, memory info, processes, RAS, bus, link types.
func ReadROCmSMI(text string) ROCmSMI {
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "WARNING") && strings.Contains(t, "\n{") {
		return rocmJSON(text)
	}
	var r ROCmSMI
	ras := -1
	matrix := false
	for _, l := range Lines(text) {
		if strings.Contains(l, "Link Type between two GPUs") {
			matrix = true
			continue
		}
		if matrix && r.matrixRow(l) {
			continue
		}
		if strings.HasPrefix(l, "====") {
			matrix = false
		}
		if m := rocmGPU.FindStringSubmatch(l); m != nil {
			i, _ := strconv.Atoi(m[1])
			g := r.gpu(i)
			ras = -1
			label, value, ok := strings.Cut(m[2], "):")
			if !ok {
				label, value, ok = strings.Cut(m[2], ":")
			}
			if strings.Contains(m[2], "RAS INFO") {
				ras = i
			}
			if ok {
				g.rocm(Label(strings.TrimSuffix(label, ")")), strings.TrimSpace(value), l)
			}
			continue
		}
		switch {
		case strings.Contains(l, "KFD process information") || strings.Contains(l, "No KFD PIDs currently running"):
			r.ProcsListed = true
		case ras >= 0 && rasRow.MatchString(l):
			m := rasRow.FindStringSubmatch(l)
			r.gpu(ras).addRAS(m[4], m[3], l)
		case r.ProcsListed && rocmProc.MatchString(l):
			m := rocmProc.FindStringSubmatch(l)
			pid, _ := strconv.Atoi(m[1])
			vram, _ := strconv.ParseInt(m[4], 10, 64)
			r.Procs = append(r.Procs, GPUProcess{GPU: -1, PID: pid, Name: m[2], VRAM: vram, Line: strings.Join(strings.Fields(l), " ")})
		}
	}
	return r
}

// addRAS adds one block's counts.
func (g *SMIGPU) addRAS(ue, ce, line string) {
	add := func(dst **int64, s string) {
		n, ok := number(s)
		if !ok {
			return
		}
		if *dst != nil {
			n += **dst
		}
		*dst = &n
	}
	add(&g.UE, ue)
	add(&g.CE, ce)
	g.Lines = append(g.Lines, strings.Join(strings.Fields(line), " "))
}

// rocm reads one labelled value; labels lose a trailing unit in parentheses.
func (g *SMIGPU) rocm(label, value, line string) {
	keep := true
	switch {
	case strings.HasPrefix(label, "gpu memory allocated (vram%"):
		if n, ok := number(value); ok {
			g.UsedPct = &n
		} else {
			g.NA = append(g.NA, "VRAM%")
		}
	case strings.HasPrefix(label, "vram total used memory"):
		if n, ok := number(value); ok {
			g.Used = &n
		} else {
			g.NA = append(g.NA, "VRAM used")
		}
	case strings.HasPrefix(label, "vram total memory"):
		if n, ok := number(value); ok {
			g.Total = &n
		}
	case strings.HasPrefix(label, "pci bus"):
		g.BDF, _ = BDF(value)
	case strings.HasPrefix(label, "gpu use"):
		if n, ok := number(value); ok {
			g.Busy = &n
		}
	case strings.HasPrefix(label, "temperature (sensor junction"):
		if n, ok := float(value); ok {
			g.TempC = &n
		}
	default:
		keep = false
	}
	if keep {
		g.Lines = append(g.Lines, strings.Join(strings.Fields(line), " "))
	}
}

func rocmJSON(text string) ROCmSMI {
	var r ROCmSMI
	for _, doc := range documents(text) {
		m, _ := doc.(map[string]any)
		for _, card := range sortedKeys(m) {
			fields, _ := m[card].(map[string]any)
			if card == "system" {
				r.ProcsListed = r.system(fields) || r.ProcsListed
				continue
			}
			i, err := strconv.Atoi(strings.TrimPrefix(card, "card"))
			if err != nil || !strings.HasPrefix(card, "card") {
				continue
			}
			g := r.gpu(i)
			for _, k := range sortedKeys(fields) {
				v := str(fields[k])
				g.rocm(Label(k), v, card+": "+k+": "+v)
			}
		}
	}
	return r
}

// system reads the entries that belong to no card. It says whether they hold a
// list of processes.
func (r *ROCmSMI) system(fields map[string]any) (listed bool) {
	for _, k := range sortedKeys(fields) {
		v := str(fields[k])
		if pid, ok := strings.CutPrefix(k, "PID"); ok && isDigits(pid) {
			listed = true
			// The name may hold commas: the four numbers are split off from
			// the right.
			f := strings.Split(v, ",")
			if len(f) < 5 {
				continue
			}
			n, _ := strconv.Atoi(pid)
			vram, _ := strconv.ParseInt(strings.TrimSpace(f[len(f)-3]), 10, 64)
			r.Procs = append(r.Procs, GPUProcess{GPU: -1, PID: n, Name: strings.TrimSpace(strings.Join(f[:len(f)-4], ",")), VRAM: vram, Line: k + ": " + v})
			continue
		}
		if m := rocmPair.FindStringSubmatch(k); m != nil && strings.Contains(k, "Link type") {
			r.Links = append(r.Links, GPULink{A: m[1], B: m[2], Type: v, Line: k + ": " + v})
		}
	}
	return listed
}

// matrixRow reads one row of the table of link types; the header is one too.
func (r *ROCmSMI) matrixRow(l string) bool {
	f := strings.Fields(l)
	if len(f) < 2 || !strings.HasPrefix(f[0], "GPU") || !isDigits(f[0][3:]) {
		return false
	}
	if strings.HasPrefix(f[1], "GPU") {
		return true
	}
	for j, kind := range f[1:] {
		if b := strconv.Itoa(j); b != f[0][3:] && kind != "0" {
			r.Links = append(r.Links, GPULink{A: f[0][3:], B: b, Type: kind, Line: strings.Join(f, " ")})
		}
	}
	return true
}
