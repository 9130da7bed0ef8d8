package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// errPeerLeft says that another rank of the worker has gone.
var errPeerLeft = errors.New("left the process group")

// peers are the connections between the ranks of one worker: rank 0 listens at
// the dist-init address, the others stay connected to it.
type peers struct {
	listener net.Listener
	conns    map[int]net.Conn // by the other side's rank
	gone     chan int
}

// joinRanks waits until all ranks are connected, as the real engine's process
// group does.
func (e *engine) joinRanks(ctx context.Context) (*peers, error) {
	p := &peers{conns: map[int]net.Conn{}, gone: make(chan int, e.nodes)}
	if e.nodes == 1 {
		return p, nil
	}
	addr := e.flags.text("", "dist-init-addr", "nccl-init-addr")
	if addr == "" {
		return nil, errors.New("--nnodes needs --dist-init-addr")
	}
	e.log.line(fmt.Sprintf("Init torch distributed begin. rank %d of %d at %s", e.rank, e.nodes, addr))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.flags.number(600, "dist-timeout"))*time.Second)
	defer cancel()
	var err error
	if e.rank == 0 {
		err = p.gather(ctx, addr, e.nodes-1)
	} else {
		err = p.join(ctx, addr, e.rank)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("torch.distributed.DistStoreError: rank %d: %w", e.rank, err)
	}
	for rank, conn := range p.conns {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			p.gone <- rank
		}()
	}
	e.log.line("Init torch distributed ends. mem usage=1.35 GB")
	return p, nil
}

func (p *peers) gather(ctx context.Context, addr string, others int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	p.listener = l
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for len(p.conns) < others {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("%d of %d ranks joined: %w", len(p.conns)+1, others+1, err)
		}
		var hello [8]byte
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(conn, hello[:]); err != nil {
			conn.Close() // a probe of the port, not a rank
			continue
		}
		_ = conn.SetReadDeadline(time.Time{})
		rank, err := strconv.Atoi(string(hello[4:]))
		if err != nil || string(hello[:4]) != "rank" {
			conn.Close()
			continue
		}
		p.conns[rank] = conn
	}
	// All are here: let them go on.
	for _, c := range p.conns {
		if _, err := c.Write([]byte("all")); err != nil {
			return err
		}
	}
	return nil
}

func (p *peers) join(ctx context.Context, addr string, rank int) error {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			if !pause(ctx, 50*time.Millisecond) {
				return fmt.Errorf("wait for rank 0: %w", err)
			}
			continue
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		all := make([]byte, 3)
		if _, err := fmt.Fprintf(conn, "rank%04d", rank); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, all); err != nil {
			return fmt.Errorf("wait for the other ranks: %w", err)
		}
		p.conns[0] = conn
		return nil
	}
}

// lost waits until another rank is gone or ctx ends.
func (p *peers) lost(ctx context.Context) (string, bool) {
	select {
	case rank := <-p.gone:
		return strconv.Itoa(rank), ctx.Err() == nil
	case <-ctx.Done():
		return "", false
	}
}

func (p *peers) close() {
	if p.listener != nil {
		p.listener.Close()
	}
	for _, c := range p.conns {
		c.Close()
	}
}

// follow is the life of the ranks above 0: they serve no HTTP.
func (e *engine) follow(ctx context.Context, p *peers) error {
	e.log.line(fmt.Sprintf("node rank %d follows rank 0", e.rank))
	e.faults.crash("ready")
	if e.faults.has("ignore-peers") {
		<-ctx.Done()
		return nil
	}
	if who, ok := p.lost(ctx); ok {
		return fmt.Errorf("rank %s %w", who, errPeerLeft)
	}
	return nil
}
