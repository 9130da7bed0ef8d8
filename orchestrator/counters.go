package orchestrator

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/disagg/disagg/orchestrator/events"
)

// counters are sums over the series of one name in Prometheus text.
type counters map[string]float64

// parseCounters reads Prometheus text. Lines that are no samples are left out:
// exporters differ in details that do not matter here.
func parseCounters(body []byte) counters {
	out := counters{}
	sc := bufio.NewScanner(bytes.NewReader(body))
	sc.Buffer(nil, maxBody)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := line, ""
		if i := strings.IndexAny(line, "{ \t"); i > 0 {
			name, rest = line[:i], line[i:]
		}
		if i := strings.LastIndexByte(rest, '}'); i >= 0 {
			rest = rest[i+1:]
		}
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			continue
		}
		// sglang writes "sglang:x_total", others "vllm:x_total" or "atom_x_total".
		out[strings.ReplaceAll(name, ":", "_")] += v
	}
	return out
}

// sumSuffix adds all counters whose name ends in one of the suffixes.
func (c counters) sumSuffix(suffixes ...string) (sum float64, found bool) {
	for name, v := range c {
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

// tokens counts generated tokens.
func (c counters) tokens() (float64, bool) { return c.sumSuffix("generation_tokens_total") }

// running is how many requests are in flight.
func (c counters) running() (float64, bool) {
	return c.sumSuffix("num_running_reqs", "num_requests_running")
}

// scrape reads the metrics of a worker.
func (r *run) scrape(ctx context.Context, base string) (counters, error) {
	a, err := r.get(ctx, base+"/metrics", r.pace.Probe)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("GET %s/metrics: %s", base, a.text())
	}
	return parseCounters(a.body), nil
}

// canariesPerWorker bounds the completions sent to see every worker's counters
// move. With a random policy over n workers the chance to miss one after 16·n
// requests is below n·e^-16.
const canariesPerWorker = 16

// proveByCounters sends completions through the router until the counters of
// every worker have moved. Workers whose counters did not move, or cannot be
// read, are not proven, and the run is not ready.
func (r *run) proveByCounters(ctx context.Context) (string, error) {
	bases := map[string]string{}
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		bases[w.ID] = r.workerURL(w)
	}
	before, err := r.readCounters(ctx, bases)
	if err != nil {
		return "", err
	}
	open := map[string]error{}
	for id := range bases {
		open[id] = before.bad[id]
	}
	sent, limit := 0, canariesPerWorker*len(bases)
	for countable(open) && sent < limit {
		n := min(atOnce, limit-sent)
		if err := r.burst(ctx, sent, n); err != nil {
			return "", err
		}
		sent += n
		now, err := r.readCounters(ctx, bases)
		if err != nil {
			return "", err
		}
		for id := range bases {
			if now.bad[id] == nil && before.bad[id] == nil && now.done[id] > before.done[id] {
				delete(open, id)
			}
		}
	}
	if len(open) > 0 {
		for id, err := range open {
			if err == nil {
				open[id] = fmt.Errorf("the counters of %s did not move", id)
			}
		}
		return "", failf("after %s through the router these workers are not proven to take part: %s", plural(sent, "completion"), describeOpen(open))
	}
	r.emit(events.Event{Kind: events.Canary, Msg: fmt.Sprintf("the counters of all %s moved after %s", plural(len(bases), "worker"), plural(sent, "completion"))})
	return fmt.Sprintf("counters of all workers moved after %s", plural(sent, "completion")), nil
}

// countable says that a worker is open whose counters can be read: for others no
// further completion would prove anything.
func countable(open map[string]error) bool {
	for _, err := range open {
		if err == nil {
			return true
		}
	}
	return false
}

// reading is one reading of all workers' counters.
type reading struct {
	done map[string]float64
	bad  map[string]error
}

func (r *run) readCounters(ctx context.Context, bases map[string]string) (reading, error) {
	out := reading{done: map[string]float64{}, bad: map[string]error{}}
	for id, base := range bases {
		spawn(ctx, r, func(ctx context.Context) (counters, error) { return r.scrape(ctx, base) }, func(c counters, err error) {
			n, ok := c.workDone()
			switch {
			case err != nil:
				out.bad[id] = fmt.Errorf("the counters of %s cannot be read: %w", id, err)
			case !ok:
				out.bad[id] = fmt.Errorf("the metrics of %s have no counter of requests or tokens", id)
			default:
				out.done[id] = n
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return len(out.done)+len(out.bad) == len(bases) },
		what: func() string { return "the workers' counters" },
	})
	return out, err
}

// burst sends n different completions at once, so that policies which go by the
// prompt spread them too.
func (r *run) burst(ctx context.Context, first, n int) error {
	base, limit := r.frontURL(), r.canaryLimit()
	left := n
	var bad error
	for i := range n {
		req := r.chat(fmt.Sprintf("Say the number %d.", 1000+first+i))
		spawn(ctx, r, func(ctx context.Context) (string, error) { return r.complete(ctx, base, req, limit) }, func(_ string, err error) {
			left--
			if err != nil && bad == nil {
				bad = err
			}
		})
	}
	err := r.await(ctx, waiting{
		done: func() bool { return left == 0 || bad != nil },
		what: func() string { return fmt.Sprintf("%s through the router", plural(left, "completion")) },
	})
	if bad != nil {
		return failf("a completion failed after others had come out: %v", bad)
	}
	return err
}
