package orchestrator

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/receipts"
	"github.com/disagg/disagg/orchestrator/rundir"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	r := &run{key: []byte("key"), plan: &models.Plan{Runtime: models.Runtime{Kind: "docker"}}, imageEnv: map[string][]string{"engine:1": {"IMAGE_VAR", "GPG_KEY", "PATH"}}}
	p := &proc{
		Process: &models.Process{ID: "decode-0.0", Scope: "decode", Image: "engine:1"}, node: &node{name: "gpu-02"},
		origins: map[string]string{"SAME": "forward", "CHANGED": "recipe:r.yaml:3", "GONE": "catalog:x", "HF_TOKEN": "forward", "LOST_TOKEN": "forward", "PYTHONPATH": "catalog:x", "PROFILED": "site profile gpu-*"},
		unset:   []models.EnvVar{{Name: "MORI_RDMA_TC", Value: "@{self.tc}", Expand: true, Origin: "adapter"}},
	}
	w := deploy.Workload{Env: []deploy.EnvEntry{
		{Name: "SAME", Value: []byte("\xff")}, {Name: "CHANGED", Value: []byte("104")}, {Name: "GONE", Value: []byte("")},
		{Name: "HF_TOKEN", Value: []byte("s3cret"), Secret: true}, {Name: "LOST_TOKEN", Value: []byte("s3cret"), Secret: true},
		{Name: "PYTHONPATH", Value: []byte("/mine"), Prepend: true}, {Name: "PROFILED", Value: []byte("1")},
	}}
	rec := deploy.Receipt{Env: []deploy.ReceiptVar{
		{Name: "SAME", Value: []byte("\xff"), Layer: deploy.LayerPlan},
		{Name: "CHANGED", Value: []byte("96"), Layer: deploy.LayerBase},
		{Name: "HF_TOKEN", HMAC: sum([]byte("s3cret"), []byte("key")), Layer: deploy.LayerPlan, Over: []deploy.Layer{deploy.LayerBase}},
		{Name: "PYTHONPATH", Value: []byte("/mine:/image"), Layer: deploy.LayerPlan},
		{Name: "PROFILED", Value: []byte("1"), Layer: deploy.LayerPlan, Over: []deploy.Layer{deploy.LayerShell}},
		{Name: "IMAGE_VAR", Value: []byte("x"), Layer: deploy.LayerBase},
		{Name: "GPG_KEY", HMAC: "abcd", Layer: deploy.LayerBase},
		{Name: "HOSTNAME", Value: []byte("h"), Layer: deploy.LayerBase},
		{Name: "HTTP_PROXY", Value: []byte("http://p"), Layer: deploy.LayerBase},
		{Name: "PROFILE_VAR", Value: []byte("y"), Layer: deploy.LayerShell, Over: []deploy.Layer{deploy.LayerBase}},
		{Name: "DISAGG_RUN", Value: []byte("r"), Layer: deploy.LayerTool},
	}}
	got := r.record(p, w, rec)
	got.Time = time.Time{}
	text := func(s string) *receipts.Text { return receipts.NewText([]byte(s)) }
	want := receipts.Record{Process: "decode-0.0", Scope: "decode", Node: "gpu-02", Vars: []receipts.Var{
		{Name: "CHANGED", State: receipts.Changed, Origin: "recipe:r.yaml:3", Planned: text("104"), Seen: text("96")},
		{Name: "DISAGG_RUN", State: receipts.FromTool, Seen: text("r")},
		{Name: "GONE", State: receipts.Missing, Origin: "catalog:x", Planned: text("")},
		{Name: "GPG_KEY", State: receipts.FromImage, Secret: true, HMAC: "abcd"},
		{Name: "HF_TOKEN", State: receipts.AsPlanned, Origin: "forward", Secret: true, HMAC: sum([]byte("s3cret"), []byte("key")), Over: []receipts.State{receipts.Extra}},
		{Name: "HOSTNAME", State: receipts.FromRuntime, Seen: text("h")},
		{Name: "HTTP_PROXY", State: receipts.Extra, Seen: text("http://p")},
		{Name: "IMAGE_VAR", State: receipts.FromImage, Seen: text("x")},
		{Name: "LOST_TOKEN", State: receipts.Missing, Origin: "forward", Secret: true},
		{Name: "MORI_RDMA_TC", State: receipts.Unset, Origin: "adapter", Planned: text("@{self.tc}")},
		{Name: "PROFILED", State: receipts.AsPlanned, Origin: "site profile gpu-*", Seen: text("1"), Over: []receipts.State{receipts.FromShell}},
		{Name: "PROFILE_VAR", State: receipts.FromShell, Seen: text("y"), Over: []receipts.State{receipts.Extra}},
		{Name: "PYTHONPATH", State: receipts.AsPlanned, Origin: "catalog:x", Planned: text("/mine"), Seen: text("/mine:/image")},
		{Name: "SAME", State: receipts.AsPlanned, Origin: "forward", Seen: text("\xff")},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPlainProcessesInheritFromTheList: what is on it is inherited, what is not is
// extra, whatever an image of the same recipe would set.
func TestPlainProcessesInheritFromTheList(t *testing.T) {
	t.Parallel()
	r := &run{plan: &models.Plan{Runtime: models.Runtime{Kind: runtimeNone}}, imageEnv: map[string][]string{"": {"VIRTUAL_ENV"}}}
	p := &proc{Process: &models.Process{}}
	for name, want := range map[string]receipts.State{
		"PATH": receipts.Inherited, "LC_ALL": receipts.Inherited, "TMPDIR": receipts.Inherited,
		"VIRTUAL_ENV": receipts.Extra, "LD_LIBRARY_PATH": receipts.Extra, "SLURM_JOB_ID": receipts.Extra, "HOSTNAME": receipts.Extra,
	} {
		if got := r.layer(p, name, deploy.LayerBase); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestEveryProcessHasAReceipt: workers, router and clients alike, and the file
// with the secrets is gone as soon as the controller has them.
func TestEveryProcessHasAReceipt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.c.nodes["gpu-01"].image = func(ref string) (deploy.ImageInfo, error) {
			return deploy.ImageInfo{ID: "sha256:" + ref, EnvNames: []string{"IMAGE_VAR"}}, nil
		}
		s.c.nodes["gpu-02"].image = s.c.nodes["gpu-01"].image
		s.c.nodes["gpu-02"].receipt = func(_ string, env []deploy.ReceiptVar) []deploy.ReceiptVar {
			return append(env, deploy.ReceiptVar{Name: "HTTP_PROXY", Value: []byte("http://p"), Layer: deploy.LayerBase},
				deploy.ReceiptVar{Name: "IMAGE_VAR", Value: []byte("x"), Layer: deploy.LayerBase})
		}
		s.plan.Services = []models.Process{{ID: "master", Scope: "service", Image: "engine:1", Argv: []string{"master"}, Env: []models.EnvVar{{Name: "MC_X", Value: "1", Origin: "adapter"}}}}
		s.c.programs["master"] = func(ctx context.Context, _ *fakeProc) deploy.Exit { <-ctx.Done(); return deploy.Exit{} }
		s.plan.Eval = &models.Eval{ClientPoint: models.ClientPoint{Process: models.Process{ID: "eval", Scope: "eval", Image: "engine:1", Argv: []string{"eval", "@{result.dir}"},
			Env: []models.EnvVar{{Name: "HF_TOKEN", Secret: true, Origin: "forward"}}}}}
		s.c.programs["eval"] = s.loaded(client(20*time.Second, goodResult))
		secrets := make(chan bool, 1)
		run := s.c.programs["prefill-0.0"]
		s.c.programs["prefill-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			_, err := os.Stat(s.dir.Join(rundir.SecretsFile))
			secrets <- os.IsNotExist(err)
			return run(ctx, p)
		}
		res := s.start()
		if res.ExitCode != 0 {
			t.Fatalf("%+v", res.Cause)
		}
		if !<-secrets {
			t.Error("the file with the secrets is there while the programs run")
		}
		recs, err := receipts.Read(s.dir.Join(rundir.ReceiptsFile))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]receipts.Record{}
		for _, r := range recs {
			seen[r.Process] = r
		}
		for _, id := range []string{"master", "prefill-0.0", "decode-0.0", "router", "client.c8", "client.c16", "eval"} {
			if r, ok := seen[id]; !ok || len(r.Differs()) > 0 {
				t.Errorf("%s: receipt %v, differs %v", id, ok, r.Differs())
			}
		}
		if len(recs) != 7 {
			t.Errorf("%d receipts", len(recs))
		}
		var warned []string
		for _, w := range res.Warnings {
			if strings.Contains(w, "neither the plan nor its image sets") {
				warned = append(warned, w)
			}
		}
		want := []string{"decode-0.0 on gpu-02 (scope decode) sees variables that neither the plan nor its image sets: HTTP_PROXY; requests between router and workers may go through that proxy; look at the settings of the container runtime on that node"}
		if d := cmp.Diff(want, warned); d != "" {
			t.Error(d)
		}
		e := s.find(events.ProcessEnv, "decode-0.0")
		if w := "decode-0.0 on gpu-02 sees all 3 variables as planned; not set, because gpu-02 does not tell their values: MORI_RDMA_SL, MORI_RDMA_TC"; e == nil || e.Msg != w {
			t.Errorf("event %+v, want %q", e, w)
		}
		s.noSecrets()
	})
}

// TestWhatOthersSayIsRedacted: a program's last words and a server's answer can
// hold a secret; events, result and what Run returns do not.
func TestWhatOthersSayIsRedacted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.router.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == chatPath {
				http.Error(w, `{"error":"bad token hf_s3cret"}`, http.StatusUnauthorized)
				return true
			}
			return false
		}
		s.plan.Budgets.Canary = models.Duration(20 * time.Second)
		res := s.start()
		if res.Cause == nil || !strings.Contains(res.Cause.What, "bad token [redacted:HF_TOKEN]") {
			t.Errorf("cause %+v", res.Cause)
		}
		s.noSecrets()
	})
}

// TestSecretsInResults: a client that writes a secret into its results is named;
// the file is its own and stays.
func TestSecretsInResults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		const leaking = `{"completed":100,"num_prompts":100,"total_output_tokens":5000,"headers":"Bearer hf_s3cret"}`
		s.c.programs["client.c8"] = s.loaded(client(20*time.Second, leaking))
		res := s.start()
		want := "point c8: out.json holds the value of HF_TOKEN, written by the client; take it out before the results are passed on"
		if res.ExitCode != 0 || !slices.Contains(res.Warnings, want) {
			t.Errorf("exit code %d, warnings %q", res.ExitCode, res.Warnings)
		}
		if data, err := os.ReadFile(s.dir.Join("results/c8/out.json")); err != nil || string(data) != leaking {
			t.Errorf("%s, %v", data, err)
		}
	})
}
