package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// startVLLM starts a worker in vLLM's shape.
func startVLLM(t *testing.T, role, proxyPort string) *program {
	t.Helper()
	port := freePort(t)
	transfer := fmt.Sprintf(`{"kv_connector":"MoRIIOConnector","kv_role":%q,"kv_connector_extra_config":`+
		`{"proxy_ip":"127.0.0.1","proxy_ping_port":%q,"http_port":"%d","read_mode":true,"handshake_port":%d,"notify_port":61005}}`,
		role, proxyPort, port, freePort(t))
	p := start(t, "", "vllm", "serve", "org/model", "--served-model-name", "m", "--host", "127.0.0.1",
		"--port", fmt.Sprint(port), "-tp", "8", "--kv-transfer-config", transfer)
	p.port = port
	return p
}

func TestVLLMWorkersPassKVByTheAnswer(t *testing.T) {
	t.Parallel()
	prefill, decode := startVLLM(t, "kv_producer", "0"), startVLLM(t, "kv_consumer", "0")
	prefill.waitStatus("/health", 200)
	decode.waitStatus("/health", 200)
	const body = `{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":3,"kv_transfer_params":%s}`
	status, text := postJSON(t, prefill.url("/v1/chat/completions"), fmt.Sprintf(body, "hi", `{"do_remote_decode":true,"do_remote_prefill":false,"remote_block_ids":null}`))
	var answer struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 || len(answer.Params) == 0 {
		t.Fatalf("prefill gave %d %s", status, text)
	}
	status, text = postJSON(t, decode.url("/v1/chat/completions"), fmt.Sprintf(body, "another prompt", answer.Params))
	if status != 500 || !strings.Contains(text, "KV of another prompt") {
		t.Errorf("decode of another prompt gave %d %s", status, text)
	}
	status, text = postJSON(t, decode.url("/v1/chat/completions"), fmt.Sprintf(body, "hi", answer.Params))
	if status != 200 || !strings.Contains(text, `"completion_tokens":3`) {
		t.Errorf("decode gave %d %s", status, text)
	}
	if status, text := postJSON(t, decode.url("/v1/chat/completions"), `{"model":"x","messages":[{"content":"hi"}]}`); status != 404 {
		t.Errorf("another model gave %d %s", status, text)
	}
}

// TestVLLMWorkerRegisters reads a registration as a ZeroMQ ROUTER socket does.
func TestVLLMWorkerRegisters(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := startVLLM(t, "kv_consumer", port)
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	read := func(n int) string {
		t.Helper()
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got, want := read(64), "\xff"+strings.Repeat("\x00", 8)+"\x7f\x03\x00NULL"+strings.Repeat("\x00", 48); got != want {
		t.Fatalf("greeting %q, want %q", got, want)
	}
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
	if _, err := io.WriteString(conn, "\xff"+strings.Repeat("\x00", 8)+"\x7f\x03\x00NULL"+strings.Repeat("\x00", 48)+"\x04"+string(rune(len(ready)))+ready); err != nil {
		t.Fatal(err)
	}
	want := "\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
	if got := read(len(want)); got[0] != 4 || got[2:] != want[2:] || int(got[1]) != len(got)-2 {
		t.Fatalf("ready %q, want %q", got, want)
	}
	for range 2 { // it is sent again and again
		head := read(2)
		message := read(int(head[1]))
		for _, want := range []string{
			"\x84\xd9\x04type\xd9\x01D\xd9\x0chttp_address", fmt.Sprintf("127.0.0.1:%d", p.port),
			"zmq_address", "host:127.0.0.1,handshake:", ",notify:61005", "\xd9\x0dtransfer_mode\xd9\x04READ",
		} {
			if head[0] != 0 || !strings.Contains(message, want) {
				t.Errorf("message %q lacks %q", message, want)
			}
		}
	}
}
