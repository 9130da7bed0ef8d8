package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// vllmTransfer is vLLM's --kv-transfer-config as far as the stand-in reads it.
type vllmTransfer struct {
	Role  string `json:"kv_role"` // kv_producer, kv_consumer, kv_both
	Extra struct {
		ProxyIP   string  `json:"proxy_ip"`
		PingPort  textual `json:"proxy_ping_port"`
		HTTPPort  textual `json:"http_port"`
		HostIP    string  `json:"host_ip"`
		Handshake textual `json:"handshake_port"`
		Notify    textual `json:"notify_port"`
		ReadMode  bool    `json:"read_mode"`
	} `json:"kv_connector_extra_config"`
}

// textual is a port that may be written as a number or as text.
type textual int

// UnmarshalJSON reads either form.
func (t *textual) UnmarshalJSON(data []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	*t = textual(n)
	return err
}

// vllm is what a vLLM worker has beside an engine's usual.
type vllm struct {
	transfer  vllmTransfer
	addr      string // its own, as others reach it
	handshake int
	next      atomic.Uint64 // number of the next held KV
}

// newVLLM reads the command line of "vllm serve".
func newVLLM(ctx context.Context, args []string, stderr io.Writer) (*engine, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil, errors.New("error: the model is missing")
	}
	e, err := newEngine(append([]string{"--model", args[0]}, args[1:]...), stderr)
	if err != nil {
		return nil, err
	}
	v := &vllm{}
	if config := e.flags.text("", "kv-transfer-config"); config != "" {
		if err := json.Unmarshal([]byte(config), &v.transfer); err != nil {
			return nil, fmt.Errorf("error: argument --kv-transfer-config: %w", err)
		}
	}
	e.vllm = v
	e.host, e.port = e.flags.text("0.0.0.0", "host"), e.flags.number(8000, "port")
	e.limit = e.flags.number(131072, "max-model-len")
	e.mode = map[string]string{"kv_producer": "prefill", "kv_consumer": "decode"}[v.transfer.Role]
	if e.mode == "" {
		e.mode = "null"
	}
	e.faults.place = place{role: e.mode, port: e.port, rank: e.rank}
	v.handshake = int(v.transfer.Extra.Handshake)
	if v.handshake == 0 {
		v.handshake = 6301
	}
	v.addr = v.transfer.Extra.HostIP
	if v.addr == "" {
		v.addr = ownAddr(ctx, v.transfer.Extra.ProxyIP)
	}
	return e, nil
}

// ownAddr is the address from which this host reaches another; nothing is sent.
func ownAddr(ctx context.Context, other string) string {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(other, "9"))
	if err != nil {
		return "127.0.0.1"
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String()
}

// kvParams is how vLLM's router carries the place of a request's KV from the
// prefill worker's answer into the decode worker's request.
type kvParams struct {
	DoRemoteDecode  bool     `json:"do_remote_decode"`
	DoRemotePrefill bool     `json:"do_remote_prefill"`
	BlockIDs        []uint64 `json:"remote_block_ids"`
	EngineID        string   `json:"remote_engine_id"`
	Host            string   `json:"remote_host"`
	Port            textual  `json:"remote_port"`
}

// prepare does for vLLM what must be done before the first token: prefill keeps
// the KV and says where, decode fetches it from there.
func (v *vllm) prepare(ctx context.Context, e *engine, q request, prompt string, a *answer) error {
	p := q.KVTransfer
	switch {
	case p != nil && p.DoRemoteDecode:
		n := v.next.Add(1)
		e.rooms.get(n).fill(kv{Room: n, Prompt: prompt, Tokens: a.prompt})
		// Nobody may come for it; it is kept no longer than that takes to tell.
		time.AfterFunc(duration("STANDIN_KV_SECONDS", time.Second, kvTimeout), func() { e.rooms.drop(n) })
		a.params = &kvParams{DoRemotePrefill: true, BlockIDs: []uint64{n}, EngineID: e.name, Host: v.addr, Port: textual(v.handshake)}
	case p != nil && p.DoRemotePrefill && len(p.BlockIDs) > 0:
		k, err := e.fetch(ctx, p.Host, int(p.Port), p.BlockIDs[0])
		if err != nil {
			return err
		}
		if k.Prompt != prompt {
			return fmt.Errorf("KVTransferError: block %d holds the KV of another prompt", p.BlockIDs[0])
		}
	case e.mode == "decode":
		// The real one computes the prompt again, so that a broken path between
		// the roles shows as a slow one.
		e.log.line("WARNING: no remote KV for this request; recomputing the prompt locally")
	}
	return nil
}

// register tells the router's discovery address of this worker until ctx ends.
func (v *vllm) register(ctx context.Context, e *engine) {
	x := v.transfer.Extra
	if x.ProxyIP == "" || x.PingPort == 0 {
		return
	}
	mode := "WRITE"
	if x.ReadMode {
		mode = "READ"
	}
	port := int(x.HTTPPort)
	if port == 0 {
		port = e.port
	}
	kind := map[string]string{"prefill": "P", "decode": "D"}[e.mode]
	message := msgpackMap([][2]string{
		{"type", kind},
		{"http_address", net.JoinHostPort(v.addr, strconv.Itoa(port))},
		{"zmq_address", fmt.Sprintf("host:%s,handshake:%d,notify:%d", v.addr, v.handshake, x.Notify)},
		{"transfer_mode", mode},
	})
	at := net.JoinHostPort(x.ProxyIP, strconv.Itoa(int(x.PingPort)))
	for pause(ctx, 100*time.Millisecond) {
		if err := zmqSend(ctx, at, message, time.Second); err != nil && ctx.Err() == nil {
			e.log.line("WARNING: register at " + at + ": " + err.Error())
			if !pause(ctx, time.Second) {
				return
			}
		}
	}
}

// handle adds what vLLM serves beside the OpenAI interface.
func (v *vllm) handle(mux *http.ServeMux, e *engine) {
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": "0.11.0+standin"})
	})
	mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		e.metrics.writeVLLM(w)
	})
}

// noModel answers as vLLM does when another model is asked for.
func noModel(w http.ResponseWriter, name string) {
	writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{
		"message": fmt.Sprintf("The model `%s` does not exist.", name), "type": "NotFoundError", "param": "model", "code": 404,
	}})
}

// vllmMain is the program "vllm".
func vllmMain(ctx context.Context, args []string, stderr io.Writer) int {
	if len(args) == 0 || args[0] != "serve" {
		fmt.Fprintln(stderr, "usage: vllm serve MODEL [options]")
		return 2
	}
	e, err := newVLLM(ctx, args[1:], stderr)
	if err != nil {
		fmt.Fprintln(stderr, "vllm serve:", err)
		return 2
	}
	return e.main(ctx, append([]string{"serve"}, args[1:]...))
}
