package orchestrator

import (
	"fmt"
	"net"
	"strconv"

	"github.com/disagg/disagg/orchestrator/signature"
)

// logPeers are the other programs that serve, by what logs may call them: address or
// host name with one of their ports, and a worker by its bare address where it is
// the only one there.
func (r *run) logPeers(p *proc) []signature.Peer {
	workers := map[*node]int{}
	for _, q := range r.workerProcs() {
		workers[q.node]++
	}
	var out []signature.Peer
	for _, q := range r.order {
		if !q.serves() || q == p {
			continue
		}
		peer := signature.Peer{Name: q.where()}
		for _, host := range []string{q.node.info.Addr, q.node.info.Host, q.node.name} {
			if host == "" {
				continue
			}
			for _, port := range q.Ports {
				peer.Texts = append(peer.Texts, net.JoinHostPort(host, strconv.Itoa(port.Number)))
			}
		}
		if addr := q.node.info.Addr; addr != "" && q.worker != nil && workers[q.node] == 1 {
			peer.Texts = append(peer.Texts, addr)
		}
		out = append(out, peer)
	}
	return out
}

// serves says that a process is a worker's or the router's, and has its node.
func (p *proc) serves() bool { return (p.worker != nil || p.Scope == "router") && p.node != nil }

// named says whom most lines of a signature name; "" where they name nobody.
func named(m signature.Match) string {
	who, n := m.Peer()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s, on %d of %s", who, n, plural(m.Count, "line"))
}
