package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the program: started under the name
// python3 or standin it is one.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "python3", "standin", "vllm", "sglang::engine", "sglang::router", "sglang::helper":
		os.Exit(Main(context.Background(), os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program is a running stand-in.
type program struct {
	*exec.Cmd
	t    *testing.T
	port int
	log  *buffer
	done chan error
}

// buffer is a bytes.Buffer for several writers and readers.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs argv with the given fault until the test ends.
func start(t *testing.T, fault string, argv ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, log: &buffer{}, done: make(chan error, 1), Cmd: &exec.Cmd{Path: self, Args: argv}}
	p.Env = append(os.Environ(), "STANDIN_FAULT="+fault)
	p.Stdout, p.Stderr = p.log, p.log
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.WaitDelay = 200 * time.Millisecond
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s:\n%.4000s", strings.Join(argv, " "), p.log.String())
		}
	})
	return p
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startEngine starts a worker; more are further arguments.
func startEngine(t *testing.T, fault string, more ...string) *program {
	t.Helper()
	port := freePort(t)
	argv := append([]string{"python3", "-m", "sglang.launch_server", "--model-path", "org/model", "--enable-metrics",
		"--host", "127.0.0.1", "--port", fmt.Sprint(port)}, more...)
	p := start(t, fault, argv...)
	p.port = port
	return p
}

func (p *program) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", p.port, path) }

// waitFor waits until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 20s", what)
		}
	}
}

func (p *program) waitStatus(path string, want int) {
	p.t.Helper()
	waitFor(p.t, fmt.Sprintf("%d from %s", want, path), func() bool {
		status, _, err := get(p.url(path))
		return err == nil && status == want
	})
}

// exit waits for the program's end and returns its code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		p.t.Fatal("no end within 20s")
		return 0
	}
}

func get(url string) (int, string, error) {
	c := http.Client{Timeout: 5 * time.Second}
	resp, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// silent checks that a server takes a request and does not answer it.
func silent(url string) error {
	c := http.Client{Timeout: 300 * time.Millisecond}
	resp, err := c.Get(url)
	if err == nil {
		resp.Body.Close()
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	if !os.IsTimeout(err) {
		return err
	}
	return nil
}

func postJSON(t *testing.T, url, body string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: 20 * time.Second}
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// cluster is 2 prefill workers, 1 decode worker and the stand-in router.
func cluster(t *testing.T, prefillFault, decodeFault, routerFault string) (router *program, prefill []*program, decode *program) {
	t.Helper()
	args := []string{"python3", "-m", "sglang_router.launch_router", "--pd-disaggregation", "--host", "127.0.0.1"}
	for range 2 {
		boot := fmt.Sprint(freePort(t))
		p := startEngine(t, prefillFault, "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", boot)
		prefill = append(prefill, p)
		args = append(args, "--prefill", p.url(""), boot)
	}
	decode = startEngine(t, decodeFault, "--disaggregation-mode", "decode")
	for _, p := range append(prefill, decode) {
		p.waitStatus("/health", 200)
	}
	port := freePort(t)
	router = start(t, routerFault, append(args, "--decode", decode.url(""), "--port", fmt.Sprint(port))...)
	router.port = port
	return router, prefill, decode
}

func metric(t *testing.T, p *program, name string) string {
	t.Helper()
	_, body, err := get(p.url("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "sglang:"+name+"{") {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		}
	}
	t.Fatalf("no metric %s in:\n%s", name, body)
	return ""
}

func TestTokensComeThroughBothRoles(t *testing.T) {
	t.Parallel()
	router, prefill, decode := cluster(t, "", "", "")
	waitFor(t, "three workers", func() bool {
		_, body, err := get(router.url("/workers"))
		return err == nil && strings.Contains(body, `"total":3`)
	})
	var out, errs bytes.Buffer
	if code := Main(context.Background(), []string{"standin", "load", "--url", router.url(""), "--model", "org/model",
		"--concurrency", "4", "--requests", "12", "--isl", "20", "--osl", "5"}, &out, &errs); code != 0 {
		t.Fatalf("load ended with %d: %s", code, errs.String())
	}
	var r LoadResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Completed != 12 || r.Failed != 0 || r.OutputTokens != 60 || r.InputTokens != 240 || r.Status["200"] != 12 {
		t.Errorf("load measured %+v", r)
	}
	waitFor(t, "the metrics of every request", func() bool { return metric(t, decode, "num_requests_total") == "12" })
	if got := metric(t, decode, "generation_tokens_total"); got != "60" {
		t.Errorf("decode generated %s tokens, want 60", got)
	}
	// Which of the two takes a request is the router's choice; together they take
	// them all, each with one token.
	both := func(name string) (sum int, each bool) {
		each = true
		for _, p := range prefill {
			n, err := strconv.Atoi(metric(t, p, name))
			if err != nil {
				t.Fatal(err)
			}
			sum, each = sum+n, each && n > 0
		}
		return sum, each
	}
	waitFor(t, "requests on each prefill worker", func() bool { n, each := both("num_requests_total"); return n == 12 && each })
	if got, _ := both("generation_tokens_total"); got != 12 {
		t.Errorf("prefill generated %d tokens, want 12", got)
	}
	for _, body := range []string{
		`{"text":["a b","c"],"sampling_params":{"max_new_tokens":2}}`,
		`{"text":"a b","sampling_params":{"max_new_tokens":2}}`,
	} {
		status, text := postJSON(t, router.url("/generate"), body)
		if status != 200 || !strings.Contains(text, `"text":"token 1"`) {
			t.Errorf("generate %s gave %d %s", body, status, text)
		}
	}
	status, text := postJSON(t, router.url("/v1/completions"), `{"model":"m","prompt":[1,2,3],"max_tokens":2}`)
	if status != 200 || !strings.Contains(text, `"usage":{"completion_tokens":2,"prompt_tokens":3,"total_tokens":5}`) {
		t.Errorf("completions gave %d %s", status, text)
	}
}

func TestDecodeAnswersOnlyWithKV(t *testing.T) {
	t.Parallel()
	const chat = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2}`
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		router, _, decode := cluster(t, "refuse-kv", "", "")
		router.waitStatus("/readiness", 200)
		waitFor(t, "all workers", func() bool { _, b, _ := get(router.url("/workers")); return strings.Contains(b, `"total":3`) })
		status, text := postJSON(t, router.url("/v1/chat/completions"), chat)
		if status != 500 || !strings.Contains(text, "KV transfer refused") {
			t.Errorf("got %d %s", status, text)
		}
		if got := metric(t, decode, "num_transfer_failed_reqs_total"); got != "1" {
			t.Errorf("decode counted %s failed transfers, want 1", got)
		}
	})
	t.Run("without a room", func(t *testing.T) {
		t.Parallel()
		p := startEngine(t, "", "--disaggregation-mode", "decode")
		p.waitStatus("/health", 200)
		if status, text := postJSON(t, p.url("/v1/chat/completions"), chat); status != 500 || !strings.Contains(text, "without bootstrap room") {
			t.Errorf("got %d %s", status, text)
		}
	})
}

func TestRanksLiveAndDieTogether(t *testing.T) {
	t.Parallel()
	dist := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	head := startEngine(t, "", "--tp-size", "16", "--dist-init-addr", dist, "--nnodes", "2", "--node-rank", "0")
	time.Sleep(600 * time.Millisecond) // longer than loading takes
	if status, _, err := get(head.url("/health")); err == nil {
		t.Fatalf("rank 0 answers %d although rank 1 is not there", status)
	}
	second := startEngine(t, "", "--tp-size", "16", "--dist-init-addr", dist, "--nnodes", "2", "--node-rank", "1")
	head.waitStatus("/health", 200)
	if _, _, err := get(second.url("/health")); err == nil {
		t.Error("rank 1 serves HTTP")
	}
	_ = second.Process.Kill()
	if code := head.exit(); code != 1 || !strings.Contains(head.log.String(), "rank 1 left the process group") {
		t.Errorf("rank 0 ended with %d after rank 1 died", code)
	}
}

func TestFaultsOfAnEngine(t *testing.T) {
	t.Parallel()
	const chat = `{"model":"org/model","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`
	tests := []struct {
		fault string
		check func(t *testing.T, p *program)
	}{
		{"crash:phase=load,code=3,text=out+of+memory", func(t *testing.T, p *program) {
			if code := p.exit(); code != 3 || !strings.Contains(p.log.String(), "\nout of memory\n") {
				t.Errorf("ended with %d", code)
			}
		}},
		{"crash:code=0", func(t *testing.T, p *program) {
			if code := p.exit(); code != 0 {
				t.Errorf("ended with %d, want 0", code)
			}
		}},
		{"crash:phase=ready,signal=KILL", func(t *testing.T, p *program) {
			p.exit()
			if ws := p.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
				t.Errorf("ended with %v, want SIGKILL", p.ProcessState)
			}
		}},
		{"crash:phase=serve,after=1,code=7", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if status, text := postJSON(t, p.url("/v1/chat/completions"), chat); status != 200 {
				t.Fatalf("first request: %d %s", status, text)
			}
			if resp, err := http.Post(p.url("/v1/chat/completions"), "application/json", strings.NewReader(chat)); err == nil {
				resp.Body.Close()
				t.Error("the second request was answered")
			}
			if code := p.exit(); code != 7 {
				t.Errorf("ended with %d, want 7", code)
			}
		}},
		{"crash:role=prefill", func(t *testing.T, p *program) { p.waitStatus("/health", 200) }},
		{"slow-load:seconds=60", func(t *testing.T, p *program) {
			waitFor(t, "start of loading", func() bool { return strings.Contains(p.log.String(), "Load weight begin") })
			if _, _, err := get(p.url("/health")); err == nil {
				t.Error("answers while loading")
			}
		}},
		{"answer:body=error", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if status, text := postJSON(t, p.url("/v1/chat/completions"), chat); status != 200 || !strings.HasPrefix(text, `{"error"`) {
				t.Errorf("got %d %s", status, text)
			}
		}},
		{"answer:body=html,status=502", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if status, text := postJSON(t, p.url("/v1/chat/completions"), chat); status != 502 || !strings.HasPrefix(text, "<html>") {
				t.Errorf("got %d %s", status, text)
			}
		}},
		{"answer:body=empty-choices", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if _, text := postJSON(t, p.url("/v1/chat/completions"), chat); !strings.Contains(text, `"choices":[]`) {
				t.Errorf("got %s", text)
			}
		}},
		{"wrong-model", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if _, text, _ := get(p.url("/v1/models")); !strings.Contains(text, `"id":"other/model"`) {
				t.Errorf("models are %s", text)
			}
			if status, text := postJSON(t, p.url("/v1/chat/completions"), chat); status != 404 || !strings.Contains(text, "does not exist") {
				t.Errorf("got %d %s", status, text)
			}
		}},
		{"hang-health", func(t *testing.T, p *program) {
			p.waitStatus("/v1/models", 200)
			if err := silent(p.url("/health")); err != nil {
				t.Error(err)
			}
		}},
		{"deaf:after=0", func(t *testing.T, p *program) {
			waitFor(t, "readiness in the log", func() bool { return strings.Contains(p.log.String(), "ready to roll") })
			waitFor(t, "deafness", func() bool { return silent(p.url("/health")) == nil })
		}},
		{"not-listening", func(t *testing.T, p *program) {
			waitFor(t, "readiness in the log", func() bool { return strings.Contains(p.log.String(), "ready to roll") })
			if _, _, err := get(p.url("/health")); err == nil {
				t.Error("listens")
			}
		}},
		{"ignore-term", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			_ = p.Process.Signal(syscall.SIGTERM)
			time.Sleep(300 * time.Millisecond)
			if status, _, err := get(p.url("/health")); err != nil || status != 200 {
				t.Errorf("after SIGTERM: %d, %v", status, err)
			}
		}},
		{"reparent:code=0", func(t *testing.T, p *program) {
			if code := p.exit(); code != 0 {
				t.Fatalf("launcher ended with %d", code)
			}
			p.waitStatus("/health", 200)
		}},
		{"orphan:seconds=20", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			var pid int
			waitFor(t, "a helper", func() bool {
				files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
				for _, f := range files {
					text, _ := os.ReadFile(f)
					if _, err := fmt.Sscan(string(text), &pid); err == nil {
						return true
					}
				}
				return false
			})
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			_ = p.Process.Signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 {
				t.Errorf("ended with %d after SIGTERM", code)
			}
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the helper is gone: %v", err)
			}
		}},
		{"noise:mb=1", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			if log := p.log.String(); !strings.Contains(log, "\xff\xfe clang") || !strings.Contains(log, strings.Repeat("\x00", 1<<20)) {
				t.Error("no noise in the log")
			}
		}},
		{"stall", func(t *testing.T, p *program) {
			p.waitStatus("/health", 200)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			go func() {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.url("/v1/chat/completions"), strings.NewReader(chat))
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}()
			waitFor(t, "a running request", func() bool { return metric(t, p, "num_running_reqs") == "1" })
			if got := metric(t, p, "generation_tokens_total"); got != "0" {
				t.Errorf("generated %s tokens", got)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			tt.check(t, startEngine(t, tt.fault))
		})
	}
}

func TestFaultsChangeWhileServing(t *testing.T) {
	t.Parallel()
	p := startEngine(t, "")
	p.waitStatus("/health", 200)
	resp, err := http.Post(p.url("/_standin/fault"), "text/plain", strings.NewReader("answer:status=503"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if status, _ := postJSON(t, p.url("/generate"), `{"text":"a"}`); status != 503 {
		t.Errorf("status %d, want 503", status)
	}
	if resp, err := http.Post(p.url("/_standin/fault"), "text/plain", strings.NewReader("crash:phase=now,code=9")); err == nil {
		resp.Body.Close() // the answer came before the end
	}
	if code := p.exit(); code != 9 {
		t.Errorf("ended with %d, want 9", code)
	}
}

func TestRouterDropsWorker(t *testing.T) {
	t.Parallel()
	router, _, _ := cluster(t, "", "", "drop-worker:url=127.0.0.1") // all of them
	router.waitStatus("/health", 200)
	time.Sleep(300 * time.Millisecond)
	if _, body, _ := get(router.url("/workers")); !strings.Contains(body, `"total":0`) {
		t.Errorf("workers are %s", body)
	}
	if status, text := postJSON(t, router.url("/generate"), `{"text":"a"}`); status != 503 || !strings.Contains(text, "all circuits open or unhealthy") {
		t.Errorf("got %d %s", status, text)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	p := startEngine(t, "")
	p.waitStatus("/health", 200)
	second := start(t, "", "python3", "-m", "sglang.launch_server", "--model-path", "m", "--host", "127.0.0.1", "--port", fmt.Sprint(p.port))
	if code := second.exit(); code != 1 || !strings.Contains(second.log.String(), "address already in use") {
		t.Errorf("ended with %d", code)
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	got, err := ParseFaults("crash:phase=load,text=a+b%2C+c;\n orphan ")
	if err != nil || len(got) != 2 || got[0].Args["text"] != "a b, c" || got[1].Kind != "orphan" {
		t.Errorf("got %v, %v", got, err)
	}
	for bad, want := range map[string]string{
		"crsh":                        "unknown kind; known are ",
		"crash:phase":                 `"phase" is not key=value`,
		"crash:text=%zz":              "invalid URL escape",
		"stall:role=decode,after=60":  `read fault "stall:role=decode,after=60": stall takes no "after"; it takes host, port, rank, role`,
		"slow-load:second=60":         `slow-load takes no "second"; it takes progress, seconds, host, port, rank, role`,
		"crash:phase=loading":         `phase is one of start, load, ready, serve, now, not "loading"`,
		"crash:signal=9":              `signal is one of KILL, SEGV, ABRT, TERM, not "9"`,
		"deaf:after=soon":             `after is a number, not "soon"`,
		"grow:mb=1.5":                 `mb is a number, not "1.5"`,
		"grow:max=-1":                 `max is a number, not "-1"`,
		"hang-health stall:rankk=one": `stall takes no "rankk"`,
	} {
		if _, err := ParseFaults(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
	for kind := range FaultKinds() {
		word := kind + ":role=decode,host=node1,port=8000,rank=1"
		for k, v := range arguments(kind) {
			if v == "" {
				v = map[string]string{"signal": "KILL"}[k]
			}
			word += "," + k + "=" + v
		}
		if _, err := ParseFaults(word); err != nil {
			t.Errorf("with all that it says it takes: %v", err)
		}
	}
}

func TestFlagsAreLenient(t *testing.T) {
	t.Parallel()
	f := parseFlags([]string{"--port", "1", "--x", "--cuda-graph-bs", "1", "2", "--port=2", "--prefill", "u", "8998", "--prefill", "v"})
	if f.number(0, "port") != 2 || !f.has("x") || len(f["cuda-graph-bs"]) != 2 || len(f["prefill"]) != 3 {
		t.Errorf("got %v", f)
	}
	m := prefillMembers(f["prefill"])
	if len(m) != 2 || *m[0].bootstrap != 8998 || m[1].bootstrap != nil {
		t.Errorf("prefill members %v", m)
	}
}
