package faults

func programs() []Fault {
	return []Fault{
		{ID: "exits-with-0", Group: Programs, What: "a worker ends with exit code 0 while it loads", Codes: []int{6},
			Cause: `prefill-0\.0 on node\d+ exited with code 0, although it should run until the end`, Bound: ending, Kept: everything()},
		{ID: "out-of-memory", Group: Programs, What: "a worker runs out of GPU memory while it loads", Codes: []int{6},
			Cause: `decode-0\.0 on node\d+ exited with code 3`, Bound: ending, Kept: everything()},
		{ID: "never-healthy", Group: Programs, What: "a worker never answers and stops making progress", Codes: []int{6},
			Cause: `worker decode-0\.0 on node\d+ made no progress for \d+s: .*no answer`, Bound: ending, Kept: everything()},
		{ID: "rank-dies", Group: Programs, What: "one rank of a worker over two nodes dies while it serves", Codes: []int{7},
			Cause: `decode-0\.1 on node\d+ was killed by SIGKILL`, Bound: ending, Kept: everything()},
		{ID: "launcher-leaves", Group: Programs, What: "a worker's launcher ends and leaves a renamed child and a helper that ignores TERM in a session of its own", Codes: []int{6},
			Cause: `decode-0\.0 on node\d+ exited with code 0`, Bound: ending, Kept: everything()},
		{ID: "ignores-term", Group: Programs, What: "every worker ignores TERM when the run ends", Codes: []int{0}, Kept: everything(),
			Note: "KILL follows the grace"},
		{ID: "frozen", Group: Programs, What: "a worker's container is frozen, as by docker pause", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ ended, and nobody knows how: the shim is gone without a report`, Bound: lease + ending, Kept: everything(),
			Note: "its shim is silent for as long as a lease lasts; then the container is removed without its help"},
		{ID: "no-kv", Group: Programs, What: "prefill never hands over its KV", Codes: []int{6},
			Cause: `stage canary did not end within .*: still waiting for a completion`, Bound: ending, Kept: everything()},
		{ID: "port-taken", Group: Programs, What: "somebody else listens on a planned port", Codes: []int{6},
			Cause: `planned ports are in use: node\d+ .*:8000 held by pid \d+ `, Bound: ending, Kept: everything()},
		{ID: "second-run", Group: Programs, What: "a second run in the same allocation while the first serves", Codes: []int{6},
			Cause: `planned ports are in use: `, Bound: ending, Kept: everything(),
			Note: "the first run is not touched"},
		{ID: "peers-apart", Group: Programs, What: "two nodes that the controller reaches do not reach each other", Codes: []int{4},
			Cause: `nodes do not reach one another: node\d+ does not reach node\d+`, Bound: ending, Kept: everything()},
		{ID: "runs-dir-not-shared", Group: Programs, What: "the runs directory of the site is not on a shared file system", Codes: []int{5},
			Cause: `has no result; its job \d+ ended: FAILED`, Bound: ending},
	}
}

func twice() []Fault {
	return []Fault{
		{ID: "kill-engine-and-cut", Group: Twice, What: "a worker's engine is killed, and at the same moment the other worker's node loses its network", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ was killed by SIGKILL|node node\d+ is lost`, Bound: lease + ending, Kept: everything()},
		{ID: "kill-agent-and-shim", Group: Twice, What: "agent and shim of a worker are killed together", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ |node node\d+ is lost`, Bound: ending, Kept: everything()},
		{ID: "kill-engine-stop-dockerd", Group: Twice, What: "a worker's engine is killed while the container daemon of its node hangs", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ was killed by SIGKILL`, Bound: lease + ending, Kept: everything(),
			Note: "what could not be looked at is listed"},
		{ID: "kill-controller-in-teardown", Group: Twice, What: "a worker's engine is killed, and the controller while it stops the others, which ignore TERM", Codes: []int{7},
			Cause: `decode-0\.0 on node\d+ was killed by SIGKILL`, Bound: ending, Kept: Kept{Logs: true, Events: true},
			Note: "the record that was written when the end began says the cause"},
		{ID: "kill-controller-and-srun", Group: Twice, What: "controller and srun are killed together, and Slurm kills the agents with them", Codes: []int{5},
			Cause: `has no result; its job \d+ ended: FAILED`, Bound: ending, Kept: Kept{Logs: true, Events: true},
			Note: "containers end by their lease; the agents' directories in /tmp stay until `disagg cleanup RUN --yes` or the user's next run on the node"},
	}
}
