package models

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const optionPattern = `^[a-z][a-z0-9-]*$`

// CheckSbatchOption says why a site may not add an sbatch option of that name
// (without dashes) to the jobs; nil: it may.
func CheckSbatchOption(name string) error { return checkOption("sbatch", sbatchKeys())(name) }

// CheckSrunOption says why a site may not add an srun option of that name
// (without dashes) to the agents' steps; nil: it may.
func CheckSrunOption(name string) error { return checkOption("srun", srunKeys())(name) }

// sbatchKeys are the sbatch options that the tool writes itself, and those that
// undo one of them, with the key of the site or recipe that sets each; "": it
// follows from the plan, or nobody can set it.
func sbatchKeys() map[string]string {
	const gpus, memory, runs = "slurm.gpu_request", "slurm.memory", "runs_dir"
	keys := map[string]string{
		"partition": "slurm.partition", "account": "slurm.account", "qos": "slurm.qos", "reservation": "slurm.reservation",
		"constraint": "slurm.constraint", "time": "slurm.time_limit", "signal": "slurm.signal_lead", "exclude": "exclude",
		"exclusive": "slurm.exclusive", "oversubscribe": "slurm.exclusive", "share": "slurm.exclusive",
		"mem": memory, "mem-per-cpu": memory, "mem-per-gpu": memory,
		"gres": gpus, "gpus": gpus, "gpus-per-node": gpus, "gpus-per-socket": gpus, "gpus-per-task": gpus, "tres-per-task": gpus,
		"output": runs, "error": runs, "job-name": "name (of the recipe)", "nodefile": "slurm.options.nodelist",
	}
	own(keys,
		// One task a node, each of which is an agent.
		"nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu",
		// The job is known by its comment and is looked for on one cluster.
		"comment", "parsable", "cluster", "clusters", "jobid",
		// A second life would find what the first left, and a held job no one to
		// release it.
		"requeue", "no-requeue", "hold", "array", "wait",
		// The environment and the script are the tool's.
		"export", "export-file", "get-user-env", "chdir", "workdir", "input", "open-mode", "wrap", "uid", "gid",
		// Nothing would be submitted.
		"test-only", "help", "usage", "version")
	return keys
}

// srunKeys are those of srun.
func srunKeys() map[string]string {
	keys := map[string]string{}
	own(keys,
		// One task on each node of the job.
		"nodes", "nodelist", "nodefile", "exclude", "relative", "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu",
		"jobid", "het-group", "cluster", "clusters", "time", "immediate", "hold", "job-name", "multi-prog", "no-allocate",
		// Other steps share the nodes, and one agent's end is not the others'.
		"overlap", "exclusive", "kill-on-bad-exit", "wait", "quit-on-interrupt",
		// A plug-in for MPI may be missing on a node; agents do not use it.
		"mpi",
		// The agents are spoken to through srun.
		"input", "output", "error", "open-mode", "label", "unbuffered", "pty",
		// The environment is the tool's.
		"export", "export-file", "chdir", "uid", "gid",
		// Nothing would be started.
		"test-only", "help", "usage", "version")
	return keys
}

// own marks options that no key sets.
func own(keys map[string]string, names ...string) {
	for _, n := range names {
		keys[n] = ""
	}
}

func checkOption(program string, keys map[string]string) func(string) error {
	re := regexp.MustCompile(optionPattern)
	return func(s string) error {
		if !re.MatchString(s) {
			return fmt.Errorf("%q is not the name of an %s option; write it without dashes, in full", s, program)
		}
		key, mine := keys[s]
		switch {
		case key != "":
			return fmt.Errorf("the %s option %q has its own key: %s", program, s, key)
		case mine:
			return fmt.Errorf("the %s option %q is the tool's own", program, s)
		}
		// Slurm takes any beginning of a name for the whole.
		for _, long := range slices.Sorted(maps.Keys(keys)) {
			if strings.HasPrefix(long, s) {
				return fmt.Errorf("%q may be short for the %s option %q; write options in full", s, program, long)
			}
		}
		return nil
	}
}
