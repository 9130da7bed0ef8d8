package lab

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/standin"
)

const chat = `{"model":"org/model","messages":[{"role":"user","content":"one two three"}],"max_tokens":4}`

// TestRealRouterRoutesThroughStandIns runs the real router and three stand-in
// workers as plain processes; it needs no root.
func TestRealRouterRoutesThroughStandIns(t *testing.T) {
	skipWithoutPython(t)
	router, err := RealRouter()
	must(t, err)
	binary, err := Standin()
	must(t, err)

	worker := func(mode string, more ...string) string {
		port := freePort(t)
		argv := append([]string{"python3", "-m", "sglang.launch_server", "--model-path", "org/model", "--enable-metrics",
			"--host", "127.0.0.1", "--port", port, "--disaggregation-mode", mode}, more...)
		run(t, &exec.Cmd{Path: binary, Args: argv})
		url := "http://127.0.0.1:" + port
		waitUntil(t, url+" to be healthy", func() bool { status, _ := fetch(http.DefaultClient, url+"/health"); return status == 200 })
		return url
	}
	boot := []string{freePort(t), freePort(t)}
	prefill := []string{
		worker("prefill", "--disaggregation-bootstrap-port", boot[0]), worker("prefill", "--disaggregation-bootstrap-port", boot[1]),
	}
	decode := worker("decode")
	port := freePort(t)
	argv := append(router.Argv, "--pd-disaggregation", "--prefill", prefill[0], boot[0], "--prefill", prefill[1], boot[1],
		"--decode", decode, "--policy", "round_robin", "--host", "127.0.0.1", "--port", port, "--prometheus-port", freePort(t))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), router.Env...)
	run(t, cmd)
	url := "http://127.0.0.1:" + port
	waitForWorkers(t, http.DefaultClient, url, 3)

	for _, endpoint := range []struct{ path, body, want string }{
		{"/v1/chat/completions", chat, `"completion_tokens":4`},
		{"/v1/completions", `{"model":"org/model","prompt":"a b","max_tokens":3}`, `"completion_tokens":3`},
		{"/generate", `{"text":"a b","sampling_params":{"max_new_tokens":2}}`, `"completion_tokens":2`},
		{"/v1/chat/completions", strings.Replace(chat, "{", `{"stream":true,`, 1), "data: [DONE]"},
	} {
		status, text := send(t, http.DefaultClient, url+endpoint.path, endpoint.body)
		if status != 200 || !strings.Contains(text, endpoint.want) {
			t.Errorf("%s gave %d %s, want %s", endpoint.path, status, text, endpoint.want)
		}
	}
	result := runLoad(t, url, "--concurrency", "8", "--requests", "40", "--osl", "5")
	if result.Completed != 40 || result.Failed != 0 || result.OutputTokens != 200 {
		t.Errorf("load measured %+v", result)
	}
	for _, p := range prefill {
		waitUntil(t, "requests on "+p, func() bool {
			_, text := fetch(http.DefaultClient, p+"/metrics")
			return strings.Contains(text, `sglang:num_requests_total{engine_type="prefill",model_name="org/model",pp_rank="0",tp_rank="0"} 22`)
		})
	}
}

func skipWithoutPython(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short leaves out what is installed from a package registry")
	}
	if _, err := os.Stat(systemPython); err != nil {
		t.Skipf("skipped: the real router needs %s", systemPython)
	}
}

// TestRealVLLMRouterDiscoversStandIns lets two stand-ins in vLLM's shape
// register at the real vllm-router, as plain processes.
func TestRealVLLMRouterDiscoversStandIns(t *testing.T) {
	skipWithoutPython(t)
	router, err := RealVLLMRouter()
	must(t, err)
	binary, err := Standin()
	must(t, err)
	discovery, port := freePort(t), freePort(t)
	argv := append(router.Argv, "--vllm-pd-disaggregation", "--kv-connector", "moriio", "--vllm-discovery-address", "127.0.0.1:"+discovery,
		"--host", "127.0.0.1", "--port", port, "--policy", "consistent_hash", "--prometheus-port", freePort(t))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), router.Env...)
	run(t, cmd)
	url := "http://127.0.0.1:" + port
	waitUntil(t, "the router to listen", func() bool { status, _ := fetch(http.DefaultClient, url+"/liveness"); return status == 200 })
	if status, text := fetch(http.DefaultClient, url+"/health"); status != 503 {
		t.Errorf("without workers the router's health is %d %s", status, text)
	}

	metrics := map[string]string{}
	for _, role := range []string{"kv_producer", "kv_consumer"} {
		http := freePort(t)
		transfer := fmt.Sprintf(`{"kv_connector":"MoRIIOConnector","kv_role":%q,"kv_connector_extra_config":{"proxy_ip":"127.0.0.1",`+
			`"proxy_ping_port":%q,"http_port":%q,"read_mode":true,"handshake_port":%q,"notify_port":"61005"}}`, role, discovery, http, freePort(t))
		run(t, &exec.Cmd{Path: binary, Args: []string{"vllm", "serve", "org/model", "--port", http, "-tp", "8", "--kv-transfer-config", transfer}})
		metrics[role] = "http://127.0.0.1:" + http + "/metrics"
	}
	waitUntil(t, "both workers to be discovered", func() bool { status, _ := fetch(http.DefaultClient, url+"/health"); return status == 200 })
	status, text := send(t, http.DefaultClient, url+"/v1/chat/completions", chat)
	if status != 200 || !strings.Contains(text, `"completion_tokens":4`) {
		t.Fatalf("router gave %d %s", status, text)
	}
	for role, want := range map[string]string{"kv_producer": "1", "kv_consumer": "4"} {
		_, text := fetch(http.DefaultClient, metrics[role])
		if want := `vllm:generation_tokens_total{engine="0",model_name="org/model"} ` + want; !strings.Contains(text, want) {
			t.Errorf("%s: no %s in %s", role, want, text)
		}
	}
	if status, text := send(t, http.DefaultClient, url+"/v1/chat/completions", strings.Replace(chat, "org/model", "other", 1)); status != 404 {
		t.Errorf("another model gave %d %s", status, text)
	}
}

func runLoad(t *testing.T, url string, more ...string) standin.LoadResult {
	t.Helper()
	var out, errs bytes.Buffer
	argv := append([]string{"standin", "load", "--url", url, "--model", "org/model"}, more...)
	if code := standin.Main(context.Background(), argv, &out, &errs); code != 0 {
		t.Errorf("load ended with %d: %s", code, errs.String())
	}
	var r standin.LoadResult
	must(t, json.Unmarshal(out.Bytes(), &r))
	return r
}

// run runs cmd until the test ends.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%.6000s", strings.Join(cmd.Args, " "), log.String())
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func fetch(c *http.Client, url string) (int, string) {
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func send(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

func waitForWorkers(t *testing.T, c *http.Client, url string, n int) {
	t.Helper()
	waitUntil(t, "the router's workers", func() bool {
		status, text := fetch(c, url+"/workers")
		return status == 200 && strings.Contains(text, fmt.Sprintf(`"total":%d,`, n))
	})
}

// TestRealRouterInDocker runs a prefill worker, a decode worker over two nodes
// and the real router in containers, and sees that nothing of them is left.
func TestRealRouterInDocker(t *testing.T) {
	l := cluster.Get(t)
	weights := l.TempDir(t)
	must(t, os.WriteFile(weights+"/config.json", []byte("{}"), 0o644))
	docker := func(node, name string, argv ...string) {
		t.Helper()
		l.MustExec(t, node, append([]string{"docker", "run", "-d", "--rm", "--name", name, "--network", "host",
			"--device", "/dev/kfd", "--device", "/dev/dri", "-v", weights + ":/model:ro", EngineImage, "python3"}, argv...)...)
		t.Cleanup(func() { _, _ = l.Exec(node, "docker", "rm", "-f", name) })
	}
	engine := []string{"-m", "sglang.launch_server", "--model-path", "/model", "--served-model-name", "org/model", "--host", "0.0.0.0", "--port", "8000"}
	docker("node1", "prefill-0", append(engine, "--disaggregation-mode", "prefill")...)
	ranks := append(engine, "--disaggregation-mode", "decode", "--tp-size", "16", "--nnodes", "2", "--dist-init-addr", l.NodeIP(1)+":20000")
	docker("node2", "decode-0.0", append(ranks, "--node-rank", "0")...)
	docker("node3", "decode-0.1", append(ranks, "--node-rank", "1")...)
	client := l.HTTPClient(10 * time.Second)
	for i := range 2 {
		url := "http://" + l.NodeIP(i) + ":8000/health"
		waitUntil(t, url, func() bool { status, _ := fetch(client, url); return status == 200 })
	}
	docker("node1", "router", "-m", "sglang_router.launch_router", "--pd-disaggregation", "--host", "0.0.0.0", "--port", "30000",
		"--prefill", "http://"+l.NodeIP(0)+":8000", "8998", "--decode", "http://"+l.NodeIP(1)+":8000")
	url := "http://" + l.NodeIP(0) + ":30000"
	waitForWorkers(t, client, url, 2)
	status, text := send(t, client, url+"/v1/chat/completions", chat)
	if status != 200 || !strings.Contains(text, `"completion_tokens":4`) {
		t.Errorf("router gave %d %s", status, text)
	}
	if left, err := l.Leftovers(); err != nil || len(left) < 4 {
		t.Errorf("the look for leftovers sees %q, %v while four containers run", left, err)
	}
	for _, n := range l.Nodes() {
		// One that has just ended takes itself away; what counts is that none is left.
		l.MustExec(t, n, "sh", "-c", "docker ps -q | xargs -r docker stop -t 5; true")
	}
	l.MustBeClean(t, 10*time.Second)
}

// TestImagesHoldTheirPrograms asks each image for what it is there for.
func TestImagesHoldTheirPrograms(t *testing.T) {
	l := cluster.Get(t)
	for _, tt := range []struct {
		image string
		argv  []string
		want  string
	}{
		{ToolImage, []string{"sh", "-c", "id -u"}, "0\n"},
		{RouterImage, []string{"python3", "-m", "sglang_router.launch_router", "--help"}, "--pd-disaggregation"},
		{RouterImage, []string{"sglang-router", "--help"}, "--pd-disaggregation"},
		{VLLMRouterImage, []string{"vllm-router", "--help"}, "--vllm-pd-disaggregation"},
		{EngineImage, []string{"python3", "-c", "import sglang_router.version as v; print(v.__version__)"}, "0.3.2"},
		{EngineImage, []string{"bash", "-lc", "echo $IMAGE_PROFILE $IMAGE_ENV; exec which python3 vllm"}, "read set\n/usr/bin/python3\n/usr/bin/vllm\n"},
	} {
		out, err := l.Exec("node4", append([]string{"docker", "run", "--rm", "--network", "host", tt.image}, tt.argv...)...)
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s %v said %.300q, %v; want %q in it", tt.image, tt.argv, out, err, tt.want)
		}
	}
	l.MustBeClean(t, 5*time.Second)
}
