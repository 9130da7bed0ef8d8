package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// keepState keeps what only shows while everything still stands, before a run ends
// because something hangs: what engines and router count, and what the nodes say of
// NICs, sockets and processes. It ends within duringTime; then gets what is worth
// reading of it, the last line naming the directory that holds the rest.
func (r *run) keepState(then func(lines []string)) {
	r.states++
	dir := fmt.Sprintf("%s/%d", rundir.StateDir, r.states)
	pages := r.pages()
	var nodes []PreflightNode
	if r.Preflight != nil {
		nodes = r.toLookAt(func(*node) bool { return true })
	}
	ctx, cancel := context.WithTimeout(r.bg, duringTime)
	call(ctx, r, func(ctx context.Context) ([]string, error) {
		defer cancel()
		var said []string
		var found RunReport
		var wg sync.WaitGroup
		wg.Go(func() { said = r.keepPages(ctx, pages, dir) })
		if len(nodes) > 0 {
			wg.Go(func() {
				var err error
				if found, err = r.Preflight.During(ctx, nodes, path.Join(dir, rundir.CountersFile)); err != nil {
					found.Unproven = append(found.Unproven, err.Error())
				}
			})
		}
		wg.Wait()
		return slices.Concat(said, found.Found, found.Unproven, []string{"kept in " + dir}), nil
	}, func(lines []string, _ error) { then(lines) })
}

// stateNow is keepState for a stage that waits for it.
func (r *run) stateNow(ctx context.Context) ([]string, error) {
	var state []string
	r.keepState(func(lines []string) { state = lines })
	err := r.await(ctx, waiting{done: func() bool { return state != nil }, what: func() string { return "the state of workers and nodes" }})
	return state, err
}

// page is something that a program of the run shows of itself.
type page struct {
	of, url, file string
	worker        *models.Worker // whose counters it holds; nil: it holds others
}

// pages are those of workers and router.
func (r *run) pages() []page {
	var out []page
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		out = append(out, page{w.ID, r.workerURL(w) + "/metrics", w.ID + ".metrics", w})
	}
	rt := r.plan.Router
	if rt == nil || r.procs[rt.ID].released.IsZero() {
		return out
	}
	if base, ok := r.routerMetrics(); ok {
		out = append(out, page{"router", base + "/metrics", "router.metrics", nil})
	}
	if listsMembers(rt) {
		out = append(out, page{"router", r.frontURL() + rt.MembersPath, "router.members", nil})
	}
	return out
}

// keepPages keeps all pages, and says of each what is worth reading.
func (r *run) keepPages(ctx context.Context, pages []page, dir string) []string {
	said := make([]string, len(pages))
	counted := make([]counters, len(pages))
	var wg sync.WaitGroup
	for i, p := range pages {
		wg.Go(func() {
			a, err := r.get(ctx, p.url, r.pace.Probe)
			if err == nil && a.status != http.StatusOK {
				err = errors.New(a.text())
			}
			if err == nil && p.worker != nil {
				counted[i] = parseCounters(a.body)
				said[i] = counted[i].busy()
			}
			if err == nil {
				err = r.Dir.PutSpare(path.Join(dir, p.file), a.body, 0o600)
			}
			if err != nil {
				said[i] = err.Error()
			}
			if said[i] != "" {
				said[i] = p.of + ": " + said[i]
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(append(said, abandoned(pages, counted)), func(s string) bool { return s == "" })
}

// abandoned says that requests wait on decode for KV that nobody has any more: prefill
// does not tell decode of a request that failed.
func abandoned(pages []page, counted []counters) string {
	waiting := 0.0
	for i, p := range pages {
		switch {
		case p.worker == nil:
		case p.worker.Role == models.RolePrefill:
			if n, ok := counted[i].atPrefill(); !ok || n > 0 {
				return "" // it has some, or nobody knows
			}
		default:
			n, _ := counted[i].sumSuffix("num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs")
			waiting += n
		}
	}
	if waiting == 0 {
		return ""
	}
	return fmt.Sprintf("%g requests wait on decode for KV, and no prefill worker holds any: prefill has failed or dropped them; look for their errors in the logs of prefill", waiting)
}

// atPrefill is how many requests a prefill worker holds.
func (c counters) atPrefill() (float64, bool) {
	return c.sumSuffix("num_running_reqs", "num_queue_reqs", "num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs", "num_prefill_inflight_queue_reqs")
}

// queues are where requests wait in a worker, by the ends of the names that SGLang
// and vLLM count them under, and what they wait for.
var queues = []struct{ suffix, what string }{
	{"num_running_reqs", "running"},
	{"num_requests_running", "running"},
	{"num_queue_reqs", "queued"},
	{"num_requests_waiting", "waiting"},
	{"num_prefill_bootstrap_queue_reqs", "waiting for decode to connect"},
	{"num_prefill_prealloc_queue_reqs", "waiting for decode to connect"},
	{"num_prefill_inflight_queue_reqs", "with KV to be fetched"},
	{"num_decode_prealloc_queue_reqs", "waiting for room for their KV"},
	{"num_decode_transfer_queue_reqs", "waiting for their KV"},
	{"num_transfer_failed_reqs_total", "failed transfers"},
}

// busy says what a worker's requests are at.
func (c counters) busy() string {
	var parts []string
	for _, q := range queues {
		if n, ok := c.sumSuffix(q.suffix); ok && n > 0 {
			parts = append(parts, fmt.Sprintf("%g %s", n, q.what))
		}
	}
	if len(parts) == 0 {
		return "no requests"
	}
	return strings.Join(parts, ", ")
}
