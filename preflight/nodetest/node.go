package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Node is a node to be written.
type Node struct {
	// Files are path → content, below the root.
	Files map[string]string
	// Links are symbolic links, path → target, below the root.
	Links map[string]string
	// FIFOs are named pipes: reading one never ends.
	FIFOs []string
	// Tools are what each command answers, by its words: "nicctl show qos".
	Tools map[string]Answer
}

// Answer is what a tool does.
type Answer struct {
	Stdout, Stderr string
	Exit           int
	// Hang never ends.
	Hang bool
}

const (
	gpus  = 8
	rails = 8
)

// bus numbers of the GPUs and NICs, as on a real board.
func gpuBus(i int) string { return []string{"05", "15", "65", "75", "85", "95", "e5", "f5"}[i] }
func nicBus(i int) string { return []string{"06", "16", "66", "76", "86", "96", "e6", "f6"}[i] }

// GPU is the PCI address of GPU i.
func GPU(i int) string { return "0000:" + gpuBus(i) + ":00.0" }

// NIC is the PCI address of NIC i.
func NIC(i int) string { return "0000:" + nicBus(i) + ":00.0" }

// Card is the sysfs directory of GPU i.
func Card(i int) string { return "/sys/devices/pci0000:00/0000:00:01.1/" + GPU(i) }

// Rail is the sysfs directory of rail i.
func Rail(i int) string { return fmt.Sprintf("/sys/class/infiniband/ionic_%d", i) }

// Healthy is a node with nothing wrong.
func Healthy() *Node {
	n := &Node{Files: map[string]string{}, Links: map[string]string{}, Tools: map[string]Answer{}}
	n.kernel()
	for i := range gpus {
		n.gpu(i)
	}
	for i := range rails {
		n.rail(i)
	}
	n.tools()
	return n
}

func (n *Node) kernel() {
	n.Files["/proc/cmdline"] = "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro iommu=pt pci=realloc=off numa_balancing=disable\n"
	n.Files["/proc/sys/kernel/numa_balancing"] = "0\n"
	n.Files["/proc/self/limits"] = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max locked memory         unlimited            unlimited            bytes     \n" +
		"Max open files            1048576              1048576              files     \n"
	n.Files["/proc/meminfo"] = "MemTotal:       3170000000 kB\nMemFree:        3000000000 kB\n"
	n.Files["/proc/mounts"] = "/dev/sda2 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
	n.Files["/proc/net/tcp"] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1\n"
	n.Files["/proc/1/stat"] = "1 (systemd) S 0 1 1 0 -1 4194560\n"
	n.Files["/sys/module/amdgpu/version"] = "6.14.14\n"
	n.Files["/sys/module/ionic_rdma/version"] = "25.11.1.001\n"
	n.Files["/sys/class/drm/card0/device/vendor"] = "0x1a03\n"
	n.Files["/sys/class/drm/card0-VGA-1/status"] = "connected\n"
	n.Files["/sys/class/kfd/kfd/topology/nodes/0/properties"] = "simd_count 0\ncpu_cores_count 64\n"
	n.Files["/sys/class/kfd/kfd/topology/nodes/0/gpu_id"] = "0\n"
	n.Files["/sys/class/kfd/kfd/proc/.keep"] = ""
	n.Files["/dev/kfd"] = ""
}

func (n *Node) gpu(i int) {
	d := Card(i)
	set := func(name, v string) { n.Files[d+"/"+name] = v + "\n" }
	set("vendor", "0x1002")
	set("device", "0x75a3")
	set("numa_node", fmt.Sprint(i/4))
	set("mem_info_vram_total", "309220868096")
	set("mem_info_vram_used", "297218048")
	set("gpu_busy_percent", "0")
	set("current_link_speed", "32.0 GT/s PCIe")
	set("current_link_width", "16")
	set("max_link_speed", "32.0 GT/s PCIe")
	set("max_link_width", "16")
	set("current_compute_partition", "SPX")
	set("current_memory_partition", "NPS1")
	set("vbios_version", "113-M355-01")
	set("ras/umc_err_count", "ue: 0\nce: 0")
	set("ras/gpu_vram_bad_pages", "")
	set("hwmon/hwmon3/temp2_input", "48000")
	n.Files[d+"/config"] = "\x02\x10\xa3\x75"
	n.Files[d+"/class"] = "0x120000\n"
	n.Links["/sys/bus/pci/devices/"+GPU(i)] = d
	// card0 is the management controller's.
	n.Links[fmt.Sprintf("/sys/class/drm/card%d/device", i+1)] = d

	node := fmt.Sprintf("/sys/class/kfd/kfd/topology/nodes/%d", i+1)
	bus, err := strconv.ParseInt(gpuBus(i), 16, 32)
	if err != nil {
		panic(fmt.Sprintf("bus number %q of the fake GPU %d: %v", gpuBus(i), i, err))
	}
	n.Files[node+"/properties"] = fmt.Sprintf("simd_count 1024\nvendor_id 4098\ndevice_id 30115\nlocation_id %d\ndomain 0\nnum_xcc 8\n", bus<<8)
	n.Files[node+"/gpu_id"] = fmt.Sprintln(KFDID(i))
	link := 0
	for j := range gpus {
		if j != i {
			n.Files[fmt.Sprintf("%s/io_links/%d/properties", node, link)] = fmt.Sprintf("type 11\nnode_from %d\nnode_to %d\n", i+1, j+1)
			link++
		}
	}
	n.Files[fmt.Sprintf("/dev/dri/renderD%d", 128+i)] = ""
}

// KFDID is KFD's number of GPU i.
func KFDID(i int) int { return 40000 + 17*i }

func (n *Node) rail(i int) {
	d, port := Rail(i), Rail(i)+"/ports/1"
	set := func(p, v string) { n.Files[p] = v + "\n" }
	set(port+"/state", "4: ACTIVE")
	set(port+"/phys_state", "5: LinkUp")
	set(port+"/link_layer", "Ethernet")
	set(port+"/rate", "400 Gb/sec (4X NDR)")
	set(port+"/gids/0", fmt.Sprintf("fe80:0000:0000:0000:0690:81ff:fe30:a7%02x", i))
	set(port+"/gids/1", fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a0a:%02x07", i))
	set(port+"/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000")
	set(port+"/gid_attrs/types/0", "RoCE v2")
	set(port+"/gid_attrs/types/1", "RoCE v2")
	net := fmt.Sprintf("benic%dp1", i+1)
	set(port+"/gid_attrs/ndevs/1", net)
	set(port+"/hw_counters/req_tx_retry_excd_err", "0")
	set(d+"/fw_ver", "1.117.5-a-56")
	pci := "/sys/devices/pci0000:00/0000:00:02.1/" + NIC(i)
	n.Links[d+"/device"] = pci
	set(pci+"/vendor", "0x1dd8")
	set(pci+"/device", "0x1002")
	set(pci+"/class", "0x020000")
	set(pci+"/numa_node", fmt.Sprint(i/4))
	set(pci+"/current_link_speed", "32.0 GT/s PCIe")
	set(pci+"/current_link_width", "16")
	set(pci+"/max_link_speed", "32.0 GT/s PCIe")
	set(pci+"/max_link_width", "16")
	set(pci+"/net/"+net+"/mtu", "9000")
	n.Links["/sys/bus/pci/devices/"+NIC(i)] = pci
	set("/sys/class/net/"+net+"/mtu", "9000")
	set("/sys/class/net/"+net+"/carrier_changes", "2")
	set(fmt.Sprintf("/sys/class/infiniband_verbs/uverbs%d/ibdev", i), fmt.Sprintf("ionic_%d", i))
	set(fmt.Sprintf("/sys/class/infiniband_verbs/uverbs%d/abi_version", i), "1")
	set(fmt.Sprintf("/dev/infiniband/uverbs%d", i), "")
}

// Counts sets what rails have counted: rail → counter → value. What is not named is
// zero.
func (n *Node) Counts(of map[int]map[string]int) {
	var rows []string
	for i := range rails {
		row := fmt.Sprintf(`{"ifname":"ionic_%d","port":1`, i)
		for _, name := range []string{"req_tx_retry_excd_err", "tx_rdma_ack_timeout", "tx_rdma_retx_pkts", "rx_rdma_cnp_pkts", "tx_rdma_cnp_pkts"} {
			row += fmt.Sprintf(`,"%s":%d`, name, of[i][name])
		}
		rows = append(rows, row+"}")
	}
	n.Tools["rdma -j statistic show"] = Answer{Stdout: "[" + strings.Join(rows, ",") + "]\n"}
}

// Write writes the node: its kernel files below root, its tools into bin.
func (n *Node) Write(root, bin string) error {
	for _, p := range sorted(n.Files) {
		if err := write(filepath.Join(root, p), n.Files[p], 0o644); err != nil {
			return fmt.Errorf("write node: %w", err)
		}
	}
	for _, p := range n.FIFOs {
		if err := fifo(filepath.Join(root, p)); err != nil {
			return fmt.Errorf("write node: %w", err)
		}
	}
	for _, p := range sorted(n.Links) {
		at := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("write node: %w", err)
		}
		// Links of the kernel are relative, and so survive being moved.
		target, err := filepath.Rel(filepath.Dir(p), n.Links[p])
		if err != nil {
			return fmt.Errorf("write node: %w", err)
		}
		if err := os.Symlink(target, at); err != nil {
			return fmt.Errorf("write node: %w", err)
		}
	}
	return n.writeTools(bin)
}

// writeTools writes one script for each tool, and one file for each answer.
func (n *Node) writeTools(bin string) error {
	script := map[string]*strings.Builder{}
	for i, words := range sorted(n.Tools) {
		a := n.Tools[words]
		name, args, _ := strings.Cut(words, " ")
		if script[name] == nil {
			script[name] = &strings.Builder{}
			script[name].WriteString("#!/bin/sh\ncase \"$*\" in\n")
		}
		base := filepath.Join(bin, fmt.Sprintf(".answer%d", i))
		if err := write(base+".out", a.Stdout, 0o644); err != nil {
			return fmt.Errorf("write tools: %w", err)
		}
		if err := write(base+".err", a.Stderr, 0o644); err != nil {
			return fmt.Errorf("write tools: %w", err)
		}
		if a.Hang {
			fmt.Fprintf(script[name], "%s) exec sleep 1000000;;\n", quote(args))
			continue
		}
		fmt.Fprintf(script[name], "%s) cat %s; cat %s >&2; exit %d;;\n", quote(args), quote(base+".out"), quote(base+".err"), a.Exit)
	}
	for name, s := range script {
		s.WriteString("*) echo \"unexpected arguments: $*\" >&2; exit 64;;\nesac\n")
		if err := write(filepath.Join(bin, name), s.String(), 0o755); err != nil {
			return fmt.Errorf("write tools: %w", err)
		}
	}
	return nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func write(p, data string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(data), mode)
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
