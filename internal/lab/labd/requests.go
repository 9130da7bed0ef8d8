package labd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"
)

// Request asks the controller to change a node.
type Request struct {
	// Op is kill (power off), start (power on), cut (pull the network cable)
	// or heal (put it back).
	Op   string `json:"op"`
	Node string `json:"node"`
}

// Reply is the controller's answer.
type Reply struct {
	State State  `json:"state"`
	Error string `json:"error,omitempty"`
}

// Ask sends one request to the controller of the lab in dir.
func Ask(dir string, r Request) (Reply, error) {
	var reply Reply
	conn, err := net.DialTimeout("unix", filepath.Join(dir, "ctl.sock"), clientTimeout)
	if err != nil {
		return reply, fmt.Errorf("ask lab: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return reply, fmt.Errorf("ask lab: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return reply, fmt.Errorf("ask lab: %w", err)
	}
	if reply.Error != "" {
		return reply, fmt.Errorf("%s %s: %s", r.Op, r.Node, reply.Error)
	}
	return reply, nil
}

func (c *controller) serve(conn net.Conn) {
	defer conn.Close()
	var r Request
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return
	}
	var reply Reply
	err := c.handle(r)
	c.mu.Lock()
	reply.State = c.state
	reply.State.Nodes = append([]NodeState(nil), c.state.Nodes...)
	err = errors.Join(err, rewriteNodes(c.spec.Dir, reply.State.Nodes))
	c.mu.Unlock()
	if err != nil {
		reply.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(reply)
}

// rewriteNodes puts the nodes as they are now into lab.json, for who opens the
// lab later. The rest of it is the supervisor's.
func rewriteNodes(dir string, nodes []NodeState) error {
	s, err := ReadState(dir)
	if err != nil {
		return err
	}
	s.Nodes = nodes
	return writeJSON(filepath.Join(dir, "lab.json"), s)
}

func (c *controller) handle(r Request) error {
	i, err := c.spec.index(r.Node)
	if err != nil {
		return err
	}
	switch r.Op {
	case "kill":
		return c.killNode(i)
	case "start":
		c.mu.Lock()
		on := c.nodes[i] != nil
		c.mu.Unlock()
		if on {
			return fmt.Errorf("it is on")
		}
		return c.startNode(i)
	case "cut", "heal":
		way := map[string]string{"cut": "down", "heal": "up"}[r.Op]
		_, err := c.kids.run(clientTimeout, "ip", "link", "set", port(i), way)
		return err
	}
	return fmt.Errorf("unknown request %q", r.Op)
}

// killNode ends a node as a power cut does: its init is killed, and the kernel
// ends everything below it at once.
func (c *controller) killNode(i int) error {
	c.mu.Lock()
	n := c.nodes[i]
	c.nodes[i] = nil
	c.state.Nodes[i].PID = 0
	c.mu.Unlock()
	if n == nil {
		return fmt.Errorf("it is off")
	}
	if err := syscall.Kill(n.pid, syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-n.done:
		return nil
	case <-time.After(clientTimeout):
		return fmt.Errorf("its init does not end")
	}
}
