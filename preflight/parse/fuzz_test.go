package parse

import (
	"os"
	"path/filepath"
	"testing"
)

// seed adds the captures of some folders, and what breaks parsers usually.
func seed(f *testing.F, folders ...string) {
	f.Helper()
	n := 0
	for _, dir := range folders {
		files, err := filepath.Glob(filepath.Join("..", "testdata", "captures", dir, "*"))
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range files {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
			n++
		}
	}
	if n == 0 {
		f.Fatalf("no captures in %v", folders)
	}
	for _, s := range []string{"", ":", "\x00", "{", "[[[[{", `{"gpu_data":{}}`, "NIC : (", "-- --", "\x1b[31m:", "0-9999999999", "9223372036854775808"} {
		f.Add(s)
	}
}

// priorities checks what every QoS promises.
func priorities(t *testing.T, q *QoS) {
	t.Helper()
	if q == nil {
		return
	}
	for _, p := range q.Lossless() {
		if p < 0 || p >= Priorities {
			t.Fatalf("lossless priority %d", p)
		}
	}
	for d, p := range q.Map {
		if d < 0 || d >= DSCPs || p < 0 || p >= Priorities {
			t.Fatalf("DSCP %d → %d", d, p)
		}
	}
	_ = q.Signature()
}

func FuzzNicctl(f *testing.F) {
	seed(f, "nicctl")
	f.Fuzz(func(t *testing.T, s string) {
		for _, q := range NicctlQoS(s) {
			priorities(t, &q)
		}
		for _, c := range NicctlDCQCN(s) {
			if c.CNPDSCP != nil && (*c.CNPDSCP < 0 || *c.CNPDSCP >= DSCPs) {
				t.Fatalf("CNP DSCP %d", *c.CNPDSCP)
			}
		}
		NicctlPort(s)
		NicctlFirmware(s)
		NicctlHost(s)
		NicctlCard(s)
		NicctlLif(s)
		for _, st := range NicctlStats(s) {
			for _, v := range st.Values {
				Rate(v)
			}
		}
	})
}

func FuzzBroadcom(f *testing.F) {
	seed(f, "niccli", "bnxt")
	f.Fuzz(func(t *testing.T, s string) {
		for _, n := range NiccliList(s) {
			if n.BDF != "" {
				if again, ok := BDF(n.BDF); !ok || again != n.BDF {
					t.Fatalf("address %q is not normal", n.BDF)
				}
			}
		}
		priorities(t, NiccliQoS("x", s))
		if lossless, enabled, _ := NiccliCoSQ(s); len(lossless) > enabled {
			t.Fatalf("%d lossless of %d enabled", len(lossless), enabled)
		}
		BnxtCC("x", s)
		BnxtInfo(s)
		BnxtCCFiles("x", map[string]string{"cnp_dscp": s, "ecn_enable": s})
	})
}

func FuzzMellanox(f *testing.F) {
	seed(f, "mlnx", "dcb")
	f.Fuzz(func(t *testing.T, s string) {
		priorities(t, MlnxQoS("x", s))
		priorities(t, DCB("x", s, s))
		IBDevNetdev(s)
		ShowGIDs(s)
		MlxPrioMask(s)
		if tc := GlobalTrafficClass(s); tc != nil && (*tc <= 0 || *tc > 255) {
			t.Fatalf("traffic class %d", *tc)
		}
	})
}

func FuzzRDMATools(f *testing.F) {
	seed(f, "rdma", "ibv", "ethtool")
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range RDMALink(s) {
			if p.Device == "" && s[0] != '[' {
				t.Fatal("a port without a device")
			}
		}
		RDMADev(s)
		RDMAStat(s)
		for _, p := range IBVDevinfo(s) {
			for _, g := range p.GIDs {
				_ = g.V2() || g.IPv4() || g.LinkLocal() || g.Empty()
			}
		}
		IBVDevices(s)
		ABIMismatches(s)
		EthtoolStat(s)
		EthtoolPause(s)
		IPAddr(s)
	})
}

func FuzzSMI(f *testing.F) {
	seed(f, "amd-smi", "rocm-smi")
	f.Fuzz(func(t *testing.T, s string) {
		for _, g := range AMDSMI(s) {
			if g.Used != nil && *g.Used < 0 {
				t.Fatalf("%d bytes used", *g.Used)
			}
		}
		AMDSMIText(s)
		procs, _ := AMDSMIProcess(s)
		for _, p := range procs {
			if p.VRAM < 0 {
				t.Fatalf("%d bytes held", p.VRAM)
			}
		}
		AMDSMIBadPages(s)
		AMDSMITopology(s)
		AMDSMIPartition(s)
		AMDSMIVersion(s)
		AMDSMITable(s)
		AMDSMIMonitor(s)
		AMDSMIXGMI(s)
		AMDSMICPER(s)
		ReadROCmSMI(s)
	})
}

func FuzzLspci(f *testing.F) {
	seed(f, "lspci")
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range Lspci(s) {
			if d.BDF != "" {
				if _, ok := BDF(d.BDF); !ok {
					t.Fatalf("address %q", d.BDF)
				}
			}
		}
	})
}

func FuzzKernelFiles(f *testing.F) {
	seed(f, "kfd", "drm", "host")
	f.Fuzz(func(t *testing.T, s string) {
		Properties(s)
		RASCounts(s)
		State(s)
		RateGbps(s)
		LinkSpeed(s)
		Limits(s)
		Cmdline(s)
		Status(s)
		ProcStat(s)
		TimeWait(s)
		ms := Mounts(s)
		MountOf(ms, "/a/b")
		for _, x := range append(ProcTCP(s), SS(s)...) {
			if x.Port < 0 || x.Port > 65535 {
				t.Fatalf("port %d", x.Port)
			}
		}
	})
}

func FuzzCgroup(f *testing.F) {
	seed(f, "cgroup")
	f.Fuzz(func(t *testing.T, s string) {
		o := CgroupOwner(s)
		if o.Kind == OwnerContainer && len(o.ID) != 64 {
			t.Fatalf("container %q", o.ID)
		}
		_ = o.String()
	})
}

func FuzzKernelLog(f *testing.F) {
	seed(f, "dmesg")
	f.Fuzz(func(t *testing.T, s string) {
		hits, lines := KernelLog(s)
		if len(hits) > lines {
			t.Fatalf("%d hits in %d lines", len(hits), lines)
		}
	})
}

func FuzzDocker(f *testing.F) {
	seed(f, "docker")
	f.Fuzz(func(t *testing.T, s string) {
		DockerInfo(s)
		DockerImage(s)
		for _, c := range append(DockerPS(s), DockerInspect(s)...) {
			_ = c.GPU()
			_ = c.Job()
		}
		RuntimeProblemOf(s)
	})
}

func FuzzModel(f *testing.F) {
	seed(f, "model")
	f.Fuzz(func(t *testing.T, s string) {
		if w, err := SafetensorsIndex([]byte(s)); err == nil && len(w.Shards) == 0 {
			t.Fatal("an index without shards")
		}
		SafetensorsHeader([]byte(s))
		if n, err := SafetensorsSize([]byte(s)); err == nil && n < 8 {
			t.Fatalf("a file of %d bytes", n)
		}
		PointerFile([]byte(s))
	})
}

func FuzzTransport(f *testing.F) {
	seed(f, "transport", "perftest")
	f.Fuzz(func(t *testing.T, s string) {
		Reach(s)
		Frame(s)
		Perftest(s)
		ToolFailure(s, s)
	})
}

func FuzzText(f *testing.F) {
	seed(f, "host")
	f.Fuzz(func(t *testing.T, s string) {
		if l, err := IntList(s, 63); err == nil {
			for _, n := range l {
				if n < 0 || n > 63 {
					t.Fatalf("%d out of range", n)
				}
			}
		}
		if n, ok := Bytes(s); ok && n < 0 {
			t.Fatalf("%d bytes", n)
		}
		if CompareVersions(s, s) != 0 {
			t.Fatal("a version differs from itself")
		}
		if b, ok := BDF(s); ok {
			if again, ok := BDF(b); !ok || again != b {
				t.Fatalf("%q is not normal", b)
			}
		}
	})
}
