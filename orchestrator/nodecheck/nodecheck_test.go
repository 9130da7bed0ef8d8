package nodecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/nodetest"
)

// fakeNode answers the one question that is asked here.
type fakeNode struct {
	orchestrator.Node
	exec   func(ctx context.Context, req deploy.ExecRequest) (deploy.ExecResult, error)
	closed chan struct{} // Close returns when it is closed; nil: at once
}

func (n *fakeNode) Exec(ctx context.Context, req deploy.ExecRequest) (deploy.ExecResult, error) {
	return n.exec(ctx, req)
}

func (n *fakeNode) Close() error {
	if n.closed != nil {
		<-n.closed
	}
	return nil
}

// answering is a node whose gathering gives f, with a banner before it.
func answering(t *testing.T, f preflight.Facts) *fakeNode {
	t.Helper()
	return &fakeNode{exec: func(_ context.Context, req deploy.ExecRequest) (deploy.ExecResult, error) {
		var spec preflight.Spec
		if err := json.Unmarshal(req.Stdin, &spec); err != nil || !slices.Equal(req.Argv, []string{"@self", "facts"}) {
			return deploy.ExecResult{}, fmt.Errorf("asked with %q: %v", req.Argv, err)
		}
		f := f
		f.Node, f.Context = spec.Node, spec.Context
		var out bytes.Buffer
		out.WriteString("*** Authorised users only ***\n")
		if err := preflight.WriteFacts(&out, &f); err != nil {
			return deploy.ExecResult{}, err
		}
		return deploy.ExecResult{Stdout: out.Bytes()}, nil
	}}
}

// hung never answers.
func hung() *fakeNode {
	return &fakeNode{closed: make(chan struct{}), exec: func(ctx context.Context, _ deploy.ExecRequest) (deploy.ExecResult, error) {
		<-ctx.Done()
		return deploy.ExecResult{}, ctx.Err()
	}}
}

// basic are facts that an undemanding spec finds nothing wrong with.
func basic() preflight.Facts {
	return preflight.Facts{
		Version: facts.Version, Duration: time.Second, Host: facts.Host{Name: "n", Kernel: "6.8.0", Now: time.Now().UnixNano()},
		Commands: map[string]facts.Command{facts.NicctlQoS: {Argv: []string{"nicctl", "show", "qos"}, Stdout: nodetest.QoS(nil)}},
		Files:    map[string]facts.File{"/proc/mounts": {Data: "/dev/sda2 / ext4 rw 0 0\n"}},
		Disks:    map[string]facts.Disk{"/tmp": {Total: 1 << 40, Available: 1 << 40}},
	}
}

// plan asks for nothing but a host.
func plan() *models.Plan {
	none := 0
	p := &models.Plan{Launcher: models.LauncherSlurm, Runtime: models.Runtime{Kind: "none"}, Topology: models.Topology{Nodes: 2}}
	p.Preflight.Mode = "enforce"
	p.Preflight.Site = models.PreflightSite{GPU: models.PreflightGPU{Devices: &none}, RDMA: models.PreflightRDMA{Devices: &none}, Budget: models.Duration(time.Second)}
	return p
}

func checker(t *testing.T, p *models.Plan) *Checker {
	t.Helper()
	d, err := rundir.Create(filepath.Join(t.TempDir(), "runs"), "t", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &Checker{Plan: p, Dir: d, Job: "7", User: "eve"}
}

func TestHost(t *testing.T) {
	t.Parallel()
	p := plan()
	c := checker(t, p)
	readOnly := basic()
	readOnly.Disks = map[string]facts.Disk{"/tmp": {Total: 1 << 40, Available: 1 << 40, ReadOnly: true}}
	began := time.Now()
	rep, err := c.Host(t.Context(), []orchestrator.PreflightNode{
		{Name: "n1", Node: answering(t, basic())},
		{Name: "n2", Node: answering(t, readOnly)},
		{Name: "n3", Node: hung()},
		{Name: "n4", Node: &fakeNode{exec: func(context.Context, deploy.ExecRequest) (deploy.ExecResult, error) {
			return deploy.ExecResult{Exit: 2, Stderr: []byte("Illegal instruction\n")}, nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a node that hangs took %s", took)
	}
	for node, want := range map[string]string{
		"n2": "storage.space: /tmp (temporary files): the file system is read-only (expected: writable)",
		"n3": "node.reach: ",
		"n4": "Illegal instruction",
	} {
		if why := rep.Unfit[node]; !strings.Contains(why, want) {
			t.Errorf("%s is unfit for %q, want %q", node, why, want)
		}
	}
	if why, ok := rep.Unfit["n1"]; ok {
		t.Errorf("the good node is unfit: %s", why)
	}
	if !slices.ContainsFunc(rep.Unproven, func(s string) bool {
		return strings.Contains(s, "rdma.* (") && strings.Contains(s, "the site says that it has no RDMA")
	}) {
		t.Errorf("skipped checks are not said: %q", rep.Unproven)
	}
	saved, err := preflight.LoadReport(c.Dir.Join(rundir.PreflightFile))
	if err != nil || !slices.Equal(saved.Bad(), []string{"n2", "n3", "n4"}) {
		t.Errorf("saved: bad %v, %v", saved.Bad(), err)
	}
	spec, all, err := preflight.LoadBundle(c.Dir.Join(bundleName))
	if err != nil || len(all) != 4 || spec.Expect.Run.Job != "7" || spec.Expect.Run.ID != c.Dir.ID() {
		t.Errorf("bundle: %d facts of %+v, %v", len(all), spec.Expect.Run, err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]preflight.Finding{
		"rdma.pfc: rail 3: off (expected: on)":                           {CheckID: "rdma.pfc", Object: "rail 3", Verdict: preflight.Fail, Observed: "off", Expected: "on"},
		"rdma.class: blocked by rdma.tools: no sudo":                     {CheckID: "rdma.class", Verdict: preflight.Blocked, Observed: "blocked by rdma.tools: no sudo"},
		"gpu.vram: not read (unknown)":                                   {CheckID: "gpu.vram", Verdict: preflight.Unknown, Observed: "not read"},
		"image.memlock: 64 KiB, in image engine:1 (expected: unlimited)": {CheckID: "image.memlock", Image: "engine:1", Verdict: preflight.Fail, Observed: "64 KiB", Expected: "unlimited"},
		"image.start: engine:1: refused":                                 {CheckID: "image.start", Object: "engine:1", Image: "engine:1", Verdict: preflight.Fail, Observed: "refused"},
	} {
		if got := describe(f, f.Object); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLoadBundle: a run directory stands for the bundle in it; anything else is
// told apart from a bundle that cannot be read.
func TestLoadBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run, empty, broken := filepath.Join(dir, "run"), filepath.Join(dir, "empty"), filepath.Join(dir, "broken")
	f := basic()
	f.Node = "n1"
	if err := preflight.SaveBundle(filepath.Join(run, bundleName), preflight.Spec{}, []preflight.Facts{f}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{empty, broken} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(broken, "spec.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{run, filepath.Join(run, bundleName)} {
		if _, all, err := LoadBundle(d); err != nil || len(all) != 1 || all[0].Node != "n1" {
			t.Errorf("%s: %d facts, %v", d, len(all), err)
		}
	}
	const hint = "name a directory that preflight --bundle wrote"
	for d, want := range map[string][]string{
		empty:                      {empty + " is no bundle of preflight: it has no spec.json", hint},
		filepath.Join(dir, "none"): {"no such file or directory", hint},
		broken:                     {"spec.json: unexpected end of JSON input"},
	} {
		_, _, err := LoadBundle(d)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", d, err, w)
			}
		}
		if d == broken && err != nil && strings.Contains(err.Error(), hint) {
			t.Errorf("a bundle that is broken is told as none: %v", err)
		}
	}
}

// TestFabric: what the NICs map is handed to the launch, and nothing where they
// give no single answer.
func TestFabric(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Topology.Disaggregated = true
	eight := 8
	p.Preflight.Site.RDMA.Devices = &eight
	odd := basic()
	odd.Commands = map[string]facts.Command{facts.NicctlQoS: {Argv: []string{"nicctl", "show", "qos"}, Stdout: nodetest.QoS(map[int]nodetest.QoSBlock{3: {Prio: 4}})}}
	rep, err := checker(t, p).Host(t.Context(), []orchestrator.PreflightNode{{Name: "n1", Node: answering(t, basic())}, {Name: "n2", Node: answering(t, odd)}})
	if err != nil {
		t.Fatal(err)
	}
	tc, sl := 96, 3
	if diff := cmp.Diff(map[string]orchestrator.Fabric{"n1": {TrafficClass: &tc, ServiceLevel: &sl}, "n2": {}}, rep.Fabric); diff != "" {
		t.Errorf("fabric (-want +got):\n%s", diff)
	}
}

// TestOneHost: names of one host are asked once and share the verdict.
func TestOneHost(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Launcher = models.LauncherLocal
	bad := basic()
	bad.Disks = map[string]facts.Disk{"/tmp": {Total: 1, Available: 1}}
	second := &fakeNode{exec: func(context.Context, deploy.ExecRequest) (deploy.ExecResult, error) {
		t.Error("the same host was asked twice")
		return deploy.ExecResult{}, errors.New("asked twice")
	}}
	rep, err := checker(t, p).Host(t.Context(), []orchestrator.PreflightNode{{Name: "local0", Node: answering(t, bad)}, {Name: "local1", Node: second}})
	if err != nil || len(rep.Unfit) != 2 || rep.Unfit["local0"] != rep.Unfit["local1"] {
		t.Errorf("unfit: %v, %v", rep.Unfit, err)
	}
}

// TestWaiver: what a waiver hides is not proven, and is said.
func TestWaiver(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Preflight.Waive = map[string]string{"storage.space": "they know", "gpu.nothing": "typo", "host.ports": "just in case"}
	bad := basic()
	bad.Disks = map[string]facts.Disk{"/tmp": {Total: 1, Available: 1}}
	rep, err := checker(t, p).Host(t.Context(), []orchestrator.PreflightNode{{Name: "n1", Node: answering(t, bad)}})
	if err != nil || len(rep.Unfit) != 0 {
		t.Fatalf("unfit: %v, %v", rep.Unfit, err)
	}
	for list, want := range map[*[]string][]string{
		&rep.Unproven: {"n1: storage.space", "waived: they know"},
		&rep.Warnings: {"the waiver of gpu.nothing does nothing: there is no such check", "the waiver of host.ports (just in case) was not needed"},
	} {
		for _, w := range want {
			if !slices.ContainsFunc(*list, func(s string) bool { return strings.Contains(s, w) }) {
				t.Errorf("%q is not said in %q", w, *list)
			}
		}
	}
}

// TestInImage: every image is looked into; one that does not come up makes its
// node unfit.
func TestInImage(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Runtime.Kind = "docker"
	p.Workers = []models.Worker{{Ranks: []models.Process{{ID: "w", Image: "engine", Argv: []string{"python3"}, Accelerated: true, Scope: "prefill"}}}}
	p.Router = &models.Router{Process: models.Process{ID: "router", Image: "router", Argv: []string{"route"}, Scope: "router"}}
	c := checker(t, p)
	var mu sync.Mutex
	asked := map[string]preflight.Spec{}
	probe := func(image string, tools map[string]bool) orchestrator.ImageProbe {
		return orchestrator.ImageProbe{Image: image, Env: []string{"A"}, Run: func(_ context.Context, args []string, stdin []byte) ([]byte, error) {
			var spec preflight.Spec
			if err := json.Unmarshal(stdin, &spec); err != nil {
				return nil, err
			}
			mu.Lock()
			asked[spec.Node+" "+image] = spec
			mu.Unlock()
			f := preflight.Facts{Version: facts.Version, Context: spec.Context, Image: spec.Image, Env: []string{"A"}, Commands: map[string]facts.Command{},
				Files: map[string]facts.File{"/proc/self/limits": {Data: "Max open files            1048576              1048576              files     \n"}}}
			for name, there := range tools {
				f.Commands[facts.Of(facts.Tool, name)] = facts.Command{Argv: []string{"command", "-v", name}, Missing: !there}
			}
			var out bytes.Buffer
			err := preflight.WriteFacts(&out, &f)
			return out.Bytes(), err
		}}
	}
	broken := orchestrator.ImageProbe{Image: "engine", Env: []string{"A"}, Run: func(context.Context, []string, []byte) ([]byte, error) {
		return nil, errors.New("docker refuses --privileged")
	}}
	rep, err := c.InImage(t.Context(), []orchestrator.PreflightNode{
		{Name: "n1", Images: []orchestrator.ImageProbe{probe("engine", map[string]bool{"python3": true}), probe("router", map[string]bool{"route": true})}},
		{Name: "n2", Images: []orchestrator.ImageProbe{broken, probe("router", map[string]bool{"route": true})}},
		{Name: "n3", Images: []orchestrator.ImageProbe{probe("engine", map[string]bool{"python3": true}), probe("router", map[string]bool{"route": false})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := rep.Unfit["n1"]; ok || !strings.Contains(rep.Unfit["n2"], "image.start: engine: ") || !strings.Contains(rep.Unfit["n2"], "docker refuses --privileged") ||
		!strings.HasPrefix(rep.Unfit["n3"], "image.tools: route: not in the image router ") {
		t.Errorf("unfit: %v", rep.Unfit)
	}
	for _, s := range rep.Unproven {
		if strings.Contains(s, "image.env") {
			t.Errorf("said to be skipped, and was made in the engine's image: %s", s)
		}
		if strings.Contains(s, "image.weights") && !strings.Contains(s, "(in engine, router)") {
			t.Errorf("the images are not named: %s", s)
		}
	}
	if s := asked["n1 router"]; s.Context != preflight.ContextImage || s.Image != "router" || s.Expect.GPUs || s.Expect.RDMA.Needed {
		t.Errorf("the router's image was asked with %+v", s)
	}
	files, err := os.ReadDir(c.Dir.Join(bundleName))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if want := []string{"n1.image.2.json", "n1.image.json", "n2.image.2.json", "n2.image.json", "n3.image.2.json", "n3.image.json", "spec.json"}; !slices.Equal(names, want) {
		t.Errorf("bundle: %q", names)
	}
}
