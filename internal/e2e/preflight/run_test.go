package preflight

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/nodetest"
)

// forRuns makes the fixtures visible in containers as well, so that the checks in
// the images see what the tools there would say on a real node.
func forRuns(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, 30*time.Second)
	data, err := os.ReadFile(f.Dir + "/site.yaml")
	f.Must(err)
	text := strings.Replace(string(data), "devices: [/dev/kfd, /dev/dri, /dev/infiniband]}",
		"devices: [/dev/kfd, /dev/dri, /dev/infiniband], shm_size: 1g, mounts: [\""+f.FixtureRoot()+":"+f.FixtureRoot()+"\"]}", 1)
	f.Write("site.yaml", text+"  host: {shm_gib: 1}\n")
	for _, n := range f.Nodes() {
		f.put(n, forRun())
	}
	return f
}

// forRun is a healthy node whose docker is the lab's own.
func forRun(breaks ...func(*nodetest.Node)) *nodetest.Node {
	n := broken(breaks...)
	for w := range n.Tools {
		if strings.HasPrefix(w, "docker ") {
			delete(n.Tools, w)
		}
	}
	return n
}

// noPFC breaks one NIC.
func noPFC(n *nodetest.Node) {
	n.Tools["nicctl show qos"] = nodetest.Answer{Stdout: nodetest.QoS(map[int]nodetest.QoSBlock{3: {Bitmap: "0x0"}})}
}

// TestRunStops: a run on a bad node ends before GPU time, with the code for it and
// the node, the NIC and the reason in its cause.
func TestRunStops(t *testing.T) {
	f := forRuns(t)
	f.put("node1", forRun(noPFC))
	recipe := f.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2"))
	f.Want(f.Disagg("submit", recipe, "--wait"), 4)
	r := f.Result()
	if r.Cause == nil || r.Cause.Stage != "preflight" || !strings.Contains(r.Cause.What, "node1: rdma.pfc: "+nodetest.NIC(3)) {
		t.Errorf("cause: %+v", r.Cause)
	}
	log, err := events.ReadAll(f.Newest() + "/events.jsonl")
	f.Must(err)
	for _, e := range log.Events {
		if e.Kind == events.ProcessCreated {
			t.Errorf("%s was created", e.Process)
		}
	}
	rep, err := preflight.LoadReport(f.Newest() + "/preflight.json")
	f.Must(err)
	if len(rep.Nodes) != 2 || rep.Nodes[0].Fit || !rep.Nodes[1].Fit {
		t.Errorf("report: %+v", rep.Nodes)
	}
	// What was gathered can be judged again, without the cluster.
	s := f.Disagg("preflight", "--from", f.RunPath()+"/preflight", "--exclude-bad")
	f.Want(s, 0)
	if strings.TrimSpace(s.Out) != "node2" {
		t.Errorf("good nodes: %q", s.Out)
	}
	f.Clean(10 * time.Second)
}

// TestRunGoesOnWithASpare: with a spare the same run leaves the bad node out. Its
// images are looked into, and what the NICs say goes into the launch.
func TestRunGoesOnWithASpare(t *testing.T) {
	f := forRuns(t)
	f.put("node1", forRun(noPFC))
	recipe := f.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", "spares: 1\n"+world.Client(16, "2"))
	f.Want(f.Disagg("submit", recipe, "--wait"), 0)
	r := f.Result()
	if r.Outcome != "ok" || len(r.Nodes) != 3 || len(r.Nodes[0].Plan) != 0 || !strings.Contains(r.Nodes[0].Note, "unfit: rdma.pfc") {
		t.Errorf("outcome %s, nodes %+v", r.Outcome, r.Nodes)
	}
	rep, err := preflight.LoadReport(f.Newest() + "/preflight.json")
	f.Must(err)
	for _, n := range rep.Nodes {
		used := n.Node != "node1"
		if n.Fit != used {
			t.Errorf("%s: fit %v", n.Node, n.Fit)
		}
		if _, looked := n.Checks["image.start"]; looked != used {
			t.Errorf("%s: its images were looked into: %v", n.Node, looked)
		}
	}
	if t.Failed() {
		t.Log(trouble(rep))
	}
	f.Clean(10 * time.Second)
}

// TestRunOverSSH: the same run without a scheduler.
func TestRunOverSSH(t *testing.T) {
	f := forRuns(t)
	f.put("node2", forRun(noPFC))
	recipe := f.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2"))
	f.Want(f.Disagg("run", recipe, "--launcher", "ssh", "--nodes", "node[1-3]"), 0)
	r := f.Result()
	if r.Outcome != "ok" || len(r.Nodes) != 3 || len(r.Nodes[1].Plan) != 0 || !strings.Contains(r.Nodes[1].Note, "unfit: rdma.pfc") {
		t.Errorf("outcome %s, nodes %+v", r.Outcome, r.Nodes)
	}
	f.Clean(10 * time.Second)
}

// TestRunSaysWhatTheNICsCounted: what one rail counted while the client ran is said
// with node and rail, although the run went well.
func TestRunSaysWhatTheNICsCounted(t *testing.T) {
	f := forRuns(t)
	recipe := f.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", world.Client(16, "2")+world.Fault("slow-token:ms=200"))
	_, wait := f.Start(f.Bin, "submit", recipe, "--wait")
	f.ClientRuns()
	f.put("node2", forRun(func(n *nodetest.Node) { n.Counts(map[int]map[string]int{3: {"tx_rdma_ack_timeout": 12}}) }))
	f.Want(wait(), 0)
	r := f.Result()
	want := "node2: run.counters: tx_rdma_ack_timeout grew during the run: ionic_3 +12 (expected: as on the other 15 rails); reseat or replace cable and transceiver of this rail, and look at its switch port"
	if !slices.Contains(r.Warnings, want) {
		t.Errorf("warnings: %q", r.Warnings)
	}
	var rep preflight.RunReport
	f.Must(json.Unmarshal([]byte(f.File("counters.json")), &rep))
	grown := preflight.Growth{Node: "node2", Rail: "ionic_3", Counters: map[string]int64{"tx_rdma_ack_timeout": 12}}
	if diff := cmp.Diff([]preflight.Growth{grown}, rep.Growth); diff != "" {
		t.Errorf("counters.json (-want +got):\n%s", diff)
	}
	f.Clean(10 * time.Second)
}
