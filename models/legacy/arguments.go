package legacy

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/models"
)

// Argument is one positional argument of the old submit script.
type Argument struct {
	Name    string
	Default string // empty: none
	Doc     string
}

// Arguments lists the positional arguments of the old submit script, in order.
func Arguments() []Argument {
	return []Argument{
		{"PREFILL_NODES", "", "nodes of prefill"},
		{"PREFILL_WORKERS", "1", "prefill workers on them"},
		{"DECODE_NODES", "", "nodes of decode"},
		{"DECODE_WORKERS", "1", "decode workers on them"},
		{"ISL", "1024", "input tokens a request; 0: the trace decides"},
		{"OSL", "1024", "output tokens a request"},
		{"CONCURRENCIES", "512", "requests in flight, one point each: 8x16x32"},
		{"REQUEST_RATE", "inf", "never did anything but name result files"},
		{"PREFILL_ENABLE_EP", "true", "expert parallelism of prefill"},
		{"PREFILL_ENABLE_DP", "true", "data-parallel attention of prefill"},
		{"DECODE_ENABLE_EP", "true", "expert parallelism of decode"},
		{"DECODE_ENABLE_DP", "true", "data-parallel attention of decode"},
		{"PREFILL_TP", "8", "GPUs that prefill uses of each node"},
		{"DECODE_TP", "8", "GPUs that decode uses of each node"},
		{"RANDOM_RANGE_RATIO", "0.8", "how far lengths fall below the given ones"},
		{"NODE_LIST", "", "host names with commas, as many as nodes"},
	}
}

// required are the variables without which the old script did not start, in the
// order in which it asked for them.
func required() []string {
	return []string{"SLURM_ACCOUNT", "SLURM_PARTITION", "TIME_LIMIT", "MODEL_PATH", "MODEL_NAME", "CONTAINER_IMAGE", "RUNNER_NAME", "FRAMEWORK"}
}

// arguments puts the positional arguments over the environment. One that is not
// given has the script's default, whatever the environment says.
func (r *reader) arguments(args []string) {
	list := Arguments()
	if len(args) > len(list) {
		r.errs = append(r.errs, models.FieldError{Msg: fmt.Sprintf("%d arguments, at most %d are read; the first too many is %q", len(args), len(list), args[len(list)]),
			Hint: "arguments in order: " + argumentNames()})
	}
	for i, a := range list {
		r.env[a.Name] = a.Default
		if i < len(args) && args[i] != "" {
			r.env[a.Name] = args[i]
		}
		if r.env[a.Name] == "" && strings.HasSuffix(a.Name, "_NODES") {
			r.fail(a.Name, fmt.Sprintf("argument %d is missing", i+1), "arguments in order: "+argumentNames())
		}
	}
}

func argumentNames() string {
	var names []string
	for _, a := range Arguments() {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}
