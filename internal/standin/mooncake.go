package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// storeConfig is SGLang's --hicache-storage-backend-extra-config as far as the
// stand-in reads it.
type storeConfig struct {
	Master   string `json:"master_server_address"`
	Metadata string `json:"metadata_server"`
	Host     string `json:"local_hostname"`
	Protocol string `json:"protocol"`
	Segment  string `json:"global_segment_size"`
}

// joinStore does what an engine does before it serves when a Mooncake store is
// behind its host memory: it reaches the master, and leaves with the metadata
// server where its segment is. Without that the real one ends.
func (e *engine) joinStore(ctx context.Context) error {
	if e.flags.text("", "hicache-storage-backend") != "mooncake" {
		return nil
	}
	var c storeConfig
	if err := json.Unmarshal([]byte(e.flags.text("", "hicache-storage-backend-extra-config")), &c); err != nil {
		return fmt.Errorf("ValueError: hicache_storage_backend_extra_config: %w", err)
	}
	if c.Master == "" || c.Metadata == "" || c.Host == "" {
		return errors.New("ValueError: mooncake needs master_server_address, metadata_server and local_hostname")
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", c.Master)
	if err != nil {
		return fmt.Errorf("RuntimeError: failed to initialize Mooncake store: master: %w", err)
	}
	_ = conn.Close() // it has accepted, which is all that was asked
	// One key for each rank, as each has a segment of its own.
	key := fmt.Sprintf("mooncake/ram/%s:%d/%d", c.Host, e.port, e.rank)
	segment, err := json.Marshal(map[string]string{"name": key, "protocol": c.Protocol, "size": c.Segment})
	if err != nil {
		return err
	}
	if _, err := metadata(ctx, http.MethodPut, c.Metadata, key, segment); err != nil {
		return fmt.Errorf("RuntimeError: failed to initialize Mooncake store: %w", err)
	}
	back, err := metadata(ctx, http.MethodGet, c.Metadata, key, nil)
	if err != nil {
		return fmt.Errorf("RuntimeError: failed to initialize Mooncake store: %w", err)
	}
	if !bytes.Equal(back, segment) {
		return fmt.Errorf("RuntimeError: the metadata server has %q under %s, which is not what was left there", back, key)
	}
	e.log.line(fmt.Sprintf("Mooncake store setup successfully: segment %s at %s, master %s", key, c.Metadata, c.Master))
	return nil
}

// metadata asks the metadata server about one key.
func metadata(ctx context.Context, method, server, key string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, server+"?key="+url.QueryEscape(key), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, server, res.Status, data)
	}
	return data, err
}
