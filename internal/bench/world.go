package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// world is a lab with a binary, a site and recipes in it.
type world struct {
	*lab.Lab
	dir, bin string
}

func newWorld(root string) (*world, error) {
	l, err := lab.Start(4, lab.WithImages())
	if err != nil {
		return nil, err
	}
	w := &world{Lab: l, dir: filepath.Join(l.Dir(), "shared", "bench")}
	w.bin = filepath.Join(w.dir, "disagg")
	if err := w.layOut(root); err != nil {
		return nil, fmt.Errorf("%w (close: %v)", err, l.Close())
	}
	return w, nil
}

func (w *world) layOut(root string) error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	if err := lab.GoBuild(root, w.bin, "./cmd/disagg"); err != nil {
		return err
	}
	files := map[string]string{
		"models/DeepSeek-R1-0528/config.json": "{}",
		"site.yaml":                           fmt.Sprintf(site, w.dir),
		"short.yaml":                          recipe("short", "8"),
		"long.yaml":                           recipe("long", "1000000"),
	}
	for name, text := range files {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const site = `apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: %[1]s/runs
slurm: {partition: main, time_limit: 10m}
network: {interface: eth0}
models: {search_paths: ["%[1]s/models"]}
container: {runtime: docker, devices: [/dev/kfd, /dev/dri]}
rdma: {devices: [rdma0], traffic_class: 104, service_level: 3}
`

func recipe(name, requests string) string {
	return fmt.Sprintf(`apiVersion: disagg/v1
kind: Recipe
name: %s
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: {workers: 2, tp: 8}
decode: {workers: 2, tp: 8}
metrics: true
preflight: {mode: "off"}
router: {image: %q, command: [python3, -m, sglang_router.launch_router]}
client:
  command: [standin, load, --url, "{url}", --model, "{model}", --concurrency, "{concurrency}", --requests, %q, --output, "{result_dir}/load.json"]
  concurrency: 2
`, name, lab.EngineImage, lab.RouterImage, requests)
}

// disagg runs the binary on the controller node.
func (w *world) disagg(ctx context.Context, args ...string) error {
	cmd := w.Command(ctx, append([]string{w.bin}, args...)...)
	cmd.Env = append(cmd.Env, "DISAGG_SITE="+filepath.Join(w.dir, "site.yaml"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("disagg %s: %w\n%s", strings.Join(args, " "), err, out.String())
	}
	return nil
}

// newest is the newest run directory.
func (w *world) newest() (string, error) {
	list, err := filepath.Glob(filepath.Join(w.dir, "runs", "*"))
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("find run: none (%v)", err)
	}
	newest := list[0]
	for _, d := range list {
		// Names end in a time stamp and a random part; the time decides.
		if stamp(d) > stamp(newest) {
			newest = d
		}
	}
	return newest, nil
}

func stamp(dir string) string {
	parts := strings.Split(filepath.Base(dir), "-")
	return parts[max(0, len(parts)-2)]
}

// until waits for an event of a run.
func until(ctx context.Context, dir, what string, match func(events.Event) bool) (events.Event, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	r := events.NewReader(filepath.Join(dir, "events.jsonl"))
	for {
		list, err := r.Next()
		if err != nil {
			return events.Event{}, err
		}
		for _, e := range list {
			if match(e) {
				return e, nil
			}
		}
		select {
		case <-ctx.Done():
			return events.Event{}, fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}
