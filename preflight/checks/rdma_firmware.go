package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// fwFact is one statement about the firmware of one NIC.
type fwFact struct {
	object, version, family string
	ev                      Evidence
}

// firmware collects what the sources say of the rails' firmware.
func (v *View) firmware() []fwFact {
	var out []fwFact
	rails := names(v.Rails())
	for _, n := range v.Rails() {
		f := sysIB + "/" + n.Name + "/fw_ver"
		if s := v.text(f); s != "" {
			out = append(out, fwFact{n.Name, s, n.Family, evidence("cat "+f, s)})
		}
	}
	fallback := v.family()
	for _, p := range v.portStatements() {
		if p.Firmware == "" || len(rails) > 0 && !slices.Contains(rails, p.Device) {
			continue
		}
		out = append(out, fwFact{p.Device, p.Firmware, or(familyOf(p.Vendor, p.Device), fallback), evidence(p.source, p.Device+": "+p.Firmware)})
	}
	if c, ok := v.command(facts.NicctlFirmware); ok {
		fw := parse.NicctlFirmware(c.Stdout)
		for _, nic := range sortedKeys(fw) {
			dev := v.deviceOfCard(nic)
			// With two partitions printed, only one runs; sysfs says which.
			if vs := fw[nic]; len(vs) > 0 && len(slices.Compact(slices.Clone(vs))) == 1 && (dev == "" || v.isRail(dev)) {
				out = append(out, fwFact{label(nic, dev), vs[0], Ionic, evidence(typed(c), nic+": "+vs[0])})
			}
		}
	}
	if c, ok := v.command(facts.NicctlCard); ok {
		for _, card := range parse.NicctlCard(c.Stdout) {
			if dev := v.deviceOfCard(card.ID); card.Firmware != "" && (dev == "" || v.isRail(dev)) {
				out = append(out, fwFact{label(card.PCIe, dev), card.Firmware, Ionic, evidence(typed(c), card.PCIe+": "+card.Firmware)})
			}
		}
	}
	if c, ok := v.command(facts.NiccliList); ok {
		for _, n := range parse.NiccliList(c.Stdout) {
			dev := v.deviceAt(n.BDF)
			// niccli lists every Broadcom port of the node, also those without
			// RDMA, and both functions of each.
			if n.Firmware == "" || dev == "" && len(rails) > 0 && v.family() == Bnxt && v.anyBDF() || dev != "" && !v.isRail(dev) {
				continue
			}
			out = append(out, fwFact{label(n.BDF, dev), n.Firmware, Bnxt, evidence(typed(c), n.Line)})
		}
	}
	return out
}

func (v *View) anyBDF() bool {
	return slices.ContainsFunc(v.NICs(), func(n NIC) bool { return n.BDF != "" })
}

// rdmaFirmware: old firmware lacks GPU-initiated RDMA; mixed firmware behaves
// differently on each rail.
func rdmaFirmware() Check {
	c := rdma("rdma.firmware", false, judgeFirmware)
	c.Fleet = func(vs []*View) []Finding {
		fs, _ := odd(vs, "NIC firmware", func(v *View) string {
			if v.noRDMA() != "" {
				return ""
			}
			seen := map[string]bool{}
			for _, f := range v.firmware() {
				seen[parse.NormalVersion(f.version)] = true
			}
			return strings.Join(sortedKeys(seen), ", ")
		})
		return remedy(softly(fs), "update the NIC firmware of this node to that of the others")
	}
	return c
}

func judgeFirmware(v *View) []Finding {
	all := v.firmware()
	if len(all) == 0 {
		return []Finding{unknown("", "no source gives the NIC firmware", "look whether "+sysIB+"/*/fw_ver is readable")}
	}
	pin := v.Expect.Site.RDMA.Firmware
	var out []Finding
	versions := map[string][]string{}
	for _, f := range all {
		if !parse.IsVersion(f.version) {
			out = append(out, unknown(f.object, "firmware version "+f.version, "read it with the NIC's own tool", f.ev))
			continue
		}
		n := parse.NormalVersion(f.version)
		if !slices.Contains(versions[n], f.object) {
			versions[n] = append(versions[n], f.object)
		}
		switch {
		case pin != "" && parse.NormalVersion(pin) != n:
			out = append(out, fail(f.object, f.version, pin+" (preflight.rdma.firmware)", "update the NIC firmware", f.ev))
		case pin != "":
		default:
			if why, want := v.oldFirmware(f); why != "" {
				out = append(out, warn(f.object, why, want, "update the NIC firmware, then power-cycle the node", f.ev))
			}
		}
	}
	if len(versions) > 1 {
		releases := map[string]bool{}
		common := ""
		for _, n := range sortedKeys(versions) {
			releases[parse.Release(n)] = true
			if common == "" || len(versions[n]) > len(versions[common]) {
				common = n
			}
		}
		for _, n := range sortedKeys(versions) {
			if n == common {
				continue
			}
			f := warn(strings.Join(versions[n], ", "), "firmware "+n, fmt.Sprintf("%s as on %d other NICs", common, len(versions[common])), "update them to the same firmware")
			if len(releases) > 1 {
				// Different builds of one release talk to each other; different
				// releases differ in features and in what they ask of the driver.
				f.Verdict = Fail
			}
			out = append(out, f)
		}
	}
	for _, d := range v.driverVersions() {
		if pin := v.Expect.Site.RDMA.Driver; pin != "" && parse.NormalVersion(pin) != parse.NormalVersion(d.version) {
			out = append(out, fail(d.object, d.version, pin+" (preflight.rdma.driver)", "install the pinned driver and reboot", d.ev))
		}
	}
	return orPass(dedup(out), strings.Join(sortedKeys(versions), ", "))
}

// driverVersions are the versions of the loaded drivers of the rails' family.
func (v *View) driverVersions() []fwFact {
	var out []fwFact
	for _, m := range Modules(v.family()) {
		f := "/sys/module/" + m + "/version"
		if s := v.text(f); s != "" {
			out = append(out, fwFact{m, s, v.family(), evidence("cat "+f, s)})
		}
	}
	return out
}

// Modules are the kernel modules of a family.
func Modules(family string) []string {
	switch family {
	case Ionic:
		return []string{"ionic", "ionic_rdma"}
	case Bnxt:
		return []string{"bnxt_en", "bnxt_re"}
	case Mlx5:
		return []string{"mlx5_core", "mlx5_ib"}
	}
	return nil
}

// Recommended firmware, as the RDMA library of the engines documents it.
const (
	ionicMin      = "1.117.5-a-45"
	ionicNoIBGDA  = "1.117.1"
	bnxtMin235    = "235.2.86.0"
	bnxtMin237    = "237.1.137.0"
	bnxtTooOld    = 231
	bnxtBroken    = 232
	bnxtBranch235 = 235
	bnxtBranch237 = 237
)

// oldFirmware says why a version is not recommended.
func (v *View) oldFirmware(f fwFact) (why, want string) {
	if min := v.Expect.Site.RDMA.MinFirmware; min != "" {
		if parse.CompareVersions(f.version, min) < 0 {
			return f.version + " is below the site's minimum", min + " or newer"
		}
		return "", ""
	}
	switch f.family {
	case Ionic:
		if parse.Release(f.version) == ionicNoIBGDA {
			return f.version + " is of the " + ionicNoIBGDA + " branch, which has no GPU-initiated RDMA", ionicMin + " or newer"
		}
		if parse.CompareVersions(f.version, ionicMin) < 0 {
			return f.version + " is older than recommended", ionicMin + " or newer"
		}
	case Bnxt:
		l, err := parse.IntList(strings.SplitN(f.version, ".", 2)[0], 1<<20)
		if err != nil || len(l) != 1 {
			return "", ""
		}
		want := bnxtMin235 + " or " + bnxtMin237 + ", or newer on its branch"
		switch branch := l[0]; {
		case branch == 0:
			return "", "" // a port without RoCE
		case branch <= bnxtTooOld:
			return f.version + " is too old for GPU-initiated RDMA", want
		case branch == bnxtBroken:
			return f.version + " is of a branch that is known not to work", want
		case branch == bnxtBranch235 && parse.CompareVersions(f.version, bnxtMin235) < 0,
			branch == bnxtBranch237 && parse.CompareVersions(f.version, bnxtMin237) < 0:
			return f.version + " is older than recommended", want
		case branch != bnxtBranch235 && branch < bnxtBranch237:
			return f.version + " is of a branch nobody has vouched for", want
		}
	}
	return "", ""
}

// rdmaDriver: the loaded driver, the one on disk and the tools must belong
// together.
func rdmaDriver() Check { return rdma("rdma.driver", false, judgeDriver) }

func judgeDriver(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, d := range v.driverVersions() {
		seen++
		c, ok := v.command(facts.Of(facts.Modinfo, d.object))
		disk := strings.TrimSpace(c.Stdout)
		if ok && c.Exit == 0 && parse.IsVersion(disk) && disk != d.version {
			out = append(out, warn(d.object, "loaded "+d.version+", on disk "+disk, "the same", "reboot the node to load the installed driver", d.ev, evidence(typed(c), disk)))
		}
	}
	if c, ok := v.command(facts.NicctlHost); ok {
		h := parse.NicctlHost(c.Stdout)
		tool, ipc := h["nicctl"], h["ipc driver"]
		if tool != "" && ipc != "" {
			seen++
			if parse.NormalVersion(tool) != parse.NormalVersion(ipc) {
				out = append(out, warn("nicctl", "nicctl "+tool+", IPC driver "+ipc, "the same release", "install tools and drivers of one release", evidence(typed(c), parse.Lines(c.Stdout)...)))
			}
		}
	}
	if seen == 0 {
		return []Finding{skip("the drivers of this NIC family give no version")}
	}
	return orPass(out, "loaded drivers, drivers on disk and tools belong together")
}
