package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/launcher"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// real is a run with real agents, shims and processes on this host; the engines
// are stand-ins.
type real struct {
	t       *testing.T
	plan    *models.Plan
	dir     *rundir.Dir
	signals chan os.Signal
	scratch string
}

// lastPort is the last port a test of this process was given.
var lastPort atomic.Int32

// ports finds n free ports below those that the kernel gives to outgoing
// connections, of which one could take them in between. Each process looks in a
// hundred of its own.
func ports(t *testing.T, n int) []int {
	t.Helper()
	base := 10000 + os.Getpid()%200*100
	var out []int
	for range 100 {
		port := base + int(lastPort.Add(1))%100
		l, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if out = append(out, port); len(out) == n {
			return out
		}
	}
	t.Fatalf("found %d free ports, want %d", len(out), n)
	return nil
}

// newReal plans p prefill and d decode stand-ins, a router and one client point,
// with a fault in the environment of all of them.
func newReal(t *testing.T, p, d int, fault string) *real {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, plan: orchestrator.TestPlan(p, d), signals: make(chan os.Signal, 3)}
	plan := r.plan
	plan.Launcher, plan.Runtime = models.LauncherLocal, models.Runtime{Kind: "none"}
	plan.Budgets.Grace = models.Duration(2 * time.Second)
	plan.Budgets.Canary = models.Duration(15 * time.Second)
	plan.Budgets.Worker = models.Duration(15 * time.Second)
	plan.Model.Path = filepath.Join(t.TempDir(), "m")
	plan.Model.HostPaths = []string{plan.Model.Path}
	if err := os.MkdirAll(plan.Model.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plan.Model.Path, "config.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []models.EnvVar{{Name: "STANDIN_FAULT", Value: fault, Origin: "test"}}
	secret := models.EnvVar{Name: "HF_TOKEN", Secret: true, Origin: "forward"}

	free := ports(t, 2*(p+d)+1)
	router := []string{self, "standin", "router", "--pd-disaggregation", "--port", fmt.Sprint(free[0]), "--policy", "round_robin"}
	for i := range plan.Workers {
		w := &plan.Workers[i]
		w.Port = free[1+2*i]
		rank := &w.Ranks[0]
		rank.Image, rank.Ports = "", []models.Port{{Name: "http", Number: w.Port}}
		rank.Argv = []string{self, "standin", "engine", "--model-path", plan.Model.Path, "--served-model-name", "m", "--disaggregation-mode", w.Role, "--host", "@{self.addr}", "--port", fmt.Sprint(w.Port), "--enable-metrics", "--tp-size", fmt.Sprint(w.TP)}
		url := fmt.Sprintf("http://@{node.%d.addr}:%d", w.Node, w.Port)
		if w.Role == models.RolePrefill {
			w.BootstrapPort = free[2+2*i]
			rank.Ports = append(rank.Ports, models.Port{Name: "bootstrap", Number: w.BootstrapPort})
			rank.Argv = append(rank.Argv, "--disaggregation-bootstrap-port", fmt.Sprint(w.BootstrapPort))
			router = append(router, "--prefill", url, fmt.Sprint(w.BootstrapPort))
		} else {
			router = append(router, "--decode", url)
		}
		rank.Env = []models.EnvVar{secret, env[0]}
	}
	plan.Router.Port = free[0]
	plan.Router.Process = models.Process{ID: "router", Scope: "router", Argv: router, Env: env, Ports: []models.Port{{Name: "http", Number: free[0]}}}
	plan.Client.Points = []models.ClientPoint{{Concurrency: 4, Results: []string{"load.json"}, Process: models.Process{
		ID: "client.c4", Scope: "client", Env: []models.EnvVar{},
		Argv: []string{self, "standin", "load", "--url", fmt.Sprintf("http://@{node.0.addr}:%d", free[0]), "--model", "m", "--concurrency", "4", "--requests", "16", "--isl", "16", "--osl", "4", "--output", "@{result.dir}/load.json"},
	}}}
	if r.scratch, err = os.MkdirTemp("", "dor"); err != nil { // short, for sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(r.scratch) })
	return r
}

// during replaces the client by one that runs for long, and calls f once it runs.
func (r *real) during(f func()) {
	pt := &r.plan.Client.Points[0]
	i := slices.Index(pt.Argv, "--requests")
	pt.Argv[i+1] = "1000000"
	go func() {
		for r.event(events.ProcessStarted, "client.c4") == nil {
			time.Sleep(20 * time.Millisecond)
		}
		f()
	}()
}

// event is the first event of a kind and process in the log so far.
func (r *real) event(kind events.Kind, process string) *events.Event {
	log, err := events.ReadAll(r.dir.Join(rundir.EventsFile))
	if err != nil {
		return nil
	}
	for _, e := range log.Events {
		if e.Kind == kind && e.Process == process {
			return &e
		}
	}
	return nil
}

func (r *real) seal() {
	r.t.Helper()
	d, err := rundir.Create(filepath.Join(r.t.TempDir(), "runs"), "local", time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := json.Marshal(r.plan)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, err := range []error{d.WritePlan(data), d.WriteSecrets(map[string][]byte{"HF_TOKEN": []byte("hf_s3cret")}), d.Seal()} {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.dir = d
}

// run carries the plan out, and checks what must hold however it ends: nothing is
// left by an independent look, no secret is written.
func (r *real) run() result.Result {
	r.t.Helper()
	res := r.carryOut()
	r.nothingLeft()
	if len(res.Leftovers) > 0 {
		r.t.Errorf("leftovers: %+v", res.Leftovers)
	}
	return res
}

func (r *real) carryOut() result.Result {
	r.t.Helper()
	var names []string
	for i := range r.plan.Topology.Nodes {
		names = append(names, fmt.Sprintf("local%d", i))
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	setup := deploy.Setup{RunID: r.dir.ID(), Version: "test", Runtime: r.plan.Runtime, Scratch: r.scratch}
	res, err := orchestrator.Run(r.t.Context(), orchestrator.Options{
		Dir: r.dir, Plan: r.plan, Nodes: names, Signals: r.signals, Version: "test",
		Launcher: &launcher.Local{Setup: setup, Self: self}, Pace: orchestrator.Pace{Look: 2 * time.Second},
	})
	if err != nil {
		r.t.Errorf("Run: %v", err)
	}
	return res
}

// nothingLeft looks for processes of the run by their environment, for its
// scratch directories and for the secret.
func (r *real) nothingLeft() {
	r.t.Helper()
	mark := []byte("DISAGG_RUN=" + r.dir.ID() + "\x00")
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range procs {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data)+"\x00", string(mark)) {
			r.t.Errorf("left: %s", p)
		}
	}
	if dirs, _ := filepath.Glob(filepath.Join(r.scratch, "*")); len(dirs) > 0 {
		r.t.Errorf("left: %v", dirs)
	}
	err = filepath.WalkDir(r.dir.Path(), func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || p == r.dir.Join(rundir.SecretsFile) {
			return err
		}
		data, err := os.ReadFile(p)
		if strings.Contains(string(data), "hf_s3cret") {
			r.t.Errorf("the secret is in %s", p)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// verdict checks code and cause.
func (r *real) verdict(res result.Result, code orchestrator.ExitCode, cause string) {
	r.t.Helper()
	if res.ExitCode != int(code) || res.Cause == nil || !strings.Contains(res.Cause.What, cause) {
		r.t.Errorf("exit code %d, cause %+v\nwant %d, %q", res.ExitCode, res.Cause, code, cause)
	}
}

func TestLocalRun(t *testing.T) {
	r := newReal(t, 2, 1, "echo:env=HF_TOKEN")
	r.seal()
	res := r.run()
	if res.Outcome != result.OK {
		t.Fatalf("cause: %+v, warnings %q", res.Cause, res.Warnings)
	}
	if len(res.Points) != 1 || res.Points[0].Status != result.PointOK || len(res.Points[0].Files) != 1 || res.Points[0].Files[0].Path != "results/c4/load.json" {
		t.Errorf("points: %+v", res.Points)
	}
	if diff := cmp.Diff([]string{"local0", "local1", "local2"}, res.Looked); diff != "" {
		t.Errorf("looked (-want +got):\n%s", diff)
	}
	log, err := os.ReadFile(r.dir.Join("logs/prefill-1.0.local1.log"))
	if err != nil || len(log) == 0 {
		t.Errorf("log: %q, %v", log, err)
	}
}

func TestLocalWorkerCrashesWhileLoading(t *testing.T) {
	r := newReal(t, 1, 1, "crash:phase=load,code=3,text=torch.OutOfMemoryError:+HIP+out+of+memory.,role=decode")
	r.seal()
	res := r.run()
	r.verdict(res, orchestrator.ExitLaunch, "decode-0.0 on local1 exited with code 3")
	if res.Cause != nil && (res.Cause.Diagnosis == nil || !strings.HasPrefix(res.Cause.Diagnosis.Signature, "oom.")) {
		t.Errorf("diagnosis: %+v", res.Cause.Diagnosis)
	}
}

func TestLocalWorkerIsKilledWhileServing(t *testing.T) {
	r := newReal(t, 1, 1, "")
	r.seal()
	var killed time.Time
	r.during(func() {
		e := r.event(events.ProcessStarted, "prefill-0.0")
		pid, _ := e.Detail["pid"].(float64)
		killed = time.Now()
		if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
			t.Errorf("kill %v: %v", pid, err)
		}
	})
	res := r.run()
	r.verdict(res, orchestrator.ExitWorkload, "prefill-0.0 on local0 was killed by SIGKILL")
	if took := time.Since(killed); took > 10*time.Second {
		t.Errorf("the run ended %s after the kill", took)
	}
	if res.Points[0].Status != result.PointMissing {
		t.Errorf("point: %+v", res.Points[0])
	}
}

// TestLocalWorkerIsStartedAgain goes through a real agent and real shims: the old
// life's last word comes before the new one begins.
func TestLocalWorkerIsStartedAgain(t *testing.T) {
	r := newReal(t, 1, 2, "")
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		w.Ranks[0].Env = append(w.Ranks[0].Env, models.EnvVar{Name: "STANDIN_KV_SECONDS", Value: "2", Origin: "test"})
		if w.Role == models.RoleDecode {
			w.Restarts = 1
		}
	}
	pt := &r.plan.Client.Points[0]
	url := pt.Argv[slices.Index(pt.Argv, "--url")+1]
	// A load that was under way when the worker came back may have failed; the last one must not.
	pt.Argv = []string{"sh", "-c", `load() { "$0" standin load --url "$1" --model m --concurrency 2 --requests 8 --osl 4 --output "$2/load.json"; }
until [ -e "$2/go" ]; do load "$@"; done; load "$@"`,
		pt.Argv[0], url, "@{result.dir}"}
	r.seal()
	go func() {
		for r.event(events.ProcessStarted, "client.c4") == nil {
			time.Sleep(20 * time.Millisecond)
		}
		pid, _ := r.event(events.ProcessStarted, "decode-1.0").Detail["pid"].(float64)
		if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
			t.Errorf("kill %v: %v", pid, err)
		}
		for r.event(events.Restarted, "decode-1.0") == nil && r.event(events.Teardown, "") == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if err := os.WriteFile(r.dir.Join("results/c4/go"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	res := r.run()
	if res.ExitCode != int(orchestrator.ExitCollect) || len(res.Restarts) != 1 || res.Points[0].Status != result.PointDisturbed {
		t.Fatalf("cause %+v, restarts %+v, points %+v", res.Cause, res.Restarts, res.Points)
	}
	x := res.Restarts[0]
	if x.Worker != "decode-1" || x.Seconds == nil || x.Death.What != "decode-1.0 on local2 was killed by SIGKILL" || x.Point != "c4" {
		t.Errorf("restart %+v", x)
	}
	log, err := os.ReadFile(r.dir.Join("logs/decode-1.0.local2.log"))
	if n := strings.Count(string(log), "[disagg: decode-1.0 is started again at "); err != nil || n != 1 {
		t.Errorf("the log says %d times that a new life begins: %s, %v", n, log, err)
	}
}

func TestLocalKVThatNeverArrives(t *testing.T) {
	r := newReal(t, 2, 1, "")
	// One of the two prefill workers takes requests and hands nothing over.
	r.plan.Workers[1].Ranks[0].Env[1].Value = "refuse-kv"
	r.plan.Budgets.Canary = models.Duration(3 * time.Second)
	r.seal()
	r.verdict(r.run(), orchestrator.ExitLaunch, "prefill-1 → decode-0")
}

func TestLocalStubbornWorkerAndSignal(t *testing.T) {
	r := newReal(t, 1, 1, "ignore-term:role=decode;orphan:role=prefill")
	r.seal()
	var at time.Time
	r.during(func() { at = time.Now(); r.signals <- syscall.SIGTERM })
	res := r.run()
	r.verdict(res, orchestrator.ExitTerminated, `asked to end by SIGTERM`)
	if res.Outcome != result.Cancelled {
		t.Errorf("outcome %s", res.Outcome)
	}
	if took := time.Since(at); took < 2*time.Second || took > 12*time.Second {
		t.Errorf("the run ended %s after the signal; the grace is 2 s", took)
	}
}

func TestLocalAgentIsKilled(t *testing.T) {
	r := newReal(t, 1, 1, "")
	r.seal()
	r.during(func() {
		// The agent is the parent of the shims; the shim is the program's parent.
		e := r.event(events.ProcessStarted, "decode-0.0")
		pid, _ := e.Detail["pid"].(float64)
		shim := parent(int(pid))
		if agent := parent(shim); agent > 1 {
			if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
				t.Errorf("kill agent %d: %v", agent, err)
			}
		}
	})
	res := r.carryOut()
	r.verdict(res, orchestrator.ExitWorkload, "node local1 (")
	r.verdict(res, orchestrator.ExitWorkload, "is lost: its agent is out of reach")
	if len(res.Leftovers) != 0 || len(res.Looked) != 2 {
		t.Errorf("leftovers: %+v; looked at %v", res.Leftovers, res.Looked)
	}
	// The lease has ended what ran there, and a second agent has seen it.
	if r.anyProcess() {
		t.Error("processes are left")
	}
}

func (r *real) anyProcess() bool {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), "DISAGG_RUN="+r.dir.ID()) {
			return true
		}
	}
	return false
}

// parent is a process's parent, 0 when it is not known.
func parent(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	rest := string(data[strings.LastIndexByte(string(data), ')')+1:])
	ppid := 0
	if f := strings.Fields(rest); len(f) > 1 {
		_, _ = fmt.Sscan(f[1], &ppid)
	}
	return ppid
}
