package checks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight/facts"
)

// FuzzChecks puts one text where every tool and file of a node would answer, and
// judges it without the net that catches faults of judges.
func FuzzChecks(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "captures", "*", "*"))
	if err != nil || len(files) < 20 {
		f.Fatalf("%d captures, %v", len(files), err)
	}
	for _, p := range files {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := broadcom()
		for _, id := range []string{facts.NicctlQoS, facts.NicctlDCQCN, facts.NicctlPort, facts.NicctlCard, facts.NicctlFirmware, facts.NicctlHost, facts.NicctlStats, facts.NicctlRate,
			facts.NicctlLif, facts.NicctlQPs, facts.NiccliList, facts.RDMALink, facts.RDMADev, facts.RDMAStat, facts.IBVDevinfo, facts.IBVDevices, facts.MlnxDev, facts.MlnxGIDs,
			facts.IPAddr, facts.IPRule, facts.LspciAll, facts.LspciGPU, facts.LspciBridges, facts.AMDSMIVersion, facts.AMDSMIList, facts.AMDSMIMetric, facts.AMDSMIProcess,
			facts.AMDSMIBadPages, facts.AMDSMITopology, facts.AMDSMIPartition, facts.AMDSMITable, facts.AMDSMIMonitor, facts.AMDSMIXGMI, facts.AMDSMICPER, facts.ROCmSMI,
			facts.KernelLog, facts.DockerInfo, facts.DockerPS, facts.DockerInspect, facts.EnrootVersion, facts.TimeSync, facts.ListeningSocket, facts.Squeue, facts.GPUProbe,
			facts.Of(facts.MlnxQoS, "ens0np0"), facts.Of(facts.DCBPFC, "ens1np0"), facts.Of(facts.DCBApp, "ens1np0"), facts.Of(facts.EthtoolStat, "ens0np0"),
			facts.Of(facts.EthtoolPause, "ens0np0"), facts.Of(facts.CMATOS, "bnxt_re0"), facts.Of(facts.Perftest, "x"), facts.Of(facts.DockerImage, "img"), facts.Of(facts.MlxConf, address(0))} {
			n.Commands[id] = facts.Command{Argv: []string{"tool"}, Stdout: s}
		}
		for _, p := range []string{"/proc/cmdline", "/proc/self/limits", "/proc/meminfo", "/proc/mounts", "/proc/net/tcp", sysKFD + "/1/properties", sysKFD + "/1/io_links/0/properties",
			sysDRM + "/card1/device/ras/umc_err_count", sysDRM + "/card1/device/mem_info_vram_used", sysKFDProc + "/7/vram_1", "/proc/7/status", "/proc/7/cgroup", "/proc/7/cmdline", "/proc/9/stat",
			sysIB + "/bnxt_re0/ports/1/gids/0", sysIB + "/bnxt_re0/ports/1/rate", sysIB + "/bnxt_re0/fw_ver"} {
			n.Files[p] = facts.File{Data: s}
		}
		n.Files[sysDRM+"/card1/device/vendor"] = facts.File{Data: vendorAMD}
		n.Trees = map[string]facts.Tree{"/m": {Entries: []facts.Entry{{Name: "model.safetensors.index.json", Head: []byte(s)}, {Name: "a.safetensors", Size: 9, Head: []byte(s)}}}}
		e := expecting("")
		e.GPUs, e.Models, e.Images, e.Ports = true, []string{"/m"}, []string{"img"}, []Port{{Number: 80, Of: "x"}}
		e.Runtime = models.Runtime{Kind: "docker"}
		e.RDMA.Vars = []Var{{Scope: "decode", Name: "NCCL_IB_TC", Value: s}, {Scope: "decode", Name: "NCCL_IB_SL", Value: s}, {Scope: "decode", Name: "MC_GID_INDEX", Value: s}}
		v := NewView(&n, e)
		for _, c := range All() {
			if c.Node == nil {
				continue
			}
			for _, x := range c.Node(v) {
				if x.Verdict == "" || x.Verdict != Pass && x.Verdict != Skip && strings.TrimSpace(x.Observed) == "" {
					t.Fatalf("%s: an empty finding %+v", c.ID, x)
				}
			}
			if c.Fleet != nil {
				c.Fleet([]*View{v, v})
			}
		}
	})
}
