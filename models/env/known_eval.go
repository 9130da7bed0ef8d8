package env

func evalGroups() []group {
	return []group{
		{
			title:   "Evaluations",
			about:   "Accuracy evaluations through the router.",
			readers: []Reader{EvalScripts},
			vars: []Var{
				{Name: "RUN_EVAL", Kind: TrueFalse, Meaning: "evaluate", Key: "evals"},
				{Name: "EVAL_ONLY", Kind: TrueFalse, Meaning: "evaluate and nothing else", Key: "evals.only"},
				{Name: "EVAL_CONC", Kind: List, EmptyMeans: "the client's highest", Meaning: "requests at once", Key: "evals.concurrency"},
				{Name: "EVAL_CONCURRENT_REQUESTS", Kind: List, Meaning: "requests at once", Key: "evals.concurrency"},
				{Name: "EVAL_LIMIT", Kind: String, EmptyMeans: "all", Meaning: "number of questions", Key: "evals.limit"},
				{Name: "EVAL_FRAMEWORK", Kind: String, Allowed: []string{"lm-eval", "swebench"}, Meaning: "kind of evaluation"},
				{Name: "EVAL_TASKS_DIR", Kind: Path, Meaning: "task file or directory"},
				{Name: "EVAL_INCLUDE_PATH", Kind: Path, Meaning: "where further tasks are"},
				{Name: "EVAL_RESULT_DIR", Kind: Path, Meaning: "directory of results"},
				{Name: "EVAL_MAX_MODEL_LEN", Kind: Int, Meaning: "context length in tokens"},
				{Name: "SWEBENCH_USE_MODAL", Kind: TrueFalse, Meaning: "run SWE-bench in Modal's sandboxes"},
				{Name: "SWEBENCH_GEN_MODE", Kind: String, Meaning: "how SWE-bench answers are made"},
				{Name: "SWEBENCH_DATASET", Kind: String, Meaning: "SWE-bench data set"},
				{Name: "SWEBENCH_TASK_NAME", Kind: String, Meaning: "name of the task in results"},
				{Name: "SWEBENCH_MAX_WORKERS", Kind: Int, Meaning: "sandboxes at once"},
				{Name: "SWEBENCH_EXPECTED_INSTANCES", Kind: Int, Meaning: "number of problems"},
				{Name: "SWEBENCH_EVAL_TIMEOUT", Kind: Int, Meaning: "seconds to test one answer"},
				{Name: "SWEBENCH_SCORE_TIMEOUT", Kind: Int, Meaning: "seconds to score"},
				{Name: "SWEBENCH_SKIP_SCORE", Kind: Bool, Meaning: "only make answers"},
				{Name: "SWEBENCH_SANDBOX_SWEEP", Kind: Bool, Meaning: "end sandboxes that were left"},
				{Name: "SWEBENCH_AGENT_WORKERS", Kind: Int, Meaning: "agents at once"},
				{Name: "SWEBENCH_AGENT_STEP_LIMIT", Kind: Int, Meaning: "steps of an agent"},
				{Name: "SWEBENCH_AGENT_TIMEOUT", Kind: Int, Meaning: "seconds of an agent"},
				{Name: "SWEBENCH_AGENT_EXIT_GRACE", Kind: Int, Meaning: "seconds for an agent to end"},
				{Name: "SWEBENCH_WATCHDOG_POLL", Kind: Int, Meaning: "seconds between looks at the agents"},
				{Name: "MODAL_TOKEN_ID", Kind: String, Meaning: "account of Modal", Readers: []Reader{Modal}},
				{Name: "MODAL_TOKEN_SECRET", Kind: String, Meaning: "key of Modal", Readers: []Reader{Modal}},
			},
		},
	}
}
