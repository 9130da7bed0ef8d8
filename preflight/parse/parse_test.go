package parse

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIntList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want []int
		ok   bool
	}{
		{"3", []int{3}, true}, {"0,3", []int{0, 3}, true}, {"0, 3,", []int{0, 3}, true}, {"07", []int{7}, true}, {"", nil, true},
		{"0-2, 25", []int{0, 1, 2, 25}, true}, {"1 - 3", []int{1, 2, 3}, true}, {"24 26", []int{24, 26}, true},
		{"64", nil, false}, {"3-1", nil, false}, {"x", nil, false}, {":", nil, false}, {"-1", nil, false},
	} {
		got, err := IntList(c.in, 63)
		if (err == nil) != c.ok || c.ok && !cmp.Equal(got, c.want) {
			t.Errorf("IntList(%q) = %v, %v; want %v, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1.117.5-a-9", "1.117.5-a-45", -1}, {"1.117.5-a-45", "1.117.5-a-56", -1}, {"1.117.10-a-1", "1.117.5-a-45", 1}, {"1.117.1-a-63", "1.117.5-a-45", -1},
		{"1.117.5.a.45", "1.117.5-a-45", 0}, {"1.117.5", "1.117.5-a-45", 0}, {"237.1.137.0", "237.1.137.0", 0}, {"237.1.148.0", "237.1.137.0", 1}, {"1.07", "1.7", 0},
	} {
		got := CompareVersions(c.a, c.b)
		if got > 0 {
			got = 1
		} else if got < 0 {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s against %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestBDF(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"0000:E5:00.0": "0000:e5:00.0", "e5:00.1": "0000:e5:00.1", "00000001:05:00.0": "0001:05:00.0", "10000:05:00.0": "10000:05:00.0", "5:0.0": "", "xx": ""} {
		if got, ok := BDF(in); got != want || ok != (want != "") {
			t.Errorf("BDF(%q) = %q, %v", in, got, ok)
		}
	}
	if got := LocationBDF(0, 1280); got != "0000:05:00.0" {
		t.Errorf("location 1280 is %s", got)
	}
	if got := LocationBDF(0, 25344); got != "0000:63:00.0" {
		t.Errorf("location 25344 is %s", got)
	}
}

func TestNicctlQoS(t *testing.T) {
	t.Parallel()
	qs := NicctlQoS("banner\nNIC  : id (0000:06:00.0)\nPort : p\nClassification type : DSCP \nDSCP bitmap : 0xfffffffffbffffff ==> priority : 0\nDSCP bitmap : 0x4000000 ==> priority : 3\nDSCP : 26, ==> priority : 3\nPFC priority bitmap : 0xB\nPFC no-drop priorities : 0, 3,\n0 DWRR 1 N/A\n3 DWRR 99 N/A\n6 strict N/A 10\n")
	if len(qs) != 1 {
		t.Fatalf("%d NICs", len(qs))
	}
	q := qs[0]
	if q.NIC != "0000:06:00.0" || q.Class != "dscp" || *q.PFC != 0xb {
		t.Errorf("%+v", q)
	}
	if !cmp.Equal(q.Lossless(), []int{0, 3}) || !cmp.Equal(q.PFCBits(), []int{0, 1, 3}) || !cmp.Equal(q.DSCPsOf(3), []int{26}) {
		t.Errorf("lossless %v, bits %v, DSCPs %v", q.Lossless(), q.PFCBits(), q.DSCPsOf(3))
	}
	if q.Sched[3].String() != "dwrr 99" || q.Sched[6].String() != "strict 10" {
		t.Errorf("scheduling %v", q.Sched)
	}
	// The list names one DSCP of 64, the bitmap all: the other 63 differ.
	if len(q.Problems) != 63 {
		t.Errorf("%d problems, want 63", len(q.Problems))
	}
}

func TestDCBApp(t *testing.T) {
	t.Parallel()
	got, _ := DCBApp("dscp-prio AF31:3 CS6:6 EF:5 0x1a:2 10:1 CS3:4\n")
	want := map[int]int{26: 2, 48: 6, 46: 5, 10: 1, 24: 4}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCgroupOwner(t *testing.T) {
	t.Parallel()
	id := "0f3a9b1c2d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
	for in, want := range map[string]Owner{
		"0::/system.slice/docker-" + id + ".scope":                                        {Kind: OwnerContainer, ID: id},
		"0::/user.slice/user-1.slice/user@1.service/user.slice/libpod-" + id + ".scope/c": {Kind: OwnerContainer, ID: id},
		"0::/kubepods/besteffort/pod1/" + id:                                              {Kind: OwnerContainer, ID: id, Kubernetes: true},
		"0::/system.slice/slurmstepd.scope/job_42/step_extern/user":                       {Kind: OwnerSlurm, ID: "42", Adopted: true},
		"0::/system.slice/n1_slurmstepd.scope/job_42/step_0":                              {Kind: OwnerSlurm, ID: "42"},
		"9:cpuset:/slurm_n1/uid_7/job_43/step_batch":                                      {Kind: OwnerSlurm, ID: "43"},
		"0::/system.slice/gpuagent.service":                                               {Kind: OwnerService, ID: "gpuagent.service"},
		"0::/user.slice/user-1.slice/session-3.scope":                                     {Kind: OwnerBare},
		"0::/": {Kind: OwnerUnknown},
	} {
		if got := CgroupOwner(in + "\n"); got != want {
			t.Errorf("%s is %+v, want %+v", in, got, want)
		}
	}
}

func TestKernelLog(t *testing.T) {
	t.Parallel()
	hits, lines := KernelLog("kern  :err   : 2024-10-07T10:17:15,145363-04:00 amdgpu 0000:c1:00.0: amdgpu: 1 correctable hardware errors detected in total in gfx block\n" +
		"kern  :err   : 2024-10-07T10:17:16,145363-04:00 amdgpu 0000:c1:00.0: amdgpu: 1 uncorrectable hardware errors detected in total in umc block\n" +
		"kern  :info  : x amdgpu: SRAM ECC is active.\n")
	if lines != 3 || len(hits) != 2 {
		t.Fatalf("%d hits in %d lines: %+v", len(hits), lines, hits)
	}
	if hits[0].Severity != LogNote || hits[1].Severity != LogBroken || hits[1].Device != "0000:c1:00.0" {
		t.Errorf("%+v", hits)
	}
	if want := time.Date(2024, 10, 7, 14, 17, 15, 0, time.UTC); !hits[0].Time.Equal(want) {
		t.Errorf("time %s, want %s", hits[0].Time, want)
	}
	acaHit, _ := KernelLog("amdgpu: aca entry[00].STATUS=0xa000000000000000\n")
	if len(acaHit) != 1 || acaHit[0].Severity != LogBroken {
		t.Errorf("an uncorrected machine check is %+v", acaHit)
	}
}

func TestSafetensors(t *testing.T) {
	t.Parallel()
	header := `{"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}`
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	data = append(data, header...)
	if n, err := SafetensorsSize(data); err != nil || n != int64(8+len(header)+12) {
		t.Errorf("size %d, %v", n, err)
	}
	if _, err := SafetensorsSize(data[:20]); err == nil {
		t.Error("half a header is taken for a whole one")
	}
	if _, ok := SafetensorsHeader([]byte("version https://git")); ok {
		t.Error("a text is taken for a header")
	}
	if !PointerFile([]byte("version https://git-lfs.github.com/spec/v1\noid")) {
		t.Error("a pointer file is not seen")
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	body, rc, complete := Frame("*** maintenance ***\n---A-BEGIN 7f---\nx\ny\n---A-END 7f rc=3---\nbye\n")
	if body != "x\ny" || rc != 3 || !complete {
		t.Errorf("%q, %d, %v", body, rc, complete)
	}
	if _, _, complete := Frame("---A-BEGIN 7f---\nx\n---A-END 8 rc=0---\n"); complete {
		t.Error("another token closes the frame")
	}
}

func TestLspciExcerpt(t *testing.T) {
	t.Parallel()
	ds := Lspci("DevSta: CorrErr- NonFatalErr+ FatalErr- \nLnkSta: Speed 32GT/s (ok), Width x16 (ok)\nDevSta: CorrErr- NonFatalErr- FatalErr+\nLnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)\n")
	if len(ds) != 2 || ds[0].FatalErr || !ds[0].NonFatalErr || !ds[1].FatalErr || ds[1].Link.Width != 8 || !ds[1].Link.Downgraded {
		t.Errorf("%+v", ds)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	procs, ok := AMDSMIProcess(`[{"gpu":0,"process_list":[{"process_info":{"name":"a","pid":7,"mem_usage":{"value":0,"unit":"B"},"memory_usage":{"vram_mem":{"value":2,"unit":"GB"}}}}]}]`)
	if !ok || len(procs) != 1 || procs[0].VRAM != 2<<30 {
		t.Errorf("%+v, %v", procs, ok)
	}
	if procs, ok := AMDSMIProcess(`[{"gpu":0,"process_list":[{"process_info":"No running processes detected"}]}]`); !ok || len(procs) != 0 {
		t.Errorf("idle is %+v, %v", procs, ok)
	}
	if _, ok := AMDSMIProcess("Traceback"); ok {
		t.Error("an error is taken for an empty list")
	}
	r := ReadROCmSMI(`{"system":{"PID7":"a, b, 1, 5, 0, 0"}}`)
	if len(r.Procs) != 1 || r.Procs[0].Name != "a, b" || r.Procs[0].VRAM != 5 {
		t.Errorf("%+v", r.Procs)
	}
	open, procs2, listed := AMDSMITable("| 0000:05:00.0 AMD Instinct | 0 % 50 °C 0 240/1400 W |\n| 0 1 6 SPX/NPS1 | 0 % N/A 283/294896 MB |\n| Processes: |\n| No running processes found |\n")
	if len(open) != 1 || *open[0].Used != 283<<20 || *open[0].UE != 0 || len(procs2) != 0 || !listed {
		t.Errorf("%+v %v %v", open, procs2, listed)
	}
}
