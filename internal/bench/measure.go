package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// The figures, in the order in which they are printed.
const (
	started  = "controller's start → all containers started"
	noticed  = "router ready → noticed"
	begun    = "worker killed → teardown begun"
	gone     = "worker killed → nothing left on any node"
	planned  = "plan + render (a whole process)"
	agentRSS = "agent, resident"
	shimRSS  = "shim, resident"
)

// bounds are what some figures must not exceed, in milliseconds. The recipe gives
// programs 30 s between TERM and KILL.
func bounds() map[string]float64 {
	return map[string]float64{begun: 200, gone: 31_000}
}

// limit bounds one run.
const limit = 2 * time.Minute

// Run measures n runs and writes the medians.
func Run(ctx context.Context, n int, out io.Writer) (err error) {
	root, err := lab.ModuleRoot()
	if err != nil {
		return err
	}
	w, err := newWorld(root)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	got := map[string][]float64{}
	for i := range n + 1 {
		one := map[string]float64{}
		if err := w.measure(ctx, one); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		if i == 0 {
			continue // the first warms caches
		}
		for k, v := range one {
			got[k] = append(got[k], v)
		}
	}
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "4 nodes, 2 prefill and 2 decode workers, medians of %d runs\tmedian\tmin\tmax\tbound\n", n)
	for _, k := range []string{started, noticed, begun, gone, planned, agentRSS, shimRSS} {
		v := slices.Sorted(slices.Values(got[k]))
		unit := "ms"
		if k == agentRSS || k == shimRSS {
			unit = "MB"
		}
		bound, kept := "", ""
		if most, ok := bounds()[k]; ok {
			bound, kept = fmt.Sprintf("%.0f", most), ", kept"
			if v[len(v)-1] > most {
				kept = ", NOT KEPT"
			}
		}
		fmt.Fprintf(t, "%s\t%.1f %s\t%.1f\t%.1f\t%s%s\n", k, v[len(v)/2], unit, v[0], v[len(v)-1], bound, kept)
	}
	return t.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measure carries out one run, kills a worker while the client runs, and notes
// when what was seen.
func (w *world) measure(ctx context.Context, one map[string]float64) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	at := time.Now()
	if err := w.disagg(ctx, "render", filepath.Join(w.dir, "short.yaml")); err != nil {
		return err
	}
	one[planned] = ms(time.Since(at))
	if err := w.disagg(ctx, "submit", filepath.Join(w.dir, "long.yaml")); err != nil {
		return err
	}
	dir, err := w.newest()
	if err != nil {
		return err
	}
	ready := make(chan time.Time, 1)
	rctx, stop := context.WithCancel(ctx)
	defer stop()
	var first, last, router time.Time
	var workers int
	var routerReady events.Event
	_, err = until(ctx, dir, "the client", func(e events.Event) bool {
		switch {
		case e.Kind == events.RunStarted:
			first = e.Time
		case e.Kind == events.ProcessStarted && (strings.HasPrefix(e.Process, "prefill") || strings.HasPrefix(e.Process, "decode")):
			last = e.Time
			workers++
		case e.Kind == events.ProcessStarted && e.Process == "router":
			go w.routerReady(rctx, e.Node, ready)
		case e.Kind == events.ProcessReady && e.Process == "router":
			routerReady = e
		}
		return e.Kind == events.ProcessStarted && strings.HasPrefix(e.Process, "client.")
	})
	if err != nil {
		return err
	}
	if workers != 4 {
		return fmt.Errorf("%d workers started, want 4", workers)
	}
	one[started] = ms(last.Sub(first))
	select {
	case router = <-ready:
	case <-ctx.Done():
		return fmt.Errorf("wait for the router to answer the benchmark: %w", ctx.Err())
	}
	// Both look from outside; which of the two asks first is chance.
	one[noticed] = max(0, ms(routerReady.Time.Sub(router)))
	node := ""
	if node, err = w.weigh(one); err != nil {
		return err
	}
	killed := time.Now()
	if _, err := w.Exec(node, "pkill", "-9", "-f", "sglang.launch_server.*--disaggregation-mode decode"); err != nil {
		return err
	}
	begin, err := until(ctx, dir, "the teardown", func(e events.Event) bool { return e.Kind == events.Teardown })
	if err != nil {
		return err
	}
	one[begun] = ms(begin.Time.Sub(killed))
	for {
		left, err := w.Leftovers()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "container") || strings.Contains(s, "launch_server") }) {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait until nothing is left: %q", left)
		}
	}
	one[gone] = ms(time.Since(killed))
	_, err = until(ctx, dir, "the end", func(e events.Event) bool { return e.Kind == events.RunFinished })
	return err
}

// routerReady asks the router as often as it can until it says that it is ready.
func (w *world) routerReady(ctx context.Context, node string, ready chan<- time.Time) {
	i := slices.Index(w.Nodes(), node)
	if i < 0 {
		return
	}
	c := w.HTTPClient(time.Second)
	url := "http://" + w.NodeIP(i) + ":30000/readiness"
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		if resp, err := c.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				ready <- time.Now()
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// weigh notes the resident memory of one agent and one shim, and returns a node
// with a decode worker.
func (w *world) weigh(one map[string]float64) (string, error) {
	found := ""
	for _, n := range w.Nodes() {
		list, err := w.Processes(n)
		if err != nil {
			return "", err
		}
		for _, p := range list {
			line := strings.Join(p.Argv, " ")
			key := ""
			switch {
			case strings.HasSuffix(line, "/disagg agent"):
				key = agentRSS
			case strings.Contains(line, "disagg shim --dir"):
				key = shimRSS
			case strings.Contains(line, "--disaggregation-mode decode"):
				found = n
			}
			if key == "" {
				continue
			}
			text, err := w.Exec(n, "grep", "VmRSS", fmt.Sprintf("/proc/%d/status", p.PID))
			if err != nil {
				continue // it has ended meanwhile
			}
			if f := strings.Fields(text); len(f) > 1 {
				kb, err := strconv.Atoi(f[1])
				if err != nil {
					return "", fmt.Errorf("read memory of %s: %w", line, err)
				}
				one[key] = float64(kb) / 1024
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("find a decode worker: none on %v", w.Nodes())
	}
	return found, nil
}
