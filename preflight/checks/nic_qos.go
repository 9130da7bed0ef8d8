package checks

import (
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const (
	configfsBnxt = "/sys/kernel/config/bnxt_re"
)

// nicQoS is what one source says of the QoS of one NIC.
type nicQoS struct {
	parse.QoS
	object string // how findings name the NIC
	device string // RDMA device, where known
	source string // command
}

// nicCC is what one source says of the congestion control of one device.
type nicCC struct {
	parse.CC
	object string
	source string
	// firmware: the NIC's firmware runs congestion control by itself.
	firmware bool
}

// ev is evidence from a QoS source.
func (q nicQoS) ev(subjects ...string) Evidence {
	var lines []string
	for _, s := range subjects {
		lines = append(lines, q.Lines[s]...)
	}
	return evidence(q.source, lines...)
}

// source is one tool that speaks of QoS or congestion control, and what came of
// asking it.
type source struct {
	tool string
	cmd  facts.Command
	// useful: something could be read from it.
	useful bool
	about  string // "QoS" or "congestion control"
	object string
}

// QoS lists what the sources say of the rails' QoS.
func (v *View) QoS() []nicQoS {
	if v.once("qos") {
		v.qos, _ = v.readQoS()
	}
	return v.qos
}

func (v *View) readQoS() (out []nicQoS, tried []source) {
	if c, ok := v.command(facts.NicctlQoS); ok {
		qs := parse.NicctlQoS(c.Stdout)
		tried = append(tried, source{tool: "nicctl", cmd: c, useful: len(qs) > 0, about: "QoS"})
		for _, q := range qs {
			dev := v.deviceOfCard(q.NIC)
			if dev != "" && !v.isRail(dev) {
				continue
			}
			out = append(out, nicQoS{QoS: q, object: label(q.NIC, dev), device: dev, source: typed(c)})
		}
	}
	for _, idx := range v.commandsOf(facts.NiccliQoS) {
		c := v.Facts.Commands[facts.Of(facts.NiccliQoS, idx)]
		bdf := v.niccliBDF(idx)
		dev := v.deviceAt(bdf)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		q := parse.NiccliQoS(or(bdf, "index "+idx), c.Stdout)
		tried = append(tried, source{tool: "niccli", cmd: c, useful: q != nil, about: "QoS", object: label(bdf, dev)})
		if q != nil {
			out = append(out, nicQoS{QoS: *q, object: label(q.NIC, dev), device: dev, source: typed(c)})
		}
	}
	for _, idx := range v.commandsOf(facts.NiccliCoSQ) {
		c := v.Facts.Commands[facts.Of(facts.NiccliCoSQ, idx)]
		bdf := v.niccliBDF(idx)
		dev := v.deviceAt(bdf)
		lossless, enabled, lines := parse.NiccliCoSQ(c.Stdout)
		tried = append(tried, source{tool: "niccli", cmd: c, useful: enabled > 0, about: "QoS", object: label(bdf, dev)})
		if enabled == 0 || dev != "" && !v.isRail(dev) {
			continue
		}
		object := label(or(bdf, "index "+idx), dev)
		cosq := parse.QoS{NIC: bdf, LossyOnly: len(lossless) == 0, Lines: map[string][]string{parse.LinePFC: lines}}
		merged := false
		for i := range out {
			if out[i].object == object {
				out[i].LossyOnly = cosq.LossyOnly
				out[i].Lines[parse.LinePFC] = append(out[i].Lines[parse.LinePFC], lines...)
				merged = true
			}
		}
		if !merged {
			out = append(out, nicQoS{QoS: cosq, object: object, device: dev, source: typed(c)})
		}
	}
	byNetdev := map[string]bool{}
	for _, net := range v.commandsOf(facts.MlnxQoS) {
		c := v.Facts.Commands[facts.Of(facts.MlnxQoS, net)]
		dev := v.deviceBehind(net)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		q := parse.MlnxQoS(net, c.Stdout)
		tried = append(tried, source{tool: "mlnx_qos", cmd: c, useful: q != nil, about: "QoS", object: label(net, dev)})
		if q != nil {
			byNetdev[net] = true
			out = append(out, nicQoS{QoS: *q, object: label(net, dev), device: dev, source: typed(c)})
		}
	}
	for _, net := range union(v.commandsOf(facts.DCBPFC), v.commandsOf(facts.DCBApp)) {
		pfc, app := v.Facts.Commands[facts.Of(facts.DCBPFC, net)], v.Facts.Commands[facts.Of(facts.DCBApp, net)]
		dev := v.deviceBehind(net)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		q := parse.DCB(net, pfc.Stdout, app.Stdout)
		c := pfc
		if len(c.Argv) == 0 {
			c = app
		}
		tried = append(tried, source{tool: "dcb", cmd: c, useful: q != nil, about: "QoS", object: label(net, dev)})
		if q != nil && !byNetdev[net] && !v.hasQoS(out, dev) {
			out = append(out, nicQoS{QoS: *q, object: label(net, dev), device: dev, source: typed(pfc) + "; " + typed(app)})
		}
	}
	return out, tried
}

func (v *View) hasQoS(qs []nicQoS, dev string) bool {
	for _, q := range qs {
		if dev != "" && q.device == dev && q.PFC != nil {
			return true
		}
	}
	return false
}

// CC lists what the sources say of the rails' congestion control.
func (v *View) CC() []nicCC {
	if v.once("cc") {
		v.cc, _ = v.readCC()
	}
	return v.cc
}

func (v *View) readCC() (out []nicCC, tried []source) {
	if c, ok := v.command(facts.NicctlDCQCN); ok {
		ccs := parse.NicctlDCQCN(c.Stdout)
		tried = append(tried, source{tool: "nicctl", cmd: c, useful: len(ccs) > 0, about: "congestion control"})
		for _, cc := range ccs {
			if !v.isRail(cc.Device) {
				continue
			}
			out = append(out, nicCC{CC: cc, object: label(cc.NIC, cc.Device), source: typed(c)})
		}
	}
	for _, dev := range v.bnxtDevices() {
		if !v.isRail(dev) {
			continue
		}
		c, asked := v.command(facts.Of(facts.BnxtCC, dev))
		cc := parse.BnxtCC(dev, c.Stdout)
		if cc == nil {
			attrs := map[string]string{}
			dir := configfsBnxt + "/" + dev + "/ports/1/cc"
			for _, n := range v.children(dir) {
				if s, ok := v.file(dir + "/" + n); ok {
					attrs[n] = s
				}
			}
			cc = parse.BnxtCCFiles(dev, attrs)
		}
		info, _ := v.command(facts.Of(facts.BnxtInfo, dev))
		managed, line := parse.BnxtInfo(info.Stdout)
		switch {
		case cc != nil:
			out = append(out, nicCC{CC: *cc, object: dev, source: or(typed(c), configfsBnxt+"/"+dev+"/ports/1/cc")})
		case managed != nil && *managed:
			out = append(out, nicCC{CC: parse.CC{Device: dev, Enabled: managed, Lines: []string{line}}, object: dev, source: typed(info), firmware: true})
		}
		if asked {
			tried = append(tried, source{tool: "bnxt_re configfs", cmd: c, useful: cc != nil || managed != nil && *managed, about: "congestion control", object: dev})
		}
	}
	for _, bdf := range v.commandsOf(facts.MlxConf) {
		c := v.Facts.Commands[facts.Of(facts.MlxConf, bdf)]
		dev := v.deviceAt(bdf)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		mask, line := parse.MlxPrioMask(c.Stdout)
		tried = append(tried, source{tool: "mlxconfig", cmd: c, useful: mask != nil, about: "congestion control", object: label(bdf, dev)})
		if mask == nil {
			continue
		}
		on := *mask != 0
		for _, q := range v.QoS() {
			if q.device == dev && dev != "" {
				for _, p := range q.Lossless() {
					on = on && *mask&(1<<p) != 0
				}
			}
		}
		out = append(out, nicCC{CC: parse.CC{Device: or(dev, bdf), Enabled: &on, Lines: []string{line}}, object: label(bdf, dev), source: typed(c)})
	}
	for _, net := range v.children(sysNet) {
		dir := sysNet + "/" + net + "/ecn"
		if len(v.children(dir)) == 0 {
			continue
		}
		dev := v.deviceBehind(net)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		out = append(out, nicCC{CC: v.mlnxECN(dir, or(dev, net)), object: label(net, dev), source: dir})
	}
	return out, tried
}

// mlnxECN reads the congestion control files of MLNX_OFED: the notification point
// and the reaction point must both be on for the lossless priorities.
func (v *View) mlnxECN(dir, device string) parse.CC {
	cc := parse.CC{Device: device, Params: map[string]string{}}
	lossless := map[string]bool{}
	for _, q := range v.QoS() {
		if q.device == device || q.device == "" {
			for _, p := range q.Lossless() {
				lossless[string(rune('0'+p))] = true
			}
		}
	}
	both := map[string]int{}
	off, known := false, false
	for _, point := range []string{"roce_np", "roce_rp"} {
		for _, p := range v.children(dir + "/" + point + "/enable") {
			path := dir + "/" + point + "/enable/" + p
			s, ok := v.file(path)
			if !ok {
				continue
			}
			known = true
			cc.Lines = append(cc.Lines, path+": "+s)
			if s == "1" {
				both[p]++
			} else if lossless[p] {
				off = true
			}
		}
		for _, name := range v.children(dir + "/" + point) {
			if s, ok := v.file(dir + "/" + point + "/" + name); ok {
				cc.Params[name] = s
			}
		}
	}
	on := false
	for p, n := range both {
		on = on || n == 2 && (len(lossless) == 0 || lossless[p])
	}
	if known {
		enabled := on && !off
		cc.Enabled = &enabled
	}
	if n := v.int(dir + "/roce_np/cnp_dscp"); n != nil {
		d := int(*n)
		cc.CNPDSCP = &d
	}
	if n := v.int(dir + "/roce_np/cnp_802p_prio"); n != nil {
		p := int(*n)
		cc.CNPPriority = &p
	}
	return cc
}

// bnxtDevices lists the devices that any source of Broadcom facts names.
func (v *View) bnxtDevices() []string {
	devs := union(v.commandsOf(facts.BnxtCC), v.commandsOf(facts.BnxtInfo))
	return union(devs, v.children(configfsBnxt))
}

// isRail says whether a device carries the run's data; a device that no list of
// rails can rule out does.
func (v *View) isRail(dev string) bool {
	rails := v.Rails()
	if len(rails) == 0 {
		return true
	}
	for _, n := range rails {
		if n.Name == dev {
			return true
		}
	}
	for _, n := range v.NICs() {
		if n.Name == dev {
			return false // known, and not a rail
		}
	}
	return true
}

// deviceOfCard finds the RDMA device of an ionic card: the congestion control
// report names both, else the card's Ethernet function does.
func (v *View) deviceOfCard(nic string) string {
	if v.once("cards") {
		v.cards = map[string]string{}
		c, _ := v.command(facts.NicctlCard)
		for _, card := range parse.NicctlCard(c.Stdout) {
			dev := v.deviceAt(card.Eth)
			v.cards[card.ID], v.cards[card.PCIe], v.cards[card.Eth] = dev, dev, dev
		}
		c, _ = v.command(facts.NicctlDCQCN)
		for _, cc := range parse.NicctlDCQCN(c.Stdout) {
			v.cards[cc.NIC] = cc.Device
		}
	}
	return or(v.cards[nic], v.deviceAt(nic))
}

// deviceAt finds the RDMA device at a PCI address. Cards have several functions,
// so the same device number with another function counts too.
func (v *View) deviceAt(bdf string) string {
	if bdf == "" {
		return ""
	}
	for _, n := range v.NICs() {
		if n.BDF == bdf {
			return n.Name
		}
	}
	return ""
}

// deviceBehind finds the RDMA device of a network interface.
func (v *View) deviceBehind(netdev string) string {
	for _, n := range v.NICs() {
		if n.Netdev == netdev {
			return n.Name
		}
	}
	return ""
}

// niccliBDF finds the PCI address that niccli gives an index.
func (v *View) niccliBDF(index string) string {
	c, _ := v.command(facts.NiccliList)
	for _, n := range parse.NiccliList(c.Stdout) {
		if n.Index == index {
			return n.BDF
		}
	}
	return ""
}

// label writes a NIC with both names it is known under.
func label(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || a == b:
		return a
	}
	return a + " (" + b + ")"
}

func union(a, b []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range append(append([]string{}, a...), b...) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// blockedBy is the finding of a check whose source gave nothing.
func blockedBy(id, why string) []Finding {
	return []Finding{{Verdict: Blocked, Observed: "blocked by " + id + ": " + why}}
}

// noQoS says why QoS cannot be judged; nil where it can.
func (v *View) noQoS() []Finding {
	if len(v.QoS()) > 0 {
		return nil
	}
	_, tried := v.readQoS()
	return blockedBy("rdma.tools", troubles(tried, "no tool that reads the QoS of the NICs was run"))
}

// noCC says why congestion control cannot be judged; nil where it can.
func (v *View) noCC() []Finding {
	if len(v.CC()) > 0 {
		return nil
	}
	_, tried := v.readCC()
	return blockedBy("rdma.tools", troubles(tried, "no tool that reads the congestion control of the NICs was run"))
}

func troubles(tried []source, none string) string {
	seen := map[string]bool{}
	var out []string
	for _, s := range tried {
		_, words := trouble(s.cmd, s.useful)
		if words != "" && !seen[s.tool+words] {
			seen[s.tool+words] = true
			out = append(out, s.tool+": "+words)
		}
	}
	if len(out) == 0 {
		return none
	}
	return strings.Join(out, "; ")
}
