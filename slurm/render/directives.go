package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/slurm/hostlist"
)

// maxSignalLead is the longest lead that Slurm's --signal takes.
const maxSignalLead = 65535 * time.Second

// list collects directives.
type list struct {
	lines []string
	errs  []error
}

// directives lists the script's directives, without the leading "#SBATCH ".
func directives(job models.SlurmJob, v ScriptView) ([]string, []error) {
	l := &list{}
	l.set("job-name", job.JobName)
	l.set("comment", v.Token)
	l.count("nodes", job.Nodes)
	l.count("ntasks", job.Nodes)
	l.set("ntasks-per-node", "1")
	l.optional("partition", job.Partition)
	l.optional("account", job.Account)
	l.optional("qos", job.QOS)
	l.optional("reservation", job.Reservation)
	l.optional("constraint", job.Constraint)
	l.gpus(job)
	if job.Exclusive {
		l.flag("exclusive")
	}
	l.optional("mem", job.Memory)
	l.exclude(job.Exclude)
	l.times(job)
	// A second life of the same job would find the first one's containers and
	// logs.
	l.flag("no-requeue")
	// The submission runs in an environment that is a list; all of it is meant.
	l.set("export", "ALL")
	// Limits are the node's: those of the shell that submits are an accident.
	if _, own := job.Options["propagate"]; !own {
		l.set("propagate", "NONE")
	}
	l.paths(v.RunDir)
	l.extra(job.Options)
	return l.lines, l.errs
}

func (l *list) fail(name string, err error) {
	l.errs = append(l.errs, fmt.Errorf("--%s: %w", name, err))
}

// flag adds an option without a value.
func (l *list) flag(name string) { l.lines = append(l.lines, "--"+name) }

// set adds an option, always as --name=value: one release reads the word after
// a lone --name as part of its value.
func (l *list) set(name, value string) {
	if value == "" {
		l.fail(name, errors.New("a value is missing"))
		return
	}
	q, err := quoteDirective(value)
	if err != nil {
		l.fail(name, err)
		return
	}
	l.lines = append(l.lines, "--"+name+"="+q)
}

// optional adds an option unless its value is empty.
func (l *list) optional(name, value string) {
	if value != "" {
		l.set(name, value)
	}
}

// count adds an option that is a number above zero.
func (l *list) count(name string, n int) {
	if n < 1 {
		l.fail(name, fmt.Errorf("%d is not a number above zero", n))
		return
	}
	l.set(name, strconv.Itoa(n))
}

// gpus asks for the GPUs of each node in the site's dialect.
func (l *list) gpus(job models.SlurmJob) {
	name, prefix := "gres", "gpu:"
	switch job.GPURequest {
	case "none":
		return
	case "gres":
	case "gpus-per-node":
		name, prefix = "gpus-per-node", ""
	default:
		l.fail("gres", fmt.Errorf("GPU request %q is not one of gres, gpus-per-node, none", job.GPURequest))
		return
	}
	if job.GPUsPerNode < 1 {
		l.fail(name, fmt.Errorf("%d is not a number of GPUs; to ask for none, set the GPU request to none", job.GPUsPerNode))
		return
	}
	if job.GPUType != "" {
		prefix += job.GPUType + ":"
	}
	l.set(name, prefix+strconv.Itoa(job.GPUsPerNode))
}

// exclude writes the excluded nodes the way Slurm reads host lists, which is
// less than we read.
func (l *list) exclude(nodes string) {
	hosts, err := hostlist.Expand(nodes)
	if err != nil {
		l.fail("exclude", err)
		return
	}
	l.optional("exclude", hostlist.Compress(hosts))
}

// nodelist writes the nodes that the job names, in the same way. A slip in them
// is a job that never starts.
func (l *list) nodelist(nodes string) {
	hosts, err := hostlist.Validate(nodes, 0)
	if err != nil {
		l.fail("nodelist", err)
		return
	}
	l.set("nodelist", hostlist.Compress(hosts))
}

// times sets the time limit and the early signal. B: sends the signal to the
// batch process alone; without it the steps would get it and the controller
// would not.
func (l *list) times(job models.SlurmJob) {
	limit, lead := job.TimeLimit.D(), job.SignalLead.D()
	if limit <= 0 {
		l.fail("time", errors.New("a time limit is missing"))
	} else {
		l.set("time", job.TimeLimit.SlurmTime())
	}
	switch {
	case lead <= 0:
		l.fail("signal", errors.New("a signal lead is missing"))
	case lead >= limit:
		l.fail("signal", fmt.Errorf("lead %s is not below the time limit %s", lead, limit))
	case lead > maxSignalLead:
		l.fail("signal", fmt.Errorf("lead %s is above Slurm's limit %s", lead, maxSignalLead))
	default:
		l.set("signal", fmt.Sprintf("B:TERM@%d", (lead+time.Second-1)/time.Second))
	}
}

// paths makes every path absolute and independent of where the submission ran:
// Slurm runs a copy of the script from a directory of its own.
func (l *list) paths(runDir string) {
	if !path.IsAbs(runDir) || path.Clean(runDir) != runDir {
		l.errs = append(l.errs, fmt.Errorf("run directory %q is not a clean absolute path", runDir))
		return
	}
	l.set("chdir", runDir)
	// Slurm replaces %x in these, and only in these; %% stands for %.
	escape := strings.NewReplacer("%", "%%")
	l.set("output", escape.Replace(path.Join(runDir, OutputName)))
	l.set("error", escape.Replace(path.Join(runDir, ErrorName)))
}

// extra adds the site's further options in the order of their names. An empty
// value makes an option without one.
func (l *list) extra(options map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		if err := models.CheckSbatchOption(name); err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		switch {
		case value == "":
			l.flag(name)
		case name == "nodelist":
			l.nodelist(value)
		default:
			l.set(name, value)
		}
	}
}
