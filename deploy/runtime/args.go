package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/shim"
)

// Labels of every container of a run.
const (
	LabelRun      = "disagg.run"
	LabelWorkload = "disagg.workload"
	LabelOwner    = "disagg.owner" // uid of whoever runs the agent
)

// facts are what the arguments need to know of the node.
type facts struct {
	uid     int
	devices []string // existing paths
	groups  []int
}

// ContainerName is the name of a workload's container, the same whenever it is
// asked for and different for every run and workload.
func ContainerName(runID, workload string) string {
	raw := runID + "/" + workload
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '-'
	}, raw)
	if len(name) > 150 || name != runID+"-"+workload {
		sum := sha256.Sum256([]byte(raw))
		name = name[:min(len(name), 140)] + "-" + hex.EncodeToString(sum[:4])
	}
	return "disagg-" + name
}

// runArgs are the arguments of docker or podman that start a shim. No variable
// and nothing of the engine's command line is among them.
func runArgs(s Spec, f facts) ([]string, error) {
	w, r := s.Workload, s.Workload.Runtime
	args := []string{"run", "--detach", "--rm", "--pull=never",
		"--name", ContainerName(w.RunID, w.ID),
		"--network", "host",
		// The shim writes the engine's log; what it says itself goes into the
		// shared directory.
		"--log-driver", "none",
		"--stop-timeout", strconv.Itoa(int(w.Grace.Seconds()) + 5),
	}
	labels := map[string]string{}
	maps.Copy(labels, w.Labels)
	labels[LabelRun], labels[LabelWorkload], labels[LabelOwner] = w.RunID, w.ID, strconv.Itoa(f.uid)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		args = append(args, "--label", k+"="+labels[k])
	}
	if r.IPC != "" {
		args = append(args, "--ipc", r.IPC)
	}
	if r.Privileged {
		args = append(args, "--privileged")
	}
	for _, d := range f.devices {
		args = append(args, "--device", d)
	}
	for _, g := range f.groups {
		args = append(args, "--group-add", strconv.Itoa(g))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Ulimits)) {
		args = append(args, "--ulimit", k+"="+r.Ulimits[k])
	}
	if r.ShmSize != "" && r.IPC != "host" { // the host's has its own size
		args = append(args, "--shm-size", r.ShmSize)
	}
	for _, c := range r.CapAdd {
		args = append(args, "--cap-add", c)
	}
	for _, o := range r.SecurityOpt {
		args = append(args, "--security-opt", o)
	}
	if r.User != "" {
		args = append(args, "--user", r.User)
	}
	mounts := []mount{
		{s.Binary, shim.MountBinary, true},
		{s.Dir, shim.MountDir, false},
	}
	for _, text := range slices.Concat(r.Mounts, w.Mounts) {
		m, err := parseMount(text)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	seen := map[string]string{}
	for _, m := range mounts {
		if other, ok := seen[m.target]; ok {
			if other == m.source {
				continue
			}
			return nil, &deploy.Fault{Class: deploy.ClassMount, Msg: fmt.Sprintf("%s and %s shall both be mounted at %s", other, m.source, m.target)}
		}
		seen[m.target] = m.source
		args = append(args, "--mount", m.arg())
	}
	args = append(args, "--entrypoint", shim.MountBinary)
	args = append(args, r.ExtraArgs...)
	return append(args, w.Image, "shim", "--dir", shim.MountDir), nil
}

// mount is one path of the node in a container.
type mount struct {
	source, target string
	readonly       bool
}

// parseMount reads host:container[:ro|rw].
func parseMount(text string) (mount, error) {
	bad := func(why string) (mount, error) {
		return mount{}, &deploy.Fault{Class: deploy.ClassMount, Msg: fmt.Sprintf("mount %q: %s", text, why), Hint: "write host:container or host:container:ro, both absolute paths"}
	}
	f := strings.Split(text, ":")
	if len(f) < 2 || len(f) > 3 {
		return bad("it has not two or three parts")
	}
	m := mount{source: f[0], target: f[1]}
	if len(f) == 3 {
		switch f[2] {
		case "ro":
			m.readonly = true
		case "rw":
		default:
			return bad(fmt.Sprintf("the option %q is not ro or rw", f[2]))
		}
	}
	if !strings.HasPrefix(m.source, "/") || !strings.HasPrefix(m.target, "/") {
		return bad("a path is not absolute")
	}
	if strings.ContainsAny(m.source+m.target, ",\"\n") {
		return bad("a path holds a comma, a quote or a newline, which container programs cannot be given")
	}
	return m, nil
}

func (m mount) arg() string {
	s := "type=bind,source=" + m.source + ",target=" + m.target
	if m.readonly {
		s += ",readonly"
	}
	return s
}
