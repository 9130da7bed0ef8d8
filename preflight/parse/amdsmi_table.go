package parse

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	tableTop    = regexp.MustCompile(`(?i)^\|\s*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(.*?)\s*\|\s*(.*?)\s*\|$`)
	tableBottom = regexp.MustCompile(`^\|\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S+/\S+)\s*\|\s*(.*?)\s*\|$`)
	tableMem    = regexp.MustCompile(`(\d+)/(\d+)\s*([KMGT]i?B)`)
	tableTemp   = regexp.MustCompile(`(\d+)\s*°?C\s+(\S+)\s+(\d+)/(\d+)\s*W`)
	tableProc   = regexp.MustCompile(`^\|\s*(\d+)\s+(\d+)\s+(.+?)\s+(\S+\s*[KMGT]?i?B|N/A)\s+(\S+\s*[KMGT]?i?B|N/A)\s+(\S+\s*[KMGT]?i?B|N/A)\s+(\S+)\s*%?\s*\|$`)
)

// AMDSMITable reads the two tables that amd-smi prints without arguments. listed
// says that the table of processes is there, also when it is empty.
func AMDSMITable(text string) (gpus []SMIGPU, procs []GPUProcess, listed bool) {
	var top *SMIGPU
	inProcs := false
	for _, l := range Lines(text) {
		if strings.Contains(l, "Processes:") {
			inProcs, listed = true, true
			continue
		}
		if inProcs {
			if m := tableProc.FindStringSubmatch(l); m != nil {
				gpu, _ := strconv.Atoi(m[1])
				pid, _ := strconv.Atoi(m[2])
				p := GPUProcess{GPU: gpu, PID: pid, Line: strings.Trim(l, "| ")}
				if !NA(m[3]) {
					p.Name = m[3]
				}
				for _, w := range m[5:7] {
					if n, ok := Bytes(w); ok {
						p.VRAM = max(p.VRAM, n)
					}
				}
				procs = append(procs, p)
			}
			continue
		}
		if m := tableTop.FindStringSubmatch(l); m != nil {
			g := SMIGPU{Index: -1, Lines: []string{strings.Trim(l, "| ")}}
			g.BDF, _ = BDF(m[1])
			if t := tableTemp.FindStringSubmatch(m[3]); t != nil {
				if c, ok := float(t[1]); ok {
					g.TempC = &c
				}
				if n, ok := number(t[2]); ok {
					g.UE = &n
				} else {
					g.NA = append(g.NA, "UEC")
				}
				if w, ok := float(t[3]); ok {
					g.PowerW = &w
				}
				if w, ok := float(t[4]); ok {
					g.CapW = &w
				}
			}
			top = &g
			continue
		}
		if m := tableBottom.FindStringSubmatch(l); m != nil && top != nil {
			top.Index, _ = strconv.Atoi(m[1])
			top.Mode = m[4]
			if n, ok := number(m[5]); ok {
				top.Busy = &n
			}
			if mem := tableMem.FindStringSubmatch(m[5]); mem != nil {
				if used, ok := Bytes(mem[1] + " " + mem[3]); ok {
					top.Used = &used
				}
				if total, ok := Bytes(mem[2] + " " + mem[3]); ok {
					top.Total = &total
				}
			} else {
				top.NA = append(top.NA, "Mem-Usage")
			}
			top.Lines = append(top.Lines, strings.Trim(l, "| "))
			gpus = append(gpus, *top)
			top = nil
		}
	}
	return gpus, procs, listed
}

// AMDSMIMonitor reads "amd-smi monitor": temperatures and power by column, where
// a unit is a word of its own.
func AMDSMIMonitor(text string) []SMIGPU {
	var out []SMIGPU
	var header []string
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) == 0 {
			continue
		}
		if f[0] == "GPU" {
			header = f
			continue
		}
		if header == nil {
			continue
		}
		var values []string
		for _, w := range f {
			if w[0] >= '0' && w[0] <= '9' || NA(w) {
				values = append(values, w)
			}
		}
		idx, err := strconv.Atoi(f[0])
		if err != nil || len(values) != len(header) {
			continue
		}
		g := SMIGPU{Index: idx, Lines: []string{strings.TrimSpace(l)}}
		for i, h := range header {
			n, ok := float(values[i])
			if !ok {
				continue
			}
			switch h {
			case "POWER":
				g.PowerW = &n
			case "PWR_CAP":
				g.CapW = &n
			case "GPU_T":
				g.TempC = &n
			case "GFX%":
				g.Busy = ptr(int64(n))
			}
		}
		out = append(out, g)
	}
	return out
}

// AMDSMIXGMI reads the link table of "amd-smi xgmi": GPU → link type.
func AMDSMIXGMI(text string) []GPULink {
	var out []GPULink
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 3 || !strings.HasPrefix(f[0], "GPU") || !isDigits(f[0][3:]) {
			continue
		}
		for _, w := range f[2:] {
			if w == "XGMI" || w == "PCIE" {
				out = append(out, GPULink{A: f[0][3:], Type: w, Line: strings.TrimSpace(l)})
				break
			}
		}
	}
	return out
}

// CPER is one hardware error record.
type CPER struct {
	GPU, Severity, Line string
}

var cperRow = regexp.MustCompile(`^\s*\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}\s+(\S+)\s+(\S+)`)

// AMDSMICPER reads the table of "amd-smi ras --cper". ok says that there is a
// table, also when it has no rows.
func AMDSMICPER(text string) (rows []CPER, ok bool) {
	for _, l := range Lines(text) {
		if strings.Contains(l, "timestamp") && strings.Contains(l, "severity") {
			ok = true
		}
		if m := cperRow.FindStringSubmatch(l); m != nil {
			rows = append(rows, CPER{GPU: m[1], Severity: strings.ToUpper(m[2]), Line: strings.TrimSpace(l)})
		}
	}
	return rows, ok
}
