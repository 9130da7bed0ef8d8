package legacy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/legacy"
)

// basics are the variables that every call needs.
func basics(framework, model string, more ...string) []string {
	return append([]string{"SLURM_ACCOUNT=me", "SLURM_PARTITION=compute", "TIME_LIMIT=08:00:00", "MODEL_PATH=/nfs/models", "CONTAINER_IMAGE=example.org/engine:1",
		"RUNNER_NAME=nightly", "FRAMEWORK=" + framework, "MODEL_NAME=" + model}, more...)
}

// TestSubmit converts calls of every kind and compares the files with reviewed
// ones.
func TestSubmit(t *testing.T) {
	t.Parallel()
	const dir = "/nfs/sweep/benchmarks/multi_node/amd_utils"
	for name, call := range map[string]legacy.Call{
		"wide-ep-mtp": {Args: strings.Fields("2 2 2 1 8192 1024 256x512 inf 1 YES true on 8 8 0.8"), Dir: dir,
			Env: basics("sglang-disagg", "DeepSeek-R1-0528", "DECODE_MTP_SIZE=1", "RUN_EVAL=true", "EVAL_CONC=16 32", "EVAL_LIMIT=5", "HF_TOKEN=secret-value", "SLURM_EXCLUDE_NODES=gpu-01,gpu-02")},
		"agentic-mooncake": {Args: strings.Fields("1 1 1 1 0 0 8x16 inf true true true true 8 8 0.8 gpu-03,gpu-04"), Dir: "/home/me",
			Env: basics("sglang-disagg", "DeepSeek-V4-Pro", "IS_AGENTIC=1", "DURATION=600", "DECODE_MTP_SIZE=3", "ENABLE_METRICS=1", "KV_OFFLOADING=dram", "KV_OFFLOAD_BACKEND=hicache",
				"HICACHE_RATIO=3", "HICACHE_STORAGE_BACKEND=mooncake", "MC_MASTER_PORT=58137", "MC_DEVICE=rdma0", "TOTAL_CPU_DRAM_GB=2400", "PREFILL_ROUTER_POLICY=consistent_hashing",
				"CLIENT_IMAGE=example.org/client:1", "MODEL_PREFIX=dsv4", "BENCHMARK_LOGS_DIR=/nfs/logs", "SKIP_RDMA_CHECK=1")},
		"hicache-size": {Args: strings.Fields("1 1 1 1 1024 1024 64"), Dir: dir,
			Env: basics("sglang-disagg", "DeepSeek-R1-0528", "KV_OFFLOADING=dram", "KV_OFFLOAD_BACKEND=hicache", "HICACHE_RATIO=2", "TOTAL_CPU_DRAM_GB=2400")},
		"vllm": {Args: strings.Fields("1 1 2 2 1024 1024 8x16 inf false false true false 8 8"), Dir: dir,
			Env: basics("vllm-disagg", "Kimi-K2.5-MXFP4", "ROUTER_PORT=31000", "PROXY_PING_PORT=40000", "EXTRA_DOCKER_MOUNTS=-v /a:/b -v /c:/d:ro", "DECODE_MTP_SIZE=2")},
		"atom-tuned": {Args: strings.Fields("1 1 1 1 8192 1024 64 inf false true false true 8 8 0.8"), Dir: dir,
			Env: basics("atom-disagg", "DeepSeek-V4-Pro", "BLOCK_SIZE=64", "MEM_FRAC_STATIC=0.7", "MAX_NUM_SEQS=99", "MAX_MODEL_LEN=9472", "EXTRA_SERVER_ARGS=--enforce-eager --foo 1 2",
				"IBDEVICES=rdma0,rdma1", "PREFILL_PORT=9000", "KV_CACHE_DTYPE=bf16", "EVAL_ONLY=true")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call.Catalog = embedded(t)
			got, err := legacy.Submit(call)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("-- recipe.yaml --\n%s-- site.yaml --\n%s-- notes --\n%s\n", got.Recipe, got.Site, strings.Join(got.Notes, "\n"))
			if strings.Contains(text, "secret-value") {
				t.Error("a secret's value is in a file")
			}
			path := filepath.Join("testdata", "submit-"+name+".txtar")
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), text); d != "" {
				t.Errorf("%s is not what comes out; look at the difference, and run the test with -update if it is right\n%s", path, d)
			}
			if _, _, err := models.LoadRecipe("recipe.yaml", got.Recipe); err != nil {
				t.Error(err)
			}
			if _, _, err := models.LoadSite("site.yaml", got.Site); err != nil {
				t.Error(err)
			}
			if slices.Contains(got.Understood, "HOME") || !slices.Contains(got.Understood, "FRAMEWORK") {
				t.Errorf("understood are %q", got.Understood)
			}
		})
	}
}

// TestSubmitMistakes finds every mistake of a call at once, by the names of the
// old interface.
func TestSubmitMistakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args string
		env  []string
		want []string
	}{
		"nothing is set": {"", nil, []string{"SLURM_ACCOUNT: it is not set", "SLURM_PARTITION: it is not set", "TIME_LIMIT: it is not set", "MODEL_PATH: it is not set", "MODEL_NAME: it is not set",
			"CONTAINER_IMAGE: it is not set", "RUNNER_NAME: it is not set", "FRAMEWORK: it is not set", "PREFILL_NODES: argument 1 is missing", "DECODE_NODES: argument 3 is missing"}},
		"numbers": {"0 x 1 3 8192 1024 8x-1", basics("sglang-disagg", "DeepSeek-R1-0528", "DECODE_MTP_SIZE=two", "TIME_LIMIT=soon"),
			[]string{`TIME_LIMIT: "soon" is not a time limit`, `PREFILL_NODES: "0" is not a whole number from 1`, `PREFILL_WORKERS: "x" is not a whole number from 1`,
				"DECODE_WORKERS: 1 nodes of 8 GPUs do not divide into 3 workers", `DECODE_MTP_SIZE: "two" is not a whole number from 0`, `CONCURRENCIES: "-1" in "8x-1" is not a positive whole number`}},
		"values that a shell cut": {"1 1 1 1 0 0 8", basics("sglang-disagg", "DeepSeek-R1-0528", "IS_AGENTIC=true", "PREFILL_ROUTER_POLICY=random --extra", "KV_OFFLOADING=dram", "KV_OFFLOAD_BACKEND=hicache",
			"HICACHE_RATIO=2 3", "HICACHE_WRITE_POLICY=write through", "MC_EVICTION_HIGH_WATERMARK=$(x)", "HICACHE_STORAGE_BACKEND=mooncake"),
			[]string{`HICACHE_RATIO: "2 3" is not a number`, `HICACHE_WRITE_POLICY: "write through" holds a blank`, `MC_EVICTION_HIGH_WATERMARK: "$(x)" is not a number`, `PREFILL_ROUTER_POLICY: "random --extra" is more than a policy`}},
		"names": {"1 1 1 1 8 8 8 inf perhaps true true true 8 8 0.8 a,b,c", basics("sglang", "DeepSeek-R1-0528", "KV_OFFLOADING=dram", "KV_OFFLOAD_BACKEND=lmcache"),
			[]string{`FRAMEWORK: there is no framework "sglang"`, `PREFILL_ENABLE_EP: "perhaps" is not a boolean`, `KV_OFFLOAD_BACKEND: there is no backend "lmcache"`, "NODE_LIST: 3 nodes are named, and the run has 2"}},
		"too many": {"1 1 1 1 8 8 8 inf true true true true 8 8 0.8 a,b extra", basics("vllm-disagg", "gpt-oss-120b", "ROUTER_TYPE=nginx"),
			[]string{`17 arguments, at most 16 are read; the first too many is "extra"`, `ROUTER_TYPE: there is no router "nginx"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := legacy.Submit(legacy.Call{Args: strings.Fields(tc.args), Env: tc.env, Dir: "/d", Catalog: embedded(t)})
			var errs models.FieldErrors
			if !errors.As(err, &errs) {
				t.Fatal(err)
			}
			if len(errs) != len(tc.want) {
				t.Errorf("%d mistakes, want %d:\n%v", len(errs), len(tc.want), err)
			}
			for _, want := range tc.want {
				if !slices.ContainsFunc(errs, func(e models.FieldError) bool { return strings.HasPrefix(e.Msg, want) }) {
					t.Errorf("no mistake %q in\n%v", want, err)
				}
			}
		})
	}
}

// TestSubmitTimeLimits reads every form of Slurm's.
func TestSubmitTimeLimits(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{"90": "1h30m0s", "08:00:00": "8h0m0s", "30:00": "30m0s", "1-0": "24h0m0s", "1-02:30": "26h30m0s", "0-00:05:30": "5m30s"} {
		got, err := legacy.Submit(legacy.Call{Args: strings.Fields("1 1 1 1"), Env: basics("sglang-disagg", "DeepSeek-R1-0528", "TIME_LIMIT="+limit), Dir: "/d", Catalog: embedded(t)})
		if err != nil {
			t.Errorf("%s: %v", limit, err)
			continue
		}
		if !strings.Contains(string(got.Recipe), "\ntime_limit: "+want+"\n") {
			t.Errorf("%s is read as another limit than %s:\n%s", limit, want, got.Recipe)
		}
	}
	for _, limit := range []string{"0", "-5", "1-", "UNLIMITED", "a:b:c", "1:2:3:4"} {
		if _, err := legacy.Submit(legacy.Call{Args: strings.Fields("1 1 1 1"), Env: basics("sglang-disagg", "DeepSeek-R1-0528", "TIME_LIMIT="+limit), Dir: "/d", Catalog: embedded(t)}); err == nil {
			t.Errorf("%s was taken", limit)
		}
	}
}

// FuzzSubmit converts any call: what it makes can be read, or it says what is
// wrong.
func FuzzSubmit(f *testing.F) {
	f.Add("1 1 1 1 8192 1024 64x128 inf true true true true 8 8 0.8", "KV_OFFLOADING=dram\nKV_OFFLOAD_BACKEND=hicache\nHICACHE_RATIO=2")
	f.Add("2 2 1 1", "IS_AGENTIC=1\nEXTRA_DOCKER_MOUNTS=-v /a:/b\nRUN_EVAL=1")
	c := embeddedF(f)
	f.Fuzz(func(t *testing.T, args, env string) {
		got, err := legacy.Submit(legacy.Call{Args: strings.Split(args, " "), Env: append(basics("sglang-disagg", "DeepSeek-R1-0528"), strings.Split(env, "\n")...), Dir: "/d", Catalog: c})
		if _, ok := err.(models.FieldErrors); err != nil && !ok {
			t.Fatalf("%T: %v", err, err)
		}
		if err == nil {
			// Values may still be wrong; what is written must be YAML that is ours.
			for _, e := range []error{second(models.LoadRecipe("r", got.Recipe)), second(models.LoadSite("s", got.Site))} {
				var errs models.FieldErrors
				if e != nil && !errors.As(e, &errs) || strings.Contains(fmt.Sprint(e), "not valid YAML") || strings.Contains(fmt.Sprint(e), "unknown key") {
					t.Fatalf("%v\n%s\n%s", e, got.Recipe, got.Site)
				}
			}
		}
	})
}

func second[A, B any](_ A, _ B, err error) error { return err }

// FuzzImport imports any text as every kind of file.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"models.yaml", "models_vllm.yaml", "models_atom.yaml", "node_excludes.yaml", "runners.yaml", "master.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	c := embeddedF(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file := legacy.File{Path: "f.yaml", Data: data}
		for _, src := range []legacy.Sources{{SGLang: &file}, {VLLM: &file}, {ATOM: &file}, {Excludes: &file}, {Runners: &file, Master: []legacy.File{file}}, {Master: []legacy.File{file}, Evals: legacy.EvalsAlso}} {
			src.Catalog = c
			got, err := legacy.Import(src)
			if _, ok := err.(models.FieldErrors); err != nil && !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if err == nil && len(got.Files) > 0 {
				for _, out := range got.Files {
					if strings.Contains(out.Path, "..") || strings.HasPrefix(out.Path, "/") {
						t.Fatalf("a file would be written at %q", out.Path)
					}
				}
			}
		}
	})
}
