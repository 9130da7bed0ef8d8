package standin

import (
	"net/http"
	"strings"
	"time"
)

// handler is the engine's HTTP.
func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	health := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case e.faults.has("hang-health"):
			<-r.Context().Done()
		case !e.ready.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	mux.HandleFunc("GET /health", health)
	mux.HandleFunc("GET /health_generate", health)
	for _, path := range []string{"/get_server_info", "/server_info"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, e.serverInfo()) })
	}
	for _, path := range []string{"/get_model_info", "/model_info"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]any{
				"model_path": e.model, "tokenizer_path": e.model, "is_generation": true, "preferred_sampling_params": nil,
			})
		})
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": e.name, "object": "model", "created": 1700000000, "owned_by": "sglang", "root": e.name, "max_model_len": e.limit,
		}}})
	})
	mux.HandleFunc("GET /get_load", func(w http.ResponseWriter, _ *http.Request) {
		running := e.metrics.inFlight()
		writeJSON(w, http.StatusOK, []any{map[string]int{"dp_rank": 0, "num_reqs": running, "num_waiting_reqs": 0, "num_tokens": running * 16}})
	})
	flush := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n"))
	}
	mux.HandleFunc("GET /flush_cache", flush)
	mux.HandleFunc("POST /flush_cache", flush)
	if e.vllm != nil {
		e.vllm.handle(mux, e)
	} else if e.flags.has("enable-metrics") {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			e.metrics.write(w, e.mode)
		})
	}
	mux.HandleFunc("POST /generate", func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, generateShape{}) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, textShape{}) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, chatShape{}) })
	mux.Handle("/_standin/fault", e.faults)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.deaf.Load() {
			<-r.Context().Done()
			return
		}
		start := time.Now()
		mux.ServeHTTP(w, r)
		if !strings.HasPrefix(r.URL.Path, "/health") && r.URL.Path != "/metrics" {
			e.log.line(r.RemoteAddr + " - \"" + r.Method + " " + r.URL.Path + "\" " + time.Since(start).Round(time.Millisecond).String())
		}
	})
}

func (e *engine) serverInfo() map[string]any {
	running := e.metrics.inFlight()
	return map[string]any{
		"version": "0.5.5-standin", "status": "ready", "model_path": e.model, "served_model_name": e.name, "tokenizer_path": e.model,
		"host": e.host, "port": e.port, "context_length": e.limit,
		"tp_size": e.flags.number(1, "tp-size", "tp", "tensor-parallel-size"), "dp_size": e.flags.number(1, "dp-size", "dp", "data-parallel-size"),
		"ep_size": e.flags.number(1, "ep-size", "ep"), "nnodes": e.nodes, "node_rank": e.rank,
		"disaggregation_mode": e.mode, "disaggregation_bootstrap_port": e.flags.number(8998, "disaggregation-bootstrap-port"),
		"max_running_requests": e.flags.number(2048, "max-running-requests"), "max_total_num_tokens": 1 << 20,
		"internal_states": []any{map[string]any{"last_gen_throughput": float64(running) * 100, "effective_max_running_requests_per_dp": 2048}},
	}
}
