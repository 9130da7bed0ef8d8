package orchestrator

import "context"

// Preflight checks whether nodes can do what the plan asks of them.
type Preflight interface {
	// Host checks the nodes themselves, all of them at once, so that they can be
	// compared with each other.
	Host(ctx context.Context, nodes []PreflightNode) (PreflightReport, error)
	// InImage checks what only shows inside the images of the run.
	InImage(ctx context.Context, nodes []PreflightNode) (PreflightReport, error)
	// During looks at nodes once more, while the run is on or just after it: what
	// their NICs counted since Host, and what holds sockets and processes up. The
	// counters go to a file of the run directory.
	During(ctx context.Context, nodes []PreflightNode, file string) (RunReport, error)
}

// RunReport is what happened on the nodes since they were checked.
type RunReport struct {
	// Found are things that are not as they should be, one line each.
	Found []string
	// Unproven is what could not be compared, and why.
	Unproven []string
}

// PreflightNode is one node to check.
type PreflightNode struct {
	Name string
	Node Node
	// Plan are the plan nodes it stands for; empty: a spare.
	Plan []int
	// Dir is the run directory as this node sees it.
	Dir string
	// Images are the images that run on this node, to look into; for InImage only.
	Images []ImageProbe
}

// PreflightReport is what the checks found.
type PreflightReport struct {
	// Unfit are nodes that the run must not use, with the reason in one line.
	Unfit map[string]string
	// Warnings are findings that do not stop the run.
	Warnings []string
	// Unproven are checks that did not run or were waived, with the reason.
	Unproven []string
	// Fabric is what the nodes' NICs are configured for, by node, where the checks
	// read it.
	Fabric map[string]Fabric
}

// Fabric is the RDMA that a node offers the run. What is not known is not set.
type Fabric struct {
	// Devices are the RDMA devices that carry the run's data; management ports are
	// not among them.
	Devices      []string
	TrafficClass *int
	ServiceLevel *int
}
