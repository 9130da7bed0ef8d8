package deploy

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/disagg/disagg/deploy/wire"
	"github.com/disagg/disagg/models"
)

// Setup is what all connections of one run have in common.
type Setup struct {
	RunID   string
	Version string // of this binary
	// Interface is as in models.NetworkSite.
	Interface string
	// Scratch is where agents make their directory; empty: /tmp.
	Scratch string
	// Root is as in models.PreflightSite: put before /sys when an agent lists
	// devices, for labs.
	Root    string
	Runtime models.Runtime
	Timing  Timing
	// KillWait is Slurm's; zero: 30 s.
	KillWait time.Duration
	// Events gets the events of all nodes; nil: nobody wants them.
	Events chan<- Event
	Log    *zap.Logger // nil: none
}

// filled gives the setup with defaults in place of zeros.
func (s Setup) filled() Setup {
	s.Timing = s.Timing.Filled()
	if s.Log == nil {
		s.Log = zap.NewNop()
	}
	return s
}

// bootstrap is what an agent of this run is told.
func (s Setup) bootstrap(node string) Bootstrap {
	return Bootstrap{
		RunID: s.RunID, Node: node,
		Token: rand.Text(), Nonce: rand.Text(),
		Scratch: s.Scratch, Interface: s.Interface, Root: s.Root,
		Runtime: models.Runtime{Kind: s.Runtime.Kind, Sudo: s.Runtime.Sudo},
		Timing:  s.Timing, KillWait: s.KillWait,
	}
}

// UnfitError says that an agent has started on a node that cannot take part.
type UnfitError struct{ Node, Why string }

// Error names the node and why.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("node %s cannot take part: %s", e.Node, e.Why)
}

// admit judges an agent's greeting. The error is for this side's ears; refusal
// is what the agent is told.
func (s Setup) admit(h wire.Hello, token string) (agent AgentHello, refusal string, err error) {
	if err := json.Unmarshal(h.Body, &agent); err != nil {
		return agent, "the greeting cannot be read", fmt.Errorf("read agent's greeting: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(agent.Token), []byte(token)) != 1 || agent.RunID != s.RunID {
		return agent, "this controller did not start you", fmt.Errorf("an agent of run %q called with a wrong token", agent.RunID)
	}
	if agent.Unfit != "" {
		return agent, "unfit: " + agent.Unfit, &UnfitError{Node: agent.Info.Name, Why: agent.Unfit}
	}
	return agent, "", nil
}

// refuse tells the agent why it is not wanted and hangs up.
func refuse(stream io.WriteCloser, version, why string) {
	// Whether it hears that changes nothing here.
	_ = wire.SendHello(stream, wire.Hello{Version: version, Refused: why})
	stream.Close()
}
