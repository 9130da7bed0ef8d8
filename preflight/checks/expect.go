package checks

import (
	"slices"

	"github.com/disagg/disagg/models"
)

// Expect is what the checks compare facts with: the site's profile, and what the
// run needs.
type Expect struct {
	// Site is the golden state; its zero values mean "not stated".
	Site models.PreflightSite `json:"site"`
	// GPUsPerNode is the number of GPUs; 0: not known.
	GPUsPerNode int `json:"gpus_per_node,omitempty"`
	// NodeMemoryGB is the host memory in GB; 0: not known.
	NodeMemoryGB int `json:"node_memory_gb,omitempty"`
	// Nodes is how many nodes the run takes; above 1 its nodes talk RDMA.
	Nodes int  `json:"nodes,omitempty"`
	RDMA  RDMA `json:"rdma"`
	Run   Run  `json:"run"`
	// VRAMBytes is what one GPU must have free; 0: not known.
	VRAMBytes int64 `json:"vram_bytes,omitempty"`
	// GPUs says whether the run uses GPUs at all.
	GPUs bool `json:"gpus"`
	// Models are the candidate directories of the weights, best first; Model is
	// the catalog key, for messages.
	Models []string `json:"models,omitempty"`
	Model  string   `json:"model,omitempty"`
	// ImageModel is where processes in containers see the weights.
	ImageModel string `json:"image_model,omitempty"`
	// Ports are TCP ports that must be free. Which node gets which role is
	// decided after preflight, so every node must have all of them free.
	Ports []Port `json:"ports,omitempty"`
	// Runtime, Images and Tools say how processes are contained.
	Runtime models.Runtime `json:"runtime"`
	Images  []string       `json:"images,omitempty"`
	// Plain are those of the images whose processes get neither GPUs, RDMA devices
	// nor weights: routers, clients.
	Plain []string `json:"plain,omitempty"`
	// Tools are programs that must be in the image, by image.
	Tools []Tool `json:"tools,omitempty"`
	// Env are variables the image probe must see, by name.
	Env []string `json:"env,omitempty"`
	// RunsDir is where the run's files go.
	RunsDir string `json:"runs_dir,omitempty"`
	// MaxConns is the highest number of client connections at once.
	MaxConns int `json:"max_conns,omitempty"`
}

// Inside is what is expected inside an image: no more than the processes that
// run in it need.
func (e Expect) Inside(image string) Expect {
	if slices.Contains(e.Plain, image) {
		e.GPUs, e.Models, e.Env = false, nil, nil
		e.RDMA.Needed, e.RDMA.Why = false, "the processes in this image move no data over RDMA"
		return e
	}
	e.Models = nil
	if e.ImageModel != "" {
		e.Models = []string{e.ImageModel}
	}
	return e
}

// RDMA is what the run does with RDMA.
type RDMA struct {
	// Needed: data moves between workers over RDMA, so the fabric must be right.
	Needed bool `json:"needed"`
	// Why says in words why it is, or is not.
	Why string `json:"why,omitempty"`
	// Site is the fabric as the site file describes it.
	Site models.RDMASite `json:"site"`
	// Vars are the run's own variables about marking and addressing.
	Vars []Var `json:"vars,omitempty"`
}

// Var is one variable of the run that a check looks at.
type Var struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NoRDMA says why RDMA is of no interest here; "" where it is.
func (e *Expect) NoRDMA() string {
	switch d := e.Site.RDMA.Devices; {
	case d != nil && *d == 0:
		return "the site says that it has no RDMA"
	case !e.RDMA.Needed:
		return or(e.RDMA.Why, "the run moves no data over RDMA")
	}
	return ""
}

// Run is who asks, to tell own from foreign.
type Run struct {
	ID   string `json:"id,omitempty"`   // run id
	Job  string `json:"job,omitempty"`  // Slurm job id
	User string `json:"user,omitempty"` // user name
}

// Port is a TCP port the run will listen on.
type Port struct {
	Number int    `json:"number"`
	Of     string `json:"of"` // process and purpose
}

// Tool is a program that must be in an image.
type Tool struct {
	Image string `json:"image"`
	Name  string `json:"name"`
	Of    string `json:"of"` // which process needs it
}

// or is v, or def where v is not set.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
