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
			Cause:   `has no result; its job \d+ ended: FAILED`,
			Printed: `run dsr1-20260301T101500Z-3f2a91 has no result; its job 4711 ended: FAILED (its controller was killed by signal 9)`, Bound: ending, Kept: Kept{Logs: true, Events: true},
			Note: "agents see the end of their standard input and stop everything"},
		{ID: "kill-srun", Group: Killed, What: "the srun that carries the agents", Codes: []int{7},
			Cause:   `node node\d+ is lost`,
			Printed: `node node9 is lost: its agent is out of reach: the connection was closed, and it did not come back for 5s; the agents' step has ended: killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-agent", Group: Killed, What: "the agent on a worker's node", Codes: []int{7},
			Cause:   `node node\d+ is lost: .*did not come back.*; the node itself was reached again, so it is its agent that is gone`,
			Printed: `node node7 is lost: its agent is out of reach: the connection was closed, and it did not come back for 5s; the node itself was reached again, so it is its agent that is gone`, Bound: ending, Kept: everything(),
			Note: "the shim sees its socket close; a second agent looks and removes what the first left"},
		{ID: "kill-shim", Group: Killed, What: "the shim that holds a worker", Codes: []int{7},
			Cause:   `decode-0\.0 on node\d+ .*the shim is gone without a report`,
			Printed: `decode-0.0 on node9 ended, and nobody knows how: the shim is gone without a report: the connection was closed; the container ended with exit code 137`, Bound: ending, Kept: everything()},
		{ID: "remove-container", Group: Killed, What: "somebody removes a worker's container (docker rm --force)", Codes: []int{7},
			Cause:   `decode-0\.0 on node\d+ .*the container (ended with exit code 137|is not there any more: somebody removed it)`,
			Printed: `decode-0.0 on node9 ended, and nobody knows how: the shim is gone without a report: the connection was closed; the container ended with exit code 137`, Bound: ending, Kept: everything()},
		{ID: "kill-engine", Group: Killed, What: "a worker's engine", Codes: []int{7},
			Cause:   `decode-0\.0 on node\d+ was killed by SIGKILL`,
			Printed: `decode-0.0 on node7 was killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-router", Group: Killed, What: "the router", Codes: []int{7},
			Cause:   `router on node\d+ (was killed by SIGKILL|exited with code)`,
			Printed: `router on node8 was killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-docker-cli", Group: Killed, What: "the container command, just after it was asked to start a container", Codes: []int{6},
			Cause:   `decode-0\.0 on node\d+ could not be created: .*start container.*SIGKILL`,
			Printed: `decode-0.0 on node6 could not be created: node node6: create decode-0.0: start container: killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "kill-containerd-shim", Group: Killed, What: "the container runtime's own shim of a worker", Codes: []int{7},
			Cause:   `decode-0\.0 on node\d+ `,
			Printed: `decode-0.0 on node9 ended, and nobody knows how: the shim is gone without a report: the connection was closed`, Bound: ending, Kept: everything()},
		{ID: "kill-dockerd", Group: Killed, What: "the container daemon of a worker's node, until the run has ended", Codes: []int{9},
			Cause:   `not everything is known to be gone: node\d+: .*containers: `,
			Printed: `not everything is known to be gone: node5: containers: list containers: the container daemon does not answer (Cannot connect to the Docker daemon …)`, Bound: ending, Kept: everything(),
			Note: "engines go on without the daemon, so the measurement is complete; but nobody can say any more that no container is left; `disagg cleanup RUN --yes` sees to it when the daemon is back"},
		{ID: "kill-slurmd", Group: Killed, What: "slurmd of a worker's node", Codes: []int{0}, Kept: everything(),
			Note: "the step lives without it"},
		{ID: "kill-slurmctld", Group: Killed, What: "the scheduler itself", Codes: []int{0}, Kept: everything(),
			Note: "a scheduler without an answer means nothing: it is said, and the run goes on"},
	}
}

func stopped() []Fault {
	return []Fault{
		{ID: "stop-controller", Group: Stopped, What: "the controller, for longer than the lease", Codes: []int{7},
			Cause:   `node node\d+ is lost`,
			Printed: `node node1 is lost: its agent is out of reach: no sign of life for 41.159s, and it did not come back for 30s`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-srun", Group: Stopped, What: "the srun that carries the agents", Codes: []int{0}, Kept: everything(),
			Note: "agents speak to the controller without it; it is ended with the run"},
		{ID: "stop-agent", Group: Stopped, What: "the agent on a worker's node", Codes: []int{7},
			Cause:   `node node\d+ is lost: .*did not come back for 30s`,
			Printed: `node node4 is lost: its agent is out of reach: no sign of life for 10.151s, and it did not come back for 30s`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-shim", Group: Stopped, What: "the shim that holds a worker", Codes: []int{7},
			Cause:   `decode-0\.0 on node\d+ .*the shim is gone without a report`,
			Printed: `decode-0.0 on node5 ended, and nobody knows how: the shim is gone without a report: no sign of life for 40.959s`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-engine", Group: Stopped, What: "a worker's engine", Codes: []int{7},
			Cause:   `worker decode-0 on node\d+ is alive but deaf`,
			Printed: `worker decode-0 on node6 is alive but deaf: no good answer for 1m0s, no progress for 1m0s; last: GET http://10.0.0.21:8000/health: no answer within 5s`, Bound: 65*time.Second + ending, Kept: everything()},
		{ID: "stop-docker-cli", Group: Stopped, What: "the container command that starts a worker", Codes: []int{6},
			Cause:   `stage launch did not end within .*: still waiting for containers with their environment: decode-0\.0 on node\d+`,
			Printed: `stage launch did not end within 10s: still waiting for containers with their environment: decode-0.0 on node9`, Bound: 30*time.Second + ending, Kept: everything()},
		{ID: "stop-containerd-shim", Group: Stopped, What: "the container runtime's own shim of a worker, until the run has ended", Codes: []int{9},
			Cause:   `not everything is known to be gone: node\d+: .*decode-0\.0`,
			Printed: `not everything is known to be gone: node9: ff7167c9ac6a disagg-dsr1-20260301T101500Z-3f2a91-decode-0.0 Up 21 seconds`, Bound: lease + ending, Kept: everything(),
			Note: "the engine has ended; the container cannot be removed, and the run says so; `disagg cleanup RUN --yes` sees to it when that shim is back"},
		{ID: "stop-dockerd", Group: Stopped, What: "the container daemon of a worker's node, until the run has ended", Codes: []int{9},
			Cause:   `not everything is known to be gone: node\d+: `,
			Printed: `not everything is known to be gone: node8: containers: list containers: docker gave no answer within 20s`, Bound: lease + ending, Kept: everything()},
		{ID: "stop-slurmd", Group: Stopped, What: "slurmd of a worker's node", Codes: []int{0}, Kept: everything()},
		{ID: "stop-slurmd-before", Group: Stopped, What: "slurmd of one of the allocation's nodes, before the agents' step starts", Codes: []int{0}, Kept: everything(),
			Note: "srun ends the step of all nodes for it; the node is found by steps over fewer of them, and with a spare the agents are started again without it"},
		{ID: "stop-slurmctld", Group: Stopped, What: "the scheduler itself", Codes: []int{0}, Kept: everything()},
	}
}
