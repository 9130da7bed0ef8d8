package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// complete answers one completion request in the given shape.
func (e *engine) complete(w http.ResponseWriter, r *http.Request, s shape) {
	if !e.ready.Load() {
		fail(w, http.StatusServiceUnavailable, "server is still starting")
		return
	}
	if x, ok := e.faults.find("answer"); ok {
		wrongAnswer(w, x, s)
		return
	}
	if x, ok := e.faults.find("crash"); ok && x.text("phase", "load") == "serve" {
		e.metrics.mu.Lock()
		seen := e.metrics.requests
		e.metrics.mu.Unlock()
		if seen >= x.number("after", 0) {
			e.faults.end(x)
		}
	}
	q, err := readRequest(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	prompts, err := q.prompts()
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	// SGLang takes any name, vLLM its own alone.
	if (e.vllm != nil || e.faults.has("wrong-model")) && q.Model != e.name {
		noModel(w, q.Model)
		return
	}
	for _, p := range prompts {
		if n := countTokens(p) + q.tokens(); n > e.limit {
			fail(w, http.StatusBadRequest, fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens", e.limit, n))
			return
		}
	}
	start := time.Now()
	defer e.metrics.add(func(m *metrics) {
		m.requests++
		m.latencySum += time.Since(start)
	})
	answers, err := e.prepareAll(r.Context(), q, prompts)
	if err != nil {
		e.metrics.add(func(m *metrics) { m.failed++ })
		e.log.line("Prefill/decode transfer failed: " + err.Error())
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	e.metrics.add(func(m *metrics) { m.running++ })
	defer e.metrics.add(func(m *metrics) { m.running-- })
	if e.faults.has("stall") {
		<-r.Context().Done()
		return
	}
	name := q.Model
	if name == "" {
		name = e.name
	}
	if q.Stream {
		e.stream(w, r, s, name, answers, q.StreamOptions.IncludeUsage, start)
		return
	}
	for i := range answers {
		for t := range answers[i].tokens {
			if !e.tokenPause(r.Context()) {
				return
			}
			answers[i].text += token(t)
			e.count(t, answers[i], start)
		}
	}
	writeJSON(w, http.StatusOK, s.whole(name, answers))
}

// answer is one completion.
type answer struct {
	index  int
	prompt int // tokens
	tokens int // to generate
	text   string
	params *kvParams // vLLM: where the KV of this answer is
}

// prepareAll prepares every answer of a request. Until then it does not run: the
// real engines count it in a queue.
func (e *engine) prepareAll(ctx context.Context, q request, prompts []string) ([]answer, error) {
	e.metrics.add(func(m *metrics) { m.waiting++ })
	defer e.metrics.add(func(m *metrics) { m.waiting-- })
	answers := make([]answer, len(prompts))
	for i, p := range prompts {
		var err error
		if answers[i], err = e.prepare(ctx, q, i, p); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// prepare does what must be done before the first token: on prefill, hand the
// KV over; on decode, fetch it.
func (e *engine) prepare(ctx context.Context, q request, i int, prompt string) (answer, error) {
	a := answer{index: i, prompt: countTokens(prompt), tokens: q.tokens()}
	if e.vllm != nil {
		err := e.vllm.prepare(ctx, e, q, prompt, &a)
		return a, err
	}
	if e.mode != "prefill" && e.mode != "decode" {
		return a, nil
	}
	host, port, room, ok := q.bootstrap(i)
	if !ok {
		return a, fmt.Errorf("Disaggregated request received without bootstrap room id")
	}
	if e.mode == "prefill" {
		a.tokens = 1
	}
	if host == fakeHost {
		return a, nil
	}
	if e.mode == "prefill" {
		return a, e.rooms.hand(ctx, room, kv{Room: room, Prompt: prompt, Tokens: a.prompt, From: fmt.Sprintf("%s:%d", host, port)})
	}
	k, err := e.fetch(ctx, host, port, room)
	if err != nil {
		return a, err
	}
	if k.Prompt != prompt {
		return a, fmt.Errorf("KVTransferError: room %d holds the KV of another prompt", room)
	}
	return a, nil
}

// count adds the t-th token of an answer to the metrics.
func (e *engine) count(t int, a answer, start time.Time) {
	e.metrics.add(func(m *metrics) {
		m.steps++
		if t == 0 {
			m.prompt += a.prompt
			m.ttftSum += time.Since(start)
		}
		if t == a.tokens-1 {
			m.generated += a.tokens
		}
	})
}

// token is the t-th token of every answer.
func token(t int) string {
	if t == 0 {
		return "token"
	}
	return fmt.Sprintf(" %d", t)
}

func (e *engine) tokenPause(ctx context.Context) bool {
	wait := duration("STANDIN_TOKEN_MS", time.Millisecond, tokenTime)
	if x, ok := e.faults.find("slow-token"); ok {
		wait = time.Duration(x.number("ms", 100)) * time.Millisecond
	}
	return pause(ctx, wait)
}

// stream sends the answers token by token as server-sent events.
func (e *engine) stream(w http.ResponseWriter, r *http.Request, s shape, name string, answers []answer, usage bool, start time.Time) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(v any) {
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
	}
	for i := range answers {
		for t := range answers[i].tokens {
			if !e.tokenPause(r.Context()) {
				e.metrics.add(func(m *metrics) { m.aborted++ })
				return
			}
			piece := token(t)
			answers[i].text += piece
			send(s.piece(name, answers[i], t, piece))
			e.count(t, answers[i], start)
		}
	}
	if usage {
		send(s.usage(name, answers))
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// countTokens counts words: nothing here has a tokenizer.
func countTokens(s string) int { return max(1, len(strings.Fields(s))) }

// wrongAnswer answers as the fault says.
func wrongAnswer(w http.ResponseWriter, x Fault, s shape) {
	status := x.number("status", http.StatusOK)
	switch body := x.text("body", "error"); body {
	case "error":
		writeJSON(w, status, map[string]any{"error": map[string]any{"message": "server_selection_failed", "type": "server_error", "code": 500}})
	case "html":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html><body><h1>Gateway</h1></body></html>\n"))
	case "empty-choices":
		writeJSON(w, status, map[string]any{"id": "x", "object": "chat.completion", "choices": []any{}, "usage": map[string]int{"completion_tokens": 0}})
	case "empty-text":
		writeJSON(w, status, s.whole("m", []answer{{}}))
	default:
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
