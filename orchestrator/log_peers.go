package orchestrator

import (
	"fmt"
	"net"
	"slices"
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
		var ports []int
		for _, port := range q.Ports {
			ports = append(ports, port.Number)
		}
		if q.worker != nil {
			ports = append(ports, q.worker.Port, q.worker.BootstrapPort)
		}
		for _, host := range []string{q.node.info.Addr, q.node.info.Host, q.node.name} {
			for _, port := range ports {
				if text := net.JoinHostPort(host, strconv.Itoa(port)); host != "" && port != 0 && !slices.Contains(peer.Texts, text) {
					peer.Texts = append(peer.Texts, text)
				}
			}
		}
		if q.worker != nil && workers[q.node] == 1 {
			peer.Addr, peer.Ports = q.node.info.Addr, ports
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
