package e2e

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/lab"
)

// bench stands for the sweep repository's client: it takes the options that the
// old scripts gave it, sends the requests one after the other, and writes the
// file that it is told to.
const bench = `import argparse, json, urllib.request
p = argparse.ArgumentParser()
for name in ("model", "backend", "base-url", "dataset-name", "random-input-len", "random-output-len", "random-range-ratio", "num-prompts",
             "max-concurrency", "request-rate", "num-warmups", "percentile-metrics", "result-dir", "result-filename"):
    p.add_argument("--" + name, required=True)
for name in ("ignore-eos", "save-result"):
    p.add_argument("--" + name, action="store_true", required=True)
a = p.parse_args()
done = 0
for i in range(int(a.num_prompts)):
    body = json.dumps({"model": a.model, "prompt": "hello", "max_tokens": int(a.random_output_len)}).encode()
    req = urllib.request.Request(a.base_url + "/v1/completions", body, {"Content-Type": "application/json"})
    done += json.load(urllib.request.urlopen(req, timeout=60))["usage"]["completion_tokens"]
json.dump({"tokens": done, "options": vars(a)}, open(a.result_filename, "w"))
`

// TestSubmitLegacyArgs submits as the old submit script was called, and runs its
// client from the sweep repository.
func TestSubmitLegacyArgs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Write("sweep/utils/bench_serving/benchmark_serving.py", bench)
	for name, value := range map[string]string{
		"SLURM_ACCOUNT": "root", "SLURM_PARTITION": "main", "TIME_LIMIT": "00:10:00", "MODEL_PATH": filepath.Join(w.Dir, "models"), "MODEL_NAME": "DeepSeek-R1-0528",
		"CONTAINER_IMAGE": lab.EngineImage, "RUNNER_NAME": "old call", "FRAMEWORK": "sglang-disagg", "GITHUB_WORKSPACE": filepath.Join(w.Dir, "sweep"),
	} {
		w.Env = append(w.Env, name+"="+value)
	}
	s := w.Disagg("submit", "--wait", "--legacy-args", "1", "1", "1", "1", "64", "8", "2x4", "inf", "false", "false", "false", "false", "8", "8", "0.8")
	w.Want(s, 0)
	if regexp.MustCompile(`(?m)^note: [A-Z_]+: `).MatchString(s.Err) {
		t.Errorf("settings were not taken over:\n%s", s.Err)
	}
	r := w.Result()
	if r.Name != "old-call" || r.Outcome != "ok" || len(r.Points) != 2 {
		t.Fatalf("result %s: %s with %d points", r.Name, r.Outcome, len(r.Points))
	}
	for i, conc := range []string{"2", "4"} {
		files := r.Points[i].Files
		if len(files) != 1 || filepath.Base(files[0].Path) != "concurrency_"+conc+"_req_rate_inf_gpus_16_ctx_8_gen_8.json" {
			t.Errorf("point %s has files %v", r.Points[i].Name, files)
			continue
		}
		var got struct {
			Tokens  int
			Options map[string]any
		}
		w.Must(json.Unmarshal([]byte(w.File(files[0].Path)), &got))
		want := map[string]string{"max_concurrency": conc, "num_warmups": map[string]string{"2": "4", "4": "8"}[conc], "random_range_ratio": "0.8", "request_rate": "inf"}
		for name, value := range want {
			if got.Options[name] != value {
				t.Errorf("the client got %s %v, want %s", name, got.Options[name], value)
			}
		}
		if got.Tokens == 0 {
			t.Error("no token came out")
		}
	}
	w.Clean(5 * time.Second)
}
