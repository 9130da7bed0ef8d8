// Package receipts is the record of what every process of a run was to have in
// its environment and what it had: env/receipts.jsonl. The controller writes it
// while processes start; nothing in it is the value of a secret.
package receipts

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Record is one process's environment.
type Record struct {
	Time    time.Time `json:"time"`
	Process string    `json:"process"`
	Scope   string    `json:"scope"`
	Node    string    `json:"node"`
	// Vars are the variables, sorted by name.
	Vars []Var `json:"vars"`
}

// Differs lists the planned variables that did not arrive as planned.
func (r Record) Differs() []Var {
	var out []Var
	for _, v := range r.Vars {
		if v.State.Differs() {
			out = append(out, v)
		}
	}
	return out
}

// State says how what was seen of a variable relates to the plan.
type State string

// The states of planned variables.
const (
	AsPlanned State = "as planned"
	Changed   State = "changed" // there, with another value
	Missing   State = "missing" // not there
	// Unset: its value is a fact that the node does not tell, so it is not set.
	Unset State = "not set"
)

// The states of variables that nobody planned, by where they come from.
const (
	FromImage   State = "image"       // the image sets it
	FromShell   State = "login shell" // the image's profile sets it
	FromRuntime State = "runtime"     // every container or shell has it
	Inherited   State = "inherited"   // on the list of what plain processes inherit
	FromTool    State = "disagg"      // a mark of this tool
	// Extra: nothing that is known sets it.
	Extra State = "extra"
)

// Differs says that a planned variable did not arrive.
func (s State) Differs() bool { return s == Changed || s == Missing }

// Planned says that the variable is one of the plan.
func (s State) Planned() bool { return s.Differs() || s == AsPlanned || s == Unset }

// Var is one variable of one process.
type Var struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Origin says who planned it, as models.EnvVar does, on this very node.
	Origin string `json:"origin,omitempty"`
	// Planned is the planned value where it is not the one that was seen; for a
	// variable that is not set, its text with the placeholder.
	Planned *Text `json:"planned,omitempty"`
	Seen    *Text `json:"seen,omitempty"` // nil: not there, or secret
	// Secret values are neither planned nor seen here; HMAC is the keyed sum of
	// what was seen. The key is nowhere.
	Secret bool   `json:"secret,omitempty"`
	HMAC   string `json:"hmac,omitempty"`
	// Over says which layers inside had another value: image, login shell, ….
	Over []State `json:"over,omitempty"`
}

// Text is a value of any bytes. In JSON it is a string, or, when it is not valid
// UTF-8, an object with its base64.
type Text []byte

// NewText makes a Text to point to.
func NewText(b []byte) *Text {
	t := Text(b)
	return &t
}

type binary struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.Valid(t) {
		return json.Marshal(string(t))
	}
	return json.Marshal(binary{t})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = Text(s)
		return nil
	}
	var b binary
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	*t = b.Base64
	return nil
}
