package env

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/environment.md")

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

func TestListIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	n := 0
	known := Known()
	for _, g := range groups() {
		if g.title == "" || g.about == "" || len(g.readers) == 0 {
			t.Errorf("group %q lacks a title, a text or readers", g.title)
		}
		for _, v := range g.vars {
			n++
			if seen[v.Name] {
				t.Errorf("%s is in the list twice", v.Name)
			}
			seen[v.Name] = true
			if !ValidName(v.Name) {
				t.Errorf("%q is not a valid name", v.Name)
			}
			if v.Meaning == "" || strings.HasSuffix(v.Meaning, ".") || strings.ContainsAny(v.Meaning, "|\n") {
				t.Errorf("%s: the meaning %q does not fit the table", v.Name, v.Meaning)
			}
			full, _ := known.Lookup(v.Name)
			if v.Default != "" {
				if got, err := full.Canonical(v.Default); (err != nil || got != v.Default) && full.Kind != List {
					t.Errorf("%s: its own default %q is not a value: %q, %v", v.Name, v.Default, got, err)
				}
			}
			if launcher := slices.Contains(full.Readers, Launcher); launcher && len(full.Scopes()) > 0 {
				t.Errorf("%s is a launcher's setting and yet read in %v", v.Name, full.Scopes())
			}
			for _, r := range full.Readers {
				if !slices.Contains(Readers(), r) {
					t.Errorf("%s: reader %q is not on the list", v.Name, r)
				}
			}
			for _, c := range v.Confused {
				if _, ok := known.Lookup(c); ok {
					t.Errorf("%s: %s is a variable of its own, not a confusion", v.Name, c)
				}
				if got := known.Nearest(c); len(got) == 0 || !slices.Contains(got, v.Name) {
					t.Errorf("%s is not found from %s: %v", v.Name, c, got)
				}
			}
		}
	}
	if n < 350 || n > 1024 {
		t.Errorf("only %d variables; the list is broken", n)
	}
	if got := len(known.All()); got != n {
		t.Errorf("table has %d variables, list has %d", got, n)
	}
	if !slices.IsSortedFunc(known.All(), func(a, b Var) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("table is not sorted")
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := Known()
	for _, c := range []struct {
		name string
		want []string
	}{
		{"ROUTER_PREFILL_POLICY", []string{"PREFILL_ROUTER_POLICY"}},
		{"ROUTER_DECODE_POLICY", []string{"DECODE_ROUTER_POLICY"}},
		{"MORI_RDMA_TCC", []string{"MORI_RDMA_TC"}},
		{"mori_rdma_tc", []string{"MORI_RDMA_TC"}},
		{"MORI_TC_RDMA", []string{"MORI_RDMA_TC"}},
		{"QP_MAX_SEND_WR", nil},
		{"IO_QP_MAX_SEND_WR", []string{"MORI_IO_QP_MAX_SEND_WR"}},
		{"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMOUT", []string{"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT"}},
		{"SGLANG_USE_ATIER", []string{"SGLANG_USE_AITER"}},
		{"NCCL_IB_HCAS", []string{"NCCL_IB_HCA"}},
		{"HUGGINGFACE_TOKEN", []string{"HF_TOKEN"}},
		{"MY_TEAM_SWITCH", nil},
		{"NOPE", nil},
		{"HOEM", []string{"HOME"}},
		{"HOMEE", []string{"HOME"}},
		{"HF_TOKN", []string{"HF_TOKEN"}},
	} {
		got := known.Nearest(c.name)
		if len(c.want) > 0 && len(got) > 0 {
			got = got[:1] // the best one is what counts
		}
		if c.name == "QP_MAX_SEND_WR" {
			// Two words are missing: either nothing or the right one is fine.
			if len(got) > 0 && got[0] != "MORI_IO_QP_MAX_SEND_WR" {
				t.Errorf("Nearest(%q) = %v", c.name, got)
			}
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("Nearest(%q): %s", c.name, d)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"HF_TOKEN": true, "hf_token": true, "MODAL_TOKEN_ID": true, "MODAL_TOKEN_SECRET": true,
		"OPENAI_API_KEY": true, "DB_PASSWORD": true, "PASSWORD": true, "TOKEN": true, "X_PASSPHRASE": true,
		"AWS_ACCESS_KEY_ID": true, "GCP_CREDENTIALS": true,
		"SGLANG_SIMULATE_ACC_TOKEN_MODE": false, "TOKENIZERS_PARALLELISM": false, "MONKEY": false,
		"AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID": false, "MORI_RDMA_TC": false, "": false,
	} {
		if got := Secret(name); got != want {
			t.Errorf("Secret(%q) = %v", name, got)
		}
	}
	for value, want := range map[string]bool{
		"http://user:pw@proxy:3128":  true,
		"http://user@proxy:3128":     false,
		"http://proxy:3128":          false,
		"user:pw@host":               false,
		"see http://x and mail a@b":  false,
		"postgres://u:p%40@db/x?y=1": true,
		"":                           false,
	} {
		if got := SecretValue(value); got != want {
			t.Errorf("SecretValue(%q) = %v", value, got)
		}
	}
}

func TestReadIn(t *testing.T) {
	t.Parallel()
	known := Known()
	for _, c := range []struct {
		name, scope, engine string
		want                bool
	}{
		{"SGLANG_USE_AITER", ScopePrefill, "sglang", true},
		{"SGLANG_USE_AITER", ScopePrefill, "vllm", false},
		{"SGLANG_USE_AITER", ScopeClient, "sglang", false},
		{"MORI_RDMA_TC", ScopeDecode, "atom", true},
		{"MORI_RDMA_TC", ScopeRouter, "atom", false},
		{"HF_TOKEN", ScopeClient, "vllm", true},
		{"MC_GID_INDEX", ScopeService, "sglang", true},
		{"PREFILL_ROUTER_POLICY", ScopePrefill, "sglang", false},
		{"PREFILL_ROUTER_POLICY", ScopeRouter, "sglang", false},
		{"IS_AGENTIC", ScopeClient, "sglang", true},
		{"IS_AGENTIC", ScopePrefill, "sglang", false},
		{"MODAL_TOKEN_SECRET", ScopeEval, "sglang", true},
		{"PATH", ScopeRouter, "sglang", true},
		{"VLLM_ROCM_USE_AITER", ScopeDecode, "atom", true},
		{"VLLM_ROCM_USE_AITER", ScopeDecode, "", true},
	} {
		v, ok := known.Lookup(c.name)
		if !ok {
			t.Fatalf("%s is not known", c.name)
		}
		if got := v.ReadIn(c.scope, c.engine); got != c.want {
			t.Errorf("%s in %s with %s = %v", c.name, c.scope, c.engine, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	known := Known()
	for _, c := range []struct{ name, in, want, err string }{
		{"SGLANG_USE_AITER", "1", "1", ""},
		{"SGLANG_USE_AITER", "true", "true", ""},
		{"SGLANG_USE_AITER", "True", "1", ""},
		{"SGLANG_USE_AITER", "off", "0", ""},
		{"SGLANG_USE_AITER", " true", "", `is " true", but must be true or false`},
		{"SGLANG_USE_AITER", "", "", "is empty, but must be true or false; to leave it unset remove it"},
		{"IS_AGENTIC", "True", "1", ""},
		{"IS_AGENTIC", "on", "1", ""},
		{"DISAGG", "1", "true", ""},
		{"VLLM_USE_V1", "false", "0", ""},
		{"MORI_RDMA_TC", "104", "104", ""},
		{"MORI_RDMA_TC", "256", "", "is 256, but at most 255 is possible"},
		{"MORI_RDMA_TC", "1o4", "", `is "1o4", but must be a whole number`},
		{"SGLANG_MORI_MOE_MAX_INPUT_TOKENS", "", "", ""},
		{"GLOO_SOCKET_IFNAME", "eno1", "eno1", ""},
		{"GLOO_SOCKET_IFNAME", "^lo,docker0", "", `is "^lo,docker0", but must be one existing interface name: no list, no prefix, no exclusion`},
		{"NCCL_SOCKET_IFNAME", "^lo,docker0", "^lo,docker0", ""},
		{"VLLM_KV_CACHE_LAYOUT", "hnd", "", `is "hnd", but must be one of NHD, HND`},
		{"KV_OFFLOAD_BACKEND_METADATA", "{\n \"name\": 1}", "{\n \"name\": 1}", ""},
		{"KV_OFFLOAD_BACKEND_METADATA", "", "", ""},
		{"KV_OFFLOAD_BACKEND_METADATA", "{", "", "is not valid JSON"},
		{"MOONCAKE_GLOBAL_SEGMENT_SIZE", "64gb", "64gb", ""},
		{"MOONCAKE_GLOBAL_SEGMENT_SIZE", "much", "", `is "much", but must be a size, such as 64gb`},
		{"SGLANG_SIMULATE_ACC_LEN", "2.49", "2.49", ""},
		{"SGLANG_SIMULATE_ACC_LEN", "2,49", "", `is "2,49", but must be a number`},
		{"PYTHONPATH", "", "", ""},
	} {
		v, ok := known.Lookup(c.name)
		if !ok {
			t.Fatalf("%s is not known", c.name)
		}
		got, err := v.Canonical(c.in)
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if got != c.want || msg != c.err {
			t.Errorf("%s=%q: got %q, %q; want %q, %q", c.name, c.in, got, msg, c.want, c.err)
		}
	}
}

func TestLooksOurs(t *testing.T) {
	t.Parallel()
	known := Known()
	for name, want := range map[string]bool{
		"MORI_SOMETHING": true, "SGLANG_NEW": true, "HICACHE_RATIO": true, "PREFILL_X": true,
		"MC_GID_INDEX": true, "NCCL_DEBUG": true, "IBDEVICES": true, "CONTAINER_IMAGE": true, "xP": true,
		"MC_": false, "PATH": false, "HOME": false, "TP": false, "PORT": false, "ISL": false,
		"HF_TOKEN": false, "EDITOR": false, "ROUTER": false,
	} {
		if got := known.LooksOurs(name); got != want {
			t.Errorf("LooksOurs(%q) = %v", name, got)
		}
	}
}

// TestInheritance: only what is on the list is passed on, whatever a shell holds.
func TestInheritance(t *testing.T) {
	t.Parallel()
	shell := []string{
		"PATH=/bin", "HOME=/h", "PATH=/second", "SLURM_JOB_ID=7", "SLURM_CONF=/etc/slurm.conf", "VIRTUAL_ENV=/v", "LD_LIBRARY_PATH=/l",
		"LD_PRELOAD=/p.so", "PYTHONPATH=/p", "PYTHONHOME=/p", "LC_ALL=C", "LANG=x", "TMPDIR=/scratch", "HF_TOKEN=secret", "NCCL_DEBUG=INFO",
		"MORI_RDMA_TC=96", "ROCR_VISIBLE_DEVICES=0", "https_proxy=http://proxy:3128", "DOCKER_HOST=unix:///x", "BASH_ENV=/x", "ENV=/x", "junk", "=x",
	}
	if d := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "SLURM_CONF=/etc/slurm.conf", "LC_ALL=C", "LANG=x", "https_proxy=http://proxy:3128", "DOCKER_HOST=unix:///x"}, ForJob(shell)); d != "" {
		t.Errorf("job: %s", d)
	}
	if d := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LANG=x", "TMPDIR=/scratch"}, ForProcess(shell)); d != "" {
		t.Errorf("plain process: %s", d)
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"A": true, "_": true, "a1_B": true, "": false, "1A": false, "A-B": false, "A B": false, "A=B": false, "Ä": false,
		"BASH_FUNC_x%%": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

// TestDocument holds docs/environment.md to the list.
func TestDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(moduleRoot(t), "docs", "environment.md")
	want := Markdown()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/environment.md is not what models/env says; run go test ./models/env -update\n%s", d)
	}
}

// TestOldLauncherNames: every variable that the old scripts forward, read, or
// set for an engine is known. The lists come from the material beside the
// checkout when it is there; a fixed part of them is always checked.
func TestOldLauncherNames(t *testing.T) {
	t.Parallel()
	known := Known()
	names := []string{
		"MORI_RDMA_TC", "IBDEVICES", "KV_P2P_TRANSFER", "ROUTER_POLICY_FLAGS", "HEADNODE_PORT", "UCX_NET_DEVICES",
		"SGLANG_OPT_USE_AITER_INDEXER", "WEKA_LOADER_OVERRIDE", "SWEBENCH_AGENT_TIMEOUT", "HICACHE_RATIO",
		"MC_METADATA_SERVER", "PREFILL_ROUTER_POLICY", "EXTRA_SERVER_ARGS", "TQDM_MININTERVAL", "MODAL_TOKEN_ID",
	}
	shared := filepath.Join(moduleRoot(t), "..", "shared")
	if spec, err := os.ReadFile(filepath.Join(shared, "reference-spec.md")); err == nil {
		row := regexp.MustCompile(`(?m)^\| ([A-Z][A-Z0-9_]+) \|`)
		for _, m := range row.FindAllStringSubmatch(string(spec), -1) {
			names = append(names, m[1])
		}
		// The lists of section 7 name variables in capitals, with braces for
		// both roles.
		_, rest, _ := strings.Cut(string(spec), "## 7. Environment forwarding")
		section, _, _ := strings.Cut(rest, "## 8. ")
		names = append(names, regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`).FindAllString(section, -1)...)
	}
	records, err := filepath.Glob(filepath.Join(shared, "golden", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range records {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, jsonKeys(data)...)
	}
	slices.Sort(names)
	// These are internal to the old scripts' own plumbing: how they find
	// themselves and each other inside a job.
	plumbing := map[string]bool{
		"NODE0_ADDR": true, "NODE_RANK": true, "SLURM_JOB_ID": true, "SLURM_JOB_NODELIST": true, "SLURM_PROCID": true,
		"WS_PATH": true, "SGLANG_WS_PATH": true, "VLLM_WS_PATH": true, "ATOM_WS_PATH": true, "ENGINE_ID": true,
		"CLIENT_CONT_NAME": true, "HOST_REPO_DIR": true, "HOST_MODEL_DIR": true, "HOST_BENCH_LOGS": true, "NODELIST": true,
	}
	for _, n := range slices.Compact(names) {
		if _, ok := known.Lookup(n); !ok && !plumbing[n] {
			t.Errorf("%s is not known", n)
		}
	}
}

// jsonKeys lists the keys of JSON text that look like a variable of an engine or
// its libraries. A regular expression takes seconds for the records.
func jsonKeys(data []byte) []string {
	prefixes := []string{"SGLANG_", "VLLM_", "MORI_", "ATOM_", "AITER_", "HSA_", "HIP_", "NCCL_", "UCX_", "GLOO_", "TORCH_",
		"ROCM_", "AIPERF_", "TRITON_", "GPU_", "SAFETENSORS_"}
	seen := map[string]bool{}
	for rest := data; ; {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			break
		}
		if end+1 < len(rest) && rest[end+1] == ':' && end < 80 {
			key := string(rest[:end])
			if ValidName(key) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
				seen[key] = true
			}
			rest = rest[end+1:]
		}
	}
	return slices.Collect(maps.Keys(seen))
}

func BenchmarkKnown(b *testing.B) {
	for b.Loop() {
		Known()
	}
}
