package models

import "testing"

func TestOptionsOfTheTool(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		check func(string) error
		name  string
		want  string // empty: a site may add it
	}{
		{CheckSbatchOption, "licenses", ""},
		{CheckSbatchOption, "nodelist", ""},
		{CheckSbatchOption, "cpus-per-task", ""},
		{CheckSbatchOption, "mail-type", ""},
		{CheckSbatchOption, "time-min", ""},
		{CheckSbatchOption, "wait-all-nodes", ""},
		{CheckSbatchOption, "comment", `the sbatch option "comment" is the tool's own`},
		{CheckSbatchOption, "hold", `the sbatch option "hold" is the tool's own`},
		{CheckSbatchOption, "get-user-env", `the sbatch option "get-user-env" is the tool's own`},
		{CheckSbatchOption, "export-file", `the sbatch option "export-file" is the tool's own`},
		{CheckSbatchOption, "input", `the sbatch option "input" is the tool's own`},
		{CheckSbatchOption, "test-only", `the sbatch option "test-only" is the tool's own`},
		{CheckSbatchOption, "clusters", `the sbatch option "clusters" is the tool's own`},
		{CheckSbatchOption, "gpus", `the sbatch option "gpus" has its own key: slurm.gpu_request`},
		{CheckSbatchOption, "gpus-per-task", `the sbatch option "gpus-per-task" has its own key: slurm.gpu_request`},
		{CheckSbatchOption, "mem-per-cpu", `the sbatch option "mem-per-cpu" has its own key: slurm.memory`},
		{CheckSbatchOption, "nodefile", `the sbatch option "nodefile" has its own key: slurm.options.nodelist`},
		{CheckSbatchOption, "requeu", `"requeu" may be short for the sbatch option "requeue"; write options in full`},
		{CheckSbatchOption, "no-req", `"no-req" may be short for the sbatch option "no-requeue"; write options in full`},
		{CheckSbatchOption, "N", `"N" is not the name of an sbatch option; write it without dashes, in full`},
		{CheckSbatchOption, "mem=1", `"mem=1" is not the name of an sbatch option; write it without dashes, in full`},
		{CheckSrunOption, "cpu-bind", ""},
		{CheckSrunOption, "mem", ""},
		{CheckSrunOption, "gres", ""},
		{CheckSrunOption, "mpi", `the srun option "mpi" is the tool's own`},
		{CheckSrunOption, "wait", `the srun option "wait" is the tool's own`},
		{CheckSrunOption, "job-name", `the srun option "job-name" is the tool's own`},
		{CheckSrunOption, "exclusive", `the srun option "exclusive" is the tool's own`},
		{CheckSrunOption, "quit-on-interrupt", `the srun option "quit-on-interrupt" is the tool's own`},
		{CheckSrunOption, "multi-prog", `the srun option "multi-prog" is the tool's own`},
		{CheckSrunOption, "no-allocate", `the srun option "no-allocate" is the tool's own`},
		{CheckSrunOption, "overl", `"overl" may be short for the srun option "overlap"; write options in full`},
	} {
		got := ""
		if err := tt.check(tt.name); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
