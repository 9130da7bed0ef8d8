package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// When is a condition. What is not set does not matter; a layer that names no
// role applies to the workers (prefill, decode, aggregate).
type When struct {
	// Role is prefill, decode, aggregate, router or client, or a list of them.
	Role Names `yaml:"role,omitempty"`
	// Scenario is fixed or agentic.
	Scenario string       `yaml:"scenario,omitempty"`
	EP       *models.Bool `yaml:"ep,omitempty"`      // expert parallelism
	DP       *models.Bool `yaml:"dp,omitempty"`      // data-parallel attention
	MTP      *models.Bool `yaml:"mtp,omitempty"`     // multi-token prediction
	Eval     *models.Bool `yaml:"eval,omitempty"`    // an evaluation will ask for right answers
	Offload  *models.Bool `yaml:"offload,omitempty"` // KV tier in host memory
	// Aggregate is whether the run's workers do prefill and decode themselves.
	Aggregate *models.Bool `yaml:"aggregate,omitempty"`
	// Decode is a condition on the decode workers of the run, for settings
	// that all workers must agree on.
	Decode *Parallel `yaml:"decode,omitempty"`
}

// Parallel is how workers share their work.
type Parallel struct {
	EP *models.Bool `yaml:"ep,omitempty"` // expert parallelism
	DP *models.Bool `yaml:"dp,omitempty"` // data-parallel attention
}

// Roles that layers may name beside those of models. Their layers apply only
// when they name the role.
const (
	RoleRouter = "router"
	RoleClient = "client"
)

// Scenarios that recipes and layers may name.
const (
	ScenarioFixed   = models.ScenarioFixed
	ScenarioAgentic = models.ScenarioAgentic
)

// Roles lists the roles that a layer may name.
func Roles() []string {
	return []string{models.RolePrefill, models.RoleDecode, models.RoleAggregate, RoleRouter, RoleClient}
}

// Scenarios lists the scenarios that a recipe or a layer may name.
func Scenarios() []string { return []string{ScenarioFixed, ScenarioAgentic} }

// Names is a list of names that may be written as one name.
type Names []string

// UnmarshalText reads one name.
func (n *Names) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "" || strings.ContainsAny(s, " ,") {
		return fmt.Errorf("%q is not one name; write several as a list", s)
	}
	*n = Names{s}
	return nil
}

// Mode is what layers are chosen by.
type Mode struct {
	Role     string
	Scenario string
	EP, DP   bool
	MTP      bool
	Eval     bool
	Offload  bool
	// Aggregate runs have workers that do prefill and decode themselves.
	Aggregate bool
	// DecodeEP and DecodeDP are the modes of the run's decode workers.
	DecodeEP, DecodeDP bool
}

// holds says whether the condition holds for m.
func (w When) holds(m Mode) bool {
	role := slices.Contains(w.Role, m.Role) ||
		len(w.Role) == 0 && m.Role != RoleRouter && m.Role != RoleClient
	agree := func(want *models.Bool, is bool) bool { return want == nil || bool(*want) == is }
	return role &&
		(w.Scenario == "" || w.Scenario == m.Scenario) &&
		agree(w.EP, m.EP) && agree(w.DP, m.DP) && agree(w.MTP, m.MTP) &&
		agree(w.Eval, m.Eval) && agree(w.Offload, m.Offload) && agree(w.Aggregate, m.Aggregate) &&
		(w.Decode == nil || agree(w.Decode.EP, m.DecodeEP) && agree(w.Decode.DP, m.DecodeDP))
}
