package engine

import "fmt"

// Shape is how one worker lies on nodes.
type Shape struct {
	Nodes int // nodes of the worker
	GPUs  int // GPUs on each of them
}

// ShapeOf returns how a worker of tp × pp GPUs lies on nodes of the given size.
// It refuses what does not come out even: half a node given away, or a rank
// more on one node than on another, fails only when the engine starts.
func ShapeOf(tp, pp, gpusPerNode int) (Shape, error) {
	gpus := tp * pp
	switch {
	case tp < 1 || pp < 1 || gpusPerNode < 1:
		return Shape{}, fmt.Errorf("tensor parallel size %d, pipeline parallel size %d and %d GPUs a node must all be at least 1", tp, pp, gpusPerNode)
	case gpus <= gpusPerNode:
		if gpusPerNode%gpus != 0 {
			return Shape{}, fmt.Errorf("a worker of %d GPUs does not divide a node of %d", gpus, gpusPerNode)
		}
		return Shape{Nodes: 1, GPUs: gpus}, nil
	case gpus%gpusPerNode != 0:
		return Shape{}, fmt.Errorf("a worker of %d GPUs is not a whole number of nodes of %d", gpus, gpusPerNode)
	}
	return Shape{Nodes: gpus / gpusPerNode, GPUs: gpusPerNode}, nil
}

// Ports are the ports that the first worker of a role takes on a host, as the
// engines' own defaults are. Further workers on the host take the next ones.
// Zero: none.
type Ports struct {
	HTTP      int
	Bootstrap int // prefill's, where decode asks for the way to the KV
	DistInit  int // where ranks on several nodes meet
}

// DefaultPorts returns the ports of an engine's workers by role.
func DefaultPorts(engine, role string) Ports {
	switch engine {
	case SGLang:
		p := Ports{HTTP: 8000, DistInit: distInitPort}
		if role == "prefill" {
			p.Bootstrap = 8998
		}
		return p
	case VLLM:
		return Ports{HTTP: 2584}
	case ATOM:
		if role == "decode" {
			return Ports{HTTP: 8020}
		}
		return Ports{HTTP: 8010}
	}
	return Ports{HTTP: 8000}
}
