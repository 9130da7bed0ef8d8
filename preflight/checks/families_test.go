package checks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight/facts"
)

// bare are the facts of a node with rails of one family, as the kernel gives them.
func bare(family string) facts.Facts {
	f := facts.Facts{Version: facts.Version, Node: "n1", Context: facts.ContextHost, Commands: map[string]facts.Command{}, Files: map[string]facts.File{},
		Dirs: map[string]facts.Dir{}, Paths: map[string]facts.Path{}}
	var devs, verbs []string
	for i := range 8 {
		dev, net, bdf := device(family, i), fmt.Sprintf("ens%dnp0", i), address(i)
		d := sysIB + "/" + dev
		set := func(p, v string) { f.Files[p] = facts.File{Data: v + "\n"} }
		set(d+"/ports/1/state", "4: ACTIVE")
		set(d+"/ports/1/phys_state", "5: LinkUp")
		set(d+"/ports/1/link_layer", "Ethernet")
		set(d+"/ports/1/rate", "400 Gb/sec (4X NDR)")
		set(d+"/ports/1/gids/3", fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%02x01", i))
		set(d+"/ports/1/gid_attrs/types/3", "RoCE v2")
		set(d+"/ports/1/gid_attrs/ndevs/3", net)
		set(d+"/fw_ver", map[string]string{Bnxt: "237.1.148.0", Mlx5: "28.43.2026"}[family])
		set(d+"/device/vendor", "0x"+vendorOf(family))
		set(d+"/device/current_link_speed", "32.0 GT/s PCIe")
		set(d+"/device/current_link_width", "16")
		f.Files[d+"/device"] = facts.File{Target: "/sys/devices/pci0000:00/" + bdf}
		set(sysNet+"/"+net+"/mtu", "9000")
		set(fmt.Sprintf("%s/uverbs%d/ibdev", sysVerbs, i), dev)
		set(fmt.Sprintf("%s/uverbs%d/abi_version", sysVerbs, i), "1")
		f.Paths[fmt.Sprintf("%s/uverbs%d", devIB, i)] = facts.Path{Kind: "char", Read: true, Write: true}
		devs = append(devs, dev)
		verbs = append(verbs, fmt.Sprintf("uverbs%d", i))
	}
	f.Dirs[sysIB], f.Dirs[sysVerbs] = facts.Dir{Entries: devs}, facts.Dir{Entries: verbs}
	return f
}

func device(family string, i int) string {
	return map[string]string{Bnxt: "bnxt_re", Mlx5: "mlx5_"}[family] + fmt.Sprint(i)
}

func address(i int) string { return fmt.Sprintf("0000:%02x:00.0", 16*(i+1)) }

// broadcom is a healthy node with eight Thor NICs.
func broadcom() facts.Facts {
	f := bare(Bnxt)
	var list strings.Builder
	for i := range 8 {
		idx, dev := fmt.Sprint(i+1), device(Bnxt, i)
		fmt.Fprintf(&list, "%3s) BCM57608(B1)  00:00:00:00:00:0%d  237.1.148.0  %s  NIC  PCI\n", idx, i, strings.ToUpper(address(i)))
		f.Commands[facts.Of(facts.NiccliQoS, idx)] = facts.Command{Argv: []string{"niccli", "-i", idx, "qos", "--ets", "--show"}, Stdout: thorQoS}
		f.Commands[facts.Of(facts.NiccliCoSQ, idx)] = facts.Command{Argv: []string{"niccli", "-i", idx, "qos", "--ingress", "--cosq", "--show"}, Stdout: " 0 Enabled Lossy\n 1 Enabled Lossless\n"}
		cc := "/sys/kernel/config/bnxt_re/" + dev + "/ports/1/cc/"
		f.Commands[facts.Of(facts.BnxtCC, dev)] = facts.Command{Argv: []string{"grep", "-r", ".", cc}, Stdout: cc + "ecn_enable:0x1\n" + cc + "cc_mode:0x1\n" + cc + "cnp_dscp:0x30\n" + cc + "cnp_prio:0x7\n"}
	}
	// A management card that carries no RDMA, with older firmware.
	list.WriteString("  9) BCM57416  00:00:00:00:00:99  218.0.1.0  0000:F0:00.0  NIC  PCI\n")
	f.Commands[facts.NiccliList] = facts.Command{Argv: []string{"niccli", "--list"}, Stdout: list.String()}
	return f
}

const thorQoS = `IEEE 8021QAZ ETS Configuration TLV:
         PRIO_MAP: 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:2
         TC Bandwidth: 10% 90% 0%
         TSA_MAP: 0:ets 1:ets 2:strict
IEEE 8021QAZ PFC TLV:
         PFC enabled: 3
IEEE 8021QAZ APP TLV:
         APP#0:
          Priority: 7
          Sel: 5
          DSCP: 48

         APP#1:
          Priority: 3
          Sel: 5
          DSCP: 26
`

// mellanox is a healthy node with eight ConnectX NICs and OFED.
func mellanox() facts.Facts {
	f := bare(Mlx5)
	var qos strings.Builder
	qos.WriteString("Priority trust state: dscp\ndscp2prio mapping:\n")
	for p := range 8 {
		fmt.Fprintf(&qos, "\tprio:%d dscp:", p)
		for d := 8*p + 7; d >= 8*p; d-- {
			fmt.Fprintf(&qos, "%02d,", d)
		}
		qos.WriteString("\n")
	}
	qos.WriteString("PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   1   0   0   0   0\n\tbuffer      0   0   0   1   0   0   0   0\n")
	for i := range 8 {
		net := fmt.Sprintf("ens%dnp0", i)
		f.Commands[facts.Of(facts.MlnxQoS, net)] = facts.Command{Argv: []string{"mlnx_qos", "-i", net}, Stdout: qos.String()}
		for _, p := range []string{"roce_np/enable/3", "roce_rp/enable/3"} {
			f.Files[sysNet+"/"+net+"/ecn/"+p] = facts.File{Data: "1\n"}
		}
		f.Files[sysNet+"/"+net+"/ecn/roce_np/cnp_dscp"] = facts.File{Data: "48\n"}
	}
	return f
}

func expecting(family string) *Expect {
	eight := 8
	return &Expect{GPUsPerNode: 8, RDMA: RDMA{Needed: true, Site: models.RDMASite{NIC: family}}, Site: models.PreflightSite{RDMA: models.PreflightRDMA{Devices: &eight, RateGbps: 400}}}
}

// verdicts judges a node by every RDMA check.
func verdicts(f facts.Facts, e *Expect) map[string][]Finding {
	v := NewView(&f, e)
	out := map[string][]Finding{}
	for _, c := range All() {
		if strings.HasPrefix(c.ID, "rdma.") && c.Node != nil {
			out[c.ID] = c.Run(v)
		}
	}
	return out
}

func TestFamiliesHealthy(t *testing.T) {
	t.Parallel()
	for family, f := range map[string]facts.Facts{Bnxt: broadcom(), Mlx5: mellanox()} {
		for id, fs := range verdicts(f, expecting(family)) {
			for _, x := range fs {
				// No library was asked here; nothing else may be unclear.
				if x.Verdict != Pass && x.Verdict != Skip && id != "rdma.abi" {
					t.Errorf("%s: %s %s %s: %s (want %s)", family, x.Verdict, id, x.Object, x.Observed, x.Expected)
				}
			}
		}
		c, err := NewView(&f, expecting(family)).Derive()
		if err != nil || c.TrafficClass != 104 || c.ServiceLevel != 3 {
			t.Errorf("%s: derived %+v, %v", family, c, err)
		}
		// The family is found out where the site does not name it.
		if got := NewView(&f, expecting("")).family(); got != family {
			t.Errorf("family %q, want %s", got, family)
		}
	}
}

func TestFamiliesFaults(t *testing.T) {
	t.Parallel()
	type change func(*facts.Facts)
	stdout := func(id, out string) change {
		return func(f *facts.Facts) {
			c := f.Commands[id]
			c.Stdout = out
			f.Commands[id] = c
		}
	}
	mlx := mellanox().Commands[facts.Of(facts.MlnxQoS, "ens2np0")].Stdout
	for _, c := range []struct {
		name    string
		node    func() facts.Facts
		family  string
		change  change
		check   string
		verdict Verdict
		object  string
	}{
		{"one Thor without PFC", broadcom, Bnxt, stdout(facts.Of(facts.NiccliQoS, "3"), strings.Replace(thorQoS, "enabled: 3", "enabled: none", 1)), "rdma.pfc", Fail, "0000:30:00.0 (bnxt_re2)"},
		{"one Thor all lossy", broadcom, Bnxt, stdout(facts.Of(facts.NiccliCoSQ, "3"), " 0 Enabled Lossy\n"), "rdma.pfc", Fail, "0000:30:00.0 (bnxt_re2)"},
		{"one Thor maps another DSCP", broadcom, Bnxt, stdout(facts.Of(facts.NiccliQoS, "8"), strings.Replace(thorQoS, "DSCP: 26", "DSCP: 24", 1)), "rdma.uniform", Fail, "0000:80:00.0 (bnxt_re7)"},
		{"one Thor without congestion control", broadcom, Bnxt, stdout(facts.Of(facts.BnxtCC, "bnxt_re4"), "/x/cc/ecn_enable:0x0\n/x/cc/cc_mode:0x1\n"), "rdma.dcqcn", Fail, "bnxt_re4"},
		{"one Thor of unknown congestion control", broadcom, Bnxt, stdout(facts.Of(facts.BnxtCC, "bnxt_re4"), ""), "rdma.dcqcn", Unknown, "bnxt_re4"},
		{"one Thor with another CNP DSCP", broadcom, Bnxt, stdout(facts.Of(facts.BnxtCC, "bnxt_re4"), "/x/cc/ecn_enable:0x1\n/x/cc/cc_mode:0x1\n/x/cc/cnp_dscp:0x2e\n/x/cc/cnp_prio:0x7\n"), "rdma.cnp", Fail, "bnxt_re4"},
		{"one ConnectX trusts the VLAN tag", mellanox, Mlx5, stdout(facts.Of(facts.MlnxQoS, "ens2np0"), strings.Replace(mlx, "state: dscp", "state: pcp", 1)), "rdma.class", Fail, "ens2np0 (mlx5_2)"},
		{"one ConnectX with PFC elsewhere", mellanox, Mlx5, stdout(facts.Of(facts.MlnxQoS, "ens2np0"), strings.Replace(mlx, "enabled     0   0   0   1", "enabled     0   1   0   0", 1)), "rdma.uniform", Fail, "ens2np0 (mlx5_2)"},
		{"one ConnectX does not slow down", mellanox, Mlx5, func(f *facts.Facts) { f.Files[sysNet+"/ens5np0/ecn/roce_rp/enable/3"] = facts.File{Data: "0\n"} }, "rdma.dcqcn", Fail, "ens5np0 (mlx5_5)"},
		{"link pause on one ConnectX", mellanox, Mlx5, func(f *facts.Facts) {
			f.Commands[facts.Of(facts.EthtoolPause, "ens1np0")] = facts.Command{Argv: []string{"ethtool", "-a", "ens1np0"}, Stdout: "Pause parameters for ens1np0:\nAutonegotiate: off\nRX: on\nTX: off\n"}
		}, "rdma.pause", Fail, "ens1np0 (mlx5_1)"},
		{"a forced traffic class", mellanox, Mlx5, func(f *facts.Facts) {
			f.Files[sysIB+"/mlx5_0/tc/1/traffic_class"] = facts.File{Data: "Global tclass=236\n"}
		}, "rdma.tc", Warn, "mlx5_0"},
		{"priority mask without the lossless one", mellanox, Mlx5, func(f *facts.Facts) {
			f.Commands[facts.Of(facts.MlxConf, address(0))] = facts.Command{Argv: []string{"mlxconfig"}, Stdout: "  ROCE_CC_PRIO_MASK_P1   1\n"}
		}, "rdma.dcqcn", Fail, "0000:10:00.0 (mlx5_0)"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := c.node()
			c.change(&f)
			e := expecting(c.family)
			e.RDMA.Vars = []Var{{Scope: "decode", Name: "NCCL_IB_TC", Value: "104"}}
			fs := verdicts(f, e)[c.check]
			for _, x := range fs {
				if x.Verdict == c.verdict && x.Object == c.object {
					return
				}
			}
			t.Errorf("%s says %+v, want %s of %s", c.check, fs, c.verdict, c.object)
		})
	}
}

// TestManagementPorts: ports of another family, down or up, are nobody's rails.
func TestManagementPorts(t *testing.T) {
	t.Parallel()
	f := broadcom()
	for i := range 2 {
		d := fmt.Sprintf("%s/mlx5_%d", sysIB, i)
		f.Files[d+"/ports/1/state"] = facts.File{Data: "1: DOWN\n"}
		f.Files[d+"/device/vendor"] = facts.File{Data: "0x15b3\n"}
	}
	e := expecting("")
	for _, id := range []string{"rdma.count", "rdma.link", "rdma.rate", "rdma.gid"} {
		if got := Worst(verdicts(f, e)[id]); got != Pass {
			t.Errorf("%s says %s", id, got)
		}
	}
	// A rail that is off on purpose is not missed.
	down := broadcom()
	down.Files[sysIB+"/bnxt_re7/ports/1/state"] = facts.File{Data: "1: DOWN\n"}
	e.Site.RDMA.Down = []string{"bnxt_re7"}
	if got := Worst(verdicts(down, e)["rdma.link"]); got != Pass {
		t.Errorf("a rail in preflight.rdma.down: rdma.link says %s", got)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	got := Redacted("python3\x00-m\x00x\x00--api-key\x00hunter2\x00--hf-token=abc\x00PASSWORD=x\x00--tp\x008\x00")
	if want := "python3 -m x --api-key *** --hf-token=*** PASSWORD=*** --tp 8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNaturalLess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"rdma2", "rdma10", true}, {"rdma10", "rdma2", false}, {"g9", "g10", true}, {"a", "b", true}, {"a", "a", false}, {"n01", "n1", false}, {"x", "x1", true}} {
		if got := NaturalLess(c.a, c.b); got != c.want {
			t.Errorf("%s before %s: %v", c.a, c.b, got)
		}
	}
}

// TestPanickingCheck: a fault in a judge is not knowing, and not the end.
func TestPanickingCheck(t *testing.T) {
	t.Parallel()
	c := Check{ID: "x.y", Hard: true, Node: func(*View) []Finding { panic("index out of range") }}
	fs := c.Run(NewView(&facts.Facts{Node: "n"}, &Expect{}))
	if len(fs) != 1 || fs[0].Verdict != Unknown || !fs[0].Decides() || !strings.Contains(fs[0].Observed, "index out of range") {
		t.Errorf("%+v", fs)
	}
}
