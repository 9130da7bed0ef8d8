package result

import (
	"slices"

	"github.com/disagg/disagg/models"
)

// Config is what was run, as the plan says it. Nothing of it is read again from
// an environment, where another name, or none, would label the results wrongly.
type Config struct {
	Site     string `json:"site"`
	Launcher string `json:"launcher"`
	// Model is the catalog's key, Served the name that clients ask for.
	Model    string `json:"model"`
	Served   string `json:"served"`
	Engine   string `json:"engine"`
	Scenario string `json:"scenario"`
	// Disaggregated says that prefill and decode are workers of their own.
	Disaggregated bool `json:"disaggregated"`
	// Roles are the shapes of workers, in the plan's order.
	Roles  []Role `json:"roles"`
	Router string `json:"router,omitempty"` // kind; empty: none
	ISL    int    `json:"isl,omitempty"`
	OSL    int    `json:"osl,omitempty"`
	// Files are the inputs with their hashes and commits.
	Files []models.InputFile `json:"files,omitempty"`
}

// Role is the workers of one role and shape.
type Role struct {
	Role    string `json:"role"`
	Workers int    `json:"workers"`
	// GPUs and Nodes are those of one worker.
	GPUs  int `json:"gpus"`
	Nodes int `json:"nodes"`
	TP    int `json:"tp"`
	PP    int `json:"pp"`
	EP    int `json:"ep"`
	// DP is the number of data-parallel attention ranks; 1: off.
	DP int `json:"dp"`
	// MTP is the speculative depth; 0: off.
	MTP           int `json:"mtp"`
	ContextLength int `json:"context_length,omitempty"`
}

// ConfigOf reads a plan.
func ConfigOf(p *models.Plan) Config {
	c := Config{
		Site: p.Site, Launcher: p.Launcher, Model: p.Model.Key, Served: p.Model.Name, Engine: p.Engine, Scenario: p.Scenario,
		Disaggregated: p.Topology.Disaggregated, Files: p.Files,
	}
	for _, w := range p.Workers {
		r := Role{Role: w.Role, Workers: 1, Nodes: len(w.Ranks), TP: w.TP, PP: w.PP, EP: w.EP, DP: w.DP, MTP: w.MTP, ContextLength: w.ContextLength}
		for _, rank := range w.Ranks {
			r.GPUs += len(rank.GPUs)
		}
		i := slices.IndexFunc(c.Roles, func(o Role) bool { o.Workers = 1; return o == r })
		if i < 0 {
			c.Roles = append(c.Roles, r)
			continue
		}
		c.Roles[i].Workers++
	}
	if p.Router != nil {
		c.Router = p.Router.Kind
	}
	if p.Client != nil {
		c.ISL, c.OSL = p.Client.ISL, p.Client.OSL
	}
	return c
}
