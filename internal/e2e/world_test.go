package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/standin"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// cluster is the lab that the tests of this package share.
var cluster = lab.Lazy{Nodes: 4, Options: []lab.Option{lab.WithImages()}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// built makes the binary under test once.
var built = sync.OnceValues(func() (string, error) {
	root, err := lab.ModuleRoot()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "disagg-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "disagg")
	return path, lab.GoBuild(root, path, "./cmd/disagg")
})

// world is one test's corner of the lab: a site, weights, a binary, and the
// runs it makes.
type world struct {
	*lab.Lab
	t   *testing.T
	dir string // on the shared file system
	bin string
}

const siteText = `apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: %[1]s/runs
slurm: {partition: %[2]s, time_limit: 10m}
network: {interface: %[3]s}
models: {search_paths: ["%[1]s/models"]}
container:
  runtime: docker
  devices: [/dev/kfd, /dev/dri]
rdma: {devices: [rdma0, rdma1], traffic_class: 104, service_level: 3}
preflight: {gpu: {devices: 0}, rdma: {devices: 0}}
%[4]s
`

func newWorld(t *testing.T) *world {
	t.Helper()
	l := cluster.Get(t)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Lab: l, t: t, dir: l.TempDir(t), bin: ""}
	w.bin = filepath.Join(w.dir, "disagg")
	data, err := os.ReadFile(bin)
	w.must(err)
	w.must(os.WriteFile(w.bin, data, 0o755))
	w.write("models/DeepSeek-R1-0528/config.json", "{}")
	w.write("models/DeepSeek-R1-0528/model.safetensors", string(standin.Weights()))
	w.site("")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write makes a file below the test's directory and returns its path.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(text), 0o644))
	return path
}

// site writes the site file with more keys at its end.
func (w *world) site(more string) {
	w.t.Helper()
	w.write("site.yaml", fmt.Sprintf(siteText, w.dir, "main", "eth0", more))
}

// recipe writes a recipe: prefill and decode roles, and more keys.
func (w *world) recipe(prefill, decode, more string) string {
	w.t.Helper()
	return w.write("recipe.yaml", fmt.Sprintf(`apiVersion: disagg/v1
kind: Recipe
name: e2e
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: %s
decode: %s
metrics: true
router:
  image: %s
  command: [python3, -m, sglang_router.launch_router]
%s
`, lab.EngineImage, prefill, decode, lab.RouterImage, more))
}

const loadClient = `client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "{concurrency}", --isl, "{isl}", --osl, "{osl}", --requests, "%d", --output, "{result_dir}/load.json"]
  concurrency: %s
  isl: 64
  osl: 8
  results: [load.json]
`

func client(requests int, concurrency string) string {
	return fmt.Sprintf(loadClient, requests, concurrency)
}

// said is what a command gave.
type said struct {
	code     int
	out, err string
	took     time.Duration
}

// disagg runs the binary on the lab's controller node to its end.
func (w *world) disagg(args ...string) said {
	w.t.Helper()
	return w.run(append([]string{w.bin}, args...)...)
}

// run runs a command on the lab's controller node to its end.
func (w *world) run(args ...string) said {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := w.Command(ctx, args...)
	return w.finish(cmd)
}

func (w *world) finish(cmd *exec.Cmd) said {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Dir = w.dir
	cmd.Env = append(cmd.Env, "DISAGG_SITE="+filepath.Join(w.dir, "site.yaml"), "HOME="+w.dir)
	begun := time.Now()
	err := cmd.Run()
	s := said{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String(), took: time.Since(begun)}
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return s
}

// want fails the test unless a command ended with the code.
func (w *world) want(s said, code int) {
	w.t.Helper()
	if s.code != code {
		w.t.Fatalf("exit code %d, want %d\n--- stdout\n%s\n--- stderr\n%s\n%s", s.code, code, s.out, s.err, w.evidence())
	}
}

// evidence is what the newest run wrote, for a failed test.
func (w *world) evidence() string {
	dir := w.newest()
	if dir == "" {
		return "(no run directory)"
	}
	var b strings.Builder
	for _, pattern := range []string{"events.jsonl", "logs/*"} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, n := range names {
			data, _ := os.ReadFile(n)
			fmt.Fprintf(&b, "--- %s\n%s\n", n, data[max(0, len(data)-1500):])
		}
	}
	return b.String()
}

// runs are the run directories of this test, oldest first.
func (w *world) runs() []string {
	list, _ := filepath.Glob(filepath.Join(w.dir, "runs", "*"))
	slices.Sort(list)
	return list
}

// newest is the newest run directory; "" when there is none.
func (w *world) newest() string {
	list := w.runs()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// result reads a run's result.
func (w *world) result(dir string) result.Result {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	w.must(err)
	var r result.Result
	w.must(json.Unmarshal(data, &r))
	return r
}

// until waits for an event of a run that is under way; it fails the test when
// none comes in time.
func (w *world) until(what string, within time.Duration, match func(events.Event) bool) events.Event {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) {
		if dir := w.newest(); dir != "" {
			log, err := events.ReadAll(filepath.Join(dir, "events.jsonl"))
			w.must(err)
			for _, e := range log.Events {
				if match(e) {
					return e
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Fatalf("waited %s for %s\n%s", within, what, w.evidence())
	return events.Event{}
}

// clientRuns waits until the first client point has started.
func (w *world) clientRuns() {
	w.t.Helper()
	w.until("the client", 90*time.Second, func(e events.Event) bool {
		return e.Kind == events.ProcessStarted && strings.HasPrefix(e.Process, "client.")
	})
}

// job is the Slurm job of the newest run.
func (w *world) job() string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.newest(), "submission.json"))
	w.must(err)
	var s struct {
		JobID string `json:"job_id"`
	}
	w.must(json.Unmarshal(data, &s))
	return s.JobID
}
