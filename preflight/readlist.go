package preflight

import (
	"path"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight/checks"
)

// Deadlines of the helpers, within the budget of the node.
const (
	kernelDeadline = 5 * time.Second
	secondDeadline = 4 * time.Second
	mountDeadline  = 2 * time.Second
	treeDeadline   = 15 * time.Second
)

// kernelGroups is what is read of the kernel's own files. One group for each kind
// of device, so that one driver that hangs does not hide the others.
func kernelGroups() []readGroup {
	ib, port := "/sys/class/infiniband/*", "/sys/class/infiniband/*/ports/1"
	card := "/sys/class/drm/card[0-9]*/device"
	kfd := "/sys/class/kfd/kfd/topology/nodes/*"
	return []readGroup{
		{Name: "rdma", Dirs: []string{"/sys/class/infiniband"}, Links: []string{ib + "/device"}, Files: []string{
			ib + "/fw_ver", ib + "/device/vendor", ib + "/device/device", ib + "/device/numa_node",
			ib + "/device/current_link_speed", ib + "/device/current_link_width", ib + "/device/max_link_speed", ib + "/device/max_link_width",
			port + "/state", port + "/phys_state", port + "/rate", port + "/link_layer", ib + "/tc/1/traffic_class",
		}},
		// Most entries of the table are empty; only those that hold an address
		// are kept.
		{Name: "rdma-gid-table", Files: []string{port + "/gids/*"}, Drop: "0000:0000:0000:0000:0000:0000:0000:0000"},
		{Name: "rdma-counters", Files: []string{port + "/hw_counters/*"}},
		{Name: "rdma-verbs", Dirs: []string{"/sys/class/infiniband_verbs"}, Files: []string{"/sys/class/infiniband_verbs/*/ibdev", "/sys/class/infiniband_verbs/*/abi_version"},
			Stats: []string{"/dev/infiniband/*"}},
		{Name: "rdma-net", Dirs: []string{ib + "/device/net"}, Files: []string{"/sys/class/net/*/mtu", "/sys/class/net/*/operstate", "/sys/class/net/*/carrier_changes",
			"/sys/class/net/*/ecn/roce_*/*", "/sys/class/net/*/ecn/roce_*/enable/*"}},

		{Name: "gpu-identity", Dirs: []string{"/sys/class/drm"}, Links: []string{card}, Files: []string{card + "/vendor", card + "/device", card + "/numa_node", card + "/config",
			card + "/current_link_speed", card + "/current_link_width", card + "/max_link_speed", card + "/max_link_width", card + "/vbios_version"}},
		{Name: "gpu-memory", Files: []string{card + "/mem_info_vram_total", card + "/mem_info_vram_used"}},
		{Name: "gpu-state", Files: []string{card + "/gpu_busy_percent", card + "/current_compute_partition", card + "/current_memory_partition"}},
		{Name: "gpu-ras", Files: []string{card + "/ras/*_err_count", card + "/ras/aca_*", card + "/ras/gpu_vram_bad_pages"}},
		{Name: "gpu-temperature", Files: []string{card + "/hwmon/*/temp2_input"}},
		{Name: "kfd", Dirs: []string{"/sys/class/kfd/kfd/topology/nodes"}, Files: []string{kfd + "/properties", kfd + "/gpu_id", kfd + "/io_links/*/properties"}},
		{Name: "kfd-processes", Dirs: []string{"/sys/class/kfd/kfd/proc"}, Files: []string{"/sys/class/kfd/kfd/proc/*/vram_*"}},
		{Name: "gpu-devices", Dirs: []string{"/sys/module/amdgpu"}, Stats: []string{"/dev/kfd", "/dev/dri/renderD*"}},
		{Name: "pci", Dirs: []string{"/sys/bus/pci/devices"}, Files: []string{"/sys/bus/pci/devices/*/vendor"}, Keep: []string{"0x1002", "0x1dd8", "0x14e4", "0x15b3"}},
		{Name: "versions", Files: []string{"/sys/module/amdgpu/version", "/sys/module/ionic/version", "/sys/module/ionic_rdma/version", "/sys/module/bnxt_en/version",
			"/sys/module/bnxt_re/version", "/sys/module/mlx5_core/version", "/sys/module/mlx5_ib/version", "/opt/rocm/.info/version"}},

		{Name: "host", Files: []string{"/proc/cmdline", "/proc/sys/kernel/numa_balancing", "/proc/self/limits", "/proc/meminfo", "/proc/mounts",
			"/proc/net/tcp", "/proc/net/tcp6", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/1/stat"}, Stats: []string{"/var/run/docker.sock"}},
		{Name: "governor", Files: []string{"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"}, Distinct: true},
	}
}

// imageGroups is what is read inside an image.
func imageGroups() []readGroup {
	return []readGroup{
		{Name: "limits", Files: []string{"/proc/self/limits"}},
		{Name: "devices", Stats: []string{"/dev/kfd", "/dev/dri/renderD*", "/dev/infiniband/*"}, Dirs: []string{"/sys/class/infiniband"}},
	}
}

// storageLists are the paths outside the kernel's files, each in a list of its
// own and so in a helper of its own: a mount that hangs holds only itself.
func storageLists(s Spec) []readList {
	var out []readList
	disks := map[string]bool{}
	if s.Context == ContextImage {
		disks["/dev/shm"] = true
	} else {
		disks["/tmp"] = true
		if s.Expect.RunsDir != "" {
			disks[s.Expect.RunsDir] = true
		}
		if k := s.Expect.Runtime.Kind; k == "docker" || k == "podman" {
			disks["/var/lib/docker"] = true
		}
		for _, m := range s.Expect.Site.Storage.Mounts {
			disks[m] = true
		}
	}
	wait := s.Expect.Site.Storage.MountTimeout.D()
	if wait == 0 {
		wait = mountDeadline
	}
	for _, d := range sortedKeys(disks) {
		out = append(out, readList{Deadline: wait, Groups: []readGroup{{Name: d, Disks: []string{d}}}})
	}
	for _, d := range s.Expect.Models {
		out = append(out, readList{Deadline: treeDeadline, Groups: []readGroup{{Name: d, Trees: []string{d}}}})
	}
	return out
}

// secondGroups is what the first look says to look at more closely.
func secondGroups(f *Facts, e *Expect) []readGroup {
	var out []readGroup
	procs := readGroup{Name: "holders"}
	v := checks.NewView(f, e)
	for _, pid := range v.HolderPIDs() {
		dir := "/proc/" + pid
		procs.Files = append(procs.Files, dir+"/status", dir+"/comm", dir+"/cgroup", dir+"/cmdline")
	}
	if len(procs.Files) > 0 {
		out = append(out, procs)
	}
	gids := readGroup{Name: "rdma-gid-attributes"}
	for _, p := range sortedKeys(f.Files) {
		if port, index, ok := strings.Cut(p, "/gids/"); ok {
			gids.Files = append(gids.Files, port+"/gid_attrs/types/"+index, port+"/gid_attrs/ndevs/"+index)
		}
	}
	if len(gids.Files) > 0 {
		out = append(out, gids)
	}
	pci := readGroup{Name: "pci-devices"}
	for _, p := range sortedKeys(f.Files) {
		file := f.Files[p]
		dir, ok := strings.CutSuffix(p, "/vendor")
		if !ok || path.Dir(dir) != "/sys/bus/pci/devices" || file.Err != "" {
			continue
		}
		pci.Files = append(pci.Files, dir+"/class", dir+"/device", dir+"/numa_node", dir+"/config")
		pci.Links = append(pci.Links, dir)
	}
	if len(pci.Files) > 0 {
		out = append(out, pci)
	}
	if busy := v.BusyMemory(); len(busy) > 0 {
		for _, p := range busy {
			out = append(out, readGroup{Name: "sample " + p, Samples: []string{p}})
		}
	}
	return append(out, readGroup{Name: "stuck", Files: []string{"/proc/[0-9]*/stat"}, Stuck: true})
}
