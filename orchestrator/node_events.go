package orchestrator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator/events"
)

// onNode takes what a node says of itself.
func (r *run) onNode(e deploy.Event) {
	n := r.nodeNamed(e.Node)
	if n == nil {
		return
	}
	switch e.Kind {
	case deploy.EventDetached:
		n.detached = true
		r.warn(events.Event{Node: n.name, Msg: fmt.Sprintf("node %s is not heard of (%s); its processes run on until its lease ends", n.where(), e.Detail)})
	case deploy.EventAttached:
		n.detached = false
		r.emit(events.Event{Kind: events.Warning, Node: n.name, Msg: fmt.Sprintf("node %s is heard of again", n.where())})
	case deploy.EventTerminating:
		r.onTerminating(n)
	}
}

// onTerminating takes the news that somebody else ends a node's agent.
func (r *run) onTerminating(n *node) {
	if n.ended {
		return
	}
	n.ended = true
	r.killComes()
	if !r.stop.begun {
		r.fail(&failure{what: fmt.Sprintf("the agent on node %s was told to end by somebody else (scancel, a stopped step, the time limit) and is stopping its processes", n.where()), node: n.name, weak: true, ended: true})
	}
}

func (r *run) nodeNamed(name string) *node {
	for _, n := range r.nodes {
		if n.name == name || n.info.Name == name {
			return n
		}
	}
	return nil
}

// watchNode tells the owner when the connection to a node is over.
func (r *run) watchNode(n *node) {
	conn := n.conn
	r.wg.Go(func() {
		select {
		case <-conn.Done():
			r.post(r.bg, func() { r.onLost(n, conn.Err()) })
		case <-r.bg.Done():
		}
	})
}

// onLost takes the loss of a node: what ran there counts as failed with it.
func (r *run) onLost(n *node, err error) {
	if n.lost || n.closing {
		return
	}
	n.lost, n.err = true, err
	why := "its connection ended"
	if err != nil {
		why = strings.TrimPrefix(err.Error(), "node "+n.name+": ")
	}
	r.emit(events.Event{Kind: events.NodeLost, Node: n.name, Msg: fmt.Sprintf("node %s is lost: %s", n.where(), why)})
	if len(n.plan) == 0 {
		return // a spare
	}
	// While a run ends that nothing else spoilt, a node that goes is no failure:
	// scancel takes the agents away at the same time.
	count := !r.stop.begun || len(r.failures) > 0
	if count {
		r.fail(&failure{what: fmt.Sprintf("node %s is lost: %s", n.where(), why), node: n.name, weak: true, ended: errors.Is(err, ErrCancelled)})
	}
	for _, p := range r.order {
		if p.node != n || p.ended() || p.phase == planned {
			continue
		}
		p.lost = true
		if count && !p.mayEnd {
			r.fail(&failure{what: p.where() + " is lost with its node", process: p.ID, node: n.name, logFile: p.logName, weak: true})
		}
	}
}
