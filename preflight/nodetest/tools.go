package nodetest

import (
	"fmt"
	"strings"
)

func (n *Node) tools() {
	say := func(words, out string) { n.Tools[words] = Answer{Stdout: out} }
	say("nicctl show qos", QoS(nil))
	say("nicctl show dcqcn", DCQCN(nil))
	say("nicctl show port", Ports(nil))
	say("nicctl show card -j", cards())
	say("nicctl show version firmware", perNIC(func(i int) string {
		return "CPLD : 3.16 (primary)\nFirmware-A : 1.117.5-a-56\n"
	}))
	say("nicctl show version host-software", "nicctl : 1.117.5-a-56\nIPC driver : 1.117.5.a.56\nionic driver : 25.11.1.001\n")
	say("nicctl show lif -j", lifs(func(i int) string {
		return fmt.Sprintf(`"spec":{"rdma_mtu":"4096"},"status":{"name":"benic%dp1","oper_state":"up"}`, i+1)
	}))
	say("nicctl show rdma queue-pair -j", lifs(func(int) string { return `"spec":{"id":"l"},"queue_pair":""` }))
	say("nicctl show port statistics -j", statistics("frames_rx_bad_fcs", "0"))
	say("nicctl show port statistics --rate -j", statistics("tx_bps", "0 bps"))
	say("rdma link show", eachRail(func(i int) string {
		return fmt.Sprintf("link ionic_%d/1 state ACTIVE physical_state LINK_UP netdev benic%dp1\n", i, i+1)
	}))
	say("rdma dev show", eachRail(func(i int) string {
		return fmt.Sprintf("%d: ionic_%d: node_type ca fw 1.117.5-a-56 node_guid 0690:81ff:fe30:a7%02x sys_image_guid 0690:81ff:fe30:a7%02x\n", i, i, i, i)
	}))
	n.Counts(nil)
	say("ibv_devinfo -v", eachRail(func(i int) string {
		return fmt.Sprintf("hca_id:\tionic_%d\n\ttransport:\tInfiniBand (0)\n\tfw_ver:\t1.117.5-a-56\n\tvendor_id:\t0x1dd8\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t4096 (5)\n\t\t\tactive_mtu:\t4096 (5)\n\t\t\tlink_layer:\tEthernet\n\t\t\tGID[  1]:\t::ffff:10.10.%d.7, RoCE v2\n\n", i, i)
	}))
	say("ip -o -4 addr show", eachRail(func(i int) string {
		return fmt.Sprintf("%d: benic%dp1    inet 10.10.%d.7/31 brd 10.10.%d.255 scope global benic%dp1\n", i+3, i+1, i, i, i+1)
	}))
	say("ip rule show", "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n")
	for i := range rails {
		say(fmt.Sprintf("ethtool -S benic%dp1", i+1), "NIC statistics:\n     frames_rx_bad_fcs: 0\n     rx_pripause_0_1us_count: 0\n     rx_pripause_3_1us_count: 12\n")
	}
	say("modinfo -F version ionic_rdma", "25.11.1.001\n")

	say("amd-smi version --json", `[{"tool":"AMDSMI Tool","amdsmi_library_version":"26.2.1","rocm_version":"7.2.0"}]`)
	say("amd-smi list --json", "["+eachGPU(func(i int) string {
		return fmt.Sprintf(`{"gpu":%d,"bdf":"%s","kfd_id":%d,"node_id":%d,"partition_id":0}`, i, GPU(i), KFDID(i), i+1)
	})+"]\n")
	say("amd-smi metric --mem-usage --ecc --pcie --temperature --json", Metric(nil))
	say("amd-smi process --json", "["+eachGPU(func(i int) string {
		return fmt.Sprintf(`{"gpu":%d,"process_list":[{"process_info":"No running processes detected"}]}`, i)
	})+"]\n")
	say("amd-smi partition --json", "["+eachGPU(func(i int) string {
		return fmt.Sprintf(`{"gpu":%d,"memory_partition":"NPS1","compute_partition":"SPX"}`, i)
	})+"]\n")
	say("amd-smi bad-pages --json", "["+eachGPU(func(i int) string {
		return fmt.Sprintf(`{"gpu":%d,"retired":"No bad pages found.","pending":"No bad pages found.","un_res":"No bad pages found."}`, i)
	})+"]\n")
	say("amd-smi topology --json", "["+eachGPU(func(i int) string {
		var links []string
		for j := range gpus {
			kind := "XGMI"
			if j == i {
				kind = "SELF"
			}
			links = append(links, fmt.Sprintf(`{"gpu":%d,"bdf":"%s","link_status":"ENABLED","link_type":"%s","num_hops":1}`, j, GPU(j), kind))
		}
		return fmt.Sprintf(`{"gpu":%d,"bdf":"%s","links":[%s]}`, i, GPU(i), strings.Join(links, ","))
	})+"]\n")
	say("lspci -D -nn", eachRail(func(i int) string {
		return fmt.Sprintf("%s Ethernet controller [0200]: Pensando Systems DSC Ethernet Controller [1dd8:1002]\n", NIC(i))
	})+eachLine(gpus, func(i int) string {
		return fmt.Sprintf("%s Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:75a3]\n", GPU(i))
	}))
	say("lspci -D -nn -vvv -d 1002:", eachLine(gpus, func(i int) string {
		return fmt.Sprintf("%s Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:75a3]\n\t\tDevSta: CorrErr- NonFatalErr- FatalErr- UnsupReq-\n\t\tLnkSta: Speed 32GT/s, Width x16\n\n", GPU(i))
	}))
	say("lspci -D -nn -vvv -d ::0604", "0000:00:01.1 PCI bridge [0604]: Advanced Micro Devices [1022:14ab]\n\t\tACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n\n0000:00:02.1 PCI bridge [0604]: Advanced Micro Devices [1022:14ab]\n\t\tACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n")
	say("rocminfo", "HSA Agents\n==========\nAgent 1\n  Name: AMD EPYC\nAgent 2\n  Name: gfx950\n")
	say("dmesg -x --time-format=iso", "kern  :info  : 2026-01-01T00:00:00,000000+00:00 amdgpu 0000:05:00.0: amdgpu: SRAM ECC is active.\n")
	say("timedatectl show --property=NTPSynchronized --property=NTP", "NTP=yes\nNTPSynchronized=yes\n")
	say("ss -tlnp", "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\nLISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=900,fd=3))\n")
	say("docker info --format {{json .}}", `{"ServerVersion":"28.2.2","DockerRootDir":"/var/lib/docker","SecurityOptions":["name=apparmor"]}`+"\n")
	say("docker ps --no-trunc --format {{json .}}", "")
}

func eachRail(f func(int) string) string { return eachLine(rails, f) }

func eachLine(n int, f func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

func eachGPU(f func(int) string) string {
	var parts []string
	for i := range gpus {
		if s := f(i); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ",")
}

func uuid(i int) string { return fmt.Sprintf("42424650-4c32-3531-3230-30344%d000000", i) }

// perNIC writes a nicctl report with one block a NIC; an empty block leaves the
// NIC out.
func perNIC(f func(i int) string) string {
	return eachRail(func(i int) string {
		body := f(i)
		if body == "" {
			return ""
		}
		return fmt.Sprintf("NIC  : %s (%s)\n\n%s\n%s\n", uuid(i), NIC(i), body, strings.Repeat("-", 85))
	})
}

// QoSBlock is the QoS of one NIC. Zero fields are those of a healthy one.
type QoSBlock struct {
	Class, Bitmap, NoDrop string
	DataDSCP, CNPDSCP     int
	Prio                  int
	Gone                  bool
}

// QoS is "nicctl show qos" with some NICs as given.
func QoS(odd map[int]QoSBlock) string {
	return perNIC(func(i int) string {
		q := odd[i]
		if q.Gone {
			return ""
		}
		if q.Class == "" {
			q.Class = "DSCP"
		}
		if q.DataDSCP == 0 {
			q.DataDSCP = 24
		}
		if q.CNPDSCP == 0 {
			q.CNPDSCP = 46
		}
		if q.Prio == 0 {
			q.Prio = 3
		}
		if q.Bitmap == "" {
			q.Bitmap = fmt.Sprintf("0x%x", 1<<q.Prio)
		}
		switch q.NoDrop {
		case "":
			q.NoDrop = fmt.Sprint(q.Prio)
		case "none":
			q.NoDrop = ""
		}
		data, cnp := uint64(1)<<q.DataDSCP, uint64(1)<<q.CNPDSCP
		return fmt.Sprintf("Port : p%d\n\n  Classification type         : %s\n\n  DSCP-to-priority :\n    DSCP bitmap               : 0x%016x ==> priority : 0\n    DSCP bitmap               : 0x%016x ==> priority : %d\n    DSCP bitmap               : 0x%016x ==> priority : 6\n\n  PFC :\n    PFC priority bitmap       : %s\n    PFC no-drop priorities    : %s\n\n  Scheduling :\n    Priority  Scheduling  Bandwidth Rate-limit\n    0         DWRR        1         N/A\n    %d         DWRR        99        N/A\n    6         strict      N/A       10\n",
			i, q.Class, ^(data | cnp), data, q.Prio, cnp, q.Bitmap, q.NoDrop, q.Prio)
	})
}

// CCBlock is the congestion control of one NIC.
type CCBlock struct {
	Disabled, Gone bool
	CNP            int
	Alpha          int
}

// DCQCN is "nicctl show dcqcn" with some NICs as given.
func DCQCN(odd map[int]CCBlock) string {
	return perNIC(func(i int) string {
		c := odd[i]
		if c.Gone {
			return ""
		}
		head := fmt.Sprintf("Lif id : 43000070-0100-0000-4242-0490813%da7a0\nROCE device : ionic_%d\n  DCQCN profile id : 1\n", i, i)
		if c.Disabled {
			return head + "  Status : Disabled\n"
		}
		if c.CNP == 0 {
			c.CNP = 46
		}
		if c.Alpha == 0 {
			c.Alpha = 512
		}
		return head + fmt.Sprintf("  Status : Enabled\n  Rate increase in AI phase : 160\n  Alpha update G value : %d\n  Token bucket size : 800000\n  DSCP value used for CNP : %d\n", c.Alpha, c.CNP)
	})
}

// PortBlock is the port of one NIC.
type PortBlock struct {
	Pause, Rx, Speed, Oper string
}

// Ports is "nicctl show port" with some NICs as given.
func Ports(odd map[int]PortBlock) string {
	return perNIC(func(i int) string {
		p := odd[i]
		def := func(s *string, v string) {
			if *s == "" {
				*s = v
			}
		}
		def(&p.Pause, "PFC")
		def(&p.Rx, "enabled")
		def(&p.Speed, "400G")
		def(&p.Oper, "UP")
		return fmt.Sprintf("Port : p%d (eth1/1)\n\n  Spec:\n    speed : %s\n    Admin state : UP\n    FEC type : RS\n    Pause type : %s\n    MTU : 9216\n    TX pause : enabled\n    RX pause : %s\n\n  Status:\n    Operational status : %s\n    speed : %s\n", i, p.Speed, p.Pause, p.Rx, p.Oper, p.Speed)
	})
}

func cards() string {
	return `{"nic":[` + strings.TrimSuffix(eachRail(func(i int) string {
		return fmt.Sprintf(`{"id":"%s","pcie_bdf":"%s","eth_bdf":"%s","firmware_version":"1.117.5-a-56"},`, uuid(i), NIC(i), NIC(i))
	}), ",") + "]}\n"
}

func lifs(f func(i int) string) string {
	return `{"nic":[` + strings.TrimSuffix(eachRail(func(i int) string {
		return fmt.Sprintf(`{"id":"%s","lif":[{%s}]},`, uuid(i), f(i))
	}), ",") + "]}\n"
}

func statistics(name, value string) string {
	return `{"nic":[` + strings.TrimSuffix(eachRail(func(i int) string {
		return fmt.Sprintf(`{"id":"%s","port":[{"spec":{"id":"p%d"},"statistics":{"%s":"%s"}}]},`, uuid(i), i, name, value)
	}), ",") + "]}\n"
}

// Metric is "amd-smi metric" with the used MiB of some GPUs as given.
func Metric(used map[int]int) string {
	return `{"gpu_data":[` + eachGPU(func(i int) string {
		mib, ok := used[i]
		if !ok {
			mib = 283
		}
		return fmt.Sprintf(`{"gpu":%d,"mem_usage":{"total_vram":{"value":294896,"unit":"MB"},"used_vram":{"value":%d,"unit":"MB"}},"ecc":{"total_correctable_count":0,"total_uncorrectable_count":0,"total_deferred_count":0},"pcie":{"width":16,"speed":{"value":32,"unit":"GT/s"},"l0_to_recovery_count":1},"temperature":{"hotspot":{"value":48,"unit":"C"}}}`, i, mib)
	}) + "]}\n"
}
