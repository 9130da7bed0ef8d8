package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// verdict checks how a run ended: code, the whole cause or a part of it, and that
// nothing is left on any node.
func (s *scenario) verdict(res result.Result, code ExitCode, cause string) {
	s.t.Helper()
	if res.ExitCode != int(code) {
		s.t.Errorf("exit code %d (%s), want %d (%s)", res.ExitCode, res.Exit, code, code)
	}
	if res.Cause == nil || !strings.Contains(res.Cause.What, cause) {
		s.t.Errorf("cause = %+v\nwant %q", res.Cause, cause)
	}
	if left := s.stillRunning(); len(left) > 0 {
		s.t.Errorf("left running: %v", left)
	}
}

// took checks that a run ended between two times after its start.
func (s *scenario) took(res result.Result, least, most time.Duration) {
	s.t.Helper()
	if d := res.Finished.Sub(res.Started); d < least || d > most {
		s.t.Errorf("the run took %s, want between %s and %s", d, least, most)
	}
}

func TestFaultsBeforeServing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		fault       func(*scenario)
		code        ExitCode
		cause       string
		least, most time.Duration
	}{
		{"a node cannot be reached", func(s *scenario) { s.c.unreach["gpu-02"] = errors.New("connect: no route to host") },
			ExitLaunch, "the plan needs 3 nodes of the allocation's 3, and not enough of them can take part: gpu-02: connect: no route to host", 0, time.Second},
		{"an agent never connects", func(s *scenario) { s.c.never["gpu-03"] = true },
			ExitLaunch, "still waiting for agents on gpu-03", 60 * time.Second, 62 * time.Second},
		{"the allocation is too small", func(s *scenario) { s.opt.Nodes = s.opt.Nodes[:2] },
			ExitLaunch, "the plan needs 3 nodes, the allocation has 2 nodes: gpu-01,gpu-02", 0, time.Second},
		{"a node is named twice", func(s *scenario) { s.opt.Nodes = []string{"gpu-01", "gpu-02", "gpu-02"} },
			ExitLaunch, "names node gpu-02 twice", 0, time.Second},
		{"two nodes with one address", func(s *scenario) { s.c.nodes["gpu-03"].info.Addr = "10.0.0.1" },
			ExitLaunch, "nodes gpu-01 and gpu-03 have the same address 10.0.0.1", 0, time.Second},
		{"one machine under two names", func(s *scenario) {
			s.c.nodes["gpu-03"].info.BootID, s.c.nodes["gpu-03"].info.Host = "boot-gpu-01", "gpu-01"
		}, ExitLaunch, "nodes gpu-01 and gpu-03 are the same machine (host gpu-01)", 0, time.Second},
		{"a loopback address", func(s *scenario) { s.c.nodes["gpu-02"].info.Addr = "127.0.0.1" },
			ExitLaunch, "node gpu-02 gave address 127.0.0.1, which other nodes cannot reach", 0, time.Second},
		{"no address", func(s *scenario) { s.c.nodes["gpu-02"].info.Addr = "" },
			ExitLaunch, `node gpu-02 gave no usable address ("" on interface "eno1"); it has eno1=10.0.0.2 eno2=10.1.0.2`, 0, time.Second},
		{"a profile's interface is missing", func(s *scenario) {
			s.plan.Profiles = []models.NodeProfile{{Nodes: "gpu-[02-03]", Interface: "ib0,bond0"}}
		}, ExitLaunch, "node gpu-02 has no address on interface ib0,bond0", 0, time.Second},
		{"a port is taken", func(s *scenario) {
			s.c.nodes["gpu-02"].look = func() (deploy.Leftovers, error) {
				return deploy.Leftovers{Ports: []string{"8000 held by 99 python3 -m http.server (uid 1001)"}}, nil
			}
		}, ExitLaunch, "planned ports are in use: gpu-02 8000 held by 99 python3 -m http.server (uid 1001)", 0, 12 * time.Second},
		{"ports cannot be looked at", func(s *scenario) {
			s.c.nodes["gpu-02"].look = func() (deploy.Leftovers, error) {
				return deploy.Leftovers{Unverified: []string{"/proc/net/tcp: permission denied"}}, nil
			}
		}, ExitLaunch, "ports could not be checked: gpu-02 /proc/net/tcp: permission denied", 0, 12 * time.Second},
		{"a node does not reach another", func(s *scenario) { s.c.nodes["gpu-02"].wall = "gpu-03" },
			ExitPreflight, "nodes do not reach one another: gpu-02 does not reach gpu-03 at 10.0.0.3:8000: no answer within 2s; mend routes", 0, time.Second},
		{"nodes cannot look for one another", func(s *scenario) {
			s.c.nodes["gpu-02"].exec = func(deploy.ExecRequest) (deploy.ExecResult, error) {
				return deploy.ExecResult{Exit: -1, Error: "fork: resource temporarily unavailable"}, nil
			}
		}, ExitPreflight, "nodes do not reach one another: could not be checked: gpu-02: exit -1: fork: resource temporarily unavailable", 0, time.Second},
		{"an image differs", func(s *scenario) {
			s.c.nodes["gpu-02"].image = func(string) (deploy.ImageInfo, error) { return deploy.ImageInfo{ID: "sha256:old"}, nil }
		}, ExitLaunch, "engine:1 is sha256:engine:1 on gpu-[01,03], sha256:old on gpu-02", 0, time.Second},
		{"an image is missing", func(s *scenario) {
			s.c.nodes["gpu-03"].image = func(string) (deploy.ImageInfo, error) { return deploy.ImageInfo{}, errors.New("manifest unknown") }
		}, ExitLaunch, "images are missing: gpu-03: image engine:1: manifest unknown", 0, time.Second},
		{"the model is missing on a node", func(s *scenario) {
			s.plan.Model.HostPaths = []string{"/scratch/m", "/nfs/m"}
			s.c.nodes["gpu-02"].exec = func(req deploy.ExecRequest) (deploy.ExecResult, error) {
				if req.Argv[0] == "@self" {
					return s.c.nodes["gpu-02"].lookForPeers(req)
				}
				return deploy.ExecResult{Exit: 1}, nil
			}
		}, ExitLaunch, "no directory of model m is on every node: /scratch/m is missing on gpu-02; /nfs/m is missing on gpu-02", 0, time.Second},
		{"a container cannot be created", func(s *scenario) {
			s.c.nodes["gpu-03"].onCreate = func(*deploy.Workload) error { return errors.New("ulimit nofile is refused") }
		}, ExitLaunch, "decode-0.0 on gpu-03 could not be created: ulimit nofile is refused", 0, time.Second},
		{"a secret is not in the run directory", func(s *scenario) {
			s.plan.Workers[1].Ranks[0].Env = append(s.plan.Workers[1].Ranks[0].Env, models.EnvVar{Name: "Z_TOKEN", Secret: true})
		}, ExitLaunch, "the value of secret Z_TOKEN of prefill-1.0 is not in the run directory", 0, time.Second},
		{"a placeholder does not exist", func(s *scenario) { s.plan.Workers[0].Ranks[0].Argv = []string{"serve", "@{node.7.addr}"} },
			ExitLaunch, "there is no placeholder @{node.7.addr}: the plan has 3 nodes", 0, time.Second},
		{"a worker crashes while loading", func(s *scenario) {
			s.c.programs["prefill-1.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				p.log("Load weight begin. avail mem=280.44 GB")
				pause(ctx, 2*time.Second)
				p.log("\x1b[31mtorch.OutOfMemoryError\x1b[0m: HIP out of memory. Tried to allocate 896.00 MiB.")
				return deploy.Exit{Code: 1}
			}
		}, ExitLaunch, "prefill-1.0 on gpu-02 exited with code 1", 2 * time.Second, 4 * time.Second},
		{"a worker exits with 0 while loading", func(s *scenario) {
			s.c.programs["decode-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit { pause(ctx, time.Second); return deploy.Exit{} }
		}, ExitLaunch, "decode-0.0 on gpu-03 exited with code 0, although it should run until the end", time.Second, 3 * time.Second},
		{"a worker cannot be started", func(s *scenario) {
			s.c.programs["decode-0.0"] = func(context.Context, *fakeProc) deploy.Exit {
				return deploy.Exit{Code: -1, Error: "exec: serve: executable file not found"}
			}
		}, ExitLaunch, "decode-0.0 on gpu-03 could not be started: exec: serve: executable file not found", 0, 2 * time.Second},
		{"a worker stands still", func(s *scenario) {
			s.c.programs["prefill-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				p.log("loading shard 7")
				<-ctx.Done()
				return deploy.Exit{Code: 143}
			}
		}, ExitLaunch, `worker prefill-0.0 on gpu-01 made no progress for 2m1s (timeouts.worker is 2m0s): Get "http://10.0.0.1:8000/health": dial tcp 10.0.0.1:8000: connection refused; last line of prefill-0.0 "loading shard 7"`, 120 * time.Second, 125 * time.Second},
		{"a worker loads for ever", func(s *scenario) { s.engines["prefill-0"].load = 10 * time.Hour },
			ExitLaunch, "stage workers did not end within 30m0s: still waiting for workers: prefill-0.0 on gpu-01", 1800 * time.Second, 1805 * time.Second},
		{"a health page that is an error", func(s *scenario) {
			s.engines["decode-0"].before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/health" {
					http.Error(w, "model not loaded", http.StatusServiceUnavailable)
				}
				return r.URL.Path == "/health"
			}
		}, ExitLaunch, "GET http://10.0.0.3:8000/health: HTTP 503 model not loaded", 120 * time.Second, 130 * time.Second},
		{"a bootstrap port is not opened", func(s *scenario) { s.engines["prefill-1"].boot = 0 },
			ExitLaunch, "the bootstrap port of prefill-1.0 on gpu-02, which serves already (Get \"http://10.0.0.2:8998/health\": dial tcp 10.0.0.2:8998: connection refused)", 30 * time.Second, 35 * time.Second},
		{"another model is served", func(s *scenario) {
			s.engines["prefill-1"].before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v1/models" {
					_, _ = io.WriteString(w, `{"data":[{"id":"other/model"}]}`)
				}
				return r.URL.Path == "/v1/models"
			}
		}, ExitLaunch, `worker prefill-1.0 on gpu-02 is not the planned one: http://10.0.0.2:8000 serves "other/model", planned is "m"`, 3 * time.Second, 6 * time.Second},
		{"the router exits at once", func(s *scenario) {
			s.c.programs["router"] = func(_ context.Context, p *fakeProc) deploy.Exit {
				p.log("launch_router.py: error: unrecognized arguments: --nope")
				return deploy.Exit{Code: 2}
			}
		}, ExitLaunch, "router on gpu-01 exited with code 2", 3 * time.Second, 6 * time.Second},
		{"the router never lists a worker", func(s *scenario) {
			s.router.members = func() string {
				return `{"workers":[{"url":"http://10.0.0.1:8000","worker_type":"prefill","is_healthy":true},{"url":"http://10.0.0.3:8000","worker_type":"decode","is_healthy":false}]}`
			}
		}, ExitLaunch, "the router's workers are not complete: http://10.0.0.3:8000 is unhealthy; http://10.0.0.2:8000 (prefill) is missing", 120 * time.Second, 130 * time.Second},
		{"the router lists a foreign worker", func(s *scenario) {
			s.router.members = func() string { return strings.Replace(s.members(), "[{", `[{"url":"http://10.9.9.9:8000"},{`, 1) }
		}, ExitLaunch, "the router's workers are not the planned ones: http://10.9.9.9:8000 is not in the plan", 3 * time.Second, 6 * time.Second},
		{"the model name is wrong for the router", func(s *scenario) {
			s.router.before = func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case chatPath:
					http.Error(w, "{\"message\":\"The model `m` does not exist\"}", http.StatusNotFound)
				case "/v1/models":
					_, _ = io.WriteString(w, `{"data":[{"id":"m-fp4"}]}`)
				default:
					return false
				}
				return true
			}
		}, ExitLaunch, "POST http://10.0.0.1:30000/v1/chat/completions asks for model \"m\": HTTP 404 {\"message\":\"The model `m` does not exist\"} (it serves: m-fp4)", 3 * time.Second, 6 * time.Second},
		{"200 with an error body", func(s *scenario) { s.router.before = answerChat(`{"error":{"message":"server_selection_failed"}}`) },
			ExitLaunch, `the answer is an error: HTTP 200 {"error":{"message":"server_selection_failed"}}); asked directly, 2 pairs gave tokens: look at the router`, 120 * time.Second, 130 * time.Second},
		{"200 without choices", func(s *scenario) { s.router.before = answerChat(`{"choices":[]}`) },
			ExitLaunch, `the answer has no choices: HTTP 200 {"choices":[]}`, 120 * time.Second, 130 * time.Second},
		{"200 with a page", func(s *scenario) { s.router.before = answerChat(`<html>`) },
			ExitLaunch, `the answer is not a completion: HTTP 200 <html>`, 120 * time.Second, 130 * time.Second},
		{"200 without a token", func(s *scenario) {
			s.router.before = answerChat(`{"choices":[{"message":{"content":""}}],"usage":{"completion_tokens":0}}`)
		}, ExitLaunch, "the answer has no token", 120 * time.Second, 130 * time.Second},
		{"one prefill worker hands over no KV", func(s *scenario) {
			s.router.pairs = s.router.pairs[:1] // the router never sends there
			s.engines["prefill-1"].before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == chatPath {
					http.Error(w, "KVTransferError", http.StatusInternalServerError)
				}
				return r.URL.Path == chatPath
			}
		}, ExitLaunch, "still waiting for tokens from prefill-1 on gpu-02 → decode-0 on gpu-03: prefill: HTTP 500 KVTransferError; decode: no answer within 40s; every pair with prefill-1.0 on gpu-02 fails, and no other does", 120 * time.Second, 130 * time.Second},
		{"the only prefill worker that the router uses hands over no KV", func(s *scenario) {
			s.router.pairs = s.router.pairs[1:]
			s.engines["prefill-1"].before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == chatPath {
					<-r.Context().Done()
				}
				return r.URL.Path == chatPath
			}
		}, ExitLaunch, `a completion through router (no answer within 40s); asked directly: prefill-1 on gpu-02 → decode-0 on gpu-03: prefill: no answer within 20s; decode: no answer within 20s; every pair with prefill-1.0 on gpu-02 fails, and no other does`, 120 * time.Second, 130 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 2, 1)
				tc.fault(s)
				res := s.start()
				s.verdict(res, tc.code, tc.cause)
				s.took(res, tc.least, tc.most)
				if c := res.Cause; c != nil && len(c.State) > 0 && c.Stage != "router" && c.Diagnosis == nil {
					t.Errorf("stage %s hung, and nobody says what that means", c.Stage)
				}
				for _, p := range res.Points {
					if p.Status != result.PointMissing {
						t.Errorf("point %s is %s", p.Name, p.Status)
					}
				}
				s.noSecrets()
			})
		})
	}
}

func answerChat(body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == chatPath {
			_, _ = io.WriteString(w, body)
		}
		return r.URL.Path == chatPath
	}
}

func TestCrashIsExplained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		s.c.programs["prefill-1.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			p.log("Load weight begin. avail mem=280.44 GB")
			p.log("\x1b[31mtorch.OutOfMemoryError\x1b[0m: HIP out of memory. Tried to allocate 896.00 MiB.")
			return deploy.Exit{Code: 1}
		}
		res := s.start()
		want := &result.Failure{
			Time: res.Cause.Time, Stage: "workers", What: "prefill-1.0 on gpu-02 exited with code 1", Process: "prefill-1.0", Node: "gpu-02",
			Exit:    &deploy.Exit{Code: 1},
			Log:     []string{"Load weight begin. avail mem=280.44 GB", "\x1b[31mtorch.OutOfMemoryError\x1b[0m: HIP out of memory. Tried to allocate 896.00 MiB."},
			LogFile: "logs/prefill-1.0.gpu-02.log",
			Diagnosis: &result.Diagnosis{
				Signature: "oom.load", Line: "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 896.00 MiB.",
				Meaning: "A GPU ran out of memory while the weights were loaded: they do not fit, or something else holds memory on this GPU.",
				Remedy:  "Check with the preflight that the GPUs are empty, then raise tp or ep of this role, or use a smaller quantisation.",
			},
		}
		if res.Cause.Stage == "launch" { // it can die before the stage ends
			want.Stage = "launch"
		}
		if diff := cmp.Diff(want, res.Cause); diff != "" {
			t.Errorf("cause (-want +got):\n%s", diff)
		}
		if len(res.Consequences) != 0 {
			t.Errorf("consequences: %+v", res.Consequences)
		}
		if diff := cmp.Diff([]string{"disagg logs " + s.dir.Path() + " prefill-1.0"}, res.Next); diff != "" {
			t.Errorf("next (-want +got):\n%s", diff)
		}
		exited, down := s.find(events.ProcessExited, "prefill-1.0"), s.find(events.Teardown, "")
		if exited == nil || down == nil || down.Time.Sub(exited.Time) > 50*time.Millisecond {
			t.Errorf("exit at %+v, teardown at %+v", exited, down)
		}
	})
}

func TestEnvironmentThatDidNotArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		s.c.nodes["gpu-02"].receipt = func(_ string, env []deploy.ReceiptVar) []deploy.ReceiptVar {
			var out []deploy.ReceiptVar
			for _, v := range env {
				switch v.Name {
				case "X":
					v.Value = []byte("a")
				case "HF_TOKEN":
					continue
				}
				out = append(out, v)
			}
			return out
		}
		res := s.start()
		s.verdict(res, ExitLaunch, `the environment inside prefill-1.0 on gpu-02 (scope prefill) is not the planned one: HF_TOKEN: planned a secret of 9 bytes, the process sees no such variable; X: planned "a b\nc", the process sees "a"`)
		if e := s.find(events.ProcessStarted, ""); e != nil {
			t.Errorf("a program was started: %+v", e)
		}
		s.noSecrets()
	})
}

func TestFactsOfTheNodeReachTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		tc := 104
		s.plan.RDMA.TrafficClass = &tc
		s.plan.Profiles = []models.NodeProfile{
			{Nodes: "gpu-02", Interface: "eno2", RDMA: models.RDMASite{Devices: []string{"ionic_0"}}, Env: models.EnvMap{"X": {Value: "profile"}, "NEW": {Value: "1"}}},
			{Nodes: "gpu-*", Env: models.EnvMap{"NEW": {Value: "2"}}},
		}
		var mu sync.Mutex
		got := map[string]deploy.Workload{}
		for _, n := range s.c.nodes {
			n.onCreate = func(w *deploy.Workload) error { mu.Lock(); defer mu.Unlock(); got[w.ID] = *w; return nil }
		}
		s.router.members = func() string { // node 1 is reached on its other interface
			return strings.ReplaceAll(s.members(), "10.0.0.2", "10.1.0.2")
		}
		s.c.nodes["gpu-02"].info.Addr = "10.1.0.2" // where the fake listens
		for i := range s.router.pairs {
			s.router.pairs[i][1] = "10.1.0.2:8000"
		}
		if res := s.start(); res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		env := func(id string) map[string]string {
			out := map[string]string{}
			for _, e := range got[id].Env {
				out[e.Name] = string(e.Value)
			}
			return out
		}
		// MORI_RDMA_SL is not known anywhere, so it is not set at all.
		if diff := cmp.Diff(map[string]string{"HF_TOKEN": "hf_s3cret", "MORI_RDMA_TC": "104", "NCCL_IB_HCA": "rdma0,rdma1", "X": "a b\nc", "NEW": "2"}, env("prefill-0.0")); diff != "" {
			t.Errorf("prefill env (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"HF_TOKEN": "hf_s3cret", "MORI_RDMA_TC": "104", "NCCL_IB_HCA": "ionic_0", "X": "a b\nc", "NEW": "1"}, env("decode-0.0")); diff != "" {
			t.Errorf("decode env (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"serve", "--host", "10.1.0.2", "--dist", "10.0.0.1:20000"}, got["decode-0.0"].Argv); diff != "" {
			t.Errorf("argv (-want +got):\n%s", diff)
		}
		dir := s.dir.Join("results/c8")
		if diff := cmp.Diff([]string{dir + ":" + dir}, got["client.c8"].Mounts); diff != "" {
			t.Errorf("client mounts (-want +got):\n%s", diff)
		}
		if w := got["decode-0.0"]; w.LogPath != s.dir.Join("logs/decode-0.0.gpu-02.log") || w.Grace != 10*time.Second || len(w.ReceiptKey) != 32 || !w.Accelerated {
			t.Errorf("workload: %+v", w)
		}
	})
}

func TestProgressExtendsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.engines["decode-0"].load = 20 * time.Minute // budget without progress: 2 minutes
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		ready := s.find(events.ProcessReady, "decode-0.0")
		if sec := ready.Detail["seconds"].(float64); sec < 1200 || sec > 1203 {
			t.Errorf("ready after %gs", sec)
		}
		n := 0
		for _, e := range s.events() {
			if e.Kind == events.ProcessProgress && e.Process == "decode-0.0" {
				n++
			}
		}
		if n < 100 || n > 130 {
			t.Errorf("%d progress events of a load of 20 minutes with a line each second, want about 120", n)
		}
		log := s.events()
		for i, e := range log[1:] {
			if silence := e.Time.Sub(log[i].Time); silence > events.AliveEvery+2*time.Second {
				t.Fatalf("silence of %s before event %d", silence, e.Seq)
			}
		}
	})
}

func TestSpareTakesTheUnreachableNodesPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		c := newCluster("gpu-00", "gpu-01", "gpu-02", "gpu-03")
		s.replaceCluster(c)
		s.opt.Nodes = []string{"gpu-00", "gpu-01", "gpu-02", "gpu-03"}
		for i, name := range []string{"gpu-01", "gpu-02", "gpu-03"} {
			c.nodes[name].info.Addr = fmt.Sprintf("10.0.0.%d", i+1)
		}
		c.unreach["gpu-00"] = errors.New("no route")
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		want := []result.Node{
			{Name: "gpu-00", Note: "no route"},
			{Name: "gpu-01", Host: "gpu-01", Addr: "10.0.0.1", Plan: []int{0}},
			{Name: "gpu-02", Host: "gpu-02", Addr: "10.0.0.2", Plan: []int{1}},
			{Name: "gpu-03", Host: "gpu-03", Addr: "10.0.0.3", Plan: []int{2}},
		}
		if diff := cmp.Diff(want, res.Nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// replaceCluster moves the scenario's programs to other nodes.
func (s *scenario) replaceCluster(c *cluster) {
	c.programs = s.c.programs
	s.c, s.opt.Launcher, s.opt.HTTP = c, c, c
}

func TestRunStartsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.c.unreach["gpu-01"] = errors.New("no route")
		first := s.start()
		_, err := s.startErr()
		var coded Coded
		if !errors.As(err, &coded) || coded.ExitCode() != ExitConfig || !strings.Contains(err.Error(), "run was started already by process") {
			t.Errorf("second start: %v", err)
		}
		again, rerr := result.Read(s.dir.Join("result.json"))
		if rerr != nil || cmp.Diff(&first, again) != "" {
			t.Errorf("the first result was changed: %v", rerr)
		}
	})
}
