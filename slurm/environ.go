package slurm

import (
	"slices"
	"strings"
)

// schedulerPrefixes begin the names of variables that a job or step leaves in
// its environment and that Slurm's programs, or MPI libraries, obey as if they
// were options.
func schedulerPrefixes() []string {
	return []string{
		"SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SCONTROL_",
		"PMI_", "PMI2_", "PMIX_",
	}
}

// Scrub returns environ without the variables of a surrounding job, and the
// names of what it left out, in order. SLURM_CONF, which says where the cluster
// is and not what to ask of it, stays.
func Scrub(environ []string) (kept, dropped []string) {
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if isScheduler(name) {
			dropped = append(dropped, name)
			continue
		}
		kept = append(kept, kv)
	}
	slices.Sort(dropped)
	return kept, dropped
}

func isScheduler(name string) bool {
	return name != "SLURM_CONF" && slices.ContainsFunc(schedulerPrefixes(), func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// lookup returns the value of a variable; empty means unset or empty.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
