package orchestrator

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

// Answers as routers gave them: sglang-router 0.3.2, vllm-router 0.1.17, and the
// older list of URLs.
func TestParseMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		want       []member
		err        string
	}{
		{"sglang", `{"workers":[{"id":"3979","url":"http://127.0.0.1:18103","model_id":"m","priority":50,"cost":1.0,"worker_type":"decode","is_healthy":true,"load":0,"connection_mode":"HTTP","metadata":{"tp_size":"1"},"disable_health_check":false},{"id":"5b2b","url":"http://127.0.0.1:18101","model_id":"m","worker_type":"prefill","is_healthy":false,"bootstrap_port":18901}],"total":2,"stats":{"prefill_count":1,"decode_count":1,"regular_count":0}}`,
			[]member{{URL: "http://127.0.0.1:18103", Role: "decode"}, {URL: "http://127.0.0.1:18101", Role: "prefill", Bootstrap: 18901, Unhealthy: true}}, ""},
		{"vllm", `{"workers":[{"url":"http://127.0.0.1:18101","model_id":"unknown","worker_type":"prefill","is_healthy":true,"load":0,"connection_mode":"Http","priority":50,"cost":1.0,"bootstrap_port":null}],"total":1}`,
			[]member{{URL: "http://127.0.0.1:18101", Role: "prefill"}}, ""},
		{"urls", `{"urls":["http://a:1","http://b:2"]}`, []member{{URL: "http://a:1"}, {URL: "http://b:2"}}, ""},
		{"a plain list", `["http://a:1"]`, []member{{URL: "http://a:1"}}, ""},
		{"empty", `{"workers":[],"total":0}`, nil, ""},
		{"another object", `{"status":"ok"}`, nil, "neither workers nor urls"},
		{"no JSON", `<html>`, nil, "invalid character"},
		{"an entry without url", `{"workers":[{"id":"x"}]}`, nil, "an entry has no url"},
	} {
		got, err := parseMembers([]byte(tc.body))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, err, diff)
		}
	}
}

func TestCompareMembers(t *testing.T) {
	t.Parallel()
	planned := []member{{URL: "http://10.0.0.1:8000", Role: "prefill", Bootstrap: 8998}, {URL: "http://10.0.0.2:8000", Role: "decode"}}
	p, d := planned[0], planned[1]
	for _, tc := range []struct {
		name  string
		got   []member
		err   string
		final bool
	}{
		{"as planned", []member{d, p}, "", false},
		{"other spelling", []member{{URL: "HTTP://10.0.0.1:8000/", Role: "prefill"}, d}, "", false},
		{"one missing", []member{p}, "not complete: http://10.0.0.2:8000 (decode) is missing", false},
		{"one unhealthy", []member{p, {URL: d.URL, Role: "decode", Unhealthy: true}}, "not complete: http://10.0.0.2:8000 is unhealthy", false},
		{"one too many", []member{p, d, {URL: "http://10.0.0.3:8000"}}, "http://10.0.0.3:8000 is not in the plan", true},
		{"one twice", []member{p, d, d}, "http://10.0.0.2:8000 is listed twice", true},
		{"roles swapped", []member{{URL: p.URL, Role: "decode"}, d}, "http://10.0.0.1:8000 is listed as decode, planned is prefill", true},
		{"another bootstrap port", []member{{URL: p.URL, Role: "prefill", Bootstrap: 9889}, d}, "listed with bootstrap port 9889, planned is 8998", true},
	} {
		err := compareMembers(planned, tc.got)
		if tc.err == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		_, final := err.(permanent)
		if err == nil || !strings.Contains(err.Error(), tc.err) || final != tc.final {
			t.Errorf("%s: %v (permanent %v), want %q (%v)", tc.name, err, final, tc.err, tc.final)
		}
	}
}

func TestPlannedMembersOfDataParallelRanks(t *testing.T) {
	t.Parallel()
	plan := testPlan(1, 1)
	plan.Router.DPAware = true
	plan.Workers[1].DP = 2
	r := &run{plan: plan, Options: Options{Plan: plan}}
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		n := &node{}
		n.info.Addr = addr
		r.place = append(r.place, n)
	}
	want := []member{
		{URL: "http://10.0.0.1:8000", Role: "prefill", Bootstrap: 8998},
		{URL: "http://10.0.0.2:8000@0", Role: "decode"},
		{URL: "http://10.0.0.2:8000@1", Role: "decode"},
	}
	if diff := cmp.Diff(want, r.plannedMembers(r.workers())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListsMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rt   models.Router
		want bool
	}{
		{models.Router{MembersPath: "/workers"}, true},
		{models.Router{}, false},
		{models.Router{MembersPath: "/workers", Process: models.Process{Ports: []models.Port{{Name: "discovery", Number: 36367}}}}, false},
	} {
		if got := listsMembers(&tc.rt); got != tc.want {
			t.Errorf("%+v: %v", tc.rt, got)
		}
	}
}

// A router without a page for health is ready when it takes connections.
func TestRouterProbeWithoutPage(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plan := testPlan(1, 1)
	plan.Router.ReadyPath, plan.Router.Port = "", l.Addr().(*net.TCPAddr).Port
	n := &node{}
	n.info.Addr = "127.0.0.1"
	r := &run{plan: plan, place: []*node{n, n}, pace: Pace{}.filled()}
	probe := r.routerProbe()
	if err := probe(t.Context()); err != nil {
		t.Errorf("listening: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("closed: %v", err)
	}
}

func TestParseCounters(t *testing.T) {
	t.Parallel()
	c := parseCounters([]byte(`# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m, the {second}",tp_rank="0"} 100.0
sglang:generation_tokens_total{model_name="m",tp_rank="1"} 20 1712345678000
sglang:prompt_tokens_total 7
sglang:num_running_reqs{model_name="m"} 3
vllm:request_success_total{finished_reason="stop"} 1e+01
smg_worker_cb_outcomes_total{worker="http://10.0.0.1:8000",outcome="success"} 3
smg_worker_cb_outcomes_total{worker="http://10.0.0.1:8000",outcome="failure"} 50
smg_worker_cb_outcomes_total{worker="http://10.0.0.2:8000@1",outcome="success"} 4
vllm_router_pd_decode_requests_total{worker="10.0.0.2:8000"} 1
smg_worker_health{worker="http://10.0.0.3:8000"} 1
sglang:num_queue_reqs{model_name="m"} 1
sglang:num_decode_prealloc_queue_reqs{model_name="m"} 2
sglang:num_decode_transfer_queue_reqs{model_name="m"} 4
vllm:num_requests_waiting{engine="0"} 5
broken{
NaNsense x
`))
	if n, ok := c.tokens(); !ok || n != 120 {
		t.Errorf("tokens = %g, %v", n, ok)
	}
	if n, ok := c.workDone(); !ok || n != 137 {
		t.Errorf("workDone = %g, %v", n, ok)
	}
	if n, ok := c.inFlight(); !ok || n != 15 {
		t.Errorf("inFlight = %g, %v", n, ok)
	}
	if diff := cmp.Diff(map[string]float64{"10.0.0.1:8000": 3, "10.0.0.2:8000": 5}, c.byWorker); diff != "" {
		t.Errorf("by worker (-want +got):\n%s", diff)
	}
	if _, ok := parseCounters([]byte("<html>\n")).tokens(); ok {
		t.Error("counted tokens in a page")
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	names := func(p, d int) []string {
		var out []string
		for _, x := range pairs(testPlan(p, d).Workers) {
			out = append(out, x.String())
		}
		return out
	}
	if diff := cmp.Diff([]string{"prefill-0 → decode-0", "prefill-0 → decode-1", "prefill-1 → decode-0", "prefill-1 → decode-1"}, names(2, 2)); diff != "" {
		t.Errorf("2×2 (-want +got):\n%s", diff)
	}
	if got := names(8, 8); len(got) != 64 {
		t.Errorf("8×8 gives %d", len(got))
	}
	// Beyond the bound every worker takes part once at least.
	many := names(9, 20)
	if len(many) != 20 {
		t.Fatalf("9×20 gives %d", len(many))
	}
	seen := map[string]bool{}
	for _, s := range many {
		p, d, _ := strings.Cut(s, " → ")
		seen[p], seen[d] = true, true
	}
	if len(seen) != 29 {
		t.Errorf("%d of 29 workers take part", len(seen))
	}
	agg := []models.Worker{{ID: "aggregate-0", Role: models.RoleAggregate}}
	if got := pairs(agg); len(got) != 1 || got[0].String() != "aggregate-0" {
		t.Errorf("aggregate: %v", got)
	}
}

func FuzzParseMembers(f *testing.F) {
	f.Add([]byte(`{"workers":[{"url":"http://a:1"}]}`))
	f.Add([]byte(`["x"]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseMembers(body)
		if err == nil {
			_ = compareMembers([]member{{URL: "http://a:1", Role: "prefill"}}, got)
		}
	})
}

func FuzzParseCounters(f *testing.F) {
	f.Add([]byte("a{b=\"c\"} 1\n"))
	f.Add([]byte("a} 1\n{ 2\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := parseCounters(body)
		c.workDone()
	})
}

func FuzzJudgeCompletion(f *testing.F) {
	f.Add(200, []byte(`{"choices":[{"message":{"content":"4"}}],"usage":{"completion_tokens":1}}`))
	f.Add(404, []byte(`{`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if text, err := judgeCompletion(answer{status: status, body: body}); err == nil && (status != 200 || !json.Valid(body)) {
			t.Errorf("HTTP %d %q counts as tokens %q", status, body, text)
		}
	})
}
