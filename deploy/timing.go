package deploy

import (
	"cmp"
	"time"
)

// Timing is how the lease is kept. Zero values mean the defaults.
type Timing struct {
	// Beat is how often each side of a connection says at least that it is
	// there; default 2 s.
	Beat time.Duration `json:"beat,omitempty"`
	// Lost is the silence after which a connection counts as lost; default
	// 10 s, five missed beats, so that a busy node is not taken for a dead one.
	Lost time.Duration `json:"lost,omitempty"`
	// Redial is how long an agent without controller waits for its return, and
	// a controller for its agent, before both give up; default 30 s.
	Redial time.Duration `json:"redial,omitempty"`
}

// Filled gives the timing with defaults in place of zeros.
func (t Timing) Filled() Timing {
	return Timing{
		Beat:   cmp.Or(t.Beat, 2*time.Second),
		Lost:   cmp.Or(t.Lost, 10*time.Second),
		Redial: cmp.Or(t.Redial, 30*time.Second),
	}
}
