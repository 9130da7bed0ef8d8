package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// scenario is a run on the in-memory cluster, healthy unless a test changes it.
type scenario struct {
	t       *testing.T
	c       *cluster
	plan    *models.Plan
	engines map[string]*engine
	router  *fakeRouter
	signals chan os.Signal
	opt     Options
	dir     *rundir.Dir
}

const goodResult = `{"completed":100,"num_prompts":100,"total_output_tokens":5000}`

// newScenario plans p prefill and d decode workers, one a node, with client
// points at concurrency 8 and 16.
func newScenario(t *testing.T, p, d int) *scenario {
	t.Helper()
	var names []string
	for i := range p + d {
		names = append(names, fmt.Sprintf("gpu-%02d", i+1))
	}
	s := &scenario{t: t, c: newCluster(names...), engines: map[string]*engine{}, signals: make(chan os.Signal, 3)}
	s.plan = testPlan(p, d)
	for i := range s.plan.Workers {
		w := &s.plan.Workers[i]
		e := &engine{model: "m", role: w.Role, port: w.Port, boot: w.BootstrapPort, load: 3 * time.Second, metrics: true}
		e.says = fmt.Sprintf(`{"tp_size":8,"pp_size":1,"ep_size":1,"dp_size":1,"disaggregation_mode":%q}`, w.Role)
		s.engines[w.ID] = e
		s.c.programs[w.Ranks[0].ID] = e.run
	}
	s.router = &fakeRouter{port: 30000, members: s.members}
	for _, x := range pairs(s.plan.Workers) {
		s.router.pairs = append(s.router.pairs, [2]string{s.host(x.prefill), s.host(x.decode)})
	}
	s.c.programs["router"] = s.router.run
	for _, pt := range s.plan.Client.Points {
		s.c.programs[pt.ID] = s.loaded(client(20*time.Second, goodResult))
	}
	s.opt = Options{Plan: s.plan, Nodes: names, Launcher: s.c, HTTP: s.c, Signals: s.signals, Job: "42", Version: "test"}
	return s
}

// loaded makes a client generate tokens on every decode worker while it runs.
func (s *scenario) loaded(run program) program {
	return func(ctx context.Context, p *fakeProc) deploy.Exit {
		lctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			for pause(lctx, time.Second) {
				for _, e := range s.engines {
					e.served.Add(10)
				}
			}
		}()
		return run(ctx, p)
	}
}

func (s *scenario) host(w *models.Worker) string {
	return fmt.Sprintf("10.0.0.%d:%d", w.Node+1, w.Port)
}

func (s *scenario) members() string {
	type entry struct {
		URL     string `json:"url"`
		Type    string `json:"worker_type"`
		Healthy bool   `json:"is_healthy"`
		Boot    int    `json:"bootstrap_port,omitempty"`
	}
	var out []entry
	for i := range s.plan.Workers {
		w := &s.plan.Workers[i]
		out = append(out, entry{"http://" + s.host(w), w.Role, true, w.BootstrapPort})
	}
	b, _ := json.Marshal(map[string]any{"workers": out})
	return string(b)
}

// start runs the scenario to its end.
func (s *scenario) start() result.Result {
	s.t.Helper()
	res, err := s.startErr()
	if err != nil {
		s.t.Errorf("Run: %v", err)
	}
	return res
}

func (s *scenario) startErr() (result.Result, error) {
	s.t.Helper()
	s.seal()
	return Run(s.t.Context(), s.opt)
}

func (s *scenario) seal() {
	s.t.Helper()
	if s.dir != nil {
		return
	}
	d, err := rundir.Create(filepath.Join(s.t.TempDir(), "runs"), "test", time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := json.Marshal(s.plan)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := d.WritePlan(data); err != nil {
		s.t.Fatal(err)
	}
	if err := d.WriteSecrets(map[string][]byte{"HF_TOKEN": []byte("hf_s3cret")}); err != nil {
		s.t.Fatal(err)
	}
	if err := d.Seal(); err != nil {
		s.t.Fatal(err)
	}
	s.dir, s.opt.Dir = d, d
}

// events reads the run's log back.
func (s *scenario) events() []events.Event {
	s.t.Helper()
	log, err := events.ReadAll(s.dir.Join(rundir.EventsFile))
	if err != nil || log.Bad != 0 {
		s.t.Fatalf("read events: %v, %d bad lines", err, log.Bad)
	}
	return log.Events
}

// find gives the first event of a kind, and of a process if one is named.
func (s *scenario) find(kind events.Kind, process string) *events.Event {
	s.t.Helper()
	for _, e := range s.events() {
		if e.Kind == kind && (process == "" || e.Process == process) {
			return &e
		}
	}
	return nil
}

// stillRunning lists what is left on the nodes, by the cluster's own count.
func (s *scenario) stillRunning() []string {
	var out []string
	for _, n := range s.c.nodes {
		n.mu.Lock()
		for id := range n.proc {
			out = append(out, n.info.Name+" "+id)
		}
		n.mu.Unlock()
	}
	slices.Sort(out)
	return out
}

// noSecrets looks for the secret's value in everything the run wrote.
func (s *scenario) noSecrets() {
	s.t.Helper()
	err := filepath.WalkDir(s.dir.Path(), func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || p == s.dir.Join(rundir.SecretsFile) {
			return err
		}
		data, err := os.ReadFile(p)
		if bytes.Contains(data, []byte("hf_s3cret")) {
			s.t.Errorf("the secret is in %s", p)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// bubble runs a test where time passes only when everybody waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func testPlan(p, d int) *models.Plan {
	plan := &models.Plan{
		APIVersion: models.APIVersion, Name: "test", Site: "lab", Launcher: models.LauncherSlurm, Engine: "sglang", Scenario: "fixed",
		Model:    models.PlanModel{Key: "m", Name: "m", Path: "/models/m"},
		Topology: models.Topology{Disaggregated: true, Nodes: p + d, GPUsPerNode: 8},
		Runtime:  models.Runtime{Kind: "docker"},
		Network:  models.NetworkSite{Interface: "eno1"},
		Budgets: models.Budgets{
			Agents: models.Duration(60 * time.Second), Preflight: models.Duration(60 * time.Second), Image: models.Duration(600 * time.Second),
			Launch: models.Duration(60 * time.Second), Worker: models.Duration(120 * time.Second), WorkerMax: models.Duration(1800 * time.Second),
			Router: models.Duration(120 * time.Second), Canary: models.Duration(120 * time.Second), Client: models.Duration(1800 * time.Second),
			Eval: models.Duration(1800 * time.Second), Stall: models.Duration(180 * time.Second), Collect: models.Duration(60 * time.Second), Grace: models.Duration(10 * time.Second),
		},
		Deaf: "fail",
		Router: &models.Router{
			Process: models.Process{ID: "router", Scope: "router", Image: "router:1", Argv: []string{"router"}, Ports: []models.Port{{Name: "http", Number: 30000}}},
			Kind:    "sglang", Port: 30000, ReadyPath: "/readiness", MembersPath: "/workers",
		},
		Client: &models.Client{},
	}
	for i := range p + d {
		w := models.Worker{Role: models.RolePrefill, Index: i, TP: 8, PP: 1, EP: 1, DP: 1, Node: i, Port: 8000, HealthPath: "/health", BootstrapPort: 8998}
		if i >= p {
			w.Role, w.Index, w.BootstrapPort = models.RoleDecode, i-p, 0
		}
		w.ID = fmt.Sprintf("%s-%d", w.Role, w.Index)
		w.Ranks = []models.Process{{
			ID: w.ID + ".0", Scope: w.Role, Node: i, Image: "engine:1", Accelerated: true,
			Argv:  []string{"serve", "--host", "@{self.addr}", "--dist", "@{node.0.addr}:20000"},
			Ports: []models.Port{{Name: "http", Number: 8000}},
			Env: []models.EnvVar{
				{Name: "HF_TOKEN", Secret: true, Origin: "forward"},
				{Name: "MORI_RDMA_SL", Value: "@{self.sl}", Expand: true, Origin: "adapter"},
				{Name: "MORI_RDMA_TC", Value: "@{self.tc}", Expand: true, Origin: "adapter"},
				{Name: "NCCL_IB_HCA", Value: "@{self.rdma}", Expand: true, Origin: "adapter"},
				{Name: "X", Value: "a b\nc", Origin: "recipe:r.yaml:3"},
			},
		}}
		plan.Workers = append(plan.Workers, w)
	}
	for _, c := range []int{8, 16} {
		plan.Client.Points = append(plan.Client.Points, models.ClientPoint{Concurrency: c, Process: models.Process{
			ID: fmt.Sprintf("client.c%d", c), Scope: "client", Image: "engine:1", Argv: []string{"bench", "@{result.dir}"},
		}})
	}
	return plan
}
