package standin

import (
	"fmt"
	"net/http"
)

// handler is the router's HTTP.
func (r *router) handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) }
	mux.HandleFunc("GET /health", ok)
	mux.HandleFunc("GET /liveness", ok)
	mux.HandleFunc("GET /readiness", r.readiness)
	mux.HandleFunc("GET /health_generate", r.readiness)
	mux.HandleFunc("GET /workers", r.workers)
	mux.HandleFunc("GET /v1/models", r.models)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE smg_http_requests_total counter\nsmg_http_requests_total %d\n", r.requests.Load())
	})
	for _, path := range []string{"/generate", "/v1/completions", "/v1/chat/completions"} {
		mux.HandleFunc("POST "+path, r.route)
	}
	mux.Handle("/_standin/fault", r.faults)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.deaf.Load() {
			<-req.Context().Done()
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// counts are the registered workers and the healthy ones among them.
func (r *router) counts() (healthy, total int) {
	for _, m := range r.all() {
		m.mu.Lock()
		if m.registered {
			total++
			if m.healthy {
				healthy++
			}
		}
		m.mu.Unlock()
	}
	return healthy, total
}

func (r *router) readiness(w http.ResponseWriter, _ *http.Request) {
	healthy, total := r.counts()
	if healthy == 0 {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "reason": "insufficient healthy workers"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"status": "ready", "healthy_workers": healthy, "total_workers": total})
}

func (r *router) workers(w http.ResponseWriter, _ *http.Request) {
	list := []any{}
	stats := map[string]int{"prefill_count": 0, "decode_count": 0, "regular_count": 0}
	for i, m := range r.all() {
		m.mu.Lock()
		if m.registered {
			stats[m.kind+"_count"]++
			entry := map[string]any{
				"id": fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), "url": m.url, "model_id": m.model, "priority": 50, "cost": 1.0,
				"worker_type": m.kind, "is_healthy": m.healthy, "load": 0, "connection_mode": "HTTP", "disable_health_check": false,
			}
			if m.bootstrap != nil {
				entry["bootstrap_port"] = *m.bootstrap
			}
			list = append(list, entry)
		}
		m.mu.Unlock()
	}
	writeJSON(w, http.StatusOK, map[string]any{"workers": list, "total": len(list), "stats": stats})
}

func (r *router) models(w http.ResponseWriter, _ *http.Request) {
	seen := map[string]bool{}
	data := []any{}
	for _, m := range r.all() {
		m.mu.Lock()
		if m.registered && !seen[m.model] {
			seen[m.model] = true
			data = append(data, map[string]any{"id": m.model, "object": "model", "owned_by": "local"})
		}
		m.mu.Unlock()
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}
