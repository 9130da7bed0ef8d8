package models

// PreflightSite holds what a healthy node of this site looks like. Every value
// is optional: invariants are checked without it, golden values only with it,
// and nodes are always compared with each other.
type PreflightSite struct {
	// ToolPath is put before PATH when tools are looked for on a node.
	ToolPath []string `yaml:"tool_path,omitempty" json:"tool_path,omitempty" is:"path" items:"set"`
	// Root is prepended to /sys, /proc and /dev when facts are read; for
	// judging captured trees and for labs.
	Root string `yaml:"root,omitempty" json:"root,omitempty" is:"path"`
	// Budget is how long gathering on one node may take, whatever hangs there;
	// default 30s.
	Budget Duration `yaml:"budget,omitempty" json:"budget,omitempty" min:"1000000000"`
	// Waive demotes a check to a warning on this whole site: check id → reason.
	// A run's own waivers are added to it. An id that no check has is a mistake.
	Waive map[string]string `yaml:"waive,omitempty" json:"waive,omitempty" keys:"check" is:"reason"`

	RDMA      PreflightRDMA      `yaml:"rdma,omitempty" json:"rdma,omitzero"`
	GPU       PreflightGPU       `yaml:"gpu,omitempty" json:"gpu,omitzero"`
	Host      PreflightHost      `yaml:"host,omitempty" json:"host,omitzero"`
	Storage   PreflightStorage   `yaml:"storage,omitempty" json:"storage,omitzero"`
	Container PreflightContainer `yaml:"container,omitempty" json:"container,omitzero"`
}

// PreflightRDMA is the healthy state of the RDMA NICs.
type PreflightRDMA struct {
	// Devices is the number of rails a node must have; 0 says that this site has
	// no RDMA. Unset: one for each name in rdma.devices, else one for each GPU.
	Devices *int `yaml:"devices,omitempty" json:"devices,omitempty" min:"0"`
	// RateGbps is the link rate of every rail, such as 400. Unset: all rails
	// alike.
	RateGbps int `yaml:"rate_gbps,omitempty" json:"rate_gbps,omitempty" min:"1"`
	// MTU is the smallest active RDMA MTU in bytes; default 4096, the largest
	// that RoCE has.
	MTU int `yaml:"mtu,omitempty" json:"mtu,omitempty" min:"1"`
	// NetdevMTU is the smallest MTU of the interface below; default 4200, what
	// an RDMA MTU of 4096 needs with its headers.
	NetdevMTU int `yaml:"netdev_mtu,omitempty" json:"netdev_mtu,omitempty" min:"1"`
	// Down lists RDMA devices that are down on purpose.
	Down []string `yaml:"down,omitempty" json:"down,omitempty" is:"device" items:"set"`
	// Firmware pins the NIC firmware; any other version fails.
	Firmware string `yaml:"firmware,omitempty" json:"firmware,omitempty" is:"not-empty"`
	// MinFirmware replaces the built-in recommended minimum of the NIC family,
	// below which a warning is given.
	MinFirmware string `yaml:"min_firmware,omitempty" json:"min_firmware,omitempty" is:"not-empty"`
	// Driver pins the version of the NIC's kernel driver.
	Driver string `yaml:"driver,omitempty" json:"driver,omitempty" is:"not-empty"`

	// DataDSCP and DataPriority are what KV traffic is marked with and gets.
	DataDSCP     *int `yaml:"data_dscp,omitempty" json:"data_dscp,omitempty" min:"0" max:"63"`
	DataPriority *int `yaml:"data_priority,omitempty" json:"data_priority,omitempty" min:"0" max:"7"`
	// CNPDSCP and CNPPriority are those of congestion notifications.
	CNPDSCP     *int `yaml:"cnp_dscp,omitempty" json:"cnp_dscp,omitempty" min:"0" max:"63"`
	CNPPriority *int `yaml:"cnp_priority,omitempty" json:"cnp_priority,omitempty" min:"0" max:"7"`
	// Scheduling is priority → "dwrr 99", "strict" or "strict 10".
	Scheduling map[string]string `yaml:"scheduling,omitempty" json:"scheduling,omitempty"`
	// DCQCN is parameter → value, each as the NIC's tool prints it, in any case:
	// "alpha update g value": "512".
	DCQCN map[string]string `yaml:"dcqcn,omitempty" json:"dcqcn,omitempty"`
	// MinBandwidthGbps is what a bandwidth test between two nodes must reach on
	// every rail; default 95 % of the link rate.
	MinBandwidthGbps int `yaml:"min_bandwidth_gbps,omitempty" json:"min_bandwidth_gbps,omitempty" min:"1"`
}

// PreflightGPU is the healthy state of the GPUs.
type PreflightGPU struct {
	// Devices is the number of GPUs a node must have; 0 says that the nodes have
	// none, for sites that run stand-ins. Unset: gpus_per_node.
	Devices *int `yaml:"devices,omitempty" json:"devices,omitempty" min:"0"`
	// DeviceID is the PCI device id, such as 75a3. Unset: all GPUs alike.
	DeviceID string `yaml:"device_id,omitempty" json:"device_id,omitempty" is:"not-empty"`
	// Partition is the compute and memory partition mode; default SPX/NPS1.
	Partition string `yaml:"partition,omitempty" json:"partition,omitempty" is:"not-empty"`
	// VRAMFailMiB is the used memory of an idle GPU from which it counts as
	// occupied; default 2048. VRAMWarnMiB is where a warning begins; default
	// 600. The driver itself keeps about 283 MiB.
	VRAMFailMiB int `yaml:"vram_fail_mib,omitempty" json:"vram_fail_mib,omitempty" min:"1"`
	VRAMWarnMiB int `yaml:"vram_warn_mib,omitempty" json:"vram_warn_mib,omitempty" min:"1"`
	// Daemons are further names of monitoring processes that may hold a GPU
	// open without using memory.
	Daemons []string `yaml:"daemons,omitempty" json:"daemons,omitempty" is:"not-empty" items:"set"`
	// BadPages is the number of retired memory pages from which a GPU is to be
	// replaced; default 64.
	BadPages int `yaml:"bad_pages,omitempty" json:"bad_pages,omitempty" min:"1"`
	// MaxTempC is the highest junction temperature of an idle GPU; default 85.
	MaxTempC int `yaml:"max_temp_c,omitempty" json:"max_temp_c,omitempty" min:"1"`
	// LinkGTs and LinkWidth are the PCIe link of every GPU; unset: what the
	// device itself can do.
	LinkGTs   int `yaml:"link_gts,omitempty" json:"link_gts,omitempty" min:"1"`
	LinkWidth int `yaml:"link_width,omitempty" json:"link_width,omitempty" min:"1"`
	// Driver, ROCm and VBIOS pin versions; any other fails.
	Driver string `yaml:"driver,omitempty" json:"driver,omitempty" is:"not-empty"`
	ROCm   string `yaml:"rocm,omitempty" json:"rocm,omitempty" is:"not-empty"`
	VBIOS  string `yaml:"vbios,omitempty" json:"vbios,omitempty" is:"not-empty"`
}

// PreflightHost is the healthy state of the operating system.
type PreflightHost struct {
	// Cmdline lists words that the kernel command line must hold; default
	// iommu=pt and pci=realloc=off, both soft. Words given here are hard.
	Cmdline []string `yaml:"cmdline,omitempty" json:"cmdline,omitempty" is:"word" items:"set"`
	// MemlockGiB is the smallest locked-memory limit short of unlimited; default
	// 32.
	MemlockGiB int `yaml:"memlock_gib,omitempty" json:"memlock_gib,omitempty" min:"1"`
	// NoFile is the smallest limit of open files; default 65536.
	NoFile int `yaml:"nofile,omitempty" json:"nofile,omitempty" min:"1"`
	// ShmGiB is the smallest /dev/shm inside the image; default 8.
	ShmGiB int `yaml:"shm_gib,omitempty" json:"shm_gib,omitempty" min:"1"`
	// MemoryGB is the smallest host memory in GB (10^9 bytes); unset: the site's
	// node_memory_gb less 3 %.
	MemoryGB int `yaml:"memory_gb,omitempty" json:"memory_gb,omitempty" min:"1"`
	// Governor is the CPU frequency governor; default performance.
	Governor string `yaml:"governor,omitempty" json:"governor,omitempty" is:"not-empty"`
	// Kernel pins the kernel release.
	Kernel string `yaml:"kernel,omitempty" json:"kernel,omitempty" is:"not-empty"`
	// MaxSkew is the largest difference of clocks; default 1s. Thirty times as
	// much fails.
	MaxSkew Duration `yaml:"max_skew,omitempty" json:"max_skew,omitempty" min:"1000000"`
	// ACS is "fail" (default) or "warn" where PCIe bridges between GPUs and NICs
	// redirect their traffic.
	ACS string `yaml:"acs,omitempty" json:"acs,omitempty" enum:"warn|fail"`
}

// PreflightStorage is the healthy state of file systems.
type PreflightStorage struct {
	// Mounts lists paths that must lie on a mounted network file system.
	Mounts []string `yaml:"mounts,omitempty" json:"mounts,omitempty" is:"path" items:"set"`
	// ImageGiB is the free space where images lie; default 150. It is not asked
	// for where the image is already there.
	ImageGiB int `yaml:"image_gib,omitempty" json:"image_gib,omitempty" min:"1"`
	// TmpGiB is the free space of /tmp, and RunsGiB of the runs directory; both
	// default to 5.
	TmpGiB  int `yaml:"tmp_gib,omitempty" json:"tmp_gib,omitempty" min:"1"`
	RunsGiB int `yaml:"runs_gib,omitempty" json:"runs_gib,omitempty" min:"1"`
	// InodesPercent is the smallest share of free inodes; default 5.
	InodesPercent int `yaml:"inodes_percent,omitempty" json:"inodes_percent,omitempty" min:"1" max:"99"`
	// MountTimeout is how long a mount may take to answer; default 2s.
	MountTimeout Duration `yaml:"mount_timeout,omitempty" json:"mount_timeout,omitempty" min:"1000000"`
}

// PreflightContainer is the healthy state of containers.
type PreflightContainer struct {
	// Allow lists names of containers that may run on every node, globs allowed:
	// exporters, agents.
	Allow []string `yaml:"allow,omitempty" json:"allow,omitempty" is:"not-empty" items:"set"`
	// Enroot says that enroot and pyxis must work too.
	Enroot Bool `yaml:"enroot,omitempty" json:"enroot,omitempty"`
}
