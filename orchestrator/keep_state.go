package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

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
		return r.gatherState(ctx, dir, pages, nodes), nil
	}, func(lines []string, _ error) { then(lines) })
}

// gatherState ends with ctx whatever hangs: a file server as well as a worker.
func (r *run) gatherState(ctx context.Context, dir string, pages []page, nodes []PreflightNode) []string {
	kept := make(chan keptPage, len(pages))
	for _, p := range pages {
		go func() { kept <- r.keepPage(ctx, p, dir) }()
	}
	looked := make(chan RunReport, 1)
	go func() {
		if len(nodes) == 0 {
			looked <- RunReport{}
			return
		}
		found, err := r.Preflight.During(ctx, nodes, path.Join(dir, rundir.CountersFile))
		if err != nil {
			found.Unproven = append(found.Unproven, err.Error())
		}
		looked <- found
	}()
	all := make([]keptPage, len(pages))
	for i, p := range pages {
		all[i] = keptPage{page: p, said: "not known: nothing came back in time"}
	}
	var found *RunReport
	written := 0
	for open := len(pages); open > 0 || found == nil; {
		select {
		case k := <-kept:
			open--
			all[slices.IndexFunc(pages, func(p page) bool { return p.file == k.file })] = k
			if k.written {
				written++
			}
		case f := <-looked:
			found = &f
		case <-ctx.Done():
			open = 0
			if found == nil {
				found = &RunReport{Unproven: []string{"the nodes: not known: nothing came back in time"}}
			}
		}
	}
	var lines []string
	for _, k := range all {
		if k.said != "" {
			lines = append(lines, k.of+": "+k.said)
		}
	}
	if a := abandoned(all); a != "" {
		lines = append(lines, a)
	}
	lines = slices.Concat(lines, found.Found, found.Unproven)
	if written > 0 {
		return append(lines, "kept in "+dir)
	}
	return append(lines, "nothing of it could be written to "+dir)
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

// keptPage is a page that was asked for.
type keptPage struct {
	page
	said    string // what is worth reading of it
	counts  counters
	written bool
}

// keepPage asks for a page and writes it down.
func (r *run) keepPage(ctx context.Context, p page, dir string) keptPage {
	k := keptPage{page: p}
	a, err := r.get(ctx, p.url, r.pace.Probe)
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.text())
	}
	if err != nil {
		k.said = err.Error()
		return k
	}
	if p.worker != nil {
		k.counts = parseCounters(a.body)
		k.said = k.counts.busy()
	}
	if err := r.Dir.PutSpare(path.Join(dir, p.file), a.body, 0o600); err != nil {
		k.said = strings.TrimPrefix(k.said+"; "+err.Error(), "; ")
		return k
	}
	k.written = true
	return k
}

// abandoned says that requests wait on decode for KV that no prefill worker counts any
// more: prefill does not tell decode of a request that failed. Engines renew what they
// count now and then only, so it is a hint.
func abandoned(pages []keptPage) string {
	waiting := 0.0
	for _, p := range pages {
		switch {
		case p.worker == nil:
		case p.worker.Role == models.RolePrefill:
			if n, ok := p.counts.atPrefill(); !ok || n > 0 {
				return "" // it has some, or nobody knows
			}
		default:
			n, _ := p.counts.sumSuffix("num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs")
			waiting += n
		}
	}
	if waiting == 0 {
		return ""
	}
	return fmt.Sprintf("%g requests wait on decode for KV, and no prefill worker counts any: prefill may have failed or dropped them; look for errors in the logs of prefill", waiting)
}

// atPrefill is how many requests a prefill worker holds; ok is false where it does not
// count those whose KV is to be fetched.
func (c counters) atPrefill() (sum float64, ok bool) {
	if _, ok = c.sumSuffix("num_prefill_inflight_queue_reqs"); !ok {
		return 0, false
	}
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
	counts := false
	for _, q := range queues {
		n, ok := c.sumSuffix(q.suffix)
		counts = counts || ok
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%g %s", n, q.what))
		}
	}
	switch {
	case !counts:
		return "it does not count its requests"
	case len(parts) == 0:
		return "no requests"
	}
	return strings.Join(parts, ", ")
}
