package standin

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// metrics are the counters that the real engine exports, under its names.
type metrics struct {
	model string

	mu         sync.Mutex
	running    int
	waiting    int // requests that wait for their KV, or for it to be fetched
	requests   int
	failed     int // transfers that failed
	aborted    int
	prompt     int // tokens
	steps      int // tokens, as they come
	generated  int // tokens of answers that have ended
	ttftSum    time.Duration
	latencySum time.Duration
}

func newMetrics(model string) *metrics { return &metrics{model: model} }

// add changes the counters under the lock.
func (m *metrics) add(change func(*metrics)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *metrics) inFlight() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// write prints the metrics in Prometheus' text format.
func (m *metrics) write(w io.Writer, mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := fmt.Sprintf(`{engine_type=%q,model_name=%q,pp_rank="0",tp_rank="0"}`, engineType(mode), m.model)
	gauge := func(name string, v any) {
		fmt.Fprintf(w, "# TYPE sglang:%[1]s gauge\nsglang:%[1]s%[2]s %[3]v\n", name, label, v)
	}
	counter := func(name string, v int) {
		fmt.Fprintf(w, "# TYPE sglang:%[1]s counter\nsglang:%[1]s%[2]s %[3]d\n", name, label, v)
	}
	histogram := func(name string, sum time.Duration) {
		fmt.Fprintf(w, "# TYPE sglang:%[1]s histogram\nsglang:%[1]s_sum%[2]s %[3]g\nsglang:%[1]s_count%[2]s %[4]d\n", name, label, sum.Seconds(), m.requests)
	}
	gauge("num_running_reqs", m.running)
	gauge("num_queue_reqs", 0)
	gauge("token_usage", 0.01*float64(m.running))
	gauge("gen_throughput", float64(m.running)*100)
	gauge("cache_hit_rate", 0)
	switch mode {
	case "prefill":
		gauge("num_prefill_inflight_queue_reqs", m.waiting)
	case "decode":
		gauge("num_decode_prealloc_queue_reqs", 0)
		gauge("num_decode_transfer_queue_reqs", m.waiting)
	}
	counter("prompt_tokens_total", m.prompt)
	counter("generation_tokens_total", m.generated)
	counter("num_requests_total", m.requests)
	counter("num_aborted_requests_total", m.aborted)
	counter("num_transfer_failed_reqs_total", m.failed)
	fmt.Fprintf(w, "# TYPE sglang:inter_token_latency_seconds histogram\nsglang:inter_token_latency_seconds_count%s %d\n", label, m.steps)
	histogram("time_to_first_token_seconds", m.ttftSum)
	histogram("e2e_request_latency_seconds", m.latencySum)
}

func engineType(mode string) string {
	if mode == "null" {
		return "unified"
	}
	return mode
}

// writeVLLM prints the metrics under vLLM's names.
func (m *metrics) writeVLLM(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := fmt.Sprintf(`{engine="0",model_name=%q}`, m.model)
	for _, x := range []struct {
		name, kind string
		value      int
	}{
		{"num_requests_running", "gauge", m.running},
		{"num_requests_waiting", "gauge", m.waiting},
		{"prompt_tokens_total", "counter", m.prompt},
		{"generation_tokens_total", "counter", m.steps},
		{"request_success_total", "counter", m.requests},
	} {
		fmt.Fprintf(w, "# TYPE vllm:%[1]s %[2]s\nvllm:%[1]s%[3]s %[4]d\n", x.name, x.kind, label, x.value)
	}
}
