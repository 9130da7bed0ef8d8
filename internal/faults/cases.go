package faults

import "slices"

// Case is a failure that people who run such systems have met, and where it is
// tried.
type Case struct {
	// Area is where in a run it belongs.
	Area Area
	// What goes wrong, in words.
	What string
	// Faults are the entries of the matrix that bring it about.
	Faults []string
	// Tests are tests elsewhere: the package's directory, a dot, the test, and
	// after a slash the name of one of its cases.
	Tests []string
	// Why says what of it cannot be brought about here, and why; may be empty.
	Why string
}

// Area is a part of a run's life.
type Area string

// The areas, in the order of a run's life.
const (
	Submission  Area = "submission"
	Allocation  Area = "allocation"
	Launch      Area = "launch"
	Readiness   Area = "readiness"
	Supervision Area = "supervision"
	Teardown    Area = "teardown"
	Results     Area = "results"
)

// Cases are all known failures of a run's life.
func Cases() []Case {
	return slices.Concat(submissionCases(), allocationCases(), launchCases(), readinessCases(), supervisionCases(), teardownCases(), resultCases())
}

func submissionCases() []Case {
	return []Case{
		{Area: Submission, What: "Slurm variables of a surrounding job leak into a submission",
			Tests: []string{"slurm.TestSubmitInheritsAList", "slurm.TestStepCommandKeepsASurroundingJobOut"}},
		{Area: Submission, What: "the job id stands between lines that site plugins print",
			Tests: []string{"slurm.TestParseJobID"}},
		{Area: Submission, What: "one unknown host among the exclusions has the whole submission refused",
			Tests: []string{"slurm.TestSurvey", "slurm.TestLabNodes"}},
		{Area: Submission, What: "host lists with brackets, blanks or a name twice are counted wrongly",
			Tests: []string{"slurm/hostlist.TestExpand", "slurm/hostlist.TestValidate", "slurm.TestLabReadsHostListsAsWeDo"}},
		{Area: Submission, What: "nodes do not see the directory with the job's log",
			Faults: []string{"runs-dir-not-shared"}},
		{Area: Submission, What: "a job looked up by its name is somebody else's",
			Tests: []string{"slurm.TestFindComparesTheWholeMark", "slurm.TestLabSubmissionWithoutAnAnswer"}},
		{Area: Submission, What: "two runs that start in the same second share their state",
			Tests: []string{"orchestrator/rundir.TestCreateAtOnceGivesDifferentDirectories"}},
	}
}

func allocationCases() []Case {
	return []Case{
		{Area: Allocation, What: "a node that is up has fewer GPUs than configured, and the job waits for ever",
			Tests: []string{"slurm.TestSurvey", "slurm.TestExplainCaptured", "internal/lab.TestGresCountWithoutFilesIsInvalid"}},
		{Area: Allocation, What: "Slurm orders the nodes its own way, and roles land on other hosts than meant",
			Tests: []string{"slurm.TestLabAllocationInsideSalloc", "slurm.TestAllocationCaptured"},
			Why:   "roles are bound to hosts in the allocation's order, which each agent confirms by its own name; no rank number of Slurm is used"},
		{Area: Allocation, What: "names sorted as text put node 10 before node 9",
			Tests: []string{"slurm/hostlist.TestExpand", "deploy/agent.TestNaturalOrder"}},
		{Area: Allocation, What: "a requeued job starts the same script with the same id again",
			Faults: []string{"requeue", "second-start"}, Tests: []string{"slurm.TestLabRefusesRequeue", "orchestrator.TestRunStartsOnce"}},
		{Area: Allocation, What: "an allocation that is reused is smaller or shorter than the plan needs",
			Tests: []string{"internal/e2e.TestAllocationTooSmall", "slurm.TestAllocationCheck"}},
		{Area: Allocation, What: "steps over several nodes die on particular nodes that work alone",
			Tests: []string{"orchestrator/launcher.TestStepThatEndsEarlyNamesTheNodesAtFault", "slurm.TestProbe", "slurm.TestLabProbe"}},
		{Area: Allocation, What: "a node's address is taken from the wrong interface",
			Tests: []string{"deploy/internal/hostnet.TestPick", "orchestrator.TestFaultsBeforeServing/a loopback address", "orchestrator.TestFaultsBeforeServing/two nodes with one address"}},
		{Area: Allocation, What: "a node that is well is not reached by its peers",
			Faults: []string{"peers-apart"}},
	}
}

func launchCases() []Case {
	return []Case{
		{Area: Launch, What: "other people's containers are stopped to make room",
			Tests: []string{"internal/e2e.TestTwoRunsAndAStranger", "internal/e2e.TestCleanup"}},
		{Area: Launch, What: "one rank dies, and the others wait for it until their own timeout",
			Faults: []string{"rank-dies", "kill-engine", "exits-with-0"}},
		{Area: Launch, What: "Slurm lets the other tasks of a step run on when one has failed",
			Faults: []string{"kill-agent"}, Tests: []string{"slurm.TestLabStepSurvivesOneTask"}},
		{Area: Launch, What: "the site's default MPI plugin does not work on a node",
			Tests: []string{"slurm.TestStepArgs"}},
		{Area: Launch, What: "a second run in the same allocation collides with the first",
			Faults: []string{"second-run"}, Tests: []string{"deploy.TestNameConflict"}},
		{Area: Launch, What: "weights are incomplete or cut on one node",
			Tests: []string{"preflight.TestWeights", "preflight.TestIndex"}},
		{Area: Launch, What: "a model cache holds two revisions, and any of them is taken",
			Tests: []string{"preflight.TestWeights/two revisions, none named"}},
		{Area: Launch, What: "the side channel of a KV connector says localhost to other nodes",
			Tests: []string{"models/engine.TestCheck"}},
		{Area: Launch, What: "ports of the run lie where outgoing connections take theirs",
			Tests: []string{"orchestrator/plan.TestPorts", "orchestrator.TestOwnPorts", "internal/peers.TestPortThatIsTaken"}},
		{Area: Launch, What: "a first pull of the image eats the time that is meant for the start",
			Tests: []string{"orchestrator.TestFaultsBeforeServing/an image is missing", "orchestrator/plan.TestDefaultBudgets"},
			Why:   "no registry can be reached from the lab; the image is a stage of its own with a budget of its own"},
	}
}

func readinessCases() []Case {
	return []Case{
		{Area: Readiness, What: "a router calls itself ready while workers still load",
			Faults: []string{"no-kv"}, Tests: []string{"orchestrator.TestFaultsBeforeServing/the router never lists a worker"}},
		{Area: Readiness, What: "a router's circuit breakers are open although all workers live",
			Tests: []string{"orchestrator/signature.TestEverySignatureFindsItsExample", "orchestrator.TestFaultsWhileServing/the servers die with the client"}},
		{Area: Readiness, What: "a router drops a worker that was slow, for good",
			Tests: []string{"orchestrator.TestFaultsBeforeServing/the router never lists a worker", "orchestrator.TestFaultsWhileServing/the router drops a worker"}},
		{Area: Readiness, What: "another job's server answers the health check",
			Faults: []string{"port-taken"}, Tests: []string{"orchestrator.TestFaultsBeforeServing/another model is served"}},
		{Area: Readiness, What: "a bootstrap port is never opened",
			Tests: []string{"orchestrator.TestFaultsBeforeServing/a bootstrap port is not opened"}},
		{Area: Readiness, What: "an error comes with status 200",
			Tests: []string{"orchestrator.TestFaultsBeforeServing/200 with an error body", "orchestrator.TestFaultsBeforeServing/200 without choices", "orchestrator.TestFaultsBeforeServing/200 with a page"}},
		{Area: Readiness, What: "a mistake that stays is asked for again and again",
			Tests: []string{"orchestrator.TestFaultsBeforeServing/the model name is wrong for the router"}},
	}
}

func supervisionCases() []Case {
	return []Case{
		{Area: Supervision, What: "a launcher ends, and a renamed child goes on in its place",
			Faults: []string{"launcher-leaves", "kill-router"}},
		{Area: Supervision, What: "KV transfers stall under load, and everything answers",
			Faults: []string{"kv-stalls"}, Tests: []string{"orchestrator.TestFaultsWhileServing/requests stall", "orchestrator.TestFaultsWhileServing/KV transfers stall",
				"orchestrator.TestStateIsKeptWhenSomethingHangs", "preflight.TestDuring/no ports for connections"},
			Why: "the transfer over RDMA itself needs the hardware; the stand-ins stall in its place"},
		{Area: Supervision, What: "engines log timeouts of transfers that nobody reads",
			Tests: []string{"orchestrator.TestLinesNobodyReadsAreWarnedOf"}},
		{Area: Supervision, What: "prefill fails a request, and decode waits for it",
			Tests: []string{"orchestrator.TestLocalKVThatNeverArrives", "orchestrator/signature.TestEverySignatureFindsItsExample"}},
		{Area: Supervision, What: "a scheduler that does not answer is taken for a job that has ended",
			Faults: []string{"kill-slurmctld", "stop-slurmctld"}, Tests: []string{"slurm.TestJobIsThreeValued", "orchestrator.TestSchedulersView", "slurm.TestLabUnknownIsNotGone"}},
		{Area: Supervision, What: "a job id is found within another one",
			Tests: []string{"slurm.TestJobIsThreeValued", "slurm.TestFindComparesTheWholeMark"}},
		{Area: Supervision, What: "the signal before the time limit reaches the steps and not the script",
			Faults: []string{"time-limit"}, Tests: []string{"slurm/render.TestScriptGolden", "slurm.TestLabRunsTheScriptAsMeant"}},
		{Area: Supervision, What: "bytes that are no text end a log reader, or colours hide a match",
			Tests: []string{"orchestrator/signature.TestScannerReadsWhatLogsAreLike", "orchestrator/signature.TestClean", "deploy/shim.TestTail"}},
		{Area: Supervision, What: "a closed terminal ends the allocation, and salloc says that all went well",
			Faults: []string{"terminal-closed", "salloc-closed"}},
	}
}

func teardownCases() []Case {
	return []Case{
		{Area: Teardown, What: "containers outlive their job",
			Faults: []string{"scancel-job", "kill-controller", "preempted", "kill-controller-and-srun"}},
		{Area: Teardown, What: "a shell trap does not run while a step is in the foreground",
			Faults: []string{"scancel-job"}, Tests: []string{"slurm/render.TestScriptIsOneCommand", "slurm.TestLabPlainCancelReachesTheController"}},
		{Area: Teardown, What: "no step can start any more once a job is being cancelled",
			Faults: []string{"scancel-job", "scancel-twice", "scancel-batch-term"}},
		{Area: Teardown, What: "a killed srun leaves its step running",
			Faults: []string{"kill-srun", "stop-srun"}},
		{Area: Teardown, What: "one interrupt is not enough for srun",
			Faults: []string{"interrupt", "interrupt-twice", "interrupt-three-times"}},
		{Area: Teardown, What: "processes killed in the middle of a GPU call strand its memory",
			Faults: []string{"ignores-term"}, Tests: []string{"deploy/shim.TestZombiesAreReaped", "orchestrator.TestSignals/a worker ignores TERM"},
			Why: "GPU memory needs GPUs; what is tried is that TERM and its grace come first, and that children are reaped"},
		{Area: Teardown, What: "an end waits for something that cannot happen any more",
			Faults: []string{"launcher-leaves", "stop-dockerd", "stop-containerd-shim", "frozen"}, Tests: []string{"deploy/shim.TestGrandchildHoldsThePipe"}},
		{Area: Teardown, What: "a process cannot be killed, and the node is drained for it",
			Tests: []string{"internal/procgroup.TestRunReportsWhatKillCannotEnd"},
			Why:   "an uninterruptible sleep needs a driver or a file server that hangs; what is tried is that the wait is bounded and the process named"},
		{Area: Teardown, What: "a job cancelled by its name takes a sibling with it",
			Tests: []string{"slurm.TestCancel", "slurm.TestLabCancelSparesASibling"}},
		{Area: Teardown, What: "cleaning up removes the evidence, or too much",
			Tests: []string{"deploy.TestReap", "deploy/agent.TestScratchIsNotRemovedBlindly", "orchestrator.TestDirectoriesOfOthersAreNotRemoved"}},
	}
}

func resultCases() []Case {
	return []Case{
		{Area: Results, What: "Slurm calls a job completed whose servers crashed",
			Faults: []string{"kill-engine", "out-of-memory", "exits-with-0"}},
		{Area: Results, What: "a pipe hides an exit status",
			Tests: []string{"slurm/render.TestScriptIsOneCommand"}},
		{Area: Results, What: "some of the points that were asked for are missing, and the run is green",
			Tests: []string{"orchestrator.TestFaultsWhileServing/the client fails once", "orchestrator.TestFaultsWhileServing/the client hangs"}},
		{Area: Results, What: "the record of what ran is worked out again, and wrongly",
			Tests: []string{"orchestrator.TestRunToTheEnd", "orchestrator.TestEnginesOfOtherSizes"}},
		{Area: Results, What: "files of a container's root stand in the user's way",
			Tests: []string{"deploy/shim.TestFilesBelongToTheUser"}},
		{Area: Results, What: "refused requests look like great throughput",
			Tests: []string{"orchestrator.TestFaultsWhileServing/every request failed", "orchestrator.TestFaultsWhileServing/some requests failed"}},
		{Area: Results, What: "the speed is fine and the answers are garbage",
			Tests: []string{"orchestrator.TestFaultsWhileServing/the answers go wrong"}},
		{Area: Results, What: "an empty set of results is green",
			Tests: []string{"orchestrator.TestFaultsWhileServing/the client leaves nothing", "orchestrator.TestFaultsWhileServing/no token was generated"}},
	}
}
