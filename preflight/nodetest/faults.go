package nodetest

import (
	"fmt"
	"strings"
)

// Fault is one way in which a node goes bad.
type Fault struct {
	Name string
	// Check is the check that must find it, and Verdict what it must say: fail,
	// warn or unknown.
	Check, Verdict string
	Break          func(*Node)
}

// Faults are ways in which nodes go bad.
func Faults() []Fault {
	say := func(words, out string) func(*Node) { return func(n *Node) { n.Tools[words] = Answer{Stdout: out} } }
	file := func(p, data string) func(*Node) { return func(n *Node) { n.Files[p] = data + "\n" } }
	return []Fault{
		{"one NIC without PFC", "rdma.pfc", "fail", say("nicctl show qos", QoS(map[int]QoSBlock{2: {Bitmap: "0x0", NoDrop: "none"}}))},
		{"PFC does not cover the lossless priority", "rdma.pfc", "fail", say("nicctl show qos", QoS(map[int]QoSBlock{1: {Bitmap: "0x0"}}))},
		{"one NIC classifies by VLAN tag", "rdma.class", "fail", say("nicctl show qos", QoS(map[int]QoSBlock{5: {Class: "PCP"}}))},
		{"one NIC with another lossless priority", "rdma.uniform", "fail", say("nicctl show qos", QoS(map[int]QoSBlock{7: {Prio: 4}}))},
		{"QoS of one NIC missing", "rdma.count", "fail", say("nicctl show qos", QoS(map[int]QoSBlock{7: {Gone: true}}))},
		{"DCQCN off on one NIC", "rdma.dcqcn", "fail", say("nicctl show dcqcn", DCQCN(map[int]CCBlock{4: {Disabled: true}}))},
		{"one NIC with another CNP DSCP", "rdma.cnp", "fail", say("nicctl show dcqcn", DCQCN(map[int]CCBlock{3: {CNP: 48}}))},
		{"CNP on no strict priority", "rdma.cnp", "warn", func(n *Node) {
			all := map[int]CCBlock{}
			for i := range rails {
				all[i] = CCBlock{CNP: 48}
			}
			n.Tools["nicctl show dcqcn"] = Answer{Stdout: DCQCN(all)}
		}},
		{"link pause on one port", "rdma.pause", "fail", say("nicctl show port", Ports(map[int]PortBlock{0: {Pause: "LINK"}}))},
		{"receive pause off on one port", "rdma.pause", "fail", say("nicctl show port", Ports(map[int]PortBlock{6: {Rx: "disabled"}}))},
		{"one rail down", "rdma.link", "fail", file(Rail(3)+"/ports/1/state", "1: DOWN")},
		{"one rail at half speed", "rdma.rate", "fail", file(Rail(3)+"/ports/1/rate", "200 Gb/sec (4X HDR)")},
		{"one rail without an address", "rdma.gid", "fail", func(n *Node) { delete(n.Files, Rail(2)+"/ports/1/gids/1") }},
		{"one rail missing", "rdma.count", "fail", func(n *Node) {
			for p := range n.Files {
				if strings.HasPrefix(p, Rail(7)+"/") || strings.HasPrefix(p, "/sys/class/infiniband_verbs/uverbs7") {
					delete(n.Files, p)
				}
			}
			delete(n.Links, Rail(7)+"/device")
		}},
		{"nicctl needs a password", "rdma.tools", "unknown", func(n *Node) {
			for w := range n.Tools {
				if strings.HasPrefix(w, "nicctl ") {
					n.Tools[w] = Answer{Stderr: "sudo: a password is required\n", Exit: 1}
				}
			}
		}},
		{"nicctl finds no NIC", "rdma.tools", "fail", func(n *Node) {
			for w := range n.Tools {
				if strings.HasPrefix(w, "nicctl ") {
					n.Tools[w] = Answer{Stdout: "No AMD NICs detected\n"}
				}
			}
		}},
		{"nicctl not installed", "rdma.tools", "unknown", func(n *Node) {
			for w := range n.Tools {
				if strings.HasPrefix(w, "nicctl ") {
					delete(n.Tools, w)
				}
			}
		}},
		{"old NIC firmware", "rdma.firmware", "warn", func(n *Node) {
			for i := range rails {
				n.Files[Rail(i)+"/fw_ver"] = "1.117.1-a-63\n"
			}
			for w, a := range n.Tools {
				a.Stdout = strings.ReplaceAll(a.Stdout, "1.117.5-a-56", "1.117.1-a-63")
				n.Tools[w] = a
			}
		}},
		{"provider library does not fit", "rdma.abi", "warn", func(n *Node) {
			n.Tools["ibv_devinfo -v"] = Answer{Stdout: "No IB devices found\n", Exit: 255,
				Stderr: eachRail(func(i int) string {
					return fmt.Sprintf("libibverbs: Warning: Driver ionic does not support the kernel ABI of 1 (supports 4 to 4) for device /sys/class/infiniband/ionic_%d\n", i)
				})}
		}},
		{"one rail with retries", "rdma.counters", "warn", say("rdma -j statistic show", "["+strings.TrimSuffix(eachRail(func(i int) string {
			return fmt.Sprintf(`{"ifname":"ionic_%d","port":1,"req_tx_retry_excd_err":%d,"a":0,"b":0,"c":0},`, i, 900*(i/7))
		}), ",")+"]")},

		{"one GPU missing", "gpu.count", "fail", func(n *Node) {
			for p := range n.Files {
				if strings.HasPrefix(p, Card(7)+"/") || strings.HasPrefix(p, "/sys/class/kfd/kfd/topology/nodes/8/") {
					delete(n.Files, p)
				}
			}
			delete(n.Links, "/sys/bus/pci/devices/"+GPU(7))
			delete(n.Links, "/sys/class/drm/card8/device")
		}},
		{"GPU memory held by a process", "gpu.holders", "fail", func(n *Node) {
			n.Files[Card(2)+"/mem_info_vram_used"] = "180388626432\n"
			n.Files[fmt.Sprintf("/sys/class/kfd/kfd/proc/4242/vram_%d", KFDID(2))] = "180000000000\n"
			n.Files["/proc/4242/status"] = "Name:\tpython3\nState:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n"
			n.Files["/proc/4242/comm"] = "python3\n"
			n.Files["/proc/4242/cgroup"] = "0::/system.slice/docker-" + strings.Repeat("0f3a9b1c", 8) + ".scope\n"
			n.Files["/proc/4242/cmdline"] = "python3\x00-m\x00sglang.launch_server\x00--api-key\x00hunter2\x00"
		}},
		{"GPU memory without an owner", "gpu.stranded", "fail", file(Card(0)+"/mem_info_vram_used", "48318382080")},
		{"GPU in partitions", "gpu.partition", "fail", file(Card(1)+"/current_compute_partition", "CPX")},
		{"uncorrectable memory errors", "gpu.ecc", "fail", file(Card(3)+"/ras/umc_err_count", "ue: 2\nce: 5")},
		{"pending bad page", "gpu.bad-pages", "fail", file(Card(3)+"/ras/gpu_vram_bad_pages", "0x00000001 : 0x00001000 : P")},
		{"GPU link trained down", "gpu.pcie", "fail", file(Card(5)+"/current_link_width", "8")},
		{"GPU fell off the bus", "gpu.alive", "fail", func(n *Node) {
			n.Files[Card(4)+"/config"] = "\xff\xff\xff\xff"
		}},
		{"a pair without XGMI", "gpu.xgmi", "fail", func(n *Node) {
			n.Files["/sys/class/kfd/kfd/topology/nodes/1/io_links/0/properties"] = "type 2\nnode_from 1\nnode_to 2\n"
		}},
		{"amd-smi hangs", "gpu.smi", "fail", func(n *Node) { n.Tools["amd-smi version --json"] = Answer{Hang: true} }},
		{"GPU driver failed to start", "gpu.kernel-log", "fail", say("dmesg -x --time-format=iso", "kern  :err   : 2026-01-01T00:00:00,000000+00:00 amdgpu 0000:05:00.0: amdgpu: Fatal error during GPU init\n")},
		{"reading GPU memory hangs", "gpu.vram", "fail", func(n *Node) {
			delete(n.Files, Card(6)+"/mem_info_vram_used")
			n.FIFOs = append(n.FIFOs, Card(6)+"/mem_info_vram_used")
		}},

		{"memlock limited", "host.memlock", "fail", file("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         65536                65536                bytes     \nMax open files            1048576              1048576              files     ")},
		{"NUMA balancing on", "host.numa-balancing", "warn", file("/proc/sys/kernel/numa_balancing", "1")},
		{"iommu=pt missing", "host.cmdline", "warn", file("/proc/cmdline", "root=/dev/sda2 ro pci=realloc=off")},
		{"ACS redirects", "host.acs", "fail", say("lspci -D -nn -vvv -d ::0604", "0000:00:01.1 PCI bridge [0604]: x [1022:14ab]\n\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n")},
		{"docker not usable", "container.runtime", "fail", func(n *Node) {
			n.Tools["docker info --format {{json .}}"] = Answer{Stderr: "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock\n", Exit: 1}
		}},
	}
}
