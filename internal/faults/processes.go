package faults

import "time"

// lease is the longest that something without its controller, its agent or its
// node may live: ten seconds until the silence is noticed, thirty in which the
// other side may come back.
const lease = 40 * time.Second

// ending is what an orderly end may take beside that: the grace of the test's
// recipe, killing, removing containers, looking, on a busy machine.
const ending = 35 * time.Second

func killed() []Fault {
	return []Fault{
		{ID: "kill-controller", Group: Killed, What: "the controller, which is the batch process", Codes: []int{5},
			Cause: `has no result; its job \d+ ended: FAILED`, Bound: ending, Kept: Kept{Logs: true, Events: true},
			Note: "agents see the end of their standard input and stop everything"},
		{ID: "kill-srun", Group: Killed, What: "the srun that carries the agents", Codes: []int{7},
			Cause: `node node\d+ is lost`, Bound: ending, Kept: everything()},
		{ID: "kill-agent", Group: Killed, What: "the agent on a worker's node", Codes: []int{7},
			Cause: `node node\d+ is lost: .*did not come back`, Bound: ending, Kept: everything(),
			Note: "the shim sees its socket close; a second agent looks and removes what the first left"},
		{ID: "kill-shim", Group: Killed, What: "the shim that holds a worker", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ .*the shim is gone without a report`, Bound: ending, Kept: everything()},
		{ID: "kill-engine", Group: Killed, What: "a worker's engine", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ was killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-router", Group: Killed, What: "the router", Codes: []int{7},
			Cause: `router on node\d+ (was killed by SIGKILL|exited with code)`, Bound: ending, Kept: everything()},
		{ID: "kill-docker-cli", Group: Killed, What: "the container command, just after it was asked to start a container", Codes: []int{6},
			Cause: `decode-0\.0 on node\d+ could not be created: .*start container.*SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-containerd-shim", Group: Killed, What: "the container runtime's own shim of a worker", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ `, Bound: ending, Kept: everything()},
		{ID: "kill-dockerd", Group: Killed, What: "the container daemon of a worker's node, until the run has ended", Codes: []int{9},
			Cause: `not everything is known to be gone: node\d+: .*containers: `, Bound: ending, Kept: everything(),
			Note: "engines go on without the daemon, so the measurement is complete; but nobody can say any more that no container is left"},
		{ID: "kill-slurmd", Group: Killed, What: "slurmd of a worker's node", Codes: []int{0}, Kept: everything(),
			Note: "the step lives without it"},
		{ID: "kill-slurmctld", Group: Killed, What: "the scheduler itself", Codes: []int{0}, Kept: everything(),
			Note: "a scheduler without an answer means nothing: it is said, and the run goes on"},
	}
}

func stopped() []Fault {
	return []Fault{
		{ID: "stop-controller", Group: Stopped, What: "the controller, for longer than the lease", Codes: []int{7},
			Cause: `node node\d+ is lost`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-srun", Group: Stopped, What: "the srun that carries the agents", Codes: []int{0}, Kept: everything(),
			Note: "agents speak to the controller without it; it is ended with the run"},
		{ID: "stop-agent", Group: Stopped, What: "the agent on a worker's node", Codes: []int{7},
			Cause: `node node\d+ is lost: .*did not come back for 30s`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-shim", Group: Stopped, What: "the shim that holds a worker", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ .*the shim is gone without a report`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-engine", Group: Stopped, What: "a worker's engine", Codes: []int{7},
			Cause: `worker decode-0 on node\d+ is alive but deaf`, Bound: 65*time.Second + ending, Kept: everything()},
		{ID: "stop-docker-cli", Group: Stopped, What: "the container command that starts a worker", Codes: []int{6},
			Cause: `stage launch did not end within .*: still waiting for containers with their environment: decode-0\.0 on node\d+`, Bound: 30*time.Second + ending, Kept: everything()},
		{ID: "stop-containerd-shim", Group: Stopped, What: "the container runtime's own shim of a worker, until the run has ended", Codes: []int{9},
			Cause: `not everything is known to be gone: node\d+: .*decode-0\.0`, Bound: lease + ending, Kept: everything(),
			Note: "the engine has ended; the container cannot be removed, and the run says so"},
		{ID: "stop-dockerd", Group: Stopped, What: "the container daemon of a worker's node, until the run has ended", Codes: []int{9},
			Cause: `not everything is known to be gone: node\d+: `, Bound: lease + ending, Kept: everything()},
		{ID: "stop-slurmd", Group: Stopped, What: "slurmd of a worker's node", Codes: []int{0}, Kept: everything()},
		{ID: "stop-slurmctld", Group: Stopped, What: "the scheduler itself", Codes: []int{0}, Kept: everything()},
	}
}
