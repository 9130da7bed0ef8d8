package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/standin"
)

const siteText = `apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: %[1]s/runs
slurm: {partition: main, time_limit: 10m}
network: {interface: eth0}
models: {search_paths: [%[1]s/models]}
container: {runtime: docker, devices: [/dev/kfd, /dev/dri]}
ssh: {identity: [%[2]s], known_hosts: [%[3]s]}
rdma: {devices: [rdma0, rdma1], traffic_class: 104, service_level: 3}
preflight: {gpu: {devices: 0}, rdma: {devices: 0}}
`

const recipeText = `apiVersion: disagg/v1
kind: Recipe
name: first
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: {workers: 1, tp: 8}
decode: {workers: 1, tp: 8}
metrics: true
router: {image: %s, command: [python3, -m, sglang_router.launch_router]}
client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "{concurrency}", --isl, "{isl}", --osl, "{osl}", --requests, "40", --output, "{result_dir}/load.json"]
  concurrency: 4x8
  isl: 64
  osl: 32
  results: [load.json]
`

// outfit makes what a first run on the lab needs: the program, a site, a recipe with
// stand-in engines, weights.
func outfit(l *lab.Lab, disagg string) (dir string, err error) {
	dir = filepath.Join(l.Dir(), "shared", "try")
	program, err := os.ReadFile(disagg)
	if err != nil {
		return "", err
	}
	ssh := l.SSH()
	for _, f := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{
		{"disagg", 0o755, program},
		{"site.yaml", 0o644, fmt.Appendf(nil, siteText, dir, ssh.Identity, ssh.KnownHosts)},
		{"recipe.yaml", 0o644, fmt.Appendf(nil, recipeText, lab.EngineImage, lab.RouterImage)},
		{"models/DeepSeek-R1-0528/config.json", 0o644, []byte("{}")},
		{"models/DeepSeek-R1-0528/model.safetensors", 0o644, standin.Weights()},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return "", err
		}
	}
	return dir, nil
}
