package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/peers"
	"github.com/disagg/disagg/orchestrator/events"
)

// PeersVerb is the tool's own verb with which a node checks that it reaches the
// others.
const PeersVerb = "peers"

// peersWait is how long nodes wait for one another. All are asked at once, so
// what is not there by then does not come.
const peersWait = 10 * time.Second

// localPort is the name of ports that nobody on another node asks for.
const localPort = "metrics"

// stagePeers makes sure, before any model is loaded, that the nodes reach one
// another on the planned ports. A node can be well and serve, and the packets of
// some other never arrive.
func (r *run) stagePeers(ctx context.Context) error {
	nodes := r.used()
	switch {
	case r.plan.Preflight.Mode == "off":
		r.unproven = append(r.unproven, "that the nodes reach one another: preflight is off in the recipe")
		return skip("preflight is off in the recipe")
	case r.oneHost() || len(nodes) < 2:
		return skip("there is one node")
	}
	asks := map[*node][]byte{}
	for _, n := range nodes {
		data, err := json.Marshal(r.peersOf(n, nodes))
		if err != nil {
			return failf("ask whether nodes reach one another: %v", err)
		}
		asks[n] = data
	}
	a, err := each(ctx, r, nodes, "the look for one another", false, func(ctx context.Context, n *node) (peers.Answer, error) {
		var ans peers.Answer
		res, err := n.conn.Exec(ctx, deploy.ExecRequest{Argv: []string{"@self", PeersVerb}, Stdin: asks[n], Timeout: 2*peersWait + r.pace.Look})
		if err != nil {
			return ans, err
		}
		if err := json.Unmarshal(res.Stdout, &ans); err != nil || res.Exit != 0 {
			return ans, fmt.Errorf("exit %d: %s", res.Exit, strings.TrimSpace(res.Error+" "+string(res.Stderr)))
		}
		return ans, nil
	})
	if err != nil {
		return err
	}
	var bad []string
	if len(a.bad) > 0 {
		bad = append(bad, "could not be checked: "+a.failed())
	}
	for _, n := range nodes {
		bad = append(bad, unreached(n, nodes, a.ok[n])...)
	}
	switch {
	case len(bad) == 0:
		return nil
	case r.plan.Preflight.Mode == "warn":
		for _, b := range bad {
			r.warn(events.Event{Msg: "nodes do not reach one another, and the run goes on because preflight.mode is warn: " + b})
		}
		return nil
	}
	return failf("nodes do not reach one another: %s; mend routes or firewalls between them, or exclude one in the site", strings.Join(bad, "; "))
}

// peersOf is what a node is asked: to listen on the ports that others will use,
// and to dial theirs.
func (r *run) peersOf(n *node, nodes []*node) peers.Ask {
	ask := peers.Ask{Run: r.id, Name: n.name, Listen: r.openPorts(n), Wait: peersWait}
	for _, o := range nodes {
		if o != n {
			ask.Peers = append(ask.Peers, peers.Peer{Name: o.name, Addr: o.info.Addr, Ports: r.openPorts(o)})
		}
	}
	return ask
}

// openPorts are the planned ports of a node that others use.
func (r *run) openPorts(n *node) []int {
	var out []int
	for _, p := range r.order {
		for _, port := range p.Ports {
			if p.node == n && port.Name != localPort && !slices.Contains(out, port.Number) {
				out = append(out, port.Number)
			}
		}
	}
	slices.Sort(out)
	return out
}

// unreached says which nodes one does not reach: one line for each, with the
// first of its ports.
func unreached(n *node, nodes []*node, ans peers.Answer) []string {
	var out []string
	for _, d := range ans.Deaf {
		out = append(out, n.name+" cannot listen: "+d)
	}
	for _, o := range nodes {
		var ports []peers.Unreached
		for _, u := range ans.Unreached {
			if u.Name == o.name {
				ports = append(ports, u)
			}
		}
		if len(ports) == 0 {
			continue
		}
		text := fmt.Sprintf("%s does not reach %s at %s: %s", n.name, o.name, ports[0].Addr, ports[0].Why)
		if more := len(ports) - 1; more > 0 {
			text += fmt.Sprintf(" (and %s more)", plural(more, "port"))
		}
		out = append(out, text)
	}
	return out
}
