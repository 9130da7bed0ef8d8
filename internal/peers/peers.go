package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ask is what one node is asked to do. All nodes are asked at the same time.
type Ask struct {
	// Run is told by both ends of a connection: whoever does not know it is not of
	// this run.
	Run  string `json:"run"`
	Name string `json:"name"` // of this node
	// Listen are this node's ports, on all of its addresses.
	Listen []int  `json:"listen"`
	Peers  []Peer `json:"peers"`
	// Wait is how long the others are waited for.
	Wait time.Duration `json:"wait"`
}

// Peer is another node.
type Peer struct {
	Name  string `json:"name"`
	Addr  string `json:"addr"`
	Ports []int  `json:"ports"`
}

// Answer is what a node found.
type Answer struct {
	Unreached []Unreached `json:"unreached,omitempty"`
	// Deaf are own ports that could not be listened on, with the reason.
	Deaf []string `json:"deaf,omitempty"`
}

// Unreached is a port of a peer that did not answer.
type Unreached struct {
	Name string `json:"name"`
	Addr string `json:"addr"` // address and port
	Why  string `json:"why"`
}

const (
	dialTime  = 2 * time.Second        // one try: a packet that is lost is sent again after 1 s
	retryTime = 100 * time.Millisecond // between tries: the other may only just be starting
	atOnce    = 64                     // dials in flight
	maxLine   = 512
)

// Main answers an Ask in JSON on in with an Answer in JSON on out.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	var a Ask
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return fmt.Errorf("read what to check: %w", err)
	}
	if err := json.NewEncoder(out).Encode(Check(ctx, a)); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return nil
}

// Check listens and dials until all peers have answered and have been answered,
// at most for the time to wait.
func Check(ctx context.Context, a Ask) Answer {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	var ans Answer
	h := &host{Ask: a, heard: map[string]bool{}, all: make(chan struct{})}
	if h.expected = len(a.Peers) * len(a.Listen); h.expected == 0 {
		close(h.all)
	}
	var serving sync.WaitGroup
	var lc net.ListenConfig
	for _, port := range a.Listen {
		l, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err != nil {
			ans.Deaf = append(ans.Deaf, err.Error())
			continue
		}
		serving.Go(func() { h.serve(l, port) })
		context.AfterFunc(ctx, func() { _ = l.Close() }) // the end of the listening; there is nothing to lose
	}
	ans.Unreached = h.dialAll(ctx)
	// Others may still be dialling; who waits for a port that cannot be listened
	// on waits in vain, so this does not.
	if len(ans.Deaf) == 0 {
		select {
		case <-h.all:
		case <-ctx.Done():
		}
	}
	cancel()
	serving.Wait()
	return ans
}

// host is this node while it checks.
type host struct {
	Ask
	expected int

	mu    sync.Mutex
	heard map[string]bool // peer and port
	all   chan struct{}   // closed when every peer was heard on every port
}

func (h *host) serve(l net.Listener, port int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		wg.Go(func() {
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(dialTime)) // a socket that is open takes it
			name, ok := h.greeted(c)
			if !ok {
				return
			}
			if _, err := fmt.Fprintf(c, "%s %s\n", h.Run, h.Name); err != nil {
				return
			}
			// Whoever closes first keeps the port busy for a minute. It must not be
			// this end, whose port is wanted in a moment.
			_, _ = io.Copy(io.Discard, io.LimitReader(c, maxLine))
			h.hear(name, port)
		})
	}
}

// greeted reads who calls.
func (h *host) greeted(c net.Conn) (name string, ok bool) {
	line, err := bufio.NewReader(io.LimitReader(c, maxLine)).ReadString('\n')
	run, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	return name, err == nil && run == h.Run
}

func (h *host) hear(name string, port int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := name + " " + strconv.Itoa(port)
	if !h.heard[key] {
		if h.heard[key] = true; len(h.heard) == h.expected {
			close(h.all)
		}
	}
}

// dialAll dials every port of every peer and returns those without an answer, in
// the order of the peers.
func (h *host) dialAll(ctx context.Context) []Unreached {
	type target struct {
		peer Peer
		addr string
	}
	var targets []target
	for _, p := range h.Peers {
		for _, port := range p.Ports {
			targets = append(targets, target{p, net.JoinHostPort(p.Addr, strconv.Itoa(port))})
		}
	}
	errs := make([]error, len(targets))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			errs[i] = h.reach(ctx, t.addr, t.peer.Name, slots)
		})
	}
	wg.Wait()
	var out []Unreached
	for i, err := range errs {
		if err != nil {
			out = append(out, Unreached{Name: targets[i].peer.Name, Addr: targets[i].addr, Why: err.Error()})
		}
	}
	return out
}

// reach dials one port until it answers or the time is over, and then says what
// was wrong with the last whole try.
func (h *host) reach(ctx context.Context, addr, name string, slots chan struct{}) error {
	last := errors.New("not tried in time")
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return last
		}
		err := h.try(ctx, addr, name)
		<-slots
		if err == nil || errors.Is(err, errStranger) {
			return err
		}
		if ctx.Err() == nil {
			last = err
		}
		t := time.NewTimer(retryTime)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return last
		}
	}
}

// errStranger says that the port is another's; asking again does not help.
var errStranger = errors.New("somebody else answers")

func (h *host) try(ctx context.Context, addr, name string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", dialTime)
	case err != nil:
		return err
	}
	defer func() { _ = c.Close() }()
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end) // a socket that is open takes it
	if _, err := fmt.Fprintf(c, "%s %s\n", h.Run, h.Name); err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(c, maxLine)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("a connection without an answer: %w", err)
	}
	if got := strings.TrimSpace(line); got != h.Run+" "+name {
		return fmt.Errorf("%w: %q", errStranger, got)
	}
	return nil
}
