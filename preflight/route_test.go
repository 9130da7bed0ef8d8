package preflight_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// capture is one captured output, put where the tool or the kernel would have
// given it, with what is judged from it.
type capture struct {
	facts  facts.Facts
	expect checks.Expect
	// ids are the checks that the capture is about.
	ids []string
	// info judges a capture that is only input; it returns what is wrong.
	info func() string
}

// nodeSize is the number of devices from which a capture counts as that of a
// whole node; a smaller one is an excerpt and must only hold what it holds.
const nodeSize = 5

const perNode = 8

// newCapture starts with a node on which nothing was looked at, of a site whose
// golden values are those of the vendor's documentation.
func newCapture() *capture {
	return &capture{
		facts: facts.Facts{Version: facts.Version, Node: "n1", Context: facts.ContextHost,
			Commands: map[string]facts.Command{}, Files: map[string]facts.File{}, Dirs: map[string]facts.Dir{}, Paths: map[string]facts.Path{}, Disks: map[string]facts.Disk{}, Trees: map[string]facts.Tree{}},
		expect: checks.Expect{GPUs: true, RDMA: checks.RDMA{Needed: true}, Runtime: models.Runtime{Kind: "none"}, Site: models.PreflightSite{
			RDMA: models.PreflightRDMA{RateGbps: 400, DCQCN: goldenDCQCN()}, GPU: models.PreflightGPU{DeviceID: "75a3"}}},
	}
}

func goldenDCQCN() map[string]string {
	return map[string]string{
		"Rate increase in AI phase": "160", "Rate increase byte count": "431068", "Alpha update G value": "512", "Alpha update interval": "1",
		"Rate increase in HAI phase": "300", "Initial alpha value": "64", "Rate reduce monitor period": "1", "Rate increase threshold": "1",
		"Rate increase interval": "1", "Token bucket size": "800000",
	}
}

// say puts an output where command id would have printed it. Error texts of
// tools are given on stderr too, as they were printed there.
func (c *capture) say(id, argv, text string) {
	cmd := facts.Command{Argv: strings.Fields(argv), Stdout: text, Duration: 100 * time.Millisecond}
	if parse.ToolFailure("", text) != nil && len(parse.Lines(text)) <= 2 {
		cmd.Stdout, cmd.Stderr = "", text
	}
	c.facts.Commands[id] = cmd
}

// tree puts an archive of files into the facts.
func (c *capture) tree(text string) {
	for name, data := range archive(text) {
		c.facts.Files["/"+name] = facts.File{Data: data}
	}
}

// rails says how many rails the node has to have, seen from n in the capture.
func (c *capture) rails(n int) { c.expect.Site.RDMA.Devices = devices(n) }

func devices(n int) *int {
	if n >= nodeSize {
		n = perNode
	}
	return &n
}

func (c *capture) gpus(n int) { c.expect.GPUsPerNode = *devices(n) }

// judge runs the checks the capture is about.
func (c *capture) judge() (verdict, detail string) {
	if c.info != nil {
		if why := c.info(); why != "" {
			return "WRONG", why
		}
		return "INFO", ""
	}
	var fs []checks.Finding
	v := checks.NewView(&c.facts, &c.expect)
	ran := 0
	for _, ch := range checks.All() {
		if !slices.Contains(c.ids, ch.ID) {
			continue
		}
		ran++
		for _, f := range ch.Run(v) {
			fs = append(fs, f)
			detail += fmt.Sprintf("  %-8s %s %s: %s (want %s)\n", f.Verdict, f.CheckID, f.Object, f.Observed, f.Expected)
		}
	}
	if ran != len(c.ids) {
		return "NOCHECK", fmt.Sprint("no such checks among ", c.ids)
	}
	switch w := checks.Worst(fs); w {
	case checks.Blocked:
		return "UNKNOWN", detail
	case checks.Skip:
		return "PASS", detail
	default:
		return strings.ToUpper(string(w)), detail
	}
}

// route finds out what a capture is from its folder and its text, the way a
// person would, and never from its name: captures nobody has seen yet must find
// their way too.
func route(file, text, why string) *capture {
	folder, _, _ := strings.Cut(file, "/")
	c := newCapture()
	switch folder {
	case "nicctl":
		c.nicctl(text)
	case "niccli":
		c.niccli(text)
	case "bnxt":
		c.bnxt(text)
	case "dcb":
		c.dcb(text)
	case "mlnx":
		c.mlnx(text)
	case "rdma":
		c.rdmaTool(text)
	case "ibv":
		c.ibv(text)
	case "sysfs":
		c.sysfs(text)
	case "ethtool":
		c.ethtool(text)
	case "rocm-smi":
		c.rocmSMI(text)
	case "amd-smi":
		c.amdSMI(text)
	case "kfd":
		c.kfd(text)
	case "drm":
		c.drm(text)
	case "dmesg":
		c.say(facts.KernelLog, "dmesg -x --time-format=iso", text)
		if strings.HasPrefix(text, "dmesg:") {
			cmd := c.facts.Commands[facts.KernelLog]
			cmd.Exit = 1
			c.facts.Commands[facts.KernelLog] = cmd
		}
		c.ids = []string{"gpu.kernel-log"}
	case "lspci":
		c.lspci(text)
	case "cgroup":
		c.info = func() string { return classified(text, why) }
	case "perftest":
		c.say(facts.Of(facts.Perftest, "rail"), "ib_write_bw", text)
		c.ids = []string{"rdma.bandwidth"}
	case "host":
		c.host(text)
	case "docker":
		c.docker(text)
	case "model":
		c.model(text)
	case "transport":
		c.transport(text)
	default:
		c.ids = []string{"no route for folder " + folder}
	}
	return c
}

func (c *capture) nicctl(text string) {
	c.expect.RDMA.Site.NIC = checks.Ionic
	switch {
	case strings.Contains(text, "Classification type") || strings.Contains(text, "PFC priority bitmap"):
		c.say(facts.NicctlQoS, "nicctl show qos", text)
		c.rails(len(parse.NicctlQoS(text)))
		c.ids = []string{"rdma.count", "rdma.tools", "rdma.class", "rdma.pfc", "rdma.dscp-map", "rdma.tc", "rdma.scheduling", "rdma.cnp", "rdma.uniform"}
	case strings.Contains(text, "DCQCN profile id") || strings.Contains(text, "ROCE device"):
		ccs := parse.NicctlDCQCN(text)
		c.say(facts.NicctlDCQCN, "nicctl show dcqcn", text)
		c.say(facts.NicctlQoS, "nicctl show qos", healthyQoS(ccs))
		c.rails(len(ccs))
		c.ids = []string{"rdma.count", "rdma.tools", "rdma.dcqcn", "rdma.cnp", "rdma.profile"}
	case len(parse.NicctlPort(text)) > 0 && !strings.Contains(text, "\"statistics\""):
		c.say(facts.NicctlPort, "nicctl show port", text)
		c.rails(len(parse.NicctlPort(text)))
		c.ids = []string{"rdma.count", "rdma.tools", "rdma.pause", "rdma.link", "rdma.rate", "rdma.mtu", "rdma.flaps"}
	case strings.Contains(text, "ionic driver"):
		c.say(facts.NicctlHost, "nicctl show version host-software", text)
		c.ids = []string{"rdma.tools", "rdma.driver"}
	case len(parse.NicctlFirmware(text)) > 0:
		c.say(facts.NicctlFirmware, "nicctl show version firmware", text)
		c.ids = []string{"rdma.tools", "rdma.firmware"}
	case strings.Contains(text, "tx_bps"):
		c.say(facts.NicctlRate, "nicctl show port statistics --rate -j", text)
		c.info = func() string {
			if c.info = nil; len(parse.NicctlStats(text)) == 0 {
				return "no rates were read"
			}
			c.ids = []string{"rdma.idle"}
			if got, _ := c.judge(); got == "UNKNOWN" || got == "FAIL" {
				return "judged " + got
			}
			return ""
		}
	case len(parse.NicctlStats(text)) > 0:
		c.say(facts.NicctlStats, "nicctl show port statistics -j", text)
		c.ids = []string{"rdma.counters"}
	case len(parse.NicctlLif(text)) > 0:
		c.say(facts.NicctlLif, "nicctl show lif -j", text)
		c.ids = []string{"rdma.link", "rdma.mtu"}
		if parse.NicctlLif(text)[0].QPs != nil {
			c.ids = []string{"rdma.idle"}
		}
	case len(parse.NicctlCard(text)) > 0:
		c.say(facts.NicctlCard, "nicctl show card -j", text)
		c.ids = []string{"rdma.tools", "rdma.firmware"}
	default:
		c.say(facts.NicctlQoS, "sudo -n nicctl show qos", text)
		c.ids = []string{"rdma.tools"}
	}
}

// healthyQoS is the vendor documentation's QoS for the cards of a capture.
func healthyQoS(ccs []parse.CC) string {
	var b strings.Builder
	for _, cc := range ccs {
		fmt.Fprintf(&b, `NIC  : id (%s)
Port : p
  Classification type         : DSCP
  DSCP-to-priority :
    DSCP bitmap               : 0xffffbffffeffffff ==> priority : 0
    DSCP bitmap               : 0x0000000001000000 ==> priority : 3
    DSCP bitmap               : 0x0000400000000000 ==> priority : 6
  PFC :
    PFC priority bitmap       : 0x8
    PFC no-drop priorities    : 3
  Scheduling :
    0         DWRR        1         N/A
    3         DWRR        99        N/A
    6         strict      N/A       10
`, cc.NIC)
	}
	return b.String()
}

func (c *capture) niccli(text string) {
	c.expect.RDMA.Site.NIC = checks.Bnxt
	switch {
	case strings.Contains(text, "8021QAZ") || strings.Contains(text, "PRIO_MAP"):
		c.say(facts.Of(facts.NiccliQoS, "1"), "niccli -i 1 qos --ets --show", text)
		c.ids = []string{"rdma.tools", "rdma.class", "rdma.pfc", "rdma.dscp-map", "rdma.scheduling", "rdma.cnp"}
	case strings.Contains(text, "Lossy") || strings.Contains(text, "Lossless"):
		c.say(facts.Of(facts.NiccliCoSQ, "1"), "niccli -i 1 qos --ingress --cosq --show", text)
		c.ids = []string{"rdma.pfc"}
	default:
		c.say(facts.NiccliList, "niccli --list", text)
		c.ids = []string{"rdma.tools"}
		if slices.ContainsFunc(parse.NiccliList(text), func(n parse.BnxtNIC) bool { return n.Firmware != "" }) {
			c.ids = append(c.ids, "rdma.firmware")
		}
	}
}

var bnxtDevice = regexp.MustCompile(`bnxt_re[\w]*\d+`)

func (c *capture) bnxt(text string) {
	c.expect.RDMA.Site.NIC = checks.Bnxt
	switch {
	case strings.Contains(text, "fw_service_prof_type_sup"):
		c.say(facts.Of(facts.BnxtCC, "bnxt_re0"), "cat cc", "")
		c.say(facts.Of(facts.BnxtInfo, "bnxt_re0"), "cat info", joined(text))
		c.ids = []string{"rdma.dcqcn"}
	case len(archive(text)) > 0:
		c.tree(text)
		c.ids = []string{"rdma.dcqcn", "rdma.cnp"}
	case strings.Contains(text, "ENABLE_PFC"):
		// What the setup tool says of itself: no tool of ours reads it.
		c.info = func() string {
			if parse.BnxtCC("x", text) != nil || parse.ToolFailure(text, "") != nil {
				return "read as evidence"
			}
			return ""
		}
	default:
		dev := bnxtDevice.FindString(text)
		if dev == "" {
			dev = "bnxt_re0"
		}
		c.say(facts.Of(facts.BnxtCC, dev), "grep -r . cc", text)
		c.ids = []string{"rdma.tools", "rdma.dcqcn"}
	}
}

func (c *capture) dcb(text string) {
	c.expect.RDMA.Site.NIC = checks.Mlx5
	pfc, app := "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off", "dscp-prio 26:3 48:6"
	if strings.Contains(text, "dscp-prio") || !strings.Contains(text, "prio-pfc") {
		app = text
	}
	if strings.Contains(text, "prio-pfc") {
		pfc = text
	}
	c.say(facts.Of(facts.DCBPFC, "ens1"), "dcb pfc show dev ens1", pfc)
	c.say(facts.Of(facts.DCBApp, "ens1"), "dcb app show dev ens1", app)
	c.ids = []string{"rdma.class", "rdma.pfc", "rdma.dscp-map", "rdma.cnp"}
}

func (c *capture) mlnx(text string) {
	c.expect.RDMA.Site.NIC = checks.Mlx5
	switch {
	case strings.Contains(text, "Priority trust state"):
		c.say(facts.Of(facts.MlnxQoS, "ens1"), "mlnx_qos -i ens1", text)
		c.ids = []string{"rdma.tools", "rdma.class", "rdma.pfc", "rdma.cnp"}
	case strings.Contains(text, "tclass="):
		c.info = func() string {
			if parse.GlobalTrafficClass(text) == nil {
				return "no forced traffic class was read"
			}
			return ""
		}
	case strings.Contains(text, "==>"):
		c.say(facts.MlnxDev, "ibdev2netdev", text)
		c.rails(len(parse.IBDevNetdev(text)))
		c.ids = []string{"rdma.count", "rdma.link"}
	case len(parse.ShowGIDs(text)) > 0:
		c.say(facts.MlnxGIDs, "show_gids", text)
		c.rails(len(parse.ShowGIDs(text)))
		c.ids = []string{"rdma.gid", "rdma.count"}
	case strings.Contains(text, "ROCE_CC_PRIO_MASK"):
		c.say(facts.Of(facts.MlxConf, "0000:06:00.0"), "mlxconfig -d 0000:06:00.0 q", text)
		c.ids = []string{"rdma.dcqcn"}
	case len(archive(text)) > 0:
		c.tree(text)
		c.ids = []string{"rdma.dcqcn"}
	default:
		c.say(facts.Of(facts.MlnxQoS, "ens1"), "mlnx_qos -i ens1", healthyMlnx)
		c.say(facts.Of(facts.CMATOS, "mlx5_0"), "cat default_roce_tos", text)
		c.ids = []string{"rdma.cm-tos"}
	}
}

// healthyMlnx is a lossless priority 3 for DSCP 24 to 31.
const healthyMlnx = "Priority trust state: dscp\ndscp2prio mapping:\n prio:3 dscp:31,30,29,28,27,26,25,24,\nPFC configuration:\n priority 0 1 2 3 4 5 6 7\n enabled 0 0 0 1 0 0 0 0\n"

func (c *capture) rdmaTool(text string) {
	switch {
	case len(parse.RDMAStat(text)) > 0 && len(parse.RDMAStat(text)[0].Values) > 3:
		c.say(facts.RDMAStat, "rdma -j statistic show", text)
		c.ids = []string{"rdma.counters"}
	case len(parse.RDMALink(text)) > 0 && parse.RDMALink(text)[0].State != "":
		c.say(facts.RDMALink, "rdma link show", text)
		c.rails(len(parse.RDMALink(text)))
		c.ids = []string{"rdma.count", "rdma.link"}
	default:
		c.say(facts.RDMADev, "rdma dev show", text)
		c.ids = []string{"rdma.firmware"}
	}
	c.expect.RDMA.Site.NIC = vendor(text)
}

// vendor knows the family of a capture that names no vendor from its device
// names; a Pollara node is what the captures are about.
func vendor(text string) string {
	switch {
	case strings.Contains(text, "bnxt") || strings.Contains(text, "0x14e4"):
		return checks.Bnxt
	case strings.Contains(text, "mlx5") || strings.Contains(text, "0x02c9"):
		return checks.Mlx5
	}
	return checks.Ionic
}

func (c *capture) ibv(text string) {
	c.expect.RDMA.Site.NIC = vendor(text)
	if d := parse.IBVDevices(text); len(d) > 0 {
		c.say(facts.IBVDevices, "ibv_devices", text)
		c.rails(len(d))
		c.ids = []string{"rdma.count"}
		return
	}
	c.say(facts.IBVDevinfo, "ibv_devinfo -v", text)
	c.ids = []string{"rdma.abi"}
	for word, ids := range map[string][]string{
		"hca_id": {"rdma.count", "rdma.firmware"}, "state:": {"rdma.link"}, "active_mtu": {"rdma.mtu"}, "GID[": {"rdma.gid"},
	} {
		if strings.Contains(text, word) {
			c.ids = append(c.ids, ids...)
		}
	}
	if n := len(parse.IBVDevinfo(text)); n > 0 {
		c.rails(n)
	}
}

func (c *capture) sysfs(text string) {
	files := archive(text)
	c.tree(text)
	if len(files) == 0 {
		c.facts.Dirs["/sys/class/infiniband"] = facts.Dir{Err: facts.ErrMissing}
		c.ids = []string{"rdma.count"}
		return
	}
	devs := map[string]bool{}
	for f := range files {
		if rest, ok := strings.CutPrefix(f, "sys/class/infiniband/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			devs[name] = true
		}
	}
	c.rails(len(devs))
	c.ids = []string{"rdma.count", "rdma.link", "rdma.rate", "rdma.gid", "rdma.firmware", "rdma.uverbs", "rdma.pcie"}
}

func (c *capture) ethtool(text string) {
	c.expect.RDMA.Site.NIC = checks.Ionic
	if strings.Contains(text, "Pause parameters") {
		c.expect.RDMA.Site.NIC = checks.Bnxt
		c.say(facts.Of(facts.EthtoolPause, "ens1"), "ethtool -a ens1", text)
		c.ids = []string{"rdma.pause"}
		return
	}
	c.say(facts.Of(facts.EthtoolStat, "ens1"), "ethtool -S ens1", text)
	c.say(facts.NicctlQoS, "nicctl show qos", healthyQoS([]parse.CC{{NIC: "0000:06:00.0"}}))
	c.ids = []string{"rdma.counters"}
}

func (c *capture) rocmSMI(text string) {
	cmd := facts.Command{Argv: []string{"rocm-smi"}, Stdout: text, Duration: time.Second / 2}
	if strings.TrimSpace(text) == "" {
		cmd.Stderr = "WARNING:root:No JSON data to report"
	}
	if strings.HasPrefix(text, "ERROR") {
		cmd.Stdout, cmd.Stderr = "", text
	}
	c.facts.Commands[facts.ROCmSMI] = cmd
	r := parse.ReadROCmSMI(text)
	c.gpus(len(r.GPUs))
	c.ids = []string{"gpu.smi"}
	if r.ProcsListed {
		c.ids = append(c.ids, "gpu.holders")
	}
	if len(r.Links) > 0 {
		c.ids = append(c.ids, "gpu.xgmi")
	}
	if len(r.GPUs) > 0 {
		c.ids = append(c.ids, "gpu.count")
	}
	for _, g := range r.GPUs {
		if (g.Used != nil || g.UsedPct != nil || len(g.NA) > 0) && !slices.Contains(c.ids, "gpu.vram") {
			c.ids = append(c.ids, "gpu.vram")
		}
		if (g.UE != nil || g.CE != nil) && !slices.Contains(c.ids, "gpu.ecc") {
			c.ids = append(c.ids, "gpu.ecc")
		}
	}
}

func (c *capture) amdSMI(text string) {
	table, _, listed := parse.AMDSMITable(text)
	_, cper := parse.AMDSMICPER(text)
	json := parse.AMDSMI(text)
	plain, procs := parse.AMDSMIText(text)
	procJSON, procOK := parse.AMDSMIProcess(text)
	version, _ := parse.AMDSMIVersion(text)
	switch {
	case len(table) > 0:
		c.say(facts.AMDSMITable, "amd-smi", text)
		c.gpus(len(table))
		c.ids = []string{"gpu.smi", "gpu.count", "gpu.vram", "gpu.ecc", "gpu.partition"}
		if listed {
			c.ids = append(c.ids, "gpu.holders", "gpu.stranded")
		}
	case procOK && (len(procJSON) > 0 || strings.Contains(text, "process_list")):
		c.say(facts.AMDSMIProcess, "amd-smi process --json", text)
		c.ids = []string{"gpu.smi", "gpu.holders"}
	case len(procs) > 0 || strings.Contains(text, "PROCESS_INFO"):
		c.say(facts.AMDSMIProcess, "amd-smi process", text)
		c.ids = []string{"gpu.smi", "gpu.holders"}
	case strings.Contains(text, `"retired"`):
		c.say(facts.AMDSMIBadPages, "amd-smi bad-pages --json", text)
		c.ids = []string{"gpu.smi", "gpu.bad-pages"}
	case strings.Contains(text, "link_type") && strings.Contains(text, "{"):
		c.say(facts.AMDSMITopology, "amd-smi topology --json", text)
		c.gpus(2)
		c.ids = []string{"gpu.smi", "gpu.xgmi"}
	case version != "":
		c.say(facts.AMDSMIVersion, "amd-smi version --json", text)
		c.info = func() string {
			c.info, c.ids = nil, []string{"gpu.smi"}
			if got, detail := c.judge(); got != "PASS" {
				return detail
			}
			return ""
		}
	case cper:
		c.say(facts.AMDSMICPER, "amd-smi ras --cper", text)
		c.ids = []string{"gpu.ecc"}
	case len(parse.AMDSMIMonitor(text)) > 0:
		c.say(facts.AMDSMIMonitor, "amd-smi monitor", text)
		c.ids = []string{"gpu.smi", "gpu.throttle"}
	case len(parse.AMDSMIXGMI(text)) > 0:
		c.say(facts.AMDSMIXGMI, "amd-smi xgmi", text)
		c.ids = []string{"gpu.smi", "gpu.xgmi"}
	case strings.Contains(text, "memory_partition") || strings.Contains(text, "partition_id") && !strings.Contains(text, "kfd_id"):
		c.say(facts.AMDSMIPartition, "amd-smi partition --json", text)
		c.ids = []string{"gpu.smi", "gpu.partition"}
	case strings.Contains(text, "kfd_id") || len(json) > 0 && json[0].BDF != "" && json[0].Used == nil && json[0].UE == nil:
		c.say(facts.AMDSMIList, "amd-smi list --json", text)
		bdfs := map[string]bool{}
		for _, g := range json {
			bdfs[g.BDF] = true
		}
		c.gpus(len(bdfs))
		c.ids = []string{"gpu.smi", "gpu.count", "gpu.partition"}
	default:
		if len(json) == 0 && len(plain) > 0 && plain[0].BDF != "" && plain[0].Width == nil && plain[0].Used == nil && plain[0].UE == nil {
			c.say(facts.AMDSMIList, "amd-smi list", text)
			c.gpus(len(plain))
			c.ids = []string{"gpu.smi", "gpu.count"}
			return
		}
		c.say(facts.AMDSMIMetric, "amd-smi metric --json", text)
		c.ids = []string{"gpu.smi"}
		for _, g := range append(json, plain...) {
			for id, has := range map[string]bool{
				"gpu.vram": g.Used != nil || slices.Contains(g.NA, "used_vram"), "gpu.ecc": g.UE != nil || g.CE != nil || slices.Contains(g.NA, "total_uncorrectable_count"),
				"gpu.pcie": g.Width != nil, "gpu.throttle": g.TempC != nil,
			} {
				if has && !slices.Contains(c.ids, id) {
					c.ids = append(c.ids, id)
				}
			}
		}
	}
}

func (c *capture) kfd(text string) {
	c.tree(text)
	if len(archive(text)) > 0 {
		for p := range c.facts.Files {
			switch {
			case strings.Contains(p, "/proc/"):
				c.ids = []string{"gpu.holders"}
			case strings.Contains(p, "/io_links/"):
				c.ids = []string{"gpu.xgmi"}
			}
		}
		if c.ids == nil {
			v := checks.NewView(&c.facts, &c.expect)
			c.gpus(len(v.GPUs()))
			c.ids = []string{"gpu.count", "gpu.partition"}
		}
		return
	}
	c.facts.Files["/sys/class/kfd/kfd/topology/nodes/2/properties"] = facts.File{Data: text}
	gpus := checks.NewView(&c.facts, &c.expect).GPUs()
	if len(gpus) == 1 && gpus[0].Device == "75a3" {
		c.expect.GPUsPerNode = 1
		c.ids = []string{"gpu.count", "gpu.identity", "gpu.partition"}
		return
	}
	c.info = func() string {
		// A CPU's node is no GPU; another model is one, of another id.
		if isCPU := parse.Properties(text)["simd_count"] == 0; isCPU != (len(gpus) == 0) {
			return fmt.Sprintf("read as %d GPUs", len(gpus))
		}
		return ""
	}
}

func (c *capture) drm(text string) {
	c.tree(text)
	cards := len(checks.NewView(&c.facts, &c.expect).GPUs())
	for word, ids := range map[string][]string{
		"mem_info_vram_used": {"gpu.vram", "gpu.count"}, "current_link_width": {"gpu.pcie"}, "/ras/": {"gpu.ecc"}, "gpu_busy_percent": {"gpu.busy"},
		"current_compute_partition": {"gpu.partition"}, "bad_pages": {"gpu.bad-pages"},
	} {
		if strings.Contains(text, word) {
			c.ids = append(c.ids, ids...)
		}
	}
	c.gpus(cards)
}

func (c *capture) lspci(text string) {
	devs := parse.Lspci(text)
	switch {
	case strings.Contains(text, "ACSCtl") || strings.Contains(text, "access denied"):
		c.say(facts.LspciBridges, "sudo -n lspci -D -vvv -d ::0604", text)
		c.ids = []string{"host.acs"}
	case strings.Contains(text, "LnkSta") || strings.Contains(text, "DevSta"):
		c.say(facts.LspciGPU, "sudo -n lspci -D -vvv -d 1002:", text)
		c.ids = []string{"gpu.pcie"}
	case slices.ContainsFunc(devs, func(d parse.PCIDevice) bool { return d.Vendor == "1dd8" || strings.Contains(d.Text, "Pensando") }):
		c.expect.RDMA.Site.NIC = checks.Ionic
		c.say(facts.LspciAll, "lspci -D -nn", text)
		c.rails(perNode)
		c.ids = []string{"rdma.count"}
	default:
		c.say(facts.LspciAll, "lspci -D -nn", text)
		c.gpus(len(devs))
		c.ids = []string{"gpu.count", "gpu.alive"}
	}
}

var classifyRE = regexp.MustCompile(`classify as: (\S+)(?:[ (]+(\w+))?(?: (\d+))?`)

// classified compares the owner with what the index says in words.
func classified(text, why string) string {
	o := parse.CgroupOwner(text)
	m := classifyRE.FindStringSubmatch(why)
	if m == nil {
		return "the index does not say how to classify"
	}
	want := map[string]parse.OwnerKind{"container": parse.OwnerContainer, "slurm": parse.OwnerSlurm, "bare": parse.OwnerBare, "host": parse.OwnerService, "unknown": parse.OwnerUnknown}
	word := strings.TrimFunc(m[1], func(r rune) bool { return r == '(' || r == ')' })
	word, _, _ = strings.Cut(word, "(")
	if k, ok := want[word]; !ok || k != o.Kind {
		return fmt.Sprintf("classified as %s, want %s", o, why)
	}
	if strings.Contains(why, "k8s") != o.Kubernetes {
		return fmt.Sprintf("classified as %s, want %s", o, why)
	}
	if m[3] != "" && o.ID != m[3] {
		return fmt.Sprintf("job %s, want %s", o.ID, m[3])
	}
	return ""
}

var archiveRE = regexp.MustCompile(`^-- (.+) --$`)

// archive reads the txtar form: file name → content.
func archive(text string) map[string]string {
	out := map[string]string{}
	name := ""
	for _, l := range strings.SplitAfter(text, "\n") {
		if m := archiveRE.FindStringSubmatch(strings.TrimRight(l, "\n")); m != nil {
			name = strings.TrimPrefix(m[1], "/")
			out[name] = ""
			continue
		}
		if name != "" {
			out[name] += l
		}
	}
	return out
}

// joined is an archive's contents as one text.
func joined(text string) string {
	files := archive(text)
	if len(files) == 0 {
		return text
	}
	var b strings.Builder
	for _, data := range files {
		b.WriteString(data)
	}
	return b.String()
}
