package faults

import "time"

func network() []Fault {
	return []Fault{
		{ID: "cut-5s", Group: Network, What: "a worker's node without network for 5 s", Codes: []int{0}, Kept: everything(),
			Note: "what was under way may fail; what the client makes of it is its own affair"},
		{ID: "cut-40s", Group: Network, What: "a worker's node without network for 40 s, which is as long as the lease", Codes: []int{0, 7},
			Cause:   `node node\d+ is lost|client\.`,
			Printed: `node node11 is lost: its agent is out of reach: no sign of life for 10.769s, and it did not come back for 30s`, Bound: lease + ending, Kept: everything(),
			Note: "either side may be quicker; both end in order"},
		{ID: "cut-for-ever", Group: Network, What: "a worker's node without network for ever", Codes: []int{7},
			Cause:   `node node\d+ is lost: .*no sign of life`,
			Printed: `node node9 is lost: its agent is out of reach: no sign of life for 10.66s, and it did not come back for 30s`, Bound: lease + ending, Kept: everything(),
			Note: "what runs there ends by its lease; the run says that nobody could look"},
		{ID: "cut-controllers-node", Group: Network, What: "the controller's node without network for ever", Codes: []int{7},
			Cause:   `node node\d+ is lost`,
			Printed: `node node5 is lost: its agent is out of reach: no sign of life for 10.649s, and it did not come back for 30s`, Bound: lease + ending, Kept: everything()},
		{ID: "power-off-worker", Group: Network, What: "a worker's node is powered off", Codes: []int{7},
			Cause:   `node node\d+ is lost`,
			Printed: `node node11 is lost: its agent is out of reach: the connection was closed, and it did not come back for 5s`, Bound: lease + ending, Kept: everything(),
			Note: "also when it is powered on again, nothing is left"},
		{ID: "power-off-controllers-node", Group: Network, What: "the controller's node is powered off", Codes: []int{5},
			Cause:   `has no result; its job \d+ ended: NODE_FAIL`,
			Printed: `run dsr1-20260301T101500Z-3f2a91 has no result; its job 4711 ended: NODE_FAIL (a node it needs is down (NodeDown))`, Bound: lease + ending, Kept: Kept{Logs: true, Events: true}},
	}
}

func disks() []Fault {
	return []Fault{
		{ID: "run-disk-full", Group: Disk, What: "the file system of the run directory is full while the client runs", Codes: []int{7, 8},
			Cause:   `client\.c2 on node\d+ |the run directory cannot be written to for \d+s`,
			Printed: `client.c2 on node8 exited with code 1`, Bound: 45*time.Second + ending, Kept: everything(),
			Note: "engines go on, what they print is counted as lost; where the client does not fail of it, the run ends after 30 s; a reserve in the run directory holds the result"},
		{ID: "run-disk-full-at-start", Group: Disk, What: "the file system of run directories is full when a run is submitted", Codes: []int{1},
			Cause:   `no space left on device`,
			Printed: `write …/runs/dsr1-20260301T101500Z-3f2a91/plan.json: no space left on device`, Bound: ending},
		{ID: "store-full", Group: Disk, What: "the container store of a worker's node is full", Codes: []int{6},
			Cause:   `decode-0\.0 on node\d+ could not be created: .*no space left on device`,
			Printed: `decode-0.0 on node12 could not be created: node node12: create decode-0.0: start container: the container store of this node is full (… no space left on device); docker system df on this node`, Bound: ending, Kept: everything()},
	}
}

func scheduler() []Fault {
	return []Fault{
		{ID: "time-limit", Group: Scheduler, What: "the job's time limit comes near", Codes: []int{143},
			Cause:   `asked to end by (the time limit|SIGTERM)`,
			Printed: `asked to end by the time limit: the allocation ends at 2026-03-01T12:15:33Z`, Bound: 130 * time.Second, Kept: everything()},
		{ID: "node-set-down", Group: Scheduler, What: "an administrator sets a worker's node down", Codes: []int{7},
			Cause:   `the scheduler ends job \d+ because of a node: a node it needs is down \(NodeDown\)(; not heard of: [^;]*)?(; node\d+: [a-z ]+: fault)?$`,
			Printed: `the scheduler ends job 4711 because of a node: a node it needs is down (NodeDown); node7: down: fault`, Bound: ending, Kept: everything(),
			Note: "the signal is the same as for scancel; the scheduler is asked why it came"},
		{ID: "preempted", Group: Scheduler, What: "a job of a higher partition takes the nodes", Codes: []int{143},
			Cause:   `asked to end by SIGTERM|told to end by somebody else`,
			Printed: `asked to end by SIGTERM`, Bound: ending, Kept: everything()},
		{ID: "requeue", Group: Scheduler, What: "somebody requeues the job", Codes: []int{0}, Kept: everything(),
			Note: "the job refuses it"},
		{ID: "second-start", Group: Scheduler, What: "the job script is started a second time while the run serves", Codes: []int{0}, Kept: everything(),
			Note: "the second start is refused with exit code 3 and touches nothing"},
		{ID: "scancel-job", Group: Scheduler, What: "scancel JOB", Codes: []int{143},
			Cause:   `asked to end by SIGTERM|told to end by somebody else`,
			Printed: `asked to end by SIGTERM`, Bound: ending, Kept: everything()},
		{ID: "scancel-step", Group: Scheduler, What: "scancel JOB.STEP, the agents' step", Codes: []int{143},
			Cause:   `told to end by somebody else|the agents' step has ended, it was cancelled`,
			Printed: `node node2 is lost: its agent is out of reach: the connection was closed, and it did not come back for 5s; the agents' step has ended, it was cancelled: exit code 137; srun said: … *** STEP 13.0 ON node1 CANCELLED AT … ***`, Bound: ending, Kept: everything(),
			Note: "Slurm kills a cancelled step at once; srun's words tell it from a fault"},
		{ID: "scancel-batch-term", Group: Scheduler, What: "scancel --batch --signal=TERM JOB", Codes: []int{143},
			Cause:   `asked to end by SIGTERM`,
			Printed: `asked to end by SIGTERM`, Bound: ending, Kept: everything()},
		{ID: "scancel-twice", Group: Scheduler, What: "scancel JOB twice", Codes: []int{143},
			Cause:   `asked to end by SIGTERM|told to end by somebody else`,
			Printed: `asked to end by SIGTERM`, Bound: ending, Kept: everything()},
		{ID: "scancel-batch-term-twice", Group: Scheduler, What: "scancel --batch --signal=TERM JOB twice, with a worker that ignores TERM", Codes: []int{143},
			Cause:   `asked to end by SIGTERM`,
			Printed: `asked to end by SIGTERM`, Bound: ending, Kept: everything(),
			Note: "the second signal skips the grace"},
	}
}

func persons() []Fault {
	return []Fault{
		{ID: "cancel", Group: Person, What: "disagg cancel RUN", Codes: []int{143},
			Cause:   `asked to end by disagg cancel \(root on ctl\)`,
			Printed: `asked to end by disagg cancel (root on ctl)`, Bound: ending, Kept: everything()},
		{ID: "cancel-now", Group: Person, What: "disagg cancel --now RUN", Codes: []int{143},
			Cause:   `asked to end by disagg cancel \(root on ctl\)|told to end by somebody else`,
			Printed: `asked to end by disagg cancel (root on ctl)`, Bound: ending, Kept: everything()},
		{ID: "interrupt", Group: Person, What: "Ctrl-C at disagg run in salloc", Codes: []int{130},
			Cause:   `asked to end by Ctrl-C`,
			Printed: `asked to end by Ctrl-C`, Bound: ending, Kept: everything()},
		{ID: "interrupt-twice", Group: Person, What: "Ctrl-C twice, with a worker that ignores TERM", Codes: []int{130},
			Cause:   `asked to end by Ctrl-C`,
			Printed: `asked to end by Ctrl-C`, Bound: ending, Kept: everything(),
			Note: "the second skips the grace"},
		{ID: "interrupt-three-times", Group: Person, What: "Ctrl-C three times, with a worker that ignores TERM", Codes: []int{130},
			Cause:   `asked to end by Ctrl-C`,
			Printed: `asked to end by Ctrl-C`, Bound: ending, Kept: Kept{Result: true, Events: true},
			Note: "the third leaves at once and prints how to clean up; leases end what runs"},
		{ID: "terminal-closed", Group: Person, What: "the terminal of disagg run --jobid is closed", Codes: []int{0}, Kept: everything(),
			Note: "the run goes on"},
		{ID: "salloc-closed", Group: Person, What: "the terminal of salloc, with disagg run in it, is closed", Codes: []int{143},
			Cause:   `told to end by somebody else|the scheduler says that job \d+ has ended`,
			Printed: `the agent on node node1 was told to end by somebody else (scancel, a stopped step, the time limit) and is stopping its processes`, Bound: ending, Kept: everything(),
			Note: "salloc gives the allocation back and ends with 0; the run's record says what happened"},
	}
}
