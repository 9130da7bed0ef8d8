package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator/signature"
)

// maxBody bounds how much of an answer is read. Health pages and member lists
// are far below; a server that sends more is not what it should be.
const maxBody = 1 << 20

// shownBody bounds how much of an answer is shown.
const shownBody = 800

// answer is what an HTTP endpoint said.
type answer struct {
	status int
	body   []byte
}

// permanent is an error that asking again cannot cure.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

func permanentf(format string, args ...any) error { return permanent{fmt.Errorf(format, args...)} }

// transport reaches workers and router directly: the proxies of the submitting
// environment are for the world outside.
func transport(given http.RoundTripper) http.RoundTripper {
	if given != nil {
		return given
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     30 * time.Second,
	}
}

func baseURL(addr string, port int) string {
	return "http://" + net.JoinHostPort(addr, strconv.Itoa(port))
}

// get asks an endpoint, with a time of its own.
func (r *run) get(ctx context.Context, url string, limit time.Duration) (answer, error) {
	return r.do(ctx, http.MethodGet, url, nil, limit)
}

// send posts a JSON value.
func (r *run) send(ctx context.Context, url string, v any, limit time.Duration) (answer, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return answer{}, fmt.Errorf("post %s: %w", url, err)
	}
	return r.do(ctx, http.MethodPost, url, body, limit)
}

func (r *run) do(ctx context.Context, method, url string, body []byte, limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := r.web.Do(req)
	if err != nil {
		return answer{}, netError(err, limit)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: read the answer: %w", method, url, netError(err, limit))
	}
	if len(data) > maxBody {
		return answer{}, fmt.Errorf("%s %s: the answer is longer than %d bytes", method, url, maxBody)
	}
	// Here, and not where it is shown: what is cut there may cut a secret in two.
	return answer{status: res.StatusCode, body: r.red.Bytes(data)}, nil
}

// netError says a timeout in words that name its length.
func netError(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s", errNoAnswer, limit)
	}
	return err
}

// errNoAnswer is silence, which does not say whose fault it is.
var errNoAnswer = errors.New("no answer")

// text is an answer as a person may read it: one line, no control characters.
func (a answer) text() string {
	s := signature.Clean(bytes.ReplaceAll(bytes.TrimSpace(a.body), []byte("\n"), []byte(" ")))
	if len(s) > shownBody {
		s = strings.ToValidUTF8(s[:shownBody], "") + " …"
	}
	if s == "" {
		s = "(empty)"
	}
	return fmt.Sprintf("HTTP %d %s", a.status, s)
}
