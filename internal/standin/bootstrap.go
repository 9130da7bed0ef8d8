package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// kvTimeout is how long each side of a KV transfer waits for the other;
// STANDIN_KV_SECONDS changes it.
const kvTimeout = 30 * time.Second

// fakeHost is the bootstrap host of requests that need no transfer, by which
// the real engine warms itself up.
const fakeHost = "2.2.2.2"

// kv is what a prefill worker hands to a decode worker for one request.
type kv struct {
	Room   uint64 `json:"room"`
	Prompt string `json:"prompt"`
	Tokens int    `json:"tokens"`
	From   string `json:"from"` // host:port of the prefill worker
}

// rooms are the requests for which a prefill worker holds KV.
type rooms struct {
	mu  sync.Mutex
	all map[uint64]*room
}

type room struct {
	filled, fetched sync.Once
	full            chan struct{} // closed when kv is set
	taken           chan struct{} // closed when the decode worker has it
	kv              kv
}

// fill puts the KV into the room. A second request for the same room finds the
// first one's.
func (x *room) fill(k kv) {
	x.filled.Do(func() {
		x.kv = k
		close(x.full)
	})
}

func newRooms() *rooms { return &rooms{all: map[uint64]*room{}} }

// get is the room of that number, made by whoever comes first.
func (r *rooms) get(n uint64) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all[n]
	if x == nil {
		x = &room{full: make(chan struct{}), taken: make(chan struct{})}
		r.all[n] = x
	}
	return x
}

func (r *rooms) drop(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, n)
}

// hand offers the KV of a room and waits until the decode worker took it.
func (r *rooms) hand(ctx context.Context, n uint64, k kv) error {
	x := r.get(n)
	x.fill(k)
	defer r.drop(n)
	limit := duration("STANDIN_KV_SECONDS", time.Second, kvTimeout)
	select {
	case <-x.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(limit):
		return fmt.Errorf("Request %d timed out after %s in KVPoll.WaitingForInput", n, limit)
	}
}

// bootstrapHandler serves the prefill worker's bootstrap port: what the worker
// is, and the KV of rooms.
func (e *engine) bootstrapHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /route", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{
			"prefill_attn_tp_size": e.flags.number(1, "tp-size", "tp", "tensor-parallel-size"),
			"prefill_dp_size":      e.flags.number(1, "dp-size", "dp", "data-parallel-size"),
		})
	})
	mux.HandleFunc("GET /kv", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(r.URL.Query().Get("room"), 10, 64)
		if err != nil {
			http.Error(w, "no room", http.StatusBadRequest)
			return
		}
		if e.faults.has("refuse-kv") {
			http.Error(w, "KV transfer refused", http.StatusServiceUnavailable)
			return
		}
		if e.faults.has("stall-kv") {
			<-r.Context().Done()
			return
		}
		x := e.rooms.get(n)
		select {
		case <-x.full:
			writeJSON(w, http.StatusOK, x.kv)
			x.fetched.Do(func() { close(x.taken) })
		case <-r.Context().Done():
			e.rooms.drop(n)
		}
	})
	return mux
}

// fetch gets the KV of a room from the prefill worker.
func (e *engine) fetch(ctx context.Context, host string, port int, n uint64) (kv, error) {
	limit := duration("STANDIN_KV_SECONDS", time.Second, kvTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	at := net.JoinHostPort(host, strconv.Itoa(port))
	where := url.URL{Scheme: "http", Host: at, Path: "/kv", RawQuery: "room=" + strconv.FormatUint(n, 10)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return kv{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return kv{}, fmt.Errorf("Error fetching prefill parallel info from bootstrap %s: %w", at, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return kv{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return kv{}, fmt.Errorf("KVTransferError: %s: %s %s", at, resp.Status, text)
	}
	var k kv
	if err := json.Unmarshal(text, &k); err != nil {
		return kv{}, fmt.Errorf("KVTransferError: %s: %w", at, err)
	}
	return k, nil
}
