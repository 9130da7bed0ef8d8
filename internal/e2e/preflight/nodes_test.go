package preflight

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/standin"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/nodetest"
)

// suite is the lab that the tests of this package share.
var suite = world.Suite{Lazy: lab.Lazy{Nodes: 4, Options: []lab.Option{lab.WithImages()}}}

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// fleet is a world whose nodes are fixtures.
type fleet struct {
	*world.World
	t      *testing.T
	recipe string
}

const (
	imagesDir = "/run/images" // where the fake docker says that images lie
	modelDir  = "/models/DeepSeek-R1-0528"
)

// newFleet makes every node healthy. budget is the site's for one node.
func newFleet(t *testing.T, budget time.Duration) *fleet {
	t.Helper()
	f := &fleet{World: suite.New(t), t: t}
	ssh := f.SSH()
	root := f.FixtureRoot()
	f.Write("site.yaml", fmt.Sprintf(`apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: %[1]s/runs
slurm: {partition: main, time_limit: 10m}
network: {interface: eth0}
models: {search_paths: [%[2]s/models]}
container: {runtime: docker, devices: [/dev/kfd, /dev/dri, /dev/infiniband]}
ssh: {identity: [%[3]s], known_hosts: [%[4]s]}
rdma: {nic: ionic}
preflight:
  root: %[2]s
  tool_path: [%[2]s/tools]
  budget: %[5]s
  rdma: {devices: 8, rate_gbps: 400, data_dscp: 24, data_priority: 3, cnp_dscp: 46}
  gpu: {device_id: 75a3}
  storage: {image_gib: 1, tmp_gib: 1, runs_gib: 1, inodes_percent: 1}
`, f.Dir, root, ssh.Identity, ssh.KnownHosts, budget))
	f.recipe = f.Recipe("{workers: 1, tp: 8}", "{workers: 1, tp: 8}", "")
	for _, n := range f.Nodes() {
		f.MustExec(t, n, "mkdir", "-p", imagesDir)
		f.put(n, healthy())
	}
	return f
}

// healthy is a node with nothing wrong, with docker, both images and the weights.
func healthy() *nodetest.Node {
	n := nodetest.Healthy()
	n.Tools["docker info --format {{json .}}"] = nodetest.Answer{Stdout: `{"ServerVersion":"28.2.2","DockerRootDir":"` + imagesDir + `"}` + "\n"}
	for i, ref := range []string{lab.EngineImage, lab.RouterImage} {
		n.Tools["docker image inspect "+ref] = nodetest.Answer{Stdout: image(i)}
	}
	shard := func(i int) string { return fmt.Sprintf("model-%05d-of-00002.safetensors", i) }
	n.Files[modelDir+"/config.json"] = "{}"
	n.Files[modelDir+"/"+shard(1)], n.Files[modelDir+"/"+shard(2)] = string(standin.Weights()), string(standin.Weights())
	n.Files[modelDir+"/model.safetensors.index.json"] = fmt.Sprintf(`{"metadata":{"total_size":2},"weight_map":{"a":%q,"b":%q}}`, shard(1), shard(2))
	return n
}

func image(content int) string {
	return fmt.Sprintf(`[{"Id":"sha256:%064d","RepoDigests":[],"Architecture":"amd64"}]`+"\n", content)
}

// put makes a node of the lab what n is.
func (f *fleet) put(node string, n *nodetest.Node) {
	f.t.Helper()
	root := f.NodeFile(node, "/")
	old, err := os.ReadDir(root)
	f.Must(err)
	for _, e := range old {
		f.Must(os.RemoveAll(filepath.Join(root, e.Name())))
	}
	tools := filepath.Join(root, "tools")
	f.Must(n.Write(root, tools))
	// The scripts name their answers by the path that nodes and containers see.
	scripts, err := filepath.Glob(filepath.Join(tools, "[a-z]*"))
	f.Must(err)
	for _, s := range scripts {
		data, err := os.ReadFile(s)
		f.Must(err)
		f.Must(os.WriteFile(s, []byte(strings.ReplaceAll(string(data), tools, filepath.Join(f.FixtureRoot(), "tools"))), 0o755))
	}
}

// broken is a healthy node with one fault.
func broken(breaks ...func(*nodetest.Node)) *nodetest.Node {
	n := healthy()
	for _, b := range breaks {
		b(n)
	}
	return n
}

// hold allocates all nodes of the lab until the test ends.
func (f *fleet) hold() (job string) {
	f.t.Helper()
	s := f.Run("sbatch", "--parsable", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 900")
	f.Want(s, 0)
	job = strings.TrimSpace(s.Out)
	f.t.Cleanup(func() { f.Run("scancel", job) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if s := f.Run("squeue", "--noheader", "--jobs="+job, "--format=%T"); strings.TrimSpace(s.Out) == "RUNNING" {
			return job
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("job %s does not start", job)
		}
	}
}

// report runs preflight on nodes and reads its report.
func (f *fleet) report(code int, args ...string) preflight.Report {
	f.t.Helper()
	s := f.Disagg(append([]string{"preflight", f.recipe, "--output", "json"}, args...)...)
	f.Want(s, code)
	var r preflight.Report
	if err := json.Unmarshal([]byte(s.Out), &r); err != nil {
		f.t.Fatalf("%v\n%s", err, s.Out)
	}
	return r
}

// verdicts is what a report says of each node.
func verdicts(r preflight.Report) map[string]map[string]preflight.Verdict {
	out := map[string]map[string]preflight.Verdict{}
	for _, n := range r.Nodes {
		out[n.Node] = maps.Clone(n.Checks)
	}
	return out
}

// trouble lists what is not a pass or skip, for a failed test.
func trouble(r preflight.Report) string {
	var b strings.Builder
	for _, g := range r.Groups {
		if g.Verdict != preflight.Skip {
			fmt.Fprintf(&b, "%s %s on %s %v: %s (expected %s)\n", g.Verdict, g.CheckID, g.Hosts, g.Objects, g.Observed, g.Expected)
		}
	}
	return b.String()
}
