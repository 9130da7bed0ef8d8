package preflight_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/nodetest"
)

// gatheredOnce are the facts of the healthy node, gathered for real, and the spec.
func gatheredOnce(t *testing.T) (preflight.Facts, preflight.Spec) {
	t.Helper()
	g := once()
	if g.err != nil {
		t.Fatal(g.err)
	}
	return g.facts, g.spec
}

type oneGathering struct {
	facts preflight.Facts
	spec  preflight.Spec
	err   error
}

var once = sync.OnceValue(func() oneGathering {
	dir, err := os.MkdirTemp("", "preflight-test-")
	if err != nil {
		return oneGathering{err: err}
	}
	defer os.RemoveAll(dir)
	root, bin := filepath.Join(dir, "root"), filepath.Join(dir, "bin")
	if err := nodetest.Healthy().Write(root, bin); err != nil {
		return oneGathering{err: err}
	}
	s := preflight.SpecFromSite(site())
	s.Node, s.Root, s.ToolPath = "gpu-01", root, []string{bin}
	asked := s
	asked.Expect.Ports = []checks.Port{{Number: 1, Of: "cases about ports"}}
	f, err := gatherThrough(asked)
	return oneGathering{f, s, err}
})

// named is a node's facts under another name.
func named(f preflight.Facts, name string) preflight.Facts {
	f.Node = name
	return f
}

// TestCases are failures as they were reported from clusters, each on an otherwise
// healthy node.
func TestCases(t *testing.T) {
	t.Parallel()
	say := func(n *nodetest.Node, words, out string) { n.Tools[words] = nodetest.Answer{Stdout: out} }
	vars := func(kv ...string) func(*nodetest.Node, *preflight.Spec) {
		return func(_ *nodetest.Node, s *preflight.Spec) {
			for i := 0; i < len(kv); i += 2 {
				s.Expect.RDMA.Vars = append(s.Expect.RDMA.Vars, checks.Var{Scope: "decode", Name: kv[i], Value: kv[i+1]})
			}
		}
	}
	for _, c := range []struct {
		name    string
		change  func(*nodetest.Node, *preflight.Spec)
		check   string
		verdict preflight.Verdict
		object  string // of a finding with this verdict
		says    string // in what was observed or expected
	}{
		{"only the second NIC has PFC off", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "nicctl show qos", nodetest.QoS(map[int]nodetest.QoSBlock{1: {Bitmap: "0x0"}}))
		}, "rdma.pfc", preflight.Fail, "0000:16:00.0 (ionic_1)", "PFC is off"},
		{"lossless priorities with a blank after the comma", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "nicctl show qos", nodetest.QoS(map[int]nodetest.QoSBlock{0: {Bitmap: "0x20", NoDrop: "3, 5"}}))
		}, "rdma.pfc", preflight.Fail, "0000:06:00.0 (ionic_0)", "0x20 does not cover lossless priority 3"},
		{"the list of lossless priorities is empty", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "nicctl show qos", nodetest.QoS(map[int]nodetest.QoSBlock{0: {Bitmap: "0x0", NoDrop: "none"}}))
		}, "rdma.pfc", preflight.Fail, "0000:06:00.0 (ionic_0)", "no lossless priority is configured"},
		{"one NIC is missing from the congestion control report", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "nicctl show dcqcn", nodetest.DCQCN(map[int]nodetest.CCBlock{5: {Gone: true}}))
		}, "rdma.dcqcn", preflight.Fail, "ionic_5", "not listed"},
		{"the plan's traffic class goes to a lossy priority", vars("MORI_RDMA_TC", "104", "MORI_RDMA_SL", "3"),
			"rdma.tc", preflight.Fail, "0000:06:00.0 (ionic_0)", "decode MORI_RDMA_TC=104: DSCP 26 goes to priority 0, which drops packets"},
		{"the plan's traffic class is a DSCP", vars("NCCL_IB_TC", "26"), "rdma.tc", preflight.Fail, "decode NCCL_IB_TC", "26 looks like a DSCP"},
		{"the plan's traffic class sets the ECN bits", vars("NCCL_IB_TC", "97"), "rdma.tc", preflight.Fail, "decode NCCL_IB_TC", "sets the ECN bits"},
		{"the plan's service level is another priority", vars("MORI_IO_TC", "96", "MORI_IO_SL", "0"), "rdma.tc", preflight.Fail, "decode MORI_IO_SL", "3, the priority"},
		{"the plan's variables fit", vars("MORI_RDMA_TC", "96", "MORI_RDMA_SL", "3", "NCCL_IB_TC", "96", "NCCL_IB_FIFO_TC", "184", "UCX_IB_TRAFFIC_CLASS", "96", "UCX_IB_SL", "3"),
			"rdma.tc", preflight.Pass, "", "priority 3, DSCP 24 → TC 96, SL 3"},
		{"the plan fixes a GID index that is link-local", vars("NCCL_IB_GID_INDEX", "0"), "rdma.gid", preflight.Fail, "ionic_0", "is link-local"},
		{"the plan fixes a GID index that is empty", vars("MC_GID_INDEX", "3"), "rdma.gid", preflight.Fail, "ionic_0", "index 1 has one"},
		{"the plan fixes the right GID index", vars("NCCL_IB_GID_INDEX", "1"), "rdma.gid", preflight.Pass, "", "at index 1 on 8 rails"},
		{"names of devices that are not on this node", func(_ *nodetest.Node, s *preflight.Spec) {
			s.Expect.RDMA.Site.Devices = []string{"rdma0", "rdma1"}
		}, "rdma.count", preflight.Fail, "rdma0", "there are ionic_0"},
		{"the container gets too few device files", func(_ *nodetest.Node, s *preflight.Spec) {
			s.Expect.Runtime.Devices = []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}
		}, "rdma.uverbs", preflight.Fail, "ionic_2", "not among the devices given to containers"},
		{"firmware of the branch before and of the one that looks like it", func(n *nodetest.Node, _ *preflight.Spec) {
			n.Files[nodetest.Rail(0)+"/fw_ver"] = "1.117.10-a-1\n"
		}, "rdma.firmware", preflight.Fail, "ionic_0", "1.117.10.a.1"},
		{"firmware pinned by the site", func(_ *nodetest.Node, s *preflight.Spec) { s.Expect.Site.RDMA.Firmware = "1.117.5-a-77" },
			"rdma.firmware", preflight.Fail, "ionic_0", "preflight.rdma.firmware"},
		{"locked memory limited in the launch path", func(n *nodetest.Node, _ *preflight.Spec) {
			n.Files["/proc/self/limits"] = "Max locked memory         65536                65536                bytes     \nMax open files            1048576              1048576              files     \n"
		}, "host.memlock", preflight.Fail, "", "64 KiB"},

		{"no tool and no kernel list of GPUs", func(n *nodetest.Node, _ *preflight.Spec) {
			for p := range n.Files {
				if strings.HasPrefix(p, nodetest.Card(0)[:len("/sys/devices/pci0000:00/0000:00:01.1/")]) || strings.HasPrefix(p, "/sys/class/kfd") || strings.HasPrefix(p, "/sys/class/drm") {
					delete(n.Files, p)
				}
			}
			for l := range n.Links {
				if strings.HasPrefix(l, "/sys/class/drm") || strings.Contains(l, ":00.0") && strings.Contains(n.Links[l], ":01.1/") {
					delete(n.Links, l)
				}
			}
			for w := range n.Tools {
				if strings.HasPrefix(w, "amd-smi") || strings.HasPrefix(w, "lspci") {
					delete(n.Tools, w)
				}
			}
		}, "gpu.vram", preflight.Unknown, "", "no source gives the memory use"},
		{"seven GPUs, all empty", func(n *nodetest.Node, _ *preflight.Spec) {
			breakWith(n, "one GPU missing")
		}, "gpu.count", preflight.Fail, "ls /sys/class/drm", "7 of 8, missing 0000:f5:00.0"},
		{"a monitor and a dead process", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "amd-smi process --json", `[{"gpu":0,"process_list":[{"process_info":{"name":"rdcd","pid":999,"mem_usage":{"value":0,"unit":"B"}}},{"process_info":{"name":"N/A","pid":4242,"mem_usage":{"value":52,"unit":"GB"}}}]}]`)
		}, "gpu.holders", preflight.Fail, "pid 4242", "holds 52.0 GiB"},
		{"the tool answers with nothing but a complaint about groups", func(n *nodetest.Node, _ *preflight.Spec) {
			for w := range n.Tools {
				if strings.HasPrefix(w, "amd-smi ") {
					n.Tools[w] = nodetest.Answer{Stderr: "User missing render/video groups\n"}
				}
			}
		}, "gpu.smi", preflight.Unknown, "amdsmi.list", "User missing render/video groups"},
		{"one GPU far less free than its peers", func(n *nodetest.Node, s *preflight.Spec) {
			s.Expect.VRAMBytes = 250 << 30
			n.Files[nodetest.Card(0)+"/mem_info_vram_used"] = "180388626432\n"
		}, "gpu.vram", preflight.Fail, nodetest.GPU(0), "120.0 GiB free of 288.0 GiB"},
		{"a GPU hangs although its memory reads clean", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "dmesg -x --time-format=iso", "kern  :err   : 2999-01-01T00:00:00,000000+00:00 amdgpu 0000:95:00.0: amdgpu: GPU reset begin!\n")
		}, "gpu.kernel-log", preflight.Fail, nodetest.GPU(5), "GPU reset"},
		{"a fault that a reset has mended, long ago", func(n *nodetest.Node, _ *preflight.Spec) {
			say(n, "dmesg -x --time-format=iso", "kern  :err   : 2001-01-01T00:00:00,000000+00:00 amdgpu 0000:95:00.0: amdgpu: GPU reset begin!\nkern  :info  : 2001-01-01T00:00:05,000000+00:00 amdgpu 0000:95:00.0: amdgpu: GPU reset(2) succeeded!\n")
		}, "gpu.kernel-log", preflight.Pass, "", "none that matters"},

		{"the docker socket is closed to the user", func(n *nodetest.Node, _ *preflight.Spec) { breakWith(n, "docker not usable") },
			"container.runtime", preflight.Fail, "", "no permission for the daemon's socket"},
		{"a container outlived its job", func(n *nodetest.Node, _ *preflight.Spec) {
			id := strings.Repeat("ab", 32)
			say(n, "docker ps --no-trunc --format {{json .}}", `{"ID":"`+id+`","Names":"old","Image":"sglang:x","State":"running","Labels":""}`+"\n")
		}, "container.stale", preflight.Warn, "old", "whether it has the GPUs is not known"},
		{"open files too few for the client", func(_ *nodetest.Node, s *preflight.Spec) { s.Expect.MaxConns = 400000 }, "host.nofile", preflight.Warn, "", "1048576"},
		{"a port of the plan is taken", func(_ *nodetest.Node, s *preflight.Spec) {
			s.Expect.Ports = []checks.Port{{Number: 22, Of: "router http"}}
		}, "host.ports", preflight.Fail, "port 22", `(("sshd",pid=900,fd=3))`},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			healthy, s := gatheredOnce(t)
			n := nodetest.Healthy()
			c.change(n, &s)
			r := preflight.Judge([]preflight.Facts{changed(healthy, n)}, s, fold)
			if got := r.Nodes[0].Checks[c.check]; got != c.verdict {
				t.Errorf("%s says %s, want %s", c.check, got, c.verdict)
			}
			var said []string
			for _, f := range r.Findings {
				if f.CheckID != c.check || f.Verdict != c.verdict || c.object != "" && f.Object != c.object {
					continue
				}
				if text := f.Observed + " | " + f.Expected; strings.Contains(text, c.says) {
					return
				} else {
					said = append(said, text)
				}
			}
			t.Errorf("no finding of %s about %q says %q; it says %q", c.check, c.object, c.says, said)
		})
	}
}

func breakWith(n *nodetest.Node, fault string) {
	for _, f := range nodetest.Faults() {
		if f.Name == fault {
			f.Break(n)
			return
		}
	}
	panic("no fault " + fault)
}

// TestFleet: each node is consistent alone, and the one that differs is named.
func TestFleet(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	other := nodetest.Healthy()
	all := map[int]nodetest.QoSBlock{}
	for i := range 8 {
		all[i] = nodetest.QoSBlock{DataDSCP: 10, Prio: 4}
	}
	other.Tools["nicctl show qos"] = nodetest.Answer{Stdout: nodetest.QoS(all)}
	other.Files["/sys/module/amdgpu/version"] = "6.12.0\n"
	r := preflight.Judge([]preflight.Facts{named(healthy, "gpu-01"), named(healthy, "gpu-02"), named(changed(healthy, other), "gpu-03"), named(healthy, "gpu-04")}, s, fold)
	if got := r.Bad(); !slices.Equal(got, []string{"gpu-03"}) {
		t.Errorf("bad nodes %v, want gpu-03", got)
	}
	if got := r.Good(); !slices.Equal(got, []string{"gpu-01", "gpu-02", "gpu-04"}) {
		t.Errorf("good nodes %v", got)
	}
	if got := r.Nodes[2].Checks["rdma.uniform"]; got != preflight.Fail {
		t.Errorf("rdma.uniform of gpu-03 says %s", got)
	}
	if got := r.Nodes[2].Checks["gpu.versions"]; got != preflight.Warn {
		t.Errorf("gpu.versions of gpu-03 says %s", got)
	}
}

// TestMixedPassAndUnknown: three nodes checked and one not is not four passed.
func TestMixedPassAndUnknown(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	n := nodetest.Healthy()
	breakWith(n, "nicctl not installed")
	broken := changed(healthy, n)
	all := []preflight.Facts{named(healthy, "gpu-01"), named(healthy, "gpu-02"), named(healthy, "gpu-03"), named(broken, "gpu-04"),
		preflight.Unreached("gpu-05", "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nOffending ECDSA key in ~/.ssh/known_hosts:27\n"),
		preflight.Unreached("gpu-06", "kex_exchange_identification: Connection closed by remote host"),
		preflight.Unreached("gpu-07", "slurmstepd: error: *** STEP 1.2 ON gpu-07 CANCELLED AT 2026-01-01T00:00:00 DUE TO SIGNAL ***"),
		preflight.Unreached("gpu-08", "reach gpu-08: ssh to gpu-08: the host key of me@gpu-08 is not known: it shows ssh-ed25519 SHA256:x, and none of ~/.ssh/known_hosts exists"),
		preflight.Unreached("gpu-09", "No ED25519 host key is known for gpu-09 and you have requested strict checking.\nHost key verification failed.\n")}
	r := preflight.Judge(all, s, fold)
	if got := r.Bad(); !slices.Equal(got, []string{"gpu-04", "gpu-05", "gpu-06", "gpu-07", "gpu-08", "gpu-09"}) {
		t.Errorf("bad nodes %v", got)
	}
	want := map[string]string{"gpu-05": "its host key is not the known one", "gpu-06": "drops connections", "gpu-07": "not run: the step was cancelled",
		"gpu-08": "its host key is not known yet", "gpu-09": "its host key is not known yet"}
	for _, f := range r.Findings {
		if f.CheckID == checks.Reach && want[f.Node] != "" {
			if !strings.Contains(f.Observed, want[f.Node]) {
				t.Errorf("%s: %q, want %q", f.Node, f.Observed, want[f.Node])
			}
			delete(want, f.Node)
		}
		if strings.HasPrefix(f.Node, "gpu-05") && f.CheckID != checks.Reach {
			t.Errorf("a node that was not asked is judged by %s", f.CheckID)
		}
	}
	if len(want) > 0 {
		t.Errorf("not said: %v", want)
	}
	if r.Fit {
		t.Error("the fleet is fit")
	}
}

// TestWaivers: a waiver demotes what decides, stays visible, and does not hide
// that it names nothing.
func TestWaivers(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	n := nodetest.Healthy()
	breakWith(n, "PFC does not cover the lossless priority")
	f := changed(healthy, n)
	s.Waive = map[string]string{"rdma.pfc": "known, ticket 7", "rdma.uniform": "follows from it", "rdma.tc": "derived elsewhere", "rdma.pcf": "misspelt"}
	r := preflight.Judge([]preflight.Facts{f}, s, fold)
	if !r.Fit {
		t.Errorf("not fit: %v", r.Nodes[0].Deciding)
	}
	waived := 0
	for _, x := range r.Findings {
		if x.Waived == "known, ticket 7" && x.Was == preflight.Fail && x.Verdict == preflight.Warn {
			waived++
		}
	}
	if waived != 1 {
		t.Errorf("%d findings waived, want 1", waived)
	}
	want := []preflight.Waiver{{CheckID: "rdma.pcf", Reason: "misspelt", Unknown: true}, {CheckID: "rdma.pfc", Reason: "known, ticket 7", Used: 1},
		{CheckID: "rdma.tc", Reason: "derived elsewhere", Used: r.Waivers[2].Used}, {CheckID: "rdma.uniform", Reason: "follows from it", Used: r.Waivers[3].Used}}
	if d := cmp.Diff(want, r.Waivers); d != "" {
		t.Error(d)
	}
}

// TestGroups: equal findings fold over objects and nodes.
func TestGroups(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	n := nodetest.Healthy()
	n.Tools["nicctl show port"] = nodetest.Answer{Stdout: nodetest.Ports(map[int]nodetest.PortBlock{0: {Pause: "LINK"}, 1: {Pause: "LINK"}})}
	f := changed(healthy, n)
	r := preflight.Judge([]preflight.Facts{named(f, "b10"), named(healthy, "b11"), named(f, "b9")}, s, fold)
	for _, g := range r.Groups {
		if g.CheckID != "rdma.pause" {
			continue
		}
		if g.Hosts != "b10,b9" || !slices.Equal(g.Objects, []string{"0000:06:00.0 (ionic_0)", "0000:16:00.0 (ionic_1)"}) {
			t.Errorf("group over %s about %v", g.Hosts, g.Objects)
		}
		return
	}
	t.Error("no group of rdma.pause")
}

// TestImage judges what was found inside the image.
func TestImage(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	s.Expect.Tools = []checks.Tool{{Image: "img", Name: "python3", Of: "decode"}, {Image: "img", Name: "ip", Of: "probe"}}
	s.Expect.Env = []string{"MC_TEST"}
	in := preflight.Facts{Version: facts.Version, Node: "gpu-01", Context: preflight.ContextImage, Image: "img",
		Commands: map[string]facts.Command{
			facts.IBVDevinfo:                {Argv: []string{"ibv_devinfo", "-v"}, Exit: 255, Stderr: "libibverbs: Warning: Driver ionic does not support the kernel ABI of 4 (supports 1 to 1) for device /sys/class/infiniband/ionic_0\n", Stdout: "No IB devices found\n"},
			facts.Of(facts.Tool, "python3"): {Argv: []string{"command", "-v", "python3"}, Stdout: "/usr/bin/python3"},
			facts.Of(facts.Tool, "ip"):      {Argv: []string{"command", "-v", "ip"}, Missing: true},
		},
		Files: map[string]facts.File{"/proc/self/limits": {Data: "Max locked memory         67108864             67108864             bytes     \nMax open files            1024                 4096                 files     \n"}},
		Disks: map[string]facts.Disk{"/dev/shm": {Total: 64 << 20, Available: 64 << 20}},
		Paths: map[string]facts.Path{"/dev/kfd": {Kind: "char", Mode: 0o660, GID: 109}, "/dev/dri/renderD128": {Kind: "char", Read: true, Write: true}},
	}
	r := preflight.Judge([]preflight.Facts{healthy, in}, s, fold)
	want := map[string]preflight.Verdict{
		"image.rdma": preflight.Fail, "image.devices": preflight.Fail, "image.memlock": preflight.Fail, "image.nofile": preflight.Warn,
		"image.shm": preflight.Fail, "image.tools": preflight.Fail, "image.env": preflight.Fail, "image.weights": preflight.Skip, "rdma.link": preflight.Pass,
	}
	for id, v := range want {
		if got := r.Nodes[0].Checks[id]; got != v {
			t.Errorf("%s says %s, want %s", id, got, v)
		}
	}
	if len(r.Nodes) != 1 {
		t.Errorf("%d nodes, want one with both contexts", len(r.Nodes))
	}
}

// TestTwoImages: a check that does not apply in the router's image was made in the
// engine's, and what is wrong in an image names it.
func TestTwoImages(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	s.Expect.Images, s.Expect.Plain = []string{"engine:1", "router:1"}, []string{"router:1"}
	s.Expect.Tools = []checks.Tool{{Image: "engine:1", Name: "python3", Of: "decode"}, {Image: "router:1", Name: "route", Of: "router"}, {Image: "router:1", Name: "bench", Of: "client"}, {Image: "router:1", Name: "ask", Of: "eval"}}
	in := func(image string) preflight.Facts {
		f := preflight.Facts{Version: facts.Version, Node: "gpu-01", Context: preflight.ContextImage, Image: image,
			Commands: map[string]facts.Command{}, Disks: map[string]facts.Disk{"/dev/shm": {Total: 64 << 30, Available: 64 << 30}}}
		for _, x := range s.Expect.Tools {
			f.Commands[facts.Of(facts.Tool, x.Name)] = facts.Command{Missing: true}
		}
		return f
	}
	for _, order := range [][]string{{"engine:1", "router:1"}, {"router:1", "engine:1"}} {
		r := preflight.Judge([]preflight.Facts{healthy, in(order[0]), in(order[1])}, s, fold)
		if got := r.Nodes[0].Checks["image.shm"]; got != preflight.Pass {
			t.Errorf("image.shm says %s, want what it found in the engine's image", got)
		}
		if got := r.Nodes[0].Checks["image.weights"]; got != preflight.Skip {
			t.Errorf("image.weights says %s, want skip: it applies in neither", got)
		}
		want := map[string]string{"python3": "engine:1, the recipe chooses the image of decode", "route": "router:1, correct router.command", "bench": "router:1, correct client.command", "ask": "router:1, correct evals.command"}
		for _, f := range r.Findings {
			if f.CheckID != "image.tools" {
				continue
			}
			image, change, _ := strings.Cut(want[f.Object], ", ")
			if f.Image != image || f.Observed != "not in the image "+image || !strings.Contains(f.Remedy, change) || f.InImage() != "" {
				t.Errorf("%s: image %s: %s; %s", f.Object, f.Image, f.Observed, f.Remedy)
			}
			delete(want, f.Object)
		}
		if len(want) > 0 {
			t.Errorf("not said: %v", want)
		}
	}
}

// TestWeights: the ways in which a model is not whole.
func TestWeights(t *testing.T) {
	t.Parallel()
	idx := []byte(`{"metadata":{"total_size":100},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}`)
	whole := []facts.Entry{{Name: "config.json", Size: 10}, {Name: "m-1.safetensors", Size: 70, Need: 70}, {Name: "m-2.safetensors", Size: 50, Need: 50}, {Name: "model.safetensors.index.json", Size: 90, Head: idx}}
	edit := func(f func([]facts.Entry) []facts.Entry) facts.Tree {
		return facts.Tree{Entries: f(slices.Clone(whole))}
	}
	for _, c := range []struct {
		name    string
		tree    facts.Tree
		verdict preflight.Verdict
		says    string
	}{
		{"whole", facts.Tree{Entries: whole}, preflight.Pass, "whole"},
		{"shard missing", edit(func(e []facts.Entry) []facts.Entry { return append(e[:1], e[2:]...) }), preflight.Fail, "missing"},
		{"shard cut short", edit(func(e []facts.Entry) []facts.Entry { e[2].Size = 49; return e }), preflight.Fail, "49 bytes of 50"},
		{"pointer file", edit(func(e []facts.Entry) []facts.Entry {
			e[1].Head = []byte("version https://git-lfs.github.com/spec/v1\noid\n")
			return e
		}), preflight.Fail, "Git LFS pointer"},
		{"two revisions, none named", facts.Tree{Entries: []facts.Entry{{Name: "snapshots/a/config.json", Size: 1}, {Name: "snapshots/b/config.json", Size: 1}}}, preflight.Fail, "several revisions"},
		{"two revisions, one named", facts.Tree{Entries: append(prefixed("snapshots/b/", whole), facts.Entry{Name: "snapshots/a/x", Size: 1}, facts.Entry{Name: "refs/main", Size: 1, Head: []byte("b")})}, preflight.Pass, "whole"},
		{"directory hangs", facts.Tree{Err: facts.ErrHung}, preflight.Fail, "hangs"},
		{"nowhere", facts.Tree{Err: facts.ErrMissing}, preflight.Fail, "in none of the places"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			healthy, s := gatheredOnce(t)
			s.Expect.Models, s.Expect.Model = []string{"/models/m"}, "m"
			healthy.Trees = map[string]facts.Tree{"/models/m": c.tree}
			r := preflight.Judge([]preflight.Facts{healthy}, s, fold)
			if got := r.Nodes[0].Checks["storage.weights"]; got != c.verdict {
				t.Errorf("says %s, want %s", got, c.verdict)
			}
			for _, f := range r.Findings {
				if f.CheckID == "storage.weights" && strings.Contains(f.Observed, c.says) {
					return
				}
			}
			t.Errorf("nothing says %q", c.says)
		})
	}
}

// TestImageRoom: room to pull an image is needed where one is missing, and the
// finding says which; where none is named it is no more than a warning.
func TestImageRoom(t *testing.T) {
	t.Parallel()
	const image, gib = "registry/engine:v2", int64(1) << 30
	there := facts.Command{Argv: []string{"docker", "image", "inspect", image}, Stdout: `[{"Id":"sha256:1","RepoTags":["` + image + `"],"Architecture":"amd64","Os":"linux"}]`}
	absent := facts.Command{Argv: there.Argv, Exit: 1, Stderr: "Error: No such image: " + image + "\n"}
	for _, c := range []struct {
		name     string
		images   []string
		command  facts.Command
		free     int64
		readOnly bool
		verdict  preflight.Verdict
		says     []string
	}{
		{"none named, room for layers", nil, facts.Command{}, 74 * gib, false, preflight.Warn, []string{"74.0 GiB free", "150 GiB or more to pull an image", "with a recipe"}},
		{"none named, room for an image", nil, facts.Command{}, 200 * gib, false, preflight.Pass, nil},
		{"none named, no room at all", nil, facts.Command{}, gib, false, preflight.Fail, []string{"1.0 GiB free", "5 GiB or more"}},
		{"none named, read-only", nil, facts.Command{}, 74 * gib, true, preflight.Fail, []string{"read-only"}},
		{"named and there", []string{image}, there, 74 * gib, false, preflight.Pass, nil},
		{"named and there, no room at all", []string{image}, there, gib, false, preflight.Fail, []string{"5 GiB or more"}},
		{"named and missing", []string{image}, absent, 74 * gib, false, preflight.Fail, []string{"74.0 GiB free, and " + image + " was not found on the node", "150 GiB or more", "correct its name in the recipe"}},
		{"named and missing, room for it", []string{image}, absent, 200 * gib, false, preflight.Pass, nil},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			healthy, s := gatheredOnce(t)
			s.Expect.Runtime.Kind, s.Expect.Images, s.Expect.RunsDir, s.Expect.Site.Storage = "docker", c.images, "", models.PreflightStorage{}
			healthy.Disks = map[string]facts.Disk{"/var/lib/docker": {Total: 1 << 40, Available: c.free, ReadOnly: c.readOnly}, "/tmp": {Total: 1 << 40, Available: 1 << 40}}
			healthy.Commands = maps.Clone(healthy.Commands)
			healthy.Commands[facts.Of(facts.DockerImage, image)] = c.command
			r := preflight.Judge([]preflight.Facts{healthy}, s, fold)
			for _, f := range r.Findings {
				if f.CheckID != "storage.space" {
					continue
				}
				if f.Verdict != c.verdict {
					t.Errorf("says %s, want %s", f.Verdict, c.verdict)
				}
				for _, w := range c.says {
					if text := f.Observed + " | " + f.Expected + " | " + f.Remedy; !strings.Contains(text, w) {
						t.Errorf("%q is not in %q", w, text)
					}
				}
			}
			if got := r.Nodes[0].Checks["storage.space"]; got != c.verdict {
				t.Errorf("storage.space says %s, want %s", got, c.verdict)
			}
		})
	}
}

func prefixed(dir string, es []facts.Entry) []facts.Entry {
	es = slices.Clone(es)
	for i := range es {
		es[i].Name = dir + es[i].Name
	}
	return es
}

// TestBundle: a saved bundle gives the same report, and drift is seen.
func TestBundle(t *testing.T) {
	t.Parallel()
	healthy, s := gatheredOnce(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := preflight.SaveBundle(dir, s, []preflight.Facts{healthy, preflight.Unreached("gpu-02", "no route to host")}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("bundle is open to others: %v %v", st.Mode(), err)
	}
	s2, all, err := preflight.LoadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b := preflight.Judge([]preflight.Facts{healthy, preflight.Unreached("gpu-02", "no route to host")}, s, fold), preflight.Judge(all, s2, fold)
	if d := cmp.Diff(mustJSON(t, a), mustJSON(t, b)); d != "" {
		t.Errorf("judged again it differs: %s", d)
	}
	if d := preflight.Compare(a, b); len(d) > 0 {
		t.Errorf("drift between equal reports: %+v", d)
	}
	n := nodetest.Healthy()
	breakWith(n, "old NIC firmware")
	now := preflight.Judge([]preflight.Facts{changed(healthy, n), preflight.Unreached("gpu-02", "no route to host")}, s, fold)
	drift := preflight.Compare(a, now)
	if !slices.ContainsFunc(drift, func(d preflight.Drift) bool { return d.CheckID == "rdma.firmware" && d.Worse && d.Node == "gpu-01" }) {
		t.Errorf("firmware drift not seen: %+v", drift)
	}
	if _, _, err := preflight.LoadBundle(t.TempDir()); err == nil {
		t.Error("an empty directory is taken for a bundle")
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSpecFromPlan takes from the plan what the checks need, and no secret.
func TestSpecFromPlan(t *testing.T) {
	t.Parallel()
	p := &models.Plan{Topology: models.Topology{Nodes: 2, GPUsPerNode: 8, Disaggregated: true}, Runtime: models.Runtime{Kind: "docker"},
		Model: models.PlanModel{Key: "m", HostPaths: []string{"/models/m"}, VRAMBytes: 1 << 30},
		Workers: []models.Worker{{Ranks: []models.Process{{ID: "decode-0.0", Scope: "decode", Image: "img", Argv: []string{"python3", "-m", "x"}, Accelerated: true,
			Ports: []models.Port{{Name: "http", Number: 8000}},
			Env:   []models.EnvVar{{Name: "MORI_RDMA_TC", Value: "104"}, {Name: "NCCL_IB_TC", Value: "@{self.tc}", Expand: true}, {Name: "NCCL_IB_GID_INDEX", Value: "1", Secret: true}, {Name: "OTHER", Value: "x"}}}}}},
		Client:    &models.Client{Points: []models.ClientPoint{{Concurrency: 64}}},
		Preflight: models.PreflightPlan{Waive: map[string]string{"gpu.ecc": "run"}, Site: models.PreflightSite{Waive: map[string]string{"gpu.ecc": "site", "rdma.mtu": "site"}}},
	}
	s := preflight.SpecFrom(p)
	got := fmt.Sprint(s.Expect.RDMA.Needed, s.Expect.GPUs, s.Expect.Images, s.Expect.Ports, s.Expect.RDMA.Vars, s.Expect.Tools, s.Expect.MaxConns, s.Waive)
	want := "true true [img] [{8000 decode-0.0 http}] [{decode MORI_RDMA_TC 104}] [{img python3 decode}] 64 map[gpu.ecc:run rdma.mtu:site]"
	if got != want {
		t.Errorf("spec is\n%s\nwant\n%s", got, want)
	}
	p.Topology.Nodes, p.Topology.Disaggregated = 1, false
	if preflight.SpecFrom(p).Expect.RDMA.Needed {
		t.Error("one aggregate worker on one node needs no RDMA")
	}
}
