package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const fixRepair = "drain the node and report the GPU for repair"

// gpuECC: uncorrectable errors lose data.
func gpuECC() Check { return gpu("gpu.ecc", false, judgeECC) }

// eccCount holds the error counts of one GPU by one source; nil: not said.
type eccCount struct {
	name       string
	ue, ce, de *int64
	na         bool
	ev         Evidence
}

func (v *View) eccCounts() []eccCount {
	var out []eccCount
	for _, g := range v.GPUs() {
		dir := g.dir() + "/ras"
		var sum eccCount
		var lines []string
		for _, f := range v.children(dir) {
			if !strings.HasSuffix(f, "err_count") && !strings.HasPrefix(f, "aca_") {
				continue
			}
			s, ok := v.file(dir + "/" + f)
			if !ok {
				continue
			}
			ue, ce, de := parse.RASCounts(s)
			add(&sum.ue, ue)
			add(&sum.ce, ce)
			add(&sum.de, de)
			lines = append(lines, f+": "+strings.ReplaceAll(s, "\n", ", "))
		}
		if len(lines) > 0 {
			sum.name, sum.ev = g.Name, evidence("cat "+dir+"/*", lines...)
			out = append(out, sum)
		}
	}
	for _, s := range v.SMI() {
		for _, g := range s.gpus {
			na := slices.ContainsFunc(g.NA, func(k string) bool {
				return strings.Contains(k, "uncorrectable") || k == "UEC"
			})
			if g.UE == nil && g.CE == nil && !na {
				continue
			}
			out = append(out, eccCount{name: v.smiName(g), ue: g.UE, ce: g.CE, de: g.Deferred, na: na, ev: evidence(s.source, g.Lines...)})
		}
	}
	return out
}

func add(sum **int64, n *int64) {
	if n == nil {
		return
	}
	t := *n
	if *sum != nil {
		t += **sum
	}
	*sum = &t
}

func judgeECC(v *View) []Finding {
	all := v.eccCounts()
	var out []Finding
	clean := 0
	for _, e := range all {
		switch {
		case e.ue != nil && *e.ue > 0:
			out = append(out, fail(e.name, fmt.Sprintf("%d uncorrectable errors", *e.ue), "0", fixRepair, e.ev))
		case e.ue == nil && e.na:
			// Another source may know.
		case e.de != nil && *e.de > 0:
			out = append(out, warn(e.name, fmt.Sprintf("%d deferred errors, %d correctable", *e.de, or2(e.ce, 0)), "0", "the page is poisoned and fails when it is used: plan a repair", e.ev))
		case e.ce != nil && *e.ce > 0:
			out = append(out, warn(e.name, fmt.Sprintf("%d correctable errors", *e.ce), "0", "watch whether the count grows", e.ev))
		default:
			clean++
		}
	}
	if c, ok := v.command(facts.AMDSMICPER); ok {
		rows, listed := parse.AMDSMICPER(c.Stdout)
		if listed {
			clean++
		}
		for _, r := range rows {
			ev := evidence(typed(c), r.Line)
			if strings.HasPrefix(r.Severity, "FATAL") {
				out = append(out, fail("GPU "+r.GPU, "a fatal hardware error record", "none", fixRepair, ev))
			} else {
				out = append(out, warn("GPU "+r.GPU, "a hardware error record of severity "+r.Severity, "none", "look it up by its AFID in the vendor's service guide", ev))
			}
		}
	}
	if len(out) == 0 && clean == 0 {
		return []Finding{unknown("", "no source gives error counts"+v.smiTrouble(), "look whether "+sysDRM+"/card*/device/ras exists, and run amd-smi metric --ecc by hand")}
	}
	return orPass(dedup(out), "no memory errors")
}

// gpuBadPages: pages that are out of use, or must be taken out.
func gpuBadPages() Check { return gpu("gpu.bad-pages", false, judgeBadPages) }

// badPagesLimit is the number of retired pages from which the driver's own
// threshold for replacement is near.
const badPagesLimit = 64

func judgeBadPages(v *View) []Finding {
	limit := or(v.Expect.Site.GPU.BadPages, badPagesLimit)
	var out []Finding
	seen := 0
	for _, g := range v.GPUs() {
		f := g.dir() + "/ras/gpu_vram_bad_pages"
		s, ok := v.file(f)
		if !ok {
			continue
		}
		seen++
		pending, retired := 0, 0
		for _, l := range parse.Lines(s) {
			// "0x00000001 : 0x00001000 : R"; R reserved, P pending, F failed.
			switch {
			case strings.HasSuffix(l, ": P"), strings.HasSuffix(l, ": F"):
				pending++
			case strings.HasSuffix(l, ": R"):
				retired++
			}
		}
		out = append(out, pages(g.Name, pending, retired, limit, evidence("cat "+f, parse.Lines(s)...))...)
	}
	if c, ok := v.command(facts.AMDSMIBadPages); ok && seen == 0 {
		for _, b := range parse.AMDSMIBadPages(c.Stdout) {
			seen++
			name := v.smiName(parse.SMIGPU{Index: b.GPU})
			if b.UnknownPending {
				out = append(out, unknown(name, "the pending bad pages are not known", "run amd-smi bad-pages as root", evidence(typed(c), b.Line)))
				continue
			}
			out = append(out, pages(name, b.Pending+b.Unreserved, b.Retired, limit, evidence(typed(c), b.Line))...)
		}
		if seen == 0 {
			kind, words := trouble(c, false)
			if !c.Missing {
				return []Finding{unknown("", words, fixFor(kind, "amd-smi"), evidence(typed(c)))}
			}
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source lists bad pages", "look whether "+sysDRM+"/card*/device/ras/gpu_vram_bad_pages is readable")}
	}
	return orPass(out, "no bad pages")
}

func pages(name string, pending, retired, limit int, ev Evidence) []Finding {
	switch {
	case pending > 0:
		return []Finding{fail(name, fmt.Sprintf("%d bad pages wait to be taken out of use", pending), "0", "the GPU must be reset before it is used: drain the node and reboot it", ev)}
	case retired >= limit:
		return []Finding{fail(name, fmt.Sprintf("%d retired pages", retired), fmt.Sprintf("fewer than %d", limit), fixRepair, ev)}
	case retired > 0:
		return []Finding{warn(name, fmt.Sprintf("%d retired pages", retired), "0", "watch whether the number grows", ev)}
	}
	return nil
}

// gpuPCIe: a link that trained down halves the bandwidth to the NICs.
func gpuPCIe() Check { return gpu("gpu.pcie", true, judgePCIe) }

// recoveryLimit is the number of link recoveries since boot from which a link
// counts as unsteady.
const recoveryLimit = 100

func judgePCIe(v *View) []Finding {
	const fix = "reseat the GPU's board or riser, look at its slot in the BMC; a reboot trains the link again"
	p := v.Expect.Site.GPU
	var out []Finding
	seen := 0
	judge := func(object string, speed, maxSpeed float64, width, maxWidth int, ev Evidence) {
		seen++
		if p.LinkGTs > 0 {
			maxSpeed = float64(p.LinkGTs)
		}
		if p.LinkWidth > 0 {
			maxWidth = p.LinkWidth
		}
		if width > 0 && maxWidth > 0 && width < maxWidth {
			out = append(out, fail(object, fmt.Sprintf("link width x%d", width), fmt.Sprintf("x%d", maxWidth), fix, ev))
		} else if speed > 0 && maxSpeed > 0 && speed < maxSpeed {
			out = append(out, fail(object, fmt.Sprintf("link speed %g GT/s", speed), fmt.Sprintf("%g GT/s", maxSpeed), fix, ev))
		}
	}
	for _, g := range v.GPUs() {
		d := g.dir()
		speed, ok := parse.LinkSpeed(v.text(d + "/current_link_speed"))
		width := v.int(d + "/current_link_width")
		if !ok && width == nil {
			continue
		}
		maxSpeed, _ := parse.LinkSpeed(v.text(d + "/max_link_speed"))
		maxWidth := v.int(d + "/max_link_width")
		judge(g.Name, speed, maxSpeed, int(or2(width, 0)), int(or2(maxWidth, 16)),
			evidence("cat "+d+"/{current,max}_link_{speed,width}", v.text(d+"/current_link_speed"), v.text(d+"/current_link_width"), v.text(d+"/max_link_speed"), v.text(d+"/max_link_width")))
	}
	if c, ok := v.command(facts.LspciGPU); ok {
		for i, d := range parse.Lspci(c.Stdout) {
			if d.BDF != "" && !isAccelerator(d) {
				continue
			}
			name := or(d.BDF, fmt.Sprintf("device %d of the report", i+1))
			if d.FatalErr {
				seen++
				out = append(out, fail(name, "a fatal PCIe error", "none", fixGPU, evidence(typed(c), d.Lines...)))
				continue
			}
			if d.Link == nil {
				continue
			}
			maxSpeed, maxWidth := 32.0, 16
			judge(name, d.Link.Speed, maxSpeed, d.Link.Width, maxWidth, evidence(typed(c), d.Lines...))
		}
	}
	for _, s := range v.SMI() {
		for _, g := range s.gpus {
			ev := evidence(s.source, g.Lines...)
			if g.Width != nil {
				judge(v.smiName(g), or2(g.Speed, 0), 32, int(*g.Width), 16, ev)
			}
			if g.Recovery != nil && *g.Recovery > recoveryLimit {
				seen++
				out = append(out, warn(v.smiName(g), fmt.Sprintf("%d link recoveries", *g.Recovery), fmt.Sprintf("at most %d", recoveryLimit), fix, ev))
			}
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives the PCIe links", "look whether "+sysPCI+" is readable")}
	}
	return orPass(dedup(out), "full speed and width")
}

// gpuXGMI: every pair of GPUs must be joined directly.
func gpuXGMI() Check { return gpu("gpu.xgmi", true, judgeXGMI) }

func judgeXGMI(v *View) []Finding {
	const fix = "a pair without XGMI talks over PCIe: drain the node and reboot it; if it stays, report it for repair"
	var out []Finding
	pairs := 0
	if v.gathered(sysKFD) {
		out2, n := v.kfdLinks(fix)
		out = append(out, out2...)
		pairs += n
	}
	tools := []struct {
		id   string
		read func(string) []parse.GPULink
	}{
		{facts.AMDSMITopology, parse.AMDSMITopology},
		{facts.ROCmSMI, func(s string) []parse.GPULink { return parse.ReadROCmSMI(s).Links }},
		{facts.AMDSMIXGMI, parse.AMDSMIXGMI},
	}
	for _, t := range tools {
		c, ok := v.command(t.id)
		if !ok {
			continue
		}
		seen := map[string]bool{}
		for _, l := range t.read(c.Stdout) {
			pairs++
			object := "GPU " + l.A
			if l.B != "" {
				a, b := l.A, l.B
				if NaturalLess(b, a) {
					a, b = b, a
				}
				object = "GPU " + a + " – GPU " + b
			}
			if seen[object] {
				continue
			}
			seen[object] = true
			switch {
			case l.Down:
				out = append(out, fail(object, l.Type+", not accessible", "XGMI, accessible", fix, evidence(typed(c), l.Line)))
			case !strings.EqualFold(l.Type, "XGMI"):
				out = append(out, fail(object, or(l.Type, "no link"), "XGMI", fix, evidence(typed(c), l.Line)))
			case l.Hops != nil && *l.Hops > 1:
				out = append(out, fail(object, fmt.Sprintf("%d hops", *l.Hops), "1", fix, evidence(typed(c), l.Line)))
			}
		}
	}
	if pairs == 0 {
		if len(v.GPUs()) == 1 || v.Expect.GPUsPerNode == 1 {
			return []Finding{skip("one GPU needs no links")}
		}
		return []Finding{unknown("", "no source gives the links between the GPUs"+v.smiTrouble(), "run amd-smi topology by hand")}
	}
	return orPass(dedup(out), "all pairs by XGMI")
}

// kfdLinks looks at KFD's list of links: every GPU must have one of type XGMI to
// every other.
func (v *View) kfdLinks(fix string) (out []Finding, pairs int) {
	node := map[string]string{} // KFD node → GPU
	for _, g := range v.GPUs() {
		for _, n := range g.KFDNodes {
			node[n] = g.Name
		}
	}
	linked := map[string]bool{}
	listed := false
	for _, n := range sortedKeys(node) {
		dir := sysKFD + "/" + n + "/io_links"
		for _, l := range v.children(dir) {
			p := parse.Properties(v.text(dir + "/" + l + "/properties"))
			to := fmt.Sprint(p["node_to"])
			if len(p) == 0 {
				continue
			}
			listed = true
			if node[to] != "" && p["type"] == linkXGMI {
				linked[node[n]+" "+node[to]] = true
			}
		}
	}
	if !listed {
		return nil, 0
	}
	gpus := v.GPUs()
	for i, a := range gpus {
		for _, b := range gpus[i+1:] {
			if len(a.KFDNodes) == 0 || len(b.KFDNodes) == 0 {
				continue
			}
			pairs++
			if !linked[a.Name+" "+b.Name] || !linked[b.Name+" "+a.Name] {
				out = append(out, fail(a.Name+" – "+b.Name, "no XGMI link", "a direct XGMI link", fix, evidence("cat "+sysKFD+"/*/io_links/*/properties")))
			}
		}
	}
	return out, pairs
}

// gpuThrottle: hot or capped GPUs at idle will be slow under load.
func gpuThrottle() Check {
	c := gpu("gpu.throttle", false, judgeThrottle)
	return c
}

const (
	maxIdleTemp = 85 // °C at the junction
	tempOutlier = 15 // °C above the median of the node
)

func judgeThrottle(v *View) []Finding {
	type temp struct {
		name string
		c    float64
		ev   Evidence
	}
	var temps []temp
	for _, g := range v.GPUs() {
		for _, h := range v.children(g.dir() + "/hwmon") {
			f := g.dir() + "/hwmon/" + h + "/temp2_input" // the junction
			if n := v.int(f); n != nil {
				temps = append(temps, temp{g.Name, float64(*n) / 1000, evidence("cat "+f, fmt.Sprint(*n))})
			}
		}
	}
	if len(temps) == 0 {
		for _, s := range v.SMI() {
			for _, g := range s.gpus {
				if g.TempC != nil {
					temps = append(temps, temp{v.smiName(g), *g.TempC, evidence(s.source, g.Lines...)})
				}
			}
			if len(temps) > 0 {
				break
			}
		}
	}
	if len(temps) == 0 {
		return []Finding{unknown("", "no source gives temperatures", "run amd-smi monitor by hand")}
	}
	limit := float64(or(v.Expect.Site.GPU.MaxTempC, maxIdleTemp))
	var all []float64
	for _, t := range temps {
		all = append(all, t.c)
	}
	slices.Sort(all)
	median := all[len(all)/2]
	const fix = "look at fans and air flow of this slot; compare under load"
	var out []Finding
	for _, t := range temps {
		switch {
		case t.c >= limit:
			out = append(out, warn(t.name, fmt.Sprintf("%g °C when idle", t.c), fmt.Sprintf("below %g °C", limit), fix, t.ev))
		case len(temps) > 2 && t.c > median+tempOutlier:
			out = append(out, warn(t.name, fmt.Sprintf("%g °C when idle", t.c), fmt.Sprintf("near the node's median of %g °C", median), fix, t.ev))
		}
	}
	return orPass(out, fmt.Sprintf("%g to %g °C", all[0], all[len(all)-1]))
}

// gpuKernelLog: what the kernel said about GPUs, PCIe and memory in this boot.
func gpuKernelLog() Check {
	return Check{ID: "gpu.kernel-log", Hard: false, Context: facts.ContextHost, Node: judgeKernelLog}
}

// recentLog is how long a fault that is not permanent counts against a node.
const recentLog = 15 * time.Minute

func judgeKernelLog(v *View) []Finding {
	c, ok := v.command(facts.KernelLog)
	if !ok {
		return []Finding{unknown("", "the kernel log was not read", "read it by hand: dmesg -T")}
	}
	hits, lines := parse.KernelLog(c.Stdout)
	if lines == 0 || c.Exit != 0 && len(hits) == 0 || strings.HasPrefix(c.Stdout, "dmesg:") {
		kind, words := trouble(c, false)
		return []Finding{unknown("", words, fixFor(kind, "dmesg")+"; or set kernel.dmesg_restrict=0", evidence(typed(c), parse.Lines(c.Stderr)...))}
	}
	type group struct {
		family  string
		verdict Verdict
		device  string
		lines   []string
		n       int
	}
	var groups []*group
	now := time.Unix(0, v.Facts.Host.Now)
	for _, h := range hits {
		verdict := Warn
		old := v.Facts.Host.Now != 0 && !h.Time.IsZero() && now.Sub(h.Time) > recentLog
		switch {
		case h.Severity == parse.LogBroken, h.Severity == parse.LogFault && !old:
			verdict = Fail
		case h.Severity == parse.LogNote && old:
			continue
		}
		var g *group
		for _, x := range groups {
			if x.family == h.Family && x.device == h.Device && x.verdict == verdict {
				g = x
			}
		}
		if g == nil {
			g = &group{family: h.Family, verdict: verdict, device: h.Device}
			groups = append(groups, g)
		}
		g.n++
		g.lines = append(g.lines, h.Line)
	}
	var out []Finding
	for _, g := range groups {
		f := Finding{Verdict: g.verdict, Object: g.device, Observed: fmt.Sprintf("%s (%d lines)", g.family, g.n), Expected: "no such message",
			Remedy: "read the lines around it; a reboot clears what was of the moment", Evidence: []Evidence{evidence(typed(c), g.lines...)}}
		if g.verdict == Fail {
			f.Remedy = "drain the node; reboot it, and report it for repair if the message comes back"
		}
		out = append(out, f)
	}
	return orPass(out, fmt.Sprintf("%d lines, none that matters", lines))
}
