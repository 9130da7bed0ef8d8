package legacy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// Call is a call of the old submit script.
type Call struct {
	// Args are its positional arguments; see Arguments.
	Args []string
	// Env is the environment that it was called in, as NAME=value.
	Env []string
	// Dir is the directory that it was called in, absolute. The script had to be
	// called from its own.
	Dir string
	// Site is the site to put the call's settings over; nil: what the scripts had
	// built in.
	Site *models.Site
	// Catalog knows the models.
	Catalog *catalog.Catalog
}

// Submission is what a call asks for, in this project's files.
type Submission struct {
	Recipe []byte
	Site   []byte
	// Understood are the variables that were read.
	Understood []string
	// Notes say which settings change nothing.
	Notes []string
	// Job is the allocation to run in instead of a new one; empty: a new one.
	Job string
	// DryRun says that nothing shall be started.
	DryRun bool
}

// Submit converts a call. The error is models.FieldErrors and holds every
// mistake of the call; mistakes of the values are found when the files are read.
func Submit(call Call) (*Submission, error) {
	r := newReader(environ(call.Env))
	hint := "needed: " + strings.Join(required(), " ")
	for _, name := range required() {
		if r.get(name, "") == "" {
			r.fail(name, "it is not set in the environment, and the submit script needs it", hint)
			hint = ""
		}
	}
	r.arguments(call.Args)
	c := convert(r, call.Catalog)
	site := c.site(call)
	s := &Submission{Job: r.get("SLURM_REUSE_JOBID", ""), DryRun: r.truth("DRY_RUN", false)}
	for _, name := range sorted(r.seen) {
		if !utf8.ValidString(r.env[name]) {
			r.fail(name, fmt.Sprintf("%q is not UTF-8 text, which a file can hold", r.env[name]), "")
		}
	}
	if err := models.FieldErrors(r.errs).Err(); err != nil {
		return nil, err
	}
	for _, n := range r.notes {
		s.Notes = append(s.Notes, n.Error())
	}
	s.Understood = slices.Sorted(maps.Keys(r.seen))
	var err error
	if s.Recipe, err = yamlx.Encode(c.recipe, map[string]string{"": "# Made of a call of the old submit script: " + strings.Join(quoted(call.Args), " ")}); err != nil {
		return nil, err
	}
	s.Site, err = yamlx.Encode(site, map[string]string{"": "# Made of the environment of a call of the old submit script."})
	return s, err
}

func quoted(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == "" || strings.ContainsAny(a, " \t\n") {
			out[i] = fmt.Sprintf("%q", a)
		}
	}
	return out
}

// site puts the call's settings over the given site or the scripts' own.
func (c *converter) site(call Call) *models.Site {
	s := &models.Site{}
	if call.Site != nil {
		*s = *call.Site
	} else {
		*s = *scriptSite()
		s.RunsDir = path.Join(call.Dir, "benchmark_logs")
	}
	s.APIVersion, s.Kind = models.APIVersion, models.KindSite
	if n := c.number("GPUS_PER_NODE", 0, 1); n > 0 {
		s.GPUsPerNode = n
	}
	if dir := c.get("BENCHMARK_LOGS_DIR", ""); dir != "" {
		s.RunsDir = dir
	}
	s.Slurm.Account, s.Slurm.Partition = c.get("SLURM_ACCOUNT", ""), c.get("SLURM_PARTITION", "")
	if dir := c.get("MODEL_PATH", ""); dir != "" {
		s.Models.SearchPaths = []string{dir}
	}
	c.nodes(s)
	c.mounts(s, call)
	if v := c.get("IBDEVICES", ""); v != "" && c.recipe.Engine == "atom" {
		s.RDMA.Devices = strings.Split(v, ",")
	}
	if v := c.get("MORI_NIC_TYPE", ""); v != "" && c.recipe.Engine == "atom" {
		s.RDMA.NIC = v
	}
	return s
}

// nodes reads which nodes to use and which not.
func (c *converter) nodes(s *models.Site) {
	if list := strings.TrimSpace(c.get("NODE_LIST", "")); list != "" {
		names := strings.Split(list, ",")
		if want := c.recipe.Prefill.Nodes + c.recipe.Decode.Nodes; len(names) != want {
			c.fail("NODE_LIST", fmt.Sprintf("%d nodes are named, and the run has %d", len(names), want), "name each node once, with commas between")
		}
		s.Slurm.Options = maps.Clone(s.Slurm.Options)
		if s.Slurm.Options == nil {
			s.Slurm.Options = map[string]string{}
		}
		s.Slurm.Options["nodelist"] = list
	}
	if list := c.get("SLURM_EXCLUDE_NODES", ""); list != "" {
		// It replaced the file of exclusions; it does so here.
		s.Exclude = []models.Exclude{{Nodes: list, Reason: "SLURM_EXCLUDE_NODES of the submitting environment"}}
	}
}

// mounts adds the user's mounts and the sweep repository, which holds the client.
func (c *converter) mounts(s *models.Site, call Call) {
	list := slices.Clone(s.Container.Mounts)
	for _, w := range strings.Fields(c.get("EXTRA_DOCKER_MOUNTS", "")) {
		switch m, joined := strings.CutPrefix(w, "--volume="); {
		case joined:
			list = append(list, m)
		case w != "-v" && w != "--volume":
			list = append(list, w)
		}
	}
	repo := strings.TrimSuffix(call.Dir, "/benchmarks/multi_node/amd_utils")
	if repo == call.Dir {
		repo = c.get("GITHUB_WORKSPACE", "")
	}
	has := slices.ContainsFunc(list, func(m string) bool { return strings.Split(m+":", ":")[1] == workspace })
	switch {
	case has || s.Container.Runtime == "none":
	case repo != "":
		list = append(list, repo+":"+workspace)
	default:
		c.note("GITHUB_WORKSPACE", "the client is in the sweep repository, which containers would not see", "call from benchmarks/multi_node/amd_utils as the script had to be, set GITHUB_WORKSPACE, or mount it at "+workspace+" in the site")
	}
	s.Container.Mounts = list
}

// scriptSite is what the scripts had built in, but for what no run needs: they
// ran containers privileged, with the user's ssh keys mounted.
func scriptSite() *models.Site {
	return &models.Site{
		Name: "legacy", GPUsPerNode: 8,
		Container: models.ContainerSite{
			Runtime: "docker", Sudo: "auto", IPC: "host", ShmSize: "128g",
			Devices:  []string{"/dev/kfd", "/dev/dri", "/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"},
			Ulimits:  map[string]string{"memlock": "-1", "stack": "67108864", "nofile": "1048576:1048576"},
			CapAdd:   []string{"SYS_PTRACE", "IPC_LOCK"},
			GroupAdd: []string{"video", "render"}, SecurityOpt: []string{"seccomp=unconfined"},
		},
	}
}
