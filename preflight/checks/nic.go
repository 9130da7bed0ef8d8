package checks

import (
	"slices"
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Families of RDMA NIC.
const (
	Ionic = "ionic" // AMD Pensando Pollara
	Bnxt  = "bnxt"  // Broadcom Thor2
	Mlx5  = "mlx5"  // NVIDIA ConnectX
)

const (
	sysIB    = "/sys/class/infiniband"
	sysVerbs = "/sys/class/infiniband_verbs"
	sysNet   = "/sys/class/net"
	sysPCI   = "/sys/bus/pci/devices"
	devIB    = "/dev/infiniband"
)

// NIC is one RDMA device of a node, joined from all sources. Empty fields are not
// known.
type NIC struct {
	Name      string
	Family    string // Ionic, Bnxt, Mlx5 or ""
	BDF       string
	Netdev    string
	State     string // ACTIVE, INIT, DOWN
	Phys      string // LinkUp, Disabled, …
	LinkLayer string
	Rate      string // as in sysfs
	Firmware  string
	ABI       string
	Uverbs    string // uverbs3
	NUMA      string
	GIDs      []parse.GID
	Sysfs     bool // seen in sysfs
}

// familyOf knows a vendor id, or a driver's device name as a last resort.
func familyOf(vendor, name string) string {
	switch strings.TrimPrefix(strings.ToLower(vendor), "0x") {
	case "1dd8":
		return Ionic
	case "14e4":
		return Bnxt
	case "15b3":
		return Mlx5
	}
	for _, f := range []string{Ionic, Bnxt, Mlx5} {
		if vendor == "" && strings.HasPrefix(name, f) {
			return f
		}
	}
	return ""
}

// vendorOf is the PCI vendor of a family.
func vendorOf(family string) string {
	switch family {
	case Ionic:
		return "1dd8"
	case Bnxt:
		return "14e4"
	case Mlx5:
		return "15b3"
	}
	return ""
}

// NICs lists the RDMA devices of the node that any source knows, in natural
// order.
func (v *View) NICs() []NIC {
	if !v.once("nics") {
		return v.nics
	}
	byName := map[string]*NIC{}
	add := func(name string) *NIC {
		if byName[name] == nil {
			byName[name] = &NIC{Name: name}
		}
		return byName[name]
	}
	for _, name := range v.children(sysIB) {
		n := add(name)
		v.fromSysfs(n)
	}
	for _, p := range v.portStatements() {
		if p.Device == "" {
			continue
		}
		n := add(p.Device)
		n.Netdev = or(n.Netdev, p.Netdev)
		n.Firmware = or(n.Firmware, p.Firmware)
		n.LinkLayer = or(n.LinkLayer, p.LinkLayer)
		if n.Family == "" {
			n.Family = familyOf(p.Vendor, p.Device)
		}
		if len(n.GIDs) == 0 {
			n.GIDs = p.GIDs
		}
	}
	for _, u := range v.children(sysVerbs) {
		dev, ok := v.file(sysVerbs + "/" + u + "/ibdev")
		if !ok {
			continue
		}
		if n := byName[dev]; n != nil {
			n.Uverbs, n.ABI = u, v.text(sysVerbs+"/"+u+"/abi_version")
		}
	}
	for _, n := range byName {
		v.nics = append(v.nics, *n)
	}
	sort.Slice(v.nics, func(i, j int) bool { return NaturalLess(v.nics[i].Name, v.nics[j].Name) })
	return v.nics
}

func (v *View) fromSysfs(n *NIC) {
	dir := sysIB + "/" + n.Name
	port := dir + "/ports/1"
	n.Sysfs = true
	n.Family = familyOf(v.text(dir+"/device/vendor"), n.Name)
	n.State = parse.State(v.text(port + "/state"))
	n.Phys = parse.State(v.text(port + "/phys_state"))
	n.LinkLayer = v.text(port + "/link_layer")
	n.Rate = v.text(port + "/rate")
	n.Firmware = v.text(dir + "/fw_ver")
	n.NUMA = v.text(dir + "/device/numa_node")
	if t := v.Facts.Files[dir+"/device"].Target; t != "" {
		n.BDF, _ = parse.BDF(t[strings.LastIndexByte(t, '/')+1:])
	}
	for _, i := range v.children(port + "/gids") {
		idx := v.gidIndex(i)
		addr, ok := v.file(port + "/gids/" + i)
		if !ok || idx < 0 {
			continue
		}
		g := parse.GID{Index: idx, Addr: addr, Type: v.text(port + "/gid_attrs/types/" + i), Dev: v.text(port + "/gid_attrs/ndevs/" + i)}
		if g.Empty() && g.Type == "" {
			continue
		}
		n.GIDs = append(n.GIDs, g)
	}
	if nets := v.children(dir + "/device/net"); len(nets) > 0 {
		n.Netdev = nets[0]
	}
	for _, g := range n.GIDs {
		n.Netdev = or(n.Netdev, g.Dev)
	}
}

func (v *View) gidIndex(s string) int {
	l, err := parse.IntList(s, 4095)
	if err != nil || len(l) != 1 {
		return -1
	}
	return l[0]
}

// portStatement is what one tool says of one port.
type portStatement struct {
	parse.RDMAPort
	source string
}

// portStatements collects what the tools beside sysfs say.
func (v *View) portStatements() []portStatement {
	var out []portStatement
	readers := []struct {
		id   string
		read func(string) []parse.RDMAPort
	}{
		{facts.RDMALink, parse.RDMALink}, {facts.RDMADev, parse.RDMADev}, {facts.IBVDevinfo, parse.IBVDevinfo},
		{facts.IBVDevices, parse.IBVDevices}, {facts.MlnxDev, parse.IBDevNetdev}, {facts.MlnxGIDs, parse.ShowGIDs},
	}
	for _, r := range readers {
		c, ok := v.command(r.id)
		if !ok {
			continue
		}
		for _, p := range r.read(c.Stdout) {
			out = append(out, portStatement{RDMAPort: p, source: typed(c)})
		}
	}
	return out
}

// Rails are the NICs the run's data goes over: those the site names, or those of
// the site's NIC family, or of the family with the most devices. Management ports
// of another family are left out that way, never by their names.
func (v *View) Rails() []NIC {
	all := v.NICs()
	if names := v.Expect.RDMA.Site.Devices; len(names) > 0 {
		var out []NIC
		for _, n := range all {
			if slices.Contains(names, n.Name) {
				out = append(out, n)
			}
		}
		return out
	}
	family := v.family()
	if family == "" {
		return all
	}
	var out []NIC
	for _, n := range all {
		if n.Family == family || n.Family == "" {
			out = append(out, n)
		}
	}
	return out
}

// family is the NIC family of the rails.
func (v *View) family() string {
	if f := v.Expect.RDMA.Site.NIC; f != "" {
		return f
	}
	count := map[string]int{}
	for _, n := range v.NICs() {
		count[n.Family]++
	}
	best := ""
	for _, f := range []string{Ionic, Bnxt, Mlx5} {
		if count[f] > count[best] || best == "" && count[f] > 0 {
			best = f
		}
	}
	return best
}

// wantRails is how many rails a node must have, and where the number comes from;
// -1: not known.
func (v *View) wantRails() (n int, from string) {
	switch {
	case v.Expect.Site.RDMA.Devices != nil:
		return *v.Expect.Site.RDMA.Devices, "preflight.rdma.devices of the site"
	case len(v.Expect.RDMA.Site.Devices) > 0:
		return len(v.Expect.RDMA.Site.Devices), "rdma.devices of the site"
	case v.Expect.GPUsPerNode > 0:
		return v.Expect.GPUsPerNode, "one for each GPU"
	}
	return -1, ""
}

// noRDMA says why RDMA is not to be judged; "" where it is.
func (v *View) noRDMA() string { return v.Expect.NoRDMA() }

// isDown says that a device is down on purpose.
func (v *View) isDown(name string) bool { return slices.Contains(v.Expect.Site.RDMA.Down, name) }

// names lists the names of NICs.
func names(nics []NIC) []string {
	var out []string
	for _, n := range nics {
		out = append(out, n.Name)
	}
	return out
}
