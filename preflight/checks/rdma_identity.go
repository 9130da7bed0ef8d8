package checks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// rdma makes a check about RDMA: skipped where the run uses none.
func rdma(id string, hard bool, judge func(*View) []Finding) Check {
	return Check{ID: id, Hard: hard, Context: facts.ContextHost, Node: func(v *View) []Finding {
		if why := v.noRDMA(); why != "" {
			return []Finding{skip(why)}
		}
		return judge(v)
	}}
}

// rdmaCount: every source must list all rails.
func rdmaCount() Check { return rdma("rdma.count", true, judgeCount) }

// roll is how many rails one source lists.
type roll struct {
	source string
	names  []string
	n      int
}

func judgeCount(v *View) []Finding {
	want, from := v.wantRails()
	var out []Finding
	var rolls []roll
	if v.gathered(sysIB) {
		d := v.Facts.Dirs[sysIB]
		var sys []string
		for _, n := range v.Rails() {
			if n.Sysfs {
				sys = append(sys, n.Name)
			}
		}
		switch {
		case d.Err == facts.ErrMissing:
			return []Finding{fail("", sysIB+" does not exist", "the RDMA subsystem is loaded", "load the NIC's RDMA driver (modprobe ionic_rdma, bnxt_re or mlx5_ib); after a new kernel rebuild it with dkms", evidence("ls "+sysIB, sysIB+": no such directory"))}
		case d.Err != "":
			return []Finding{unknown("", sysIB+" cannot be read: "+d.Err, "run the check as a user who may read /sys", evidence("ls "+sysIB))}
		case len(v.children(sysIB)) == 0:
			return []Finding{fail("", "no RDMA device", wantText(want, from), "the RDMA subsystem is loaded but no NIC has a device: check the NIC driver in the kernel log", evidence("ls "+sysIB))}
		}
		rolls = append(rolls, roll{source: "ls " + sysIB, names: sys, n: len(sys)})
	}
	railNames := names(v.Rails())
	bySource := map[string]*roll{}
	var order []string
	for _, p := range v.portStatements() {
		if p.Device == "" || len(railNames) > 0 && !slices.Contains(railNames, p.Device) {
			continue
		}
		r := bySource[p.source]
		if r == nil {
			r = &roll{source: p.source}
			bySource[p.source] = r
			order = append(order, p.source)
		}
		if !slices.Contains(r.names, p.Device) {
			r.names = append(r.names, p.Device)
			r.n++
		}
	}
	for _, s := range order {
		rolls = append(rolls, *bySource[s])
	}
	rolls = append(rolls, v.toolRolls()...)
	if len(rolls) == 0 {
		return []Finding{unknown("", "nothing lists the RDMA devices of the node", "look whether /sys is readable")}
	}
	for _, name := range v.Expect.RDMA.Site.Devices {
		if len(v.NICs()) > 0 && !slices.Contains(names(v.NICs()), name) {
			out = append(out, fail(name, "no RDMA device of this name; there are "+or(strings.Join(names(v.NICs()), ", "), "none"), "the names in rdma.devices of the site",
				"names differ between nodes: leave rdma.devices empty to have them discovered on each node, or give this node a profile of its own", evidence("ls "+sysIB, names(v.NICs())...)))
		}
	}
	for _, r := range rolls {
		n := r.n
		for _, d := range v.Expect.Site.RDMA.Down {
			if len(r.names) > 0 && !slices.Contains(r.names, d) && slices.Contains(railNames, d) {
				n++ // a rail that is off on purpose may be missing from a tool's list
			}
		}
		switch {
		case want >= 0 && n < want:
			observed := fmt.Sprintf("%d of %d", n, want)
			if miss := missing(railNames, r.names); miss != "" {
				observed += ", missing " + miss
			}
			out = append(out, fail(r.source, observed, wantText(want, from), "find the missing NIC: lspci for the card, the kernel log for its driver; reseat or replace it, or reboot the node", evidence(r.source, r.names...)))
		case want >= 0 && n > want && len(v.Expect.RDMA.Site.Devices) == 0 && r.source == "ls "+sysIB:
			// Tools list functions and cards, of which there may be more.
			out = append(out, warn(r.source, fmt.Sprintf("%d, more than the %d expected: %s", n, want, strings.Join(r.names, ", ")), wantText(want, from),
				"name the rails in rdma.devices of the site, so that no library opens queue pairs over the others", evidence(r.source, r.names...)))
		}
	}
	if want < 0 && len(out) == 0 {
		for _, r := range rolls[1:] {
			if r.n != rolls[0].n {
				out = append(out, fail(r.source, fmt.Sprint(r.n), fmt.Sprintf("%d as %s lists", rolls[0].n, rolls[0].source), "find the NIC that only one of them lists", evidence(r.source, r.names...)))
			}
		}
	}
	return orPass(out, fmt.Sprintf("%d rails: %s", rolls[0].n, strings.Join(rolls[0].names, ", ")), evidence(rolls[0].source, rolls[0].names...))
}

// toolRolls are the sources that list cards or functions instead of devices.
func (v *View) toolRolls() []roll {
	var out []roll
	if c, ok := v.command(facts.NicctlQoS); ok {
		var nics []string
		for _, q := range parse.NicctlQoS(c.Stdout) {
			if dev := v.deviceOfCard(q.NIC); !slices.Contains(nics, q.NIC) && (dev == "" || v.isRail(dev)) {
				nics = append(nics, q.NIC)
			}
		}
		if len(nics) > 0 {
			out = append(out, roll{source: typed(c), names: nics, n: len(nics)})
		}
	}
	if c, ok := v.command(facts.NicctlDCQCN); ok {
		var devs []string
		for _, cc := range parse.NicctlDCQCN(c.Stdout) {
			if v.isRail(cc.Device) && !slices.Contains(devs, cc.Device) {
				devs = append(devs, cc.Device)
			}
		}
		if len(devs) > 0 {
			out = append(out, roll{source: typed(c), names: devs, n: len(devs)})
		}
	}
	if c, ok := v.command(facts.NicctlPort); ok {
		if n := len(parse.NicctlPort(c.Stdout)); n > 0 {
			out = append(out, roll{source: typed(c), n: n})
		}
	}
	if c, ok := v.command(facts.LspciAll); ok && v.family() == Ionic {
		var fns []string
		for _, d := range parse.Lspci(c.Stdout) {
			ethernet := d.Vendor == vendorOf(Ionic) && d.Device == "1002" || d.Vendor == "" && strings.Contains(d.Text, "DSC Ethernet Controller")
			if ethernet && !strings.Contains(d.Text, "Virtual Function") {
				fns = append(fns, d.BDF)
			}
		}
		if len(fns) > 0 {
			out = append(out, roll{source: typed(c), names: fns, n: len(fns)})
		}
	}
	return out
}

func wantText(n int, from string) string {
	if n < 0 {
		return "at least one RDMA device"
	}
	return fmt.Sprintf("%d (%s)", n, from)
}

// missing names what is in all and not in have, where the two speak of the same
// kind of names.
func missing(all, have []string) string {
	var out []string
	same := false
	for _, n := range all {
		if slices.Contains(have, n) {
			same = true
		} else {
			out = append(out, n)
		}
	}
	if !same {
		return ""
	}
	return strings.Join(out, ", ")
}

// rdmaLink: every rail's port must be ACTIVE and its link up.
func rdmaLink() Check { return rdma("rdma.link", true, judgeLink) }

func judgeLink(v *View) []Finding {
	const fix = "check cable, transceiver and switch port of this rail; bring the interface up with 'ip link set dev IF up'"
	var out []Finding
	seen := 0
	for _, n := range v.Rails() {
		if !n.Sysfs || v.isDown(n.Name) {
			continue
		}
		port := sysIB + "/" + n.Name + "/ports/1"
		ev := evidence("cat "+port+"/state "+port+"/phys_state", n.State, n.Phys)
		switch {
		case n.State == "" && v.Facts.Files[port+"/state"].Err == facts.ErrHung:
			out = append(out, fail(n.Name, "reading the port state hangs", "ACTIVE, LinkUp", "the NIC's driver hangs; reboot the node", ev))
		case n.State == "":
			out = append(out, unknown(n.Name, "the port state cannot be read", "look at "+port, ev))
		case n.State != "ACTIVE" || n.Phys != "" && n.Phys != "LinkUp":
			out = append(out, fail(n.Name, "port "+n.State+", link "+or(n.Phys, "state unknown"), "ACTIVE, LinkUp", fix, ev))
		}
		seen++
	}
	rails := names(v.Rails())
	for _, p := range v.portStatements() {
		if p.State == "" || v.isDown(p.Device) || p.Device != "" && len(rails) > 0 && !slices.Contains(rails, p.Device) {
			continue
		}
		seen++
		if p.State != "ACTIVE" || p.Phys != "" && p.Phys != "LINK_UP" {
			observed := "port " + p.State
			if p.Phys != "" {
				observed += ", link " + p.Phys
			}
			out = append(out, fail(or(p.Device, "port"), observed, "ACTIVE, LINK_UP", fix, evidence(p.source, p.Line)))
		}
	}
	for _, p := range v.nicctlPorts() {
		if p.Oper == "" {
			continue
		}
		seen++
		if !strings.EqualFold(p.Oper, "up") && !v.isDown(p.device) {
			out = append(out, fail(p.object, "operational status "+p.Oper, "UP", fix, evidence(p.source, p.Lines...)))
		}
	}
	for _, l := range v.lifs() {
		if l.Oper == "" || l.QPs != nil {
			continue
		}
		seen++
		if !strings.EqualFold(l.Oper, "up") && !v.isDown(l.device) {
			out = append(out, fail(label(l.Netdev, l.device), "logical interface "+l.Oper, "up", fix, evidence(l.source, "oper_state: "+l.Oper)))
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives the state of any port", "look whether "+sysIB+" is readable")}
	}
	return orPass(dedup(out), fmt.Sprintf("%d rails ACTIVE and up", len(rails)))
}

// dedup keeps one finding for each object: the same port is seen by several
// tools.
func dedup(fs []Finding) []Finding {
	at := map[string]int{}
	var out []Finding
	for _, f := range fs {
		if i, ok := at[f.Object]; ok && out[i].Verdict == f.Verdict {
			out[i].Evidence = append(out[i].Evidence, f.Evidence...)
			continue
		}
		at[f.Object] = len(out)
		out = append(out, f)
	}
	return out
}

// rdmaRate: every rail must run at the site's rate, or all at the same.
func rdmaRate() Check { return rdma("rdma.rate", true, judgeRate) }

func judgeRate(v *View) []Finding {
	const fix = "the link came up at another rate: check transceiver and cable type and the switch port's speed"
	want := float64(v.Expect.Site.RDMA.RateGbps)
	type rate struct {
		object, text string
		gbps         float64
		ev           Evidence
	}
	var rates []rate
	for _, n := range v.Rails() {
		if g, ok := parse.RateGbps(n.Rate); ok && !v.isDown(n.Name) && n.State != "DOWN" {
			rates = append(rates, rate{n.Name, n.Rate, g, evidence("cat "+sysIB+"/"+n.Name+"/ports/1/rate", n.Rate)})
		}
		if n.LinkLayer != "" && n.LinkLayer != "Ethernet" && v.family() != Mlx5 {
			rates = append(rates, rate{n.Name, "link layer " + n.LinkLayer, -1, evidence("cat "+sysIB+"/"+n.Name+"/ports/1/link_layer", n.LinkLayer)})
		}
	}
	for _, p := range v.nicctlPorts() {
		if g, ok := parse.RateGbps(p.Speed); ok && !v.isDown(p.device) {
			rates = append(rates, rate{p.object, p.Speed, g, evidence(p.source, p.Lines...)})
		}
	}
	if len(rates) == 0 {
		return []Finding{unknown("", "no source gives the rate of any rail", "look whether "+sysIB+" is readable")}
	}
	if want == 0 {
		for _, r := range rates {
			want = max(want, r.gbps)
		}
	}
	var out []Finding
	for _, r := range rates {
		if r.gbps != want {
			out = append(out, fail(r.object, r.text, fmt.Sprintf("%g Gb/s", want), fix, r.ev))
		}
	}
	return orPass(out, fmt.Sprintf("%g Gb/s on all rails", want))
}

// rdmaMTU: small MTUs cost bandwidth, different ones break transfers.
func rdmaMTU() Check { return rdma("rdma.mtu", false, judgeMTU) }

func judgeMTU(v *View) []Finding {
	wantRDMA := int64(or(v.Expect.Site.RDMA.MTU, 4096))
	wantNet := int64(or(v.Expect.Site.RDMA.NetdevMTU, 4200))
	const fix = "set the interface's MTU (ip link set dev IF mtu 9000) and the switch port's, the same on every rail and node"
	var out []Finding
	seen := 0
	low := func(object string, got, want int64, what string, ev Evidence) {
		seen++
		if got < want {
			out = append(out, warn(object, fmt.Sprintf("%s %d", what, got), fmt.Sprintf("%d or more", want), fix, ev))
		}
	}
	rails := names(v.Rails())
	for _, p := range v.portStatements() {
		if l, err := parse.IntList(p.MTU, 1<<16); err == nil && len(l) == 1 && (len(rails) == 0 || slices.Contains(rails, p.Device)) {
			low(or(p.Device, "port"), int64(l[0]), wantRDMA, "active MTU", evidence(p.source, "active_mtu: "+p.MTU))
		}
	}
	distinct := map[int64][]string{}
	for _, n := range v.Rails() {
		if n.Netdev == "" {
			continue
		}
		f := sysNet + "/" + n.Netdev + "/mtu"
		if mtu := v.int(f); mtu != nil {
			low(label(n.Netdev, n.Name), *mtu, wantNet, "interface MTU", evidence("cat "+f, fmt.Sprint(*mtu)))
			distinct[*mtu] = append(distinct[*mtu], n.Netdev)
		}
	}
	if len(distinct) > 1 && len(out) == 0 {
		var parts []string
		for mtu, nets := range distinct {
			parts = append(parts, fmt.Sprintf("%d on %s", mtu, strings.Join(nets, ", ")))
		}
		slices.Sort(parts)
		out = append(out, warn("", "interfaces have different MTUs: "+strings.Join(parts, "; "), "the same on all rails", fix))
	}
	for _, p := range v.nicctlPorts() {
		if l, err := parse.IntList(p.MTU, 1<<16); err == nil && len(l) == 1 {
			low(p.object, int64(l[0]), wantNet, "port MTU", evidence(p.source, p.Lines...))
		}
	}
	for _, l := range v.lifs() {
		if n, err := parse.IntList(l.MTU, 1<<16); err == nil && len(n) == 1 {
			low(label(l.Netdev, l.device), int64(n[0]), wantRDMA, "RDMA MTU", evidence(l.source, "rdma_mtu: "+l.MTU))
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives an MTU", "install ibv_devinfo (ibverbs-utils), or look whether "+sysNet+" is readable")}
	}
	return orPass(out, "large enough and alike on all rails")
}

// nicctlPort is a port with the names it is known under.
type nicctlPort struct {
	parse.Port
	object, device, source string
}

func (v *View) nicctlPorts() []nicctlPort {
	c, ok := v.command(facts.NicctlPort)
	if !ok {
		return nil
	}
	var out []nicctlPort
	for _, p := range parse.NicctlPort(c.Stdout) {
		dev := v.deviceOfCard(p.NIC)
		if dev != "" && !v.isRail(dev) {
			continue
		}
		out = append(out, nicctlPort{Port: p, object: label(p.NIC, dev), device: dev, source: typed(c)})
	}
	return out
}

// nicctlLif is a logical interface that belongs to a rail.
type nicctlLif struct {
	parse.Lif
	device, source string
}

// lifs are the logical interfaces of the rails. Further interfaces of a card
// carry no RDMA and are left out where their names are known.
func (v *View) lifs() []nicctlLif {
	var out []nicctlLif
	for _, id := range []string{facts.NicctlLif, facts.NicctlQPs} {
		c, ok := v.command(id)
		if !ok {
			continue
		}
		known := slices.ContainsFunc(v.Rails(), func(n NIC) bool { return n.Netdev != "" })
		for _, l := range parse.NicctlLif(c.Stdout) {
			dev := v.deviceBehind(l.Netdev)
			if dev == "" && known && l.QPs == nil || dev != "" && !v.isRail(dev) {
				continue
			}
			out = append(out, nicctlLif{Lif: l, device: dev, source: typed(c)})
		}
	}
	return out
}

// gidVars are the variables that fix a GID index.
func gidVar(name string) bool {
	switch name {
	case "NCCL_IB_GID_INDEX", "MC_GID_INDEX", "UCX_IB_GID_INDEX", "MORI_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "ROCSHMEM_GID_INDEX":
		return true
	}
	return false
}

// rdmaGID: every rail needs a routable RoCE v2 address at the index the run uses.
func rdmaGID() Check { return rdma("rdma.gid", true, judgeGID) }

func judgeGID(v *View) []Finding {
	var out []Finding
	seen := 0
	type fixed struct {
		index int
		from  string
	}
	var want []fixed
	if i := v.Expect.RDMA.Site.GIDIndex; i != nil {
		want = append(want, fixed{*i, "rdma.gid_index of the site"})
	}
	for _, vr := range v.Expect.RDMA.Vars {
		if !gidVar(vr.Name) {
			continue
		}
		l, err := parse.IntList(vr.Value, 4095)
		if err != nil || len(l) != 1 {
			if vr.Value != "" && vr.Value != "-1" && !strings.EqualFold(vr.Value, "auto") {
				out = append(out, fail(vr.Name, fmt.Sprintf("%s has %s=%s", vr.Scope, vr.Name, vr.Value), "one GID index", "give one number, or leave the variable out"))
			}
			continue
		}
		want = append(want, fixed{l[0], vr.Scope + " " + vr.Name})
	}
	best := map[int]int{}
	for _, n := range v.railsWithGIDs() {
		if n.LinkLayer == "InfiniBand" || v.isDown(n.Name) {
			continue
		}
		seen++
		src, lines := "cat "+sysIB+"/"+n.Name+"/ports/1/gids/*", gidLines(n.GIDs)
		i, ok := routable(n.GIDs)
		if !ok && n.Sysfs && v.stuck(sysIB) {
			out = append(out, unknown(or(n.Name, "port"), "its GIDs were not read: the kernel's files did not answer in time", "look what keeps the node from answering, then check again", evidence(src, lines...)))
			continue
		}
		if !ok && slices.ContainsFunc(n.GIDs, func(g parse.GID) bool { return g.Type == "" && !g.Empty() && !g.LinkLocal() }) {
			out = append(out, unknown(or(n.Name, "port"), "the types of its GIDs were not read", "look what keeps the node from answering, then check again", evidence("cat "+sysIB+"/"+n.Name+"/ports/1/gid_attrs/types/*", lines...)))
			continue
		}
		if !ok {
			out = append(out, fail(or(n.Name, "port"), "no routable RoCE v2 GID", "one with an IPv4 address on every rail", "give the rail's interface its IPv4 address: the GID follows from it", evidence(src, lines...)))
			continue
		}
		best[i]++
		for _, w := range want {
			if why := gidWrong(n.GIDs, w.index); why != "" {
				out = append(out, fail(or(n.Name, "port"), fmt.Sprintf("index %d (%s) %s", w.index, w.from, why), fmt.Sprintf("a routable RoCE v2 GID; index %d has one", i),
					fmt.Sprintf("set the index to %d, or leave it out so that it is found by content", i), evidence(src, lines...)))
			}
		}
	}
	if seen == 0 {
		return append(out, unknown("", "no source lists GIDs", "look whether "+sysIB+"/*/ports/1/gids is readable"))
	}
	var at []int
	for i := range best {
		at = append(at, i)
	}
	return orPass(out, fmt.Sprintf("routable RoCE v2 at index %s on %d rails", parse.FormatInts(at), seen))
}

// railsWithGIDs are the rails of which GIDs are known, with what an excerpt of a
// tool's output says of an unnamed port.
func (v *View) railsWithGIDs() []NIC {
	var out []NIC
	// Empty entries are not gathered: a rail with none at all has no address,
	// provided that the tables were read.
	read := slices.ContainsFunc(v.Rails(), func(n NIC) bool { return n.Sysfs && len(n.GIDs) > 0 })
	for _, n := range v.Rails() {
		if len(n.GIDs) > 0 || n.Sysfs && read {
			out = append(out, n)
		}
	}
	for _, p := range v.portStatements() {
		if p.Device == "" && len(p.GIDs) > 0 {
			out = append(out, NIC{GIDs: p.GIDs})
		}
	}
	return out
}

// routable finds the entry that transports between nodes can use.
func routable(gids []parse.GID) (index int, ok bool) {
	for _, g := range gids {
		if g.V2() && g.IPv4() {
			return g.Index, true
		}
	}
	// A fabric may be routed by IPv6.
	for _, g := range gids {
		if g.V2() && !g.Empty() && !g.LinkLocal() {
			return g.Index, true
		}
	}
	return 0, false
}

func gidWrong(gids []parse.GID, index int) string {
	for _, g := range gids {
		if g.Index != index {
			continue
		}
		switch {
		case g.Empty():
			return "is empty"
		case !g.V2():
			return "is " + or(g.Type, "of unknown type") + ", not RoCE v2"
		case g.LinkLocal():
			return "is link-local (" + g.Addr + "), which no switch routes"
		}
		return ""
	}
	return "does not exist"
}

func gidLines(gids []parse.GID) []string {
	var out []string
	for _, g := range gids {
		if !g.Empty() {
			out = append(out, fmt.Sprintf("GID[%d] %s, %s %s", g.Index, g.Addr, or(g.Type, "type unknown"), g.Dev))
		}
	}
	return out
}

// rdmaSubnets: a rail without an address of its own, or two rails in one subnet,
// send traffic over each other's port.
func rdmaSubnets() Check { return rdma("rdma.subnet", false, judgeSubnets) }

func judgeSubnets(v *View) []Finding {
	c, ok := v.command(facts.IPAddr)
	if !ok {
		return []Finding{skip("the addresses of the interfaces were not read")}
	}
	addrs := parse.IPAddr(c.Stdout)
	if len(addrs) == 0 {
		_, words := trouble(c, false)
		return []Finding{unknown("", "ip addr: "+words, "install iproute2 on the node", evidence(typed(c)))}
	}
	var out []Finding
	owner := map[string]string{}
	rules := 0
	if r, ok := v.command(facts.IPRule); ok {
		rules = strings.Count(r.Stdout, "lookup")
	}
	for _, n := range v.Rails() {
		if n.Netdev == "" || v.isDown(n.Name) {
			continue
		}
		a, ok := addrs[n.Netdev]
		if !ok {
			out = append(out, warn(label(n.Netdev, n.Name), "no IPv4 address", "one on every rail", "configure the rail's address", evidence(typed(c))))
			continue
		}
		if other := owner[a.Subnet]; other != "" && rules <= 3 {
			out = append(out, warn(label(n.Netdev, n.Name), "in the same subnet "+a.Subnet+" as "+other+", without policy routing", "a subnet of its own, or rules that keep its traffic on its port", "give each rail its own subnet, or add 'ip rule' entries by source address", evidence(typed(c), a.Line)))
		}
		owner[a.Subnet] = n.Netdev
	}
	return orPass(out, "every rail has an IPv4 address and its own route")
}

// abi is a check that the RDMA provider libraries fit the kernel driver.
func abi(id, context string, hard bool) Check {
	return Check{ID: id, Hard: hard, Context: context, Node: func(v *View) []Finding {
		if why := v.noRDMA(); why != "" {
			return []Finding{skip(why)}
		}
		return v.judgeABI(context)
	}}
}

func (v *View) judgeABI(context string) []Finding {
	c, ok := v.command(facts.IBVDevinfo)
	if !ok {
		return []Finding{unknown("", "ibv_devinfo was not run", "run it by hand")}
	}
	where := "on the host"
	if context == facts.ContextImage {
		where = "in the image"
	}
	ports := parse.IBVDevinfo(c.Stdout)
	bad := parse.ABIMismatches(c.Stdout + "\n" + c.Stderr)
	var out []Finding
	verdict := fail
	if context == facts.ContextHost && v.Expect.Runtime.Kind != "none" {
		// Only what runs in the image uses the image's libraries.
		verdict = warn
	}
	for _, m := range bad {
		observed := "the provider " + where + " does not fit the kernel driver"
		if m.Kernel != "" {
			observed = fmt.Sprintf("the kernel driver of %s speaks ABI %s, the provider %s only %s to %s", m.Driver, m.Kernel, where, m.Lo, m.Hi)
		}
		out = append(out, verdict(m.Device, observed, "a provider library that fits",
			"use an image built with the provider of the node's driver release, or mount the node's provider library and its driver file into the container", evidence(typed(c), m.Line)))
	}
	if len(ports) == 0 && len(bad) == 0 {
		kind, words := trouble(c, false)
		switch kind {
		case parse.FailNoDevice:
			out = append(out, fail("", "libibverbs finds no RDMA device "+where, "every rail", "check that /dev/infiniband is there and the provider library is installed", evidence(typed(c), words)))
		case parse.FailMissing:
			f := unknown("", "ibv_devinfo is not installed "+where+"; whether the provider library fits the driver is not known", "install ibverbs-utils", evidence(typed(c)))
			if context == facts.ContextHost && v.Expect.Runtime.Kind != "none" {
				f = skip("ibv_devinfo is not installed on the host; the image's own libraries are what counts")
			}
			out = append(out, f)
		default:
			f := unknown("", "ibv_devinfo "+where+": "+words, fixFor(kind, "ibv_devinfo"), evidence(typed(c), words))
			if context == facts.ContextHost && v.Expect.Runtime.Kind != "none" {
				f.Verdict = Warn
			}
			out = append(out, f)
		}
	}
	if len(bad) > 0 && len(ports) == 0 {
		out = append(out, verdict("", "libibverbs finds no RDMA device "+where, "every rail", "see the mismatches", evidence(typed(c), parse.Lines(c.Stdout)...)))
	}
	if context == facts.ContextImage && len(ports) > 0 {
		if want, from := v.wantRails(); want > 0 && len(ports) < want {
			out = append(out, fail("", fmt.Sprintf("%d RDMA ports visible in the image", len(ports)), wantText(want, from), "pass all of /dev/infiniband to the container", evidence(typed(c))))
		}
	}
	return orPass(out, fmt.Sprintf("%d devices open, no ABI mismatch", len(ports)), evidence(typed(c)))
}

// rdmaUverbs: every rail's device file must exist, be usable, and be among the
// devices that containers get.
func rdmaUverbs() Check { return rdma("rdma.uverbs", true, judgeUverbs) }

func judgeUverbs(v *View) []Finding {
	if !v.gathered(sysVerbs) {
		return []Finding{unknown("", sysVerbs+" was not read", "look whether /sys is readable")}
	}
	var out []Finding
	for _, n := range v.Rails() {
		if n.Uverbs == "" {
			out = append(out, fail(n.Name, "no uverbs device", "one for every rail", "load ib_uverbs, and look at the kernel log of the NIC driver", evidence("ls "+sysVerbs, v.children(sysVerbs)...)))
			continue
		}
		dev := devIB + "/" + n.Uverbs
		p, looked := v.Facts.Paths[dev]
		switch {
		case looked && p.Err != "":
			out = append(out, fail(n.Name, dev+": "+p.Err, "a device file", "udev did not make it: run 'udevadm trigger', or reboot the node", evidence("stat "+dev)))
		case looked && !(p.Read && p.Write):
			out = append(out, fail(n.Name, fmt.Sprintf("%s is not readable and writable for the user (mode %04o, gid %d)", dev, p.Mode, p.GID), "read and write access", "add the user to the device's group, or mend its udev rule", evidence("ls -l "+dev)))
		}
		if !given(v.Expect.Runtime.Devices, dev) && !v.Expect.Runtime.Privileged && (v.Expect.Runtime.Kind == "docker" || v.Expect.Runtime.Kind == "podman") {
			out = append(out, fail(n.Name, dev+" is not among the devices given to containers", "every rail's device file", "write /dev/infiniband in container.devices of the site instead of single files", evidence("container.devices", v.Expect.Runtime.Devices...)))
		}
	}
	return orPass(out, "every rail has its device file")
}

// given says that a device is covered by the list of devices for containers.
func given(list []string, dev string) bool {
	for _, pattern := range list {
		host, _, _ := strings.Cut(pattern, ":")
		if ok, err := path.Match(host, dev); err == nil && ok {
			return true
		}
		if strings.HasPrefix(dev, strings.TrimSuffix(host, "/")+"/") {
			return true
		}
	}
	return false
}

// rdmaNUMA: rail i should sit beside GPU i.
func rdmaNUMA() Check { return rdma("rdma.numa", false, judgeNUMA) }

func judgeNUMA(v *View) []Finding {
	nics, gpus := map[string]int{}, map[string]int{}
	for _, n := range v.Rails() {
		if n.NUMA != "" && n.NUMA != "-1" {
			nics[n.NUMA]++
		}
	}
	for _, g := range v.GPUs() {
		if g.NUMA != "" && g.NUMA != "-1" {
			gpus[g.NUMA]++
		}
	}
	if len(nics) == 0 || len(gpus) == 0 {
		return []Finding{skip("the NUMA node of NICs or GPUs is not known")}
	}
	var out []Finding
	for _, node := range sortedKeys(gpus) {
		if nics[node] < gpus[node] && nics[node] == 0 {
			out = append(out, warn("NUMA node "+node, fmt.Sprintf("%d GPUs and no NIC", gpus[node]), "a NIC beside every GPU", "their traffic crosses the socket link: check the cards' slots against the other nodes"))
		}
	}
	return orPass(out, "NICs on every NUMA node that has GPUs")
}

// rdmaPCIe: a card that trained down cannot feed its link.
func rdmaPCIe() Check { return rdma("rdma.pcie", false, judgeNICPCIe) }

func judgeNICPCIe(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, n := range v.Rails() {
		d := sysIB + "/" + n.Name + "/device"
		speed, ok := parse.LinkSpeed(v.text(d + "/current_link_speed"))
		width := v.int(d + "/current_link_width")
		if !ok || width == nil {
			continue
		}
		seen++
		maxSpeed, _ := parse.LinkSpeed(v.text(d + "/max_link_speed"))
		maxWidth := v.int(d + "/max_link_width")
		ev := evidence("cat "+d+"/{current,max}_link_{speed,width}", v.text(d+"/current_link_speed"), v.text(d+"/current_link_width"), v.text(d+"/max_link_speed"), v.text(d+"/max_link_width"))
		const fix = "reseat the card, or reboot the node to train the link again"
		rate, _ := parse.RateGbps(n.Rate)
		rate = max(rate, float64(v.Expect.Site.RDMA.RateGbps))
		observed := fmt.Sprintf("x%d at %g GT/s", *width, speed)
		switch {
		case speed*float64(*width) < rate:
			out = append(out, fail(n.Name, observed+" carries less than the rail", fmt.Sprintf("%g Gb/s", rate), fix, ev))
		case maxWidth != nil && *width < *maxWidth || maxSpeed > 0 && speed < maxSpeed:
			// It may be the slot that cannot do more.
			out = append(out, warn(n.Name, observed, fmt.Sprintf("x%d at %g GT/s, which the card can do", or2(maxWidth, *width), max(maxSpeed, speed)), fix, ev))
		}
	}
	if seen == 0 {
		return []Finding{unknown("", "no source gives the PCIe links of the NICs", "look whether "+sysIB+"/*/device is readable")}
	}
	return orPass(out, "full speed and width")
}
