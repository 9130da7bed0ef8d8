package preflight

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/nodetest"
)

// fault is one way in which a node goes bad, and who must say what of it.
type fault struct {
	name, check string
	verdict     preflight.Verdict
	put         func(*nodetest.Node)
}

// faults are ways to go bad that matter to an engineer on call: those of nodetest
// that make a node unfit, and those that need the plan or the lab.
func faults(t *testing.T) []fault {
	t.Helper()
	known := map[string]nodetest.Fault{}
	for _, f := range nodetest.Faults() {
		known[f.Name] = f
	}
	var out []fault
	for _, name := range []string{
		"one NIC without PFC", "one NIC classifies by VLAN tag", "one NIC with another lossless priority", "QoS of one NIC missing", "DCQCN off on one NIC",
		"one NIC with another CNP DSCP", "receive pause off on one port", "one rail down", "one rail at half speed", "one rail missing",
		"nicctl needs a password", "nicctl not installed", "one GPU missing", "GPU memory held by a process", "GPU memory without an owner",
		"uncorrectable memory errors", "GPU link trained down", "memlock limited", "docker not usable",
	} {
		f, ok := known[name]
		if !ok {
			t.Fatalf("there is no fault %q any more", name)
		}
		out = append(out, fault{f.Name, f.Check, preflight.Verdict(f.Verdict), f.Break})
	}
	say := func(words, text string) func(*nodetest.Node) {
		return func(n *nodetest.Node) { n.Tools[words] = nodetest.Answer{Stdout: text} }
	}
	return append(out,
		fault{"traffic goes to another DSCP", "rdma.profile", preflight.Fail, func(n *nodetest.Node) {
			all := map[int]nodetest.QoSBlock{}
			for i := range 8 {
				all[i] = nodetest.QoSBlock{DataDSCP: 26}
			}
			n.Tools["nicctl show qos"] = nodetest.Answer{Stdout: nodetest.QoS(all)}
		}},
		fault{"small MTU on one rail", "rdma.mtu", preflight.Warn, func(n *nodetest.Node) {
			n.Files["/sys/class/net/benic3p1/mtu"] = "1500\n"
		}},
		fault{"one NIC with other firmware", "rdma.firmware", preflight.Fail, func(n *nodetest.Node) { n.Files[nodetest.Rail(5)+"/fw_ver"] = "1.117.1-a-63\n" }},
		fault{"a port of the plan is taken", "host.ports", preflight.Fail, say("ss -tlnp",
			"State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\nLISTEN 0 128 0.0.0.0:8000 0.0.0.0:* users:((\"python3\",pid=31337,fd=3))\n")},
		fault{"a shard of the weights is missing", "storage.weights", preflight.Fail, func(n *nodetest.Node) {
			delete(n.Files, modelDir+"/model-00002-of-00002.safetensors")
		}},
		fault{"a shard of the weights is cut short", "storage.weights", preflight.Fail, func(n *nodetest.Node) {
			p := modelDir + "/model-00001-of-00002.safetensors"
			n.Files[p] = n.Files[p][:len(n.Files[p])-1]
		}},
		fault{"a container of a job that is over", "container.stale", preflight.Fail, func(n *nodetest.Node) {
			id := strings.Repeat("ab", 32)
			n.Tools["docker ps --no-trunc --format {{json .}}"] = nodetest.Answer{Stdout: `{"ID":"` + id + `","Names":"old-engine","Image":"sglang","State":"running","Status":"Up 3 days","Labels":""}` + "\n"}
			n.Tools["docker inspect "+id] = nodetest.Answer{Stdout: `[{"Id":"` + id + `","Name":"/old-engine","State":{"Pid":99,"Status":"running"},"Config":{"Image":"sglang","Env":["SLURM_JOB_ID=999999"]},"HostConfig":{"Devices":[{"PathOnHost":"/dev/kfd"}]}}]` + "\n"}
		}},
		fault{"the image has another content", "image.present", preflight.Fail, say("docker image inspect "+lab.EngineImage, image(7))},
		fault{"the disk of the images is full", "storage.space", preflight.Fail, say("docker info --format {{json .}}", `{"ServerVersion":"28.2.2","DockerRootDir":"`+smallDisk+`"}`+"\n")},
	)
}

// smallDisk is a file system without room.
const smallDisk = "/run/small"

// bad names the checks of a node that are neither passed nor skipped, but for the
// one that measures time.
func bad(n preflight.NodeReport) string {
	var out []string
	for id, v := range n.Checks {
		if v != preflight.Pass && v != preflight.Skip && id != "gpu.smi" {
			out = append(out, id+" "+string(v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestHealthy: four good nodes pass over both transports, and nothing of the tool
// stays on them.
func TestHealthy(t *testing.T) {
	f := newFleet(t, 30*time.Second)
	for _, args := range [][]string{{"--jobid", f.hold()}, {"--nodes", "node[1-4]"}} {
		r := f.report(0, args...)
		for _, n := range r.Nodes {
			if b := bad(n); b != "" {
				t.Errorf("%v: %s: %s\n%s", args, n.Node, b, trouble(r))
			}
		}
		if len(r.Nodes) != 4 || len(r.Nodes[0].Checks) < 60 {
			t.Errorf("%v: %d nodes, %d checks", args, len(r.Nodes), len(r.Nodes[0].Checks))
		}
	}
	f.Clean(10 * time.Second)
}

// rounds deals faults out, n a round, so that neighbours, which are of the same
// kind, do not meet: of a kind that every node but one has, that one is odd.
func rounds(all []fault, n int) [][]fault {
	out := make([][]fault, (len(all)+n-1)/n)
	for i, x := range all {
		out[i%len(out)] = append(out[i%len(out)], x)
	}
	return out
}

// ignoreSlow leaves out the one check that measures time: a busy machine answers
// slowly over either transport.
func ignoreSlow() cmp.Option {
	return cmpopts.IgnoreMapEntries(func(id string, _ preflight.Verdict) bool { return id == "gpu.smi" })
}

// hurried says that over one transport something could not be looked at in time,
// and over the other it was: the machine of all nodes is busy, and it is worth
// asking again.
func hurried(a, b preflight.Report) bool {
	x, y := verdicts(a), verdicts(b)
	for node, checks := range x {
		for id, v := range checks {
			if w := y[node][id]; v != w && (v == preflight.Unknown || w == preflight.Unknown) {
				return true
			}
		}
	}
	return false
}

// TestFaults: nodes that are bad in different ways, one way a node, next to a good
// one. Over srun and over ssh each is found by the check that is there for it, and
// the good node stays good.
func TestFaults(t *testing.T) {
	f := newFleet(t, 30*time.Second)
	for _, n := range f.Nodes() {
		f.MustExec(t, n, "sh", "-ec", fmt.Sprintf("mkdir -p %[1]s && mount -t tmpfs -o size=64k tmpfs %[1]s", smallDisk))
	}
	t.Cleanup(func() {
		for _, n := range f.Nodes() {
			f.MustExec(t, n, "umount", smallDisk)
		}
	})
	job := f.hold()
	all := faults(t)
	if len(all) < 20 {
		t.Fatalf("only %d faults", len(all))
	}
	for _, round := range rounds(all, 3) {
		for i, x := range round {
			f.put(f.Nodes()[1+i], broken(x.put))
		}
		for i := len(round); i < 3; i++ {
			f.put(f.Nodes()[1+i], healthy())
		}
		code := 0
		for _, x := range round {
			if x.verdict != preflight.Warn {
				code = 4
			}
		}
		var srun, ssh preflight.Report
		for range 3 {
			var both sync.WaitGroup
			both.Go(func() { srun = f.report(code, "--jobid", job) })
			both.Go(func() { ssh = f.report(code, "--nodes", "node[1-4]") })
			both.Wait()
			if !hurried(srun, ssh) {
				break
			}
		}
		if diff := cmp.Diff(verdicts(srun), verdicts(ssh), ignoreSlow()); diff != "" {
			t.Errorf("the verdicts differ (-srun +ssh):\n%s\nover srun:\n%s\nover ssh:\n%s", diff, trouble(srun), trouble(ssh))
		}
		byName := map[string]preflight.NodeReport{}
		for _, n := range srun.Nodes {
			byName[n.Node] = n
		}
		if good := byName["node1"]; !good.Fit || bad(good) != "" {
			t.Errorf("the good node is called bad:\n%s", trouble(srun))
		}
		for i, x := range round {
			n := byName[f.Nodes()[1+i]]
			if n.Checks[x.check] != x.verdict || n.Fit == (x.verdict != preflight.Warn) {
				t.Errorf("%s: %s says %s, fit %v; want %s\n%s", x.name, x.check, n.Checks[x.check], n.Fit, x.verdict, trouble(srun))
			}
		}
	}
	f.Clean(10 * time.Second)
}
