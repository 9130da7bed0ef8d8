package standin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// LoadResult is what the load client measured. It is written as JSON.
type LoadResult struct {
	Model       string `json:"model"`
	Concurrency int    `json:"concurrency"`
	Requests    int    `json:"requests"`
	Completed   int    `json:"completed"` // status 200 with at least one token
	Failed      int    `json:"failed"`
	// Status counts answers by HTTP status; "error" are those without one.
	Status          map[string]int `json:"status"`
	Errors          []string       `json:"errors,omitempty"` // the first few different ones
	InputTokens     int            `json:"input_tokens"`
	OutputTokens    int            `json:"output_tokens"`
	Seconds         float64        `json:"duration_s"`
	RequestsPerSec  float64        `json:"request_throughput"`
	OutputPerSec    float64        `json:"output_throughput"` // tokens a second
	TTFT            Percentiles    `json:"ttft_ms"`
	Latency         Percentiles    `json:"latency_ms"`
	TimePerOutToken Percentiles    `json:"tpot_ms"`
}

// Percentiles summarise a measure of all completed requests, in milliseconds.
type Percentiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// load is the client's settings.
type load struct {
	url, model     string
	concurrency, n int
	isl, osl       int
	outcomes       []outcome
	next           atomic.Int64
	client         http.Client
}

// outcome is one request's end.
type outcome struct {
	status        string
	err           string
	prompt, out   int
	ttft, latency time.Duration
}

// loadMain reads --url, --model, --concurrency, --requests, --isl, --osl and
// --output (a file; without it the result goes to stdout). It fails when any
// request did.
func loadMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := parseFlags(args)
	l := &load{
		url: strings.TrimSuffix(f.text("http://127.0.0.1:30000", "url"), "/"), model: f.text("default", "model"),
		concurrency: max(1, f.number(4, "concurrency")), isl: max(1, f.number(32, "isl")), osl: max(1, f.number(16, "osl")),
	}
	l.n = max(1, f.number(4*l.concurrency, "requests"))
	l.client.Timeout = time.Duration(f.number(120, "timeout")) * time.Second
	fmt.Fprintf(stderr, "load: %d requests to %s, %d at a time\n", l.n, l.url, l.concurrency)
	result := l.run(ctx)
	if err := writeResult(result, f.text("", "output"), stdout); err != nil {
		fmt.Fprintln(stderr, "load:", err)
		return 1
	}
	fmt.Fprintf(stderr, "load: %d completed, %d failed in %.1fs; %.0f tokens/s; first token after %.1f ms (median)\n",
		result.Completed, result.Failed, result.Seconds, result.OutputPerSec, result.TTFT.P50)
	for _, e := range result.Errors {
		fmt.Fprintln(stderr, "load: failed:", e)
	}
	if result.Failed > 0 {
		return 1
	}
	return 0
}

func writeResult(r LoadResult, path string, stdout io.Writer) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	data = append(data, '\n')
	if path == "" {
		_, err = stdout.Write(data)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return os.WriteFile(path, data, 0o644)
}

func (l *load) run(ctx context.Context) LoadResult {
	l.outcomes = make([]outcome, l.n)
	start := time.Now()
	var wg sync.WaitGroup
	for range min(l.concurrency, l.n) {
		wg.Go(func() {
			for i := l.next.Add(1) - 1; i < int64(l.n); i = l.next.Add(1) - 1 {
				l.outcomes[i] = l.one(ctx, int(i))
			}
		})
	}
	wg.Wait()
	return l.summary(time.Since(start))
}

// one sends a streaming chat completion and reads it to its end.
func (l *load) one(ctx context.Context, i int) outcome {
	start := time.Now()
	body, err := json.Marshal(map[string]any{
		"model": l.model, "max_tokens": l.osl, "stream": true, "stream_options": map[string]bool{"include_usage": true},
		"messages": []any{map[string]string{"role": "user", "content": strings.TrimSpace(strings.Repeat("word"+strconv.Itoa(i)+" ", l.isl))}},
	})
	if err != nil {
		return outcome{status: "error", err: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, l.client.Timeout)
	defer cancel()
	resp, err := post(ctx, l.url+"/v1/chat/completions", body)
	if err != nil {
		return outcome{status: "error", err: err.Error()}
	}
	defer resp.Body.Close()
	o := outcome{status: strconv.Itoa(resp.StatusCode)}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		o.err = fmt.Sprintf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
		return o
	}
	if err := o.read(resp.Body, start); err != nil {
		o.err = err.Error()
	}
	o.latency = time.Since(start)
	return o
}

// read counts the tokens of a stream. A stream that ends without its closing
// word, or without any token, is a failure although its status was 200.
func (o *outcome) read(r io.Reader, start time.Time) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	done := false
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			break
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Usage *struct {
				Prompt int `json:"prompt_tokens"`
				Out    int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return fmt.Errorf("read event %q: %w", data, err)
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			if o.out == 0 {
				o.ttft = time.Since(start)
			}
			o.out++
		}
		if chunk.Usage != nil {
			o.prompt, o.out = chunk.Usage.Prompt, chunk.Usage.Out
		}
	}
	switch {
	case sc.Err() != nil:
		return fmt.Errorf("read stream: %w", sc.Err())
	case !done:
		return errors.New("read stream: it ended before its last event")
	case o.out == 0:
		return errors.New("no token in the answer")
	}
	return nil
}

func (l *load) summary(took time.Duration) LoadResult {
	r := LoadResult{Model: l.model, Concurrency: l.concurrency, Requests: l.n, Status: map[string]int{}, Seconds: took.Seconds()}
	var ttft, latency, perToken []float64
	for _, o := range l.outcomes {
		r.Status[o.status]++
		if o.err != "" {
			r.Failed++
			if len(r.Errors) < 5 && !slices.Contains(r.Errors, o.err) {
				r.Errors = append(r.Errors, o.err)
			}
			continue
		}
		r.Completed++
		r.InputTokens += o.prompt
		r.OutputTokens += o.out
		ttft, latency = append(ttft, ms(o.ttft)), append(latency, ms(o.latency))
		if o.out > 1 {
			perToken = append(perToken, ms(o.latency-o.ttft)/float64(o.out-1))
		}
	}
	r.RequestsPerSec = float64(r.Completed) / took.Seconds()
	r.OutputPerSec = float64(r.OutputTokens) / took.Seconds()
	r.TTFT, r.Latency, r.TimePerOutToken = percentiles(ttft), percentiles(latency), percentiles(perToken)
	return r
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// percentiles are by nearest rank.
func percentiles(x []float64) Percentiles {
	if len(x) == 0 {
		return Percentiles{}
	}
	slices.Sort(x)
	at := func(p int) float64 { return x[(len(x)*p+99)/100-1] }
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return Percentiles{Mean: sum / float64(len(x)), P50: at(50), P90: at(90), P99: at(99)}
}
