package orchestrator

import "github.com/disagg/disagg/orchestrator/result"

// hang is a way of not going on.
type hang string

const (
	hangLate    hang = "late"    // a stage ran out of time
	hangDeaf    hang = "deaf"    // something lives, and does not answer
	hangStall   hang = "stall"   // everything answers, and requests wait
	hangMembers hang = "members" // the router does not use the workers
)

// hung explains what did not come, where no line of a log does.
func hung(f *failure) *result.Diagnosis {
	switch {
	case f.hang == hangStall:
		return &result.Diagnosis{Signature: "hang.stall",
			Meaning: "Requests wait and no token comes out: KV transfers between prefill and decode do not complete, or the engine hangs.",
			Remedy:  "The state says where requests wait and which rails failed meanwhile: check those, or lower the concurrency. If prefill is only slow, raise timeouts.stall."}
	case f.hang == hangMembers:
		return &result.Diagnosis{Signature: "hang.members",
			Meaning: "The router has taken workers out of use that live: its health checks or its circuit breakers found them wanting.",
			Remedy:  "Read the router's log for the worker and the reason. Under load, raise the router's health check timeout and its circuit breaker's thresholds."}
	case f.hang == hangLate && f.stage == "workers":
		return &result.Diagnosis{Signature: "hang.start",
			Meaning: "The worker lives, does not serve, and nothing of it moves: no line in its log, no reading of weights, no growth of its memory.",
			Remedy:  "Read the end of its log and the state: a process stuck in the kernel is a driver or a file server that hangs. If this start is only slow, raise timeouts.worker or timeouts.worker_max."}
	case f.hang == hangLate && f.stage == "canary":
		return &result.Diagnosis{Signature: "hang.canary",
			Meaning: "All programs answer their health checks, and no completion comes out of them.",
			Remedy:  "Read the log of the worker that is named for its KV transfer; check the rails of the nodes of that pair (disagg preflight --nodes). If the first completion only compiles for long, raise timeouts.canary."}
	case f.hang == hangDeaf:
		return &result.Diagnosis{Signature: "hang.deaf",
			Meaning: "The program lives, and neither answers nor writes to its log: it hangs in a kernel, a collective, a driver or a file system.",
			Remedy:  "Look at the state for processes stuck in the kernel, and at the node's kernel log (dmesg -T); a driver that hangs needs a reboot of its node."}
	}
	return nil
}
