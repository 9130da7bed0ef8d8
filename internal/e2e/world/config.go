package world

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/disagg/disagg/internal/lab"
)

const siteText = `apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: %s
slurm: {partition: main, time_limit: 10m}
network: {interface: eth0}
models: {search_paths: [%q]}
container:
  runtime: docker
  devices: [/dev/kfd, /dev/dri]
rdma: {devices: [rdma0, rdma1], traffic_class: 104, service_level: 3}
preflight: {gpu: {devices: 0}, rdma: {devices: 0}}
%s
`

// Site writes the site file with more keys at its end.
func (w *World) Site(more string) {
	w.T.Helper()
	w.Write("site.yaml", fmt.Sprintf(siteText, w.runsDir(), filepath.Join(w.Dir, "models"), more))
}

func (w *World) runsDir() string { return cmp.Or(w.RunsDir, filepath.Join(w.Dir, "runs")) }

// Recipe writes a recipe: prefill and decode roles, and more keys. The router is
// the real one.
func (w *World) Recipe(prefill, decode, more string) string {
	w.T.Helper()
	return w.Write("recipe.yaml", fmt.Sprintf(`apiVersion: disagg/v1
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

// Endless is a client that goes on until it is stopped.
const Endless = `client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "2", --requests, "1000000", --output, "{result_dir}/load.json"]
  concurrency: 2
`

const loadClient = `client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "{concurrency}", --isl, "{isl}", --osl, "{osl}", --requests, "%d", --output, "{result_dir}/load.json"]
  concurrency: %s
  isl: 64
  osl: 8
  results: [load.json]
`

// Client is a client of so many requests at each concurrency.
func Client(requests int, concurrency string) string {
	return fmt.Sprintf(loadClient, requests, concurrency)
}

// Fault asks the stand-ins for a fault; see standin.ParseFaults.
func Fault(f string) string {
	return fmt.Sprintf("env:\n  STANDIN_FAULT: {value: %q, custom: true}\n", f)
}
