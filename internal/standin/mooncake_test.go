package standin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestEngineJoinsItsStore starts a prefill worker behind a store that keeps what
// is left with it, one that forgets, and none.
func TestEngineJoinsItsStore(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	kept := map[string]string{}
	server := func(forgets bool) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			key := r.URL.Query().Get("key")
			if r.Method == http.MethodPut {
				data, _ := io.ReadAll(r.Body)
				kept[key] = string(data)
			}
			if kept[key] == "" || forgets && r.Method == http.MethodGet {
				http.Error(w, "metadata not found", http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, kept[key])
		}))
		t.Cleanup(s.Close)
		return s
	}
	good, bad := server(false), server(true)
	run := func(master, meta string) *program {
		return startEngine(t, "",
			"--hicache-storage-backend", "mooncake", "--hicache-storage-backend-extra-config",
			fmt.Sprintf(`{"master_server_address": %q, "metadata_server": %q, "local_hostname": "127.0.0.1", "protocol": "tcp"}`, master, meta))
	}
	master := strings.TrimPrefix(good.URL, "http://")
	p := run(master, good.URL+"/metadata")
	p.waitStatus("/health", 200)
	if !strings.Contains(p.log.String(), "Mooncake store setup successfully") {
		t.Error("the log does not tell of the store")
	}
	mu.Lock()
	if len(kept) != 1 {
		t.Errorf("the store has %v", kept)
	}
	mu.Unlock()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for _, p := range []*program{run(nobody, good.URL+"/metadata"), run(master, bad.URL+"/metadata")} {
		if code := p.exit(); code != 1 || !strings.Contains(p.log.String(), "failed to initialize Mooncake store") {
			t.Errorf("without its store the engine ended with %d", code)
		}
	}
}
