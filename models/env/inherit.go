package env

import (
	"slices"
	"strings"
)

// inherited is one variable, or the beginning of several, that is passed on from
// where a run is started.
type inherited struct {
	name   string // a name, or a beginning with '*'
	why    string
	job    bool // to the job: controller, agents, the container program
	direct bool // to plain processes of runtime none, from the agent
}

// inheritance is the whole of what a run takes over from a surrounding
// environment without being asked to. Whatever else the processes need is in the
// plan; a container inherits nothing.
func inheritance() []inherited {
	return []inherited{
		{"PATH", "where programs are", true, true},
		{"HOME", "the user's files", true, true},
		{"USER", "who it is", true, true},
		{"LOGNAME", "who it is", true, true},
		{"SHELL", "the user's shell", true, true},
		{"LANG", "how text is written", true, true},
		{"LC_*", "how text is written", true, true},
		{"TZ", "how times are written", true, true},
		{"TMPDIR", "the node's own directory for scratch files", false, true},
		{"SLURM_CONF", "which cluster to ask", true, false},
		{"DOCKER_HOST", "how the container runtime is reached", true, false},
		{"DOCKER_CONFIG", "how the container runtime is reached", true, false},
		{"DOCKER_CONTEXT", "how the container runtime is reached", true, false},
		{"HTTP_PROXY", "how the container program reaches a registry", true, false},
		{"HTTPS_PROXY", "how the container program reaches a registry", true, false},
		{"NO_PROXY", "how the container program reaches a registry", true, false},
		{"http_proxy", "how the container program reaches a registry", true, false},
		{"https_proxy", "how the container program reaches a registry", true, false},
		{"no_proxy", "how the container program reaches a registry", true, false},
	}
}

func (i inherited) is(name string) bool {
	if begin, ok := strings.CutSuffix(i.name, "*"); ok {
		return strings.HasPrefix(name, begin)
	}
	return i.name == name
}

// ForJob returns what a job, its controller and its agents inherit of an
// environment, NAME=VALUE each.
func ForJob(environ []string) []string {
	return pass(environ, func(i inherited) bool { return i.job })
}

// ForProcess returns what a plain process of runtime none inherits of its agent's
// environment.
func ForProcess(environ []string) []string {
	return pass(environ, func(i inherited) bool { return i.direct })
}

// pass keeps what is on the list, the first of each name, as getenv would see it.
func pass(environ []string, listed func(inherited) bool) []string {
	list := slices.DeleteFunc(inheritance(), func(i inherited) bool { return !listed(i) })
	var out, names []string
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || slices.Contains(names, name) {
			continue
		}
		if slices.ContainsFunc(list, func(i inherited) bool { return i.is(name) }) {
			out, names = append(out, kv), append(names, name)
		}
	}
	return out
}

// RuntimeSets says whether a container runtime, or the shell that starts a
// program, sets a variable by itself in every container.
func RuntimeSets(name string) bool {
	switch name {
	case "PATH", "HOME", "HOSTNAME", "TERM", "container", "PWD", "OLDPWD", "SHLVL", "_":
		return true
	}
	return false
}
