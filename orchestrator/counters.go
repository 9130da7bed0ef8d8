package orchestrator

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// counters are the samples of one exporter.
type counters struct {
	sums map[string]float64 // over all series of a name
	// byWorker are sums of what a router counted for one worker, by its URL:
	// requests, or outcomes that were good.
	byWorker map[string]float64
}

// parseCounters reads Prometheus text. Lines that are no samples are left out:
// exporters differ in details that do not matter here.
func parseCounters(body []byte) counters {
	out := counters{sums: map[string]float64{}, byWorker: map[string]float64{}}
	sc := bufio.NewScanner(bytes.NewReader(body))
	sc.Buffer(nil, maxBody)
	for sc.Scan() {
		name, labels, v, ok := parseSample(sc.Text())
		if !ok {
			continue
		}
		out.sums[name] += v
		worker := label(labels, "worker")
		outcome := label(labels, "outcome")
		if worker != "" && (outcome == "" || outcome == "success") && (strings.HasSuffix(name, "requests_total") || strings.HasSuffix(name, "outcomes_total")) {
			out.byWorker[workerKey(worker)] += v
		}
	}
	return out
}

// parseSample splits "name{labels} value [time]".
func parseSample(line string) (name, labels string, v float64, ok bool) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, "{ \t")
	if i < 1 || line[0] == '#' {
		return "", "", 0, false
	}
	name, rest := line[:i], line[i:]
	if rest[0] == '{' {
		j := strings.LastIndexByte(rest, '}')
		if j < 0 {
			return "", "", 0, false
		}
		labels, rest = rest[1:j], rest[j+1:]
	}
	f := strings.Fields(rest)
	if len(f) == 0 {
		return "", "", 0, false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) { // nothing can be concluded from those
		return "", "", 0, false
	}
	// sglang writes "sglang:x_total", others "vllm:x_total" or "atom_x_total".
	return strings.ReplaceAll(name, ":", "_"), labels, v, true
}

// label finds the value of a label. Values here are URLs and words: none holds a
// quote.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if ok && k == name {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// workerKey is what routers' different ways to name one worker have in common:
// with and without scheme, with the number of a data-parallel rank.
func workerKey(url string) string {
	url = strings.TrimPrefix(normalURL(url), "http://")
	host, _, _ := strings.Cut(url, "@")
	return host
}

// sumSuffix adds all counters whose name ends in one of the suffixes.
func (c counters) sumSuffix(suffixes ...string) (sum float64, found bool) {
	for name, v := range c.sums {
		for _, s := range suffixes {
			if strings.HasSuffix(name, s) {
				sum, found = sum+v, true
				break
			}
		}
	}
	return sum, found
}

// workDone counts what a worker did, whatever its role: requests, prompt tokens,
// generated tokens. It only has to grow when the worker takes part.
func (c counters) workDone() (float64, bool) {
	return c.sumSuffix("prompt_tokens_total", "generation_tokens_total", "num_requests_total", "request_success_total")
}

// tokens counts generated tokens. SGLang adds a request's when it has ended, vLLM
// each token as it comes.
func (c counters) tokens() (float64, bool) { return c.sumSuffix("generation_tokens_total") }

// progress moves with every few tokens, however long the answers are; ok is false
// where no counter does. SGLang observes the latency between tokens as they leave,
// and counts tokens at every line of its log besides (sglang metrics collector).
func (c counters) progress() (sum float64, ok bool) {
	sum, ok = c.sumSuffix("inter_token_latency_seconds_count", "time_per_output_token_seconds_count", "realtime_tokens_total")
	if n, each := c.sums["vllm_generation_tokens_total"]; each {
		sum, ok = sum+n, true
	}
	done, _ := c.sumSuffix("sglang_generation_tokens_total", "time_to_first_token_seconds_count")
	return sum + done, ok
}

// activity moves whenever a worker of either role does something for a request.
func (c counters) activity() (sum float64, ok bool) {
	progress, ok := c.progress()
	done, _ := c.workDone()
	return progress + done, ok
}

// inFlight is how many requests a worker has taken and not answered. One that waits
// for its KV is not running yet: SGLang holds it in queues of its own, vLLM among
// the waiting (sglang and vllm metrics collectors).
func (c counters) inFlight() (float64, bool) {
	return c.sumSuffix("num_running_reqs", "num_queue_reqs", "num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs",
		"num_requests_running", "num_requests_waiting")
}

// scrape reads the metrics of a worker.
func (r *run) scrape(ctx context.Context, base string) (counters, error) {
	a, err := r.get(ctx, base+"/metrics", r.pace.Probe)
	if err != nil {
		return counters{}, err
	}
	if a.status != http.StatusOK {
		return counters{}, fmt.Errorf("GET %s/metrics: %s", base, a.text())
	}
	return parseCounters(a.body), nil
}
