package standin

// shape is the form of one endpoint's answers.
type shape interface {
	// whole is the answer in one piece.
	whole(model string, all []answer) any
	// piece is the event of the t-th token.
	piece(model string, a answer, t int, text string) any
	// usage is the event after the last token when it is asked for.
	usage(model string, all []answer) any
}

const (
	answerID = "standin-0"
	created  = 1700000000
)

func usageOf(all []answer) map[string]int {
	p, c := 0, 0
	for _, a := range all {
		p, c = p+a.prompt, c+a.tokens
	}
	return map[string]int{"prompt_tokens": p, "completion_tokens": c, "total_tokens": p + c}
}

// openAI is an answer of the OpenAI interface.
func openAI(kind, model string, choices []any) map[string]any {
	return map[string]any{"id": answerID, "object": kind, "created": created, "model": model, "choices": choices}
}

// withPlace adds where the KV of the answer is, on a vLLM prefill worker.
func withPlace(out map[string]any, all []answer) map[string]any {
	if len(all) > 0 && all[0].params != nil {
		out["kv_transfer_params"] = all[0].params
	}
	return out
}

func finish(a answer, t int) any {
	if t == a.tokens-1 {
		return "length"
	}
	return nil
}

// chatShape is /v1/chat/completions.
type chatShape struct{}

func (chatShape) whole(model string, all []answer) any {
	var choices []any
	for _, a := range all {
		choices = append(choices, map[string]any{
			"index": a.index, "message": map[string]any{"role": "assistant", "content": a.text, "reasoning_content": nil, "tool_calls": nil},
			"logprobs": nil, "finish_reason": "length",
		})
	}
	out := openAI("chat.completion", model, choices)
	out["usage"] = usageOf(all)
	return withPlace(out, all)
}

func (chatShape) piece(model string, a answer, t int, text string) any {
	delta := map[string]any{"content": text}
	if t == 0 {
		delta["role"] = "assistant"
	}
	return openAI("chat.completion.chunk", model, []any{map[string]any{"index": a.index, "delta": delta, "finish_reason": finish(a, t)}})
}

func (chatShape) usage(model string, all []answer) any {
	out := openAI("chat.completion.chunk", model, []any{})
	out["usage"] = usageOf(all)
	return out
}

// textShape is /v1/completions.
type textShape struct{}

func (textShape) whole(model string, all []answer) any {
	var choices []any
	for _, a := range all {
		choices = append(choices, map[string]any{"index": a.index, "text": a.text, "logprobs": nil, "finish_reason": "length"})
	}
	out := openAI("text_completion", model, choices)
	out["usage"] = usageOf(all)
	return withPlace(out, all)
}

func (textShape) piece(model string, a answer, t int, text string) any {
	return openAI("text_completion", model, []any{map[string]any{"index": a.index, "text": text, "finish_reason": finish(a, t)}})
}

func (textShape) usage(model string, all []answer) any {
	out := openAI("text_completion", model, []any{})
	out["usage"] = usageOf(all)
	return out
}

// generateShape is SGLang's own /generate, whose text grows with each event.
type generateShape struct{}

func (g generateShape) one(a answer, done int) map[string]any {
	reason := any(nil)
	if done == a.tokens {
		reason = map[string]any{"type": "length", "length": a.tokens}
	}
	return map[string]any{"text": a.text, "index": a.index, "meta_info": map[string]any{
		"id": answerID, "prompt_tokens": a.prompt, "completion_tokens": done, "cached_tokens": 0, "finish_reason": reason,
	}}
}

func (g generateShape) whole(_ string, all []answer) any {
	if len(all) == 1 {
		return g.one(all[0], all[0].tokens)
	}
	var out []any
	for _, a := range all {
		out = append(out, g.one(a, a.tokens))
	}
	return out
}

func (g generateShape) piece(_ string, a answer, t int, _ string) any { return g.one(a, t+1) }

func (g generateShape) usage(string, []answer) any { return map[string]any{} }
