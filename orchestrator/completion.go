package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// chatPath is the endpoint of canaries: every engine and router here has it.
const chatPath = "/v1/chat/completions"

// canaryTokens is how many tokens a canary asks for: enough for a short answer,
// few enough to cost nothing.
const canaryTokens = 32

// quizPrompt has an answer that any model which reads its own KV cache rightly
// gives, and quizAnswer is in it.
const (
	quizPrompt = "What is 2 + 2? Answer with the number only."
	quizAnswer = "4"
)

// chatRequest is a completion request. The bootstrap fields are what a router
// adds for sglang's prefill and decode workers.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	MaxTokens     int           `json:"max_tokens"`
	Temperature   float64       `json:"temperature"`
	Stream        bool          `json:"stream"`
	BootstrapHost string        `json:"bootstrap_host,omitempty"`
	BootstrapPort int           `json:"bootstrap_port,omitempty"`
	BootstrapRoom int64         `json:"bootstrap_room,omitempty"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (r *run) chat(prompt string) chatRequest {
	return chatRequest{Model: r.plan.Model.Name, Messages: []chatMessage{{"user", prompt}}, MaxTokens: canaryTokens}
}

// judgeCompletion wants tokens in an answer. What the server will say again is a
// permanent error; everything else may come right.
func judgeCompletion(a answer) (text string, err error) {
	if a.status >= 400 && a.status < 500 && !retryable(a.status) {
		return "", permanentf("%s", a.text())
	}
	if a.status != http.StatusOK {
		return "", fmt.Errorf("%s", a.text())
	}
	var c struct {
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(a.body, &c); err != nil {
		return "", fmt.Errorf("the answer is not a completion: %s", a.text())
	}
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
		return "", fmt.Errorf("the answer is an error: %s", a.text())
	}
	if len(c.Choices) == 0 {
		return "", fmt.Errorf("the answer has no choices: %s", a.text())
	}
	ch := c.Choices[0]
	text = ch.Message.Reasoning + ch.Message.Content + ch.Text
	if c.Usage.Tokens < 1 && strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("the answer has no token: %s", a.text())
	}
	return text, nil
}

// retryable are client errors that say "not now".
func retryable(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// complete sends one completion to base and judges the answer. A permanent error
// carries the models that are served, because a wrong name is the usual one.
func (r *run) complete(ctx context.Context, base string, req chatRequest, limit time.Duration) (string, error) {
	a, err := r.send(ctx, base+chatPath, req, limit)
	if err != nil {
		return "", err
	}
	text, err := judgeCompletion(a)
	if p, ok := errors.AsType[permanent](err); ok {
		served := "unknown"
		if names, err := r.servedModels(ctx, base); err == nil {
			served = strings.Join(names, ", ")
		}
		return "", permanentf("POST %s asks for model %q: %w (it serves: %s)", base+chatPath, req.Model, p.err, served)
	}
	if err != nil {
		return "", fmt.Errorf("POST %s: %w", base+chatPath, err)
	}
	return text, nil
}
