package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// oneOrMany reads a JSON value or an array of them: batched requests carry
// arrays where single ones carry values.
type oneOrMany[T any] []T

// UnmarshalJSON reads either form; null is nothing.
func (o *oneOrMany[T]) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case len(data) > 0 && data[0] == '[':
		return json.Unmarshal(data, (*[]T)(o))
	}
	var one T
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*o = oneOrMany[T]{one}
	return nil
}

// request holds what the stand-in needs of the bodies of /generate,
// /v1/completions and /v1/chat/completions.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Prompt        json.RawMessage   `json:"prompt"`
	Text          oneOrMany[string] `json:"text"`
	InputIDs      json.RawMessage   `json:"input_ids"`
	Stream        bool              `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	SamplingParams      struct {
		MaxNewTokens *int `json:"max_new_tokens"`
	} `json:"sampling_params"`
	BootstrapHost oneOrMany[string] `json:"bootstrap_host"`
	BootstrapPort oneOrMany[*int]   `json:"bootstrap_port"`
	BootstrapRoom oneOrMany[uint64] `json:"bootstrap_room"`
	KVTransfer    *kvParams         `json:"kv_transfer_params"`
}

func readRequest(r *http.Request) (request, error) {
	var q request
	body, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q, fmt.Errorf("parse body: %w", err)
	}
	return q, nil
}

// prompts are the request's inputs as text, one for each answer.
func (q request) prompts() ([]string, error) {
	switch {
	case len(q.Messages) > 0:
		var all []string
		for _, m := range q.Messages {
			all = append(all, content(m.Content))
		}
		return []string{strings.Join(all, "\n")}, nil
	case len(q.Text) > 0:
		return q.Text, nil
	case len(q.Prompt) > 0:
		return texts(q.Prompt)
	case len(q.InputIDs) > 0:
		return texts(q.InputIDs)
	}
	return nil, errors.New("no prompt, messages, text or input_ids")
}

// content is a message's text: a string, or parts of which some are text.
func content(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(raw, &parts)
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// texts reads a string, strings, token ids or lists of token ids. Each id
// becomes one word, so that words count tokens everywhere.
func texts(raw json.RawMessage) ([]string, error) {
	var s oneOrMany[string]
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var ids []int
	if json.Unmarshal(raw, &ids) == nil {
		return []string{words(len(ids))}, nil
	}
	var lists [][]int
	if err := json.Unmarshal(raw, &lists); err != nil {
		return nil, fmt.Errorf("read prompt: %w", err)
	}
	var out []string
	for _, l := range lists {
		out = append(out, words(len(l)))
	}
	return out, nil
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("id ", n)) }

// tokens is the number of tokens the caller allows, 16 without a limit.
func (q request) tokens() int {
	for _, n := range []*int{q.MaxCompletionTokens, q.MaxTokens, q.SamplingParams.MaxNewTokens} {
		if n != nil {
			return max(1, *n)
		}
	}
	return 16
}

// bootstrap is where the KV of the i-th prompt is, as the router chose it.
func (q request) bootstrap(i int) (host string, port int, room uint64, ok bool) {
	if i >= len(q.BootstrapRoom) || len(q.BootstrapHost) == 0 {
		return "", 0, 0, false
	}
	host, port = q.BootstrapHost[min(i, len(q.BootstrapHost)-1)], 8998
	if len(q.BootstrapPort) > 0 {
		if p := q.BootstrapPort[min(i, len(q.BootstrapPort)-1)]; p != nil {
			port = *p
		}
	}
	return host, port, q.BootstrapRoom[i], true
}
