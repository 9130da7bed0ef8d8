package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/receipts"
)

// gated is a client that waits for a file before it loads the servers, so that a
// test can look around meanwhile.
const gated = `while [ ! -e "$1/go" ]; do sleep 0.1; done; rm "$1/go"; exec standin load --url "$2" --model "$3" --concurrency 2 --requests 16 --isl 64 --osl 8 --output "$1/load.json"`

// envRecipe is a run whose processes all are stand-ins, so that the kernel shows
// their environments: some real programs write over theirs. %s: name, then more
// keys of router, client and recipe.
const envRecipe = `apiVersion: disagg/v1
kind: Recipe
name: %s
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: {workers: 1, tp: 8%s}
decode: {workers: 1, tp: 8}
metrics: true
router:
  image: %s
  command: [standin, router]
%s
client:
  command: [sh, -c, %q, sh, "{result_dir}", "{url}", "{model}"]
  concurrency: 2
  results: [load.json]
%s
%s
`

type envKeys struct{ name, prefill, router, client, more string }

func writeEnvRecipe(w *world.World, k envKeys) string {
	w.T.Helper()
	return w.Write("recipe.yaml", fmt.Sprintf(envRecipe, k.name, lab.EngineImage, k.prefill, lab.EngineImage, k.router, gated, k.client, k.more))
}

// letGo lets the gated client load the servers.
func letGo(w *world.World) {
	w.T.Helper()
	w.Must(os.WriteFile(filepath.Join(w.Newest(), "results", "c2", "go"), nil, 0o644))
}

// onPlainHosts makes the test's site run plain processes, with the stand-in in
// the place of the programs that an image would have.
func onPlainHosts(w *world.World) {
	w.T.Helper()
	site, err := os.ReadFile(filepath.Join(w.Dir, "site.yaml"))
	w.Must(err)
	text := strings.Replace(string(site), "runtime: docker\n  devices: [/dev/kfd, /dev/dri]", "runtime: none", 1)
	w.Write("site.yaml", text)
	for _, name := range []string{"python3", "standin"} {
		path := w.Write("bin/"+name, fmt.Sprintf("#!/bin/sh\nexec %s standin %s \"$@\"\n", w.Bin, name))
		w.Must(os.Chmod(path, 0o755))
	}
}

// hostile are values that broke one carrier or another: shells, docker's
// --env-file and -e, sbatch's --export, sudo.
func hostile() map[string]string {
	every := make([]byte, 255)
	for i := range every {
		every[i] = byte(i + 1)
	}
	out := map[string]string{
		"PROP_JSON":        "{\n  \"name\": \"hicache\",\n  \"sizes\": [1, 2]\n}",
		"PROP_QUOTES":      `it's "quoted"`,
		"PROP_SUBST":       "$(hostname) `id` ${HOME} $HOME",
		"PROP_OPERATORS":   "a;b && c || d | e > f < g & h",
		"PROP_LINES":       "first line\nsecond line\n",
		"PROP_BLANKS":      "  \t leading and trailing  ",
		"PROP_EQUALS":      "a=b==c=",
		"PROP_COMMAS":      "rdma0,rdma1,rdma2,rdma3",
		"PROP_WORDS":       "8 16 32",
		"PROP_EXPORT":      "export HF_HOME=/x",
		"PROP_QUOTED":      `"a b"`,
		"PROP_HASH":        "# not a comment",
		"PROP_BACKSLASH":   `a\nb\\ \`,
		"PROP_GLOB":        "* ? [a-z] ~ !",
		"PROP_PERCENT":     "%s %d %%",
		"PROP_EMPTY":       "",
		"PROP_NULL":        "null",
		"PROP_BYTES":       "\xff\xfe\x01\x7f\xc3(",
		"PROP_EVERY":       string(every),
		"PROP_LONG":        strings.Repeat("0123456789", 10_000),
		"PROP_UNICODE":     "größe 大 \u2028",
		"PROP_PLACEHOLDER": "@{self.addr} {url} {{.Env}}",
	}
	rng := rand.New(rand.NewPCG(4, 2))
	bytes := []byte(" \t\n\r'\"`$(){}[];|&<>=\\,:%#!*?~@\x01\x1b\x7f\xff\xc3azAZ09")
	for i := range 40 {
		v := make([]byte, rng.IntN(300))
		for j := range v {
			v[j] = bytes[rng.IntN(len(bytes))]
		}
		out[fmt.Sprintf("PROP_R%02d", i)] = string(v)
	}
	return out
}

// ambient is what a submitting shell has beside what is forwarded; none of it may
// reach a process.
var ambient = []string{
	"VIRTUAL_ENV=/ambient/venv", "LD_LIBRARY_PATH=/ambient/lib", "PYTHONPATH=/ambient/python", "BASH_ENV=/ambient/rc",
	"SLURM_JOB_ID=99999", "SLURM_NTASKS=7", "SLURM_NODELIST=ambient[1-9]", "SBATCH_PARTITION=ambient", "SBATCH_EXPORT=NONE",
	"MORI_RDMA_TC=96", "NCCL_DEBUG=AMBIENT", "PROPOTHER=ambient",
}

// TestEnvironmentArrivesExactly: from the submitting shell through sbatch to the
// processes on the nodes, whatever the bytes, in containers and without.
func TestEnvironmentArrivesExactly(t *testing.T) {
	for _, runtime := range []string{"docker", "none"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			keys := envKeys{
				name: "envprop-" + runtime, router: "  forward: ['PROP_*']", client: "  forward: ['PROP_*']",
				more: "forward: ['PROP_*', PROP_UNSET]\nenv:\n" +
					"  PROPFILE_JSON: {value: \"{\\n \\\"a\\\": 1}\", custom: true}\n" +
					"  PROPFILE_SHELL: {value: \"$(id) 'x' \\\"y\\\"\", custom: true}\n" +
					"  PROPFILE_EMPTY: {value: \"\", custom: true}\n",
			}
			if runtime == "none" {
				onPlainHosts(w)
				path := fmt.Sprintf("PATH: %q", filepath.Join(w.Dir, "bin")+":/usr/local/bin:/usr/bin:/bin")
				keys.more += "  " + path + "\n"
				keys.router += "\n  env: {" + path + "}"
				keys.client += "\n  env: {" + path + "}"
			}
			want := hostile()
			w.Env = slices.Clone(ambient)
			for name, v := range want {
				w.Env = append(w.Env, name+"="+v)
			}
			s := w.Disagg("submit", writeEnvRecipe(w, keys), "--env", "PROPFLAG=two\nlines", "--env", "client:PROPFLAG_CLIENT= x=y ")
			w.Want(s, 0)
			if !strings.Contains(s.Err, "set in the submitting environment but not forwarded: MORI_RDMA_TC, NCCL_DEBUG;") {
				t.Errorf("no warning of what looks ours and is not forwarded:\n%s", s.Err)
			}
			w.Env = nil
			w.ClientRuns()
			seen := w.Environments()
			for scope, id := range map[string]string{"prefill": "prefill-0.0", "decode": "decode-0.0", "router": "router", "client": "client.c2"} {
				if len(seen[id]) == 0 {
					t.Errorf("no process of %s is seen", id)
				}
				for _, have := range seen[id] {
					for name, v := range want {
						if got, ok := have[name]; !ok || got != v {
							t.Errorf("%s has %s=%.80q (%v), want %.80q", id, name, got, ok, v)
						}
					}
					own := map[string]string{"PROPFILE_JSON": "{\n \"a\": 1}", "PROPFILE_SHELL": `$(id) 'x' "y"`, "PROPFILE_EMPTY": "", "PROPFLAG": "two\nlines", "MORI_RDMA_TC": "104"}
					switch scope {
					case "client":
						own = map[string]string{"PROPFLAG_CLIENT": " x=y "}
					case "router":
						own = nil
					}
					for name, v := range own {
						if got, ok := have[name]; !ok || got != v {
							t.Errorf("%s has %s=%q (%v), want %q", id, name, got, ok, v)
						}
					}
					for name, v := range have {
						_, planned := own[name]
						if _, forwarded := want[name]; strings.HasPrefix(name, "PROP") && !planned && !forwarded || strings.Contains(v, "ambient") ||
							strings.HasPrefix(name, "SLURM") || strings.HasPrefix(name, "SBATCH") {
							t.Errorf("%s has %s=%.80q, which nobody planned for it", id, name, v)
						}
					}
				}
			}
			onNoCommandLine(w, "PROP")
			letGo(w)
			w.Want(w.Disagg("wait", w.Newest()), 0)
			if r := w.Result(); r.Outcome != "ok" || len(r.Leftovers) != 0 {
				t.Errorf("outcome %s, leftovers %v", r.Outcome, r.Leftovers)
			}
			s = w.Disagg("env", w.Newest())
			w.Want(s, 0)
			for _, bad := range []receipts.State{receipts.Changed, receipts.Missing, receipts.NoReport, receipts.Extra} {
				if strings.Contains(s.Out, " "+string(bad)+" ") {
					t.Errorf("the receipts show %q:\n%s", bad, s.Out)
				}
			}
			w.Clean(5 * time.Second)
		})
	}
}

// onNoCommandLine fails the test if text is in an argument of any process of a
// node, in what docker tells of a container, or in what Slurm tells of the job.
func onNoCommandLine(w *world.World, text string) {
	w.T.Helper()
	for _, n := range w.Nodes() {
		list, err := w.Processes(n)
		w.Must(err)
		for _, p := range list {
			if strings.Contains(strings.Join(p.Argv, "\x00"), text) {
				w.T.Errorf("%s: %q is on the command line of %s", n, text, p)
			}
		}
		containers, err := w.Containers(n)
		w.Must(err)
		for _, c := range containers {
			// Another test's may go at any moment.
			if out, err := w.Exec(n, "docker", "inspect", c.ID); err == nil && strings.Contains(out, text) {
				w.T.Errorf("%s: docker inspect of %s shows %q", n, c, text)
			}
		}
	}
	job := w.Job()
	for _, args := range [][]string{
		{"scontrol", "show", "job", "--details", job}, {"scontrol", "show", "step", job}, {"scontrol", "write", "batch_script", job, "-"}, {"squeue", "--jobs=" + job, "--format=%all"},
	} {
		if s := w.Run(args...); strings.Contains(s.Out+s.Err, text) {
			w.T.Errorf("%v shows %q:\n%s%s", args, text, s.Out, s.Err)
		}
	}
	if script := w.File("job.slurm"); strings.Contains(script, text) {
		w.T.Errorf("job.slurm holds %q", text)
	}
}

// asUser lets a user of the lab own the test's directory and run its commands.
func asUser(w *world.World, name string, uid int) {
	w.T.Helper()
	w.User = name
	w.Must(filepath.WalkDir(w.Dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, uid, uid)
	}))
}

// TestEnvironmentThroughSudo: the nodes where docker needs sudo, which gives its
// command an environment of its own, get the same as those where it does not. It
// has the nodes' docker for itself, so it is not parallel.
func TestEnvironmentThroughSudo(t *testing.T) {
	w := newWorld(t)
	// On one node the user may use docker plainly.
	plain := w.Nodes()[0]
	w.Must(w.SetTool(plain, "docker", fmt.Sprintf("#!/bin/sh\n[ \"$(id -u)\" = %d ] && exec sudo -n /usr/bin/docker \"$@\"\nexec /usr/bin/docker \"$@\"\n", sudoer.UID)))
	t.Cleanup(func() { w.Must(w.RemoveTool(plain, "docker")) })
	w.Write("runs/.keep", "")
	recipe := writeEnvRecipe(w, envKeys{
		name: "envsudo", router: "  forward: ['PROP_*', HF_TOKEN]", client: "  forward: ['PROP_*', HF_TOKEN]", more: "forward: ['PROP_*', HF_TOKEN]\n" +
			"preflight: {waive: {storage.space: the directory of the lab's docker is closed to users}}\n",
	})
	w.Must(os.Remove(filepath.Join(w.Dir, "runs/.keep")))
	asUser(w, sudoer.Name, sudoer.UID)
	want := map[string]string{"PROP_JSON": "{\n \"a\": 1 }", "PROP_WORDS": "8 16 32", "HF_TOKEN": "hf_sudo_0123456789", "PROP_EMPTY": ""}
	for name, v := range want {
		w.Env = append(w.Env, name+"="+v)
	}
	site, err := os.ReadFile(filepath.Join(w.Dir, "site.yaml"))
	w.Must(err)
	w.Must(os.WriteFile(filepath.Join(w.Dir, "site.yaml"), []byte(strings.Replace(string(site), "partition: main", "partition: main, options: {nodelist: '"+plain+","+w.Nodes()[1]+"'}", 1)), 0o644))
	w.Want(w.Disagg("submit", recipe), 0)
	w.ClientRuns()
	how := map[string]bool{}
	log, err := events.ReadAll(filepath.Join(w.Newest(), "events.jsonl"))
	w.Must(err)
	for _, e := range log.Events {
		if e.Kind == events.NodeJoined {
			how[fmt.Sprint(e.Detail["runtime"])] = true
		}
	}
	if !how["docker"] || !how["sudo -n docker"] {
		t.Errorf("docker was reached by %v, want both ways", how)
	}
	seen := w.Environments()
	for _, id := range []string{"prefill-0.0", "decode-0.0", "router", "client.c2"} {
		if len(seen[id]) == 0 {
			t.Errorf("no process of %s is seen", id)
		}
		for _, have := range seen[id] {
			for name, v := range want {
				if got, ok := have[name]; !ok || got != v {
					t.Errorf("%s has %s=%q (%v), want %q", id, name, got, ok, v)
				}
			}
		}
	}
	letGo(w)
	w.Want(w.Disagg("wait", w.Newest()), 0)
	w.Want(w.Disagg("env", w.Newest()), 0)
	w.Clean(5 * time.Second)
}

// TestDroppedVariableStopsTheRun: a container runtime that loses a variable of
// one worker, and changes another, ends the run before any engine is started. It
// has the nodes' docker for itself, so it is not parallel.
func TestDroppedVariableStopsTheRun(t *testing.T) {
	w := newWorld(t)
	// Between the agent and the shim lies one file, and between them stands docker.
	w.Must(w.SetTool("", "docker", `#!/bin/sh
case "$*" in
*disagg.run=envdrop-*disagg.workload=decode-0.0*)
	for a; do
		case "$a" in
		type=bind,source=*,target=/disagg/run)
			dir=${a#type=bind,source=}
			sed -z -i -e '/^SGLANG_LOG_MS=/d' -e 's/^NCCL_DEBUG=INFO$/NCCL_DEBUG=WARN/' "${dir%,target=*}/env"
		esac
	done
esac
exec /usr/bin/docker "$@"
`))
	t.Cleanup(func() { w.Must(w.RemoveTool("", "docker")) })
	recipe := writeEnvRecipe(w, envKeys{name: "envdrop", more: "env: {SGLANG_LOG_MS: 'true', NCCL_DEBUG: INFO}"})
	w.Want(w.Disagg("submit", recipe, "--wait"), 6)
	r := w.Result()
	const why = `(scope decode) is not the planned one: NCCL_DEBUG: planned "INFO", the process sees "WARN"; SGLANG_LOG_MS: planned "true", the process sees no such variable`
	if r.Cause == nil || r.Cause.Process != "decode-0.0" || r.Cause.Stage != "launch" || !strings.Contains(r.Cause.What, why) {
		t.Errorf("cause %+v, want %q in it", r.Cause, why)
	}
	log, err := events.ReadAll(filepath.Join(w.Newest(), "events.jsonl"))
	w.Must(err)
	for _, e := range log.Events {
		if e.Kind == events.ProcessStarted {
			t.Errorf("a program was started: %+v", e)
		}
	}
	s := w.Disagg("env", w.Newest(), "SGLANG_LOG_MS", "--output", "json")
	w.Want(s, 6)
	var out struct{ Variables []receipts.Row }
	w.Must(json.Unmarshal([]byte(s.Out), &out))
	states := map[string]receipts.State{}
	for _, row := range out.Variables {
		for _, p := range row.Processes {
			states[p] = row.State
		}
	}
	// The other worker may have been given up before it could report.
	if states["decode-0.0"] != receipts.Missing || states["prefill-0.0"].Differs() {
		t.Errorf("the journey says %v", states)
	}
	w.Clean(5 * time.Second)
}

// TestVariablesOfTheRuntimeAreNamed: what a container program adds by its own
// settings is no difference from the plan, but it is said, without its secrets.
func TestVariablesOfTheRuntimeAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Write("docker/config.json", `{"proxies": {"default": {"httpProxy": "http://user:PLANTEDPROXY@proxy.example.org:3128", "noProxy": "*"}}}`)
	w.Env = []string{"DOCKER_CONFIG=" + filepath.Join(w.Dir, "docker")}
	w.Want(w.Disagg("submit", writeEnvRecipe(w, envKeys{name: "envextra"})), 0)
	w.ClientRuns()
	letGo(w)
	w.Want(w.Disagg("wait", w.Newest()), 0)
	warned := strings.Join(w.Result().Warnings, "\n")
	for _, scope := range []string{"prefill", "decode", "router", "client"} {
		if want := "(scope " + scope + ") sees variables that neither the plan nor its image sets: HTTP_PROXY, NO_PROXY, http_proxy, no_proxy; requests between router and workers may go through that proxy;"; !strings.Contains(warned, want) {
			t.Errorf("no warning with %q:\n%s", want, warned)
		}
	}
	out := w.Disagg("env", w.Newest(), "HTTP_PROXY")
	w.Want(out, 0)
	if !strings.Contains(out.Out, "seen       extra") || !strings.Contains(out.Out, "value      (secret)") {
		t.Errorf("the journey does not show it:\n%s", out.Out)
	}
	p := planted{w, "PLANTEDPROXY"}
	p.said("env", out)
	p.in("after its end", w.Newest())
	goodRun(w, 1)
}
