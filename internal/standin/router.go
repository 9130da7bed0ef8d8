package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// router routes as sglang-router does: one request goes to a prefill and a
// decode worker at once, with the place of its KV in the body.
type router struct {
	flags    flags
	log      *logger
	faults   *faults
	prefill  []*member
	decode   []*member // or the regular workers
	pd       bool
	turn     atomic.Uint64
	requests atomic.Int64
	deaf     atomic.Bool
}

// member is one worker that the router was told of.
type member struct {
	url       string
	kind      string // prefill, decode or regular
	bootstrap *int   // port

	mu         sync.Mutex
	registered bool
	healthy    bool
	model      string
	failures   int
}

func routerMain(ctx context.Context, args []string, stderr io.Writer) int {
	r, err := newRouter(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "launch_router:", err)
		return 2
	}
	if code, done := r.faults.reparent(ctx, append([]string{"router"}, args...)); done {
		return code
	}
	ctx, stop := withTerm(ctx, r.faults)
	defer stop()
	if err := r.run(ctx); err != nil {
		r.log.line("ERROR: " + err.Error())
		return 1
	}
	return 0
}

func newRouter(args []string, stderr io.Writer) (*router, error) {
	f := parseFlags(args)
	r := &router{flags: f, log: &logger{w: stderr}, pd: f.has("pd-disaggregation")}
	var err error
	if r.faults, err = newFaults(place{role: "router", port: f.number(30000, "port")}, r.log); err != nil {
		return nil, err
	}
	if r.pd {
		r.prefill, r.decode = prefillMembers(f["prefill"]), members(f["decode"], "decode")
		if len(r.prefill) == 0 || len(r.decode) == 0 {
			return nil, errors.New("--pd-disaggregation needs --prefill and --decode")
		}
	} else {
		r.decode = members(f["worker-urls"], "regular")
	}
	return r, nil
}

// prefillMembers reads "URL [PORT]" repeated.
func prefillMembers(words []string) []*member {
	var out []*member
	for _, w := range words {
		if port, err := strconv.Atoi(w); err == nil {
			if len(out) > 0 {
				out[len(out)-1].bootstrap = &port
			}
		} else if w != "none" {
			out = append(out, &member{url: strings.TrimSuffix(w, "/"), kind: "prefill"})
		}
	}
	return out
}

func members(urls []string, kind string) []*member {
	var out []*member
	for _, u := range urls {
		out = append(out, &member{url: strings.TrimSuffix(u, "/"), kind: kind})
	}
	return out
}

func (r *router) all() []*member { return append(append([]*member(nil), r.prefill...), r.decode...) }

func (r *router) run(ctx context.Context) error {
	r.faults.crash("start")
	r.faults.background()
	l, err := listen(ctx, r.flags.text("0.0.0.0", "host"), r.flags.number(30000, "port"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	r.log.line(fmt.Sprintf("Starting server on %s | %d prefill, %d decode", l.Addr(), len(r.prefill), len(r.decode)))
	if x, ok := r.faults.find("deaf"); ok {
		time.AfterFunc(x.seconds("after", 0), func() { r.deaf.Store(true) })
	}
	r.faults.crash("ready")
	for _, m := range r.all() {
		go r.keep(ctx, m)
	}
	<-ctx.Done()
	r.log.line("shutting down")
	drain, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_ = server.Shutdown(drain)
	return nil
}

// keep registers a worker once it is healthy and then watches its health.
func (r *router) keep(ctx context.Context, m *member) {
	if x, ok := r.faults.find("drop-worker"); ok && strings.Contains(m.url, x.text("url", "")) {
		r.log.line("WARN: worker " + m.url + " dropped")
		return
	}
	wait := min(time.Duration(r.flags.number(30, "worker-startup-check-interval"))*time.Second, time.Second)
	limit := r.flags.number(3, "health-failure-threshold")
	for {
		err := m.probe(ctx)
		m.mu.Lock()
		switch {
		case err == nil:
			if !m.registered {
				r.log.line("Activated worker " + m.url)
				wait = time.Duration(r.flags.number(60, "health-check-interval-secs")) * time.Second
			}
			m.registered, m.healthy, m.failures = true, true, 0
		case m.registered:
			if m.failures++; m.failures >= limit {
				m.healthy = false
			}
		}
		m.mu.Unlock()
		if !pause(ctx, wait) {
			return
		}
	}
}

// probe asks a worker for its health, and for its model when it is new.
func (m *member) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := getJSON(ctx, m.url+"/health", nil); err != nil {
		return err
	}
	m.mu.Lock()
	known := m.registered
	m.mu.Unlock()
	if known {
		return nil
	}
	var info struct {
		Name string `json:"served_model_name"`
	}
	_ = getJSON(ctx, m.url+"/server_info", &info)
	m.mu.Lock()
	m.model = info.Name
	m.mu.Unlock()
	return nil
}

func getJSON(ctx context.Context, where string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// pick chooses one of the healthy workers by the policy: random by name, else
// one after the other.
func (r *router) pick(from []*member, policy string) (*member, error) {
	var ok []*member
	for _, m := range from {
		m.mu.Lock()
		if m.registered && m.healthy {
			ok = append(ok, m)
		}
		m.mu.Unlock()
	}
	if len(ok) == 0 {
		return nil, fmt.Errorf("No available %s workers (all circuits open or unhealthy)", from[0].kind)
	}
	if r.flags.text(r.flags.text("round_robin", "policy"), policy) == "random" {
		return ok[rand.IntN(len(ok))], nil
	}
	return ok[int(r.turn.Load())%len(ok)], nil
}

// route sends one completion through a prefill and a decode worker and copies
// the decode worker's answer back.
func (r *router) route(w http.ResponseWriter, req *http.Request) {
	if x, ok := r.faults.find("crash"); ok && x.text("phase", "load") == "serve" && int(r.requests.Load()) >= x.number("after", 0) {
		r.faults.end(x)
	}
	r.requests.Add(1)
	if x, ok := r.faults.find("answer"); ok {
		wrongAnswer(w, x, chatShape{})
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 256<<20))
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	r.turn.Add(1)
	decode, err := r.pick(r.decode, "decode-policy")
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	prefillDone := make(chan error, 1)
	if r.pd {
		prefill, err := r.pick(r.prefill, "prefill-policy")
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		if body, err = inject(body, prefill); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		go func() {
			resp, err := post(req.Context(), prefill.url+req.URL.Path, body)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("prefill worker %s: %s", prefill.url, resp.Status)
				}
			}
			prefillDone <- err
		}()
	} else {
		prefillDone <- nil
	}
	resp, err := post(req.Context(), decode.url+req.URL.Path, body)
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if err := <-prefillDone; err != nil {
			refuse(w, http.StatusBadGateway, err.Error())
			return
		}
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = http.NewResponseController(w).Flush()
		if err != nil {
			return
		}
	}
}

func post(ctx context.Context, where string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// inject writes the place of the request's KV into its body, once for each
// prompt of a batch.
func inject(body []byte, prefill *member) ([]byte, error) {
	var q request
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &q), json.Unmarshal(body, &fields)); err != nil {
		return nil, fmt.Errorf("parse body: %w", err)
	}
	prompts, err := q.prompts()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(prefill.url)
	if err != nil {
		return nil, err
	}
	hosts, ports, rooms := []string{}, []*int{}, []uint64{}
	for range prompts {
		hosts, ports, rooms = append(hosts, u.Hostname()), append(ports, prefill.bootstrap), append(rooms, rand.Uint64()>>1)
	}
	set := func(name string, one, many any) {
		v := many
		if len(prompts) == 1 {
			v = one
		}
		fields[name], _ = json.Marshal(v)
	}
	set("bootstrap_host", hosts[0], hosts)
	set("bootstrap_port", ports[0], ports)
	set("bootstrap_room", rooms[0], rooms)
	return json.Marshal(fields)
}

// refuse answers with an error in the shape of the real router.
func refuse(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"type": http.StatusText(status), "code": "router_error", "message": message}})
}
