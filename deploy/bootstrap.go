package deploy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/disagg/disagg/models"
)

// maxBootstrap bounds the line that an agent reads before it knows anything.
const maxBootstrap = 64 << 10

// BootstrapEnv names the variable that may hold the bootstrap line instead of
// stdin, for a transport that holds stdin back until every node has started.
const BootstrapEnv = "DISAGG_BOOTSTRAP"

// Bootstrap is the first line on an agent's stdin: how to reach the controller
// and what the site wants. It is never on a command line.
type Bootstrap struct {
	RunID string `json:"run_id"`
	// Node is the name the launcher uses; empty: SLURMD_NODENAME, else the
	// kernel's host name.
	Node string `json:"node,omitempty"`
	// Addrs are the controller's addresses, host:port, best first. Pin is the
	// SHA-256 of its certificate in hex.
	Addrs []string `json:"addrs,omitempty"`
	Pin   string   `json:"pin,omitempty"`
	// Token shows that the agent is one that the controller started.
	Token string `json:"token"`
	// Nonce is in the sentinel before the protocol on stdout.
	Nonce string `json:"nonce,omitempty"`
	// Scratch is where the agent makes its directory; empty: /tmp. It should be
	// short, since a unix socket's path has at most 107 bytes.
	Scratch string `json:"scratch,omitempty"`
	// Interface is as in models.NetworkSite.
	Interface string `json:"interface,omitempty"`
	// Loopback allows 127.0.0.1 as the node's address where it has no other:
	// for runs on one host only.
	Loopback bool `json:"loopback,omitempty"`
	// Root is put before /sys when devices are listed, for labs.
	Root string `json:"root,omitempty"`
	// Runtime says which container program to look for (Kind and Sudo).
	Runtime models.Runtime `json:"runtime"`
	Timing  Timing         `json:"timing"`
	// KillWait is how long Slurm waits between TERM and KILL; default 30 s.
	KillWait time.Duration `json:"kill_wait,omitempty"`
}

// Line writes the bootstrap as one line.
func (b Bootstrap) Line() ([]byte, error) {
	line, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write bootstrap: %w", err)
	}
	return append(line, '\n'), nil
}

// ReadBootstrap reads the line and nothing after it.
func ReadBootstrap(r *bufio.Reader) (Bootstrap, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxBootstrap {
			return Bootstrap{}, fmt.Errorf("read bootstrap: the first line of stdin has more than %d bytes", maxBootstrap)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return Bootstrap{}, errors.New("read bootstrap: stdin ended before a whole line; the agent is started by the controller, not by hand")
		}
		if err != nil {
			return Bootstrap{}, fmt.Errorf("read bootstrap: %w", err)
		}
		break
	}
	var b Bootstrap
	if err := json.Unmarshal(line, &b); err != nil {
		return Bootstrap{}, fmt.Errorf("read bootstrap: %w", err)
	}
	if b.RunID == "" || b.Token == "" {
		return Bootstrap{}, errors.New("read bootstrap: run id or token is missing")
	}
	return b, nil
}
