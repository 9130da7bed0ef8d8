package parse

import (
	"regexp"
	"strings"
)

// OwnerKind says what a process belongs to.
type OwnerKind string

// Kinds of owner.
const (
	OwnerContainer OwnerKind = "container"
	OwnerSlurm     OwnerKind = "slurm"
	OwnerService   OwnerKind = "service"
	OwnerBare      OwnerKind = "bare"
	OwnerUnknown   OwnerKind = "unknown"
)

// Owner is what a process belongs to, as its control group says.
type Owner struct {
	Kind OwnerKind
	// ID is the container id, the Slurm job id or the unit.
	ID string
	// Kubernetes says that the container is a pod's.
	Kubernetes bool
	// Adopted says that the process came in by ssh and was adopted by the job.
	Adopted bool
}

// String writes "container 0f3a9b1c2d4e" or "Slurm job 42".
func (o Owner) String() string {
	switch o.Kind {
	case OwnerContainer:
		id := o.ID
		if len(id) > 12 {
			id = id[:12]
		}
		if o.Kubernetes {
			return "Kubernetes container " + id
		}
		return "container " + id
	case OwnerSlurm:
		if o.Adopted {
			return "Slurm job " + o.ID + " (ssh session)"
		}
		return "Slurm job " + o.ID
	case OwnerService:
		return "service " + o.ID
	case OwnerBare:
		return "bare process"
	}
	return "unknown owner"
}

var (
	cgContainer = regexp.MustCompile(`(?:docker|cri-containerd|containerd|crio|libpod|nerdctl)[-:]([0-9a-f]{64})(?:\.scope)?|/(?:docker|libpod_parent|buildkit|default|k8s\.io)/(?:\S*/)?([0-9a-f]{64})|/kubepods\S*/(?:crio-|cri-containerd-)?([0-9a-f]{64})`)
	cgSlurm     = regexp.MustCompile(`(?:slurmstepd\.scope|/slurm(?:_[^/]*)?/uid_\d+)/job_(\d+)`)
	cgSlurmV1   = regexp.MustCompile(`/slurm[^/]*(?:/[^/]+)*?/job_(\d+)`)
	cgService   = regexp.MustCompile(`/system\.slice/(?:\S*/)?([^/\s]+\.service)`)
)

// CgroupOwner classifies /proc/PID/cgroup. Containers are looked for first on
// every line: a rootless container also sits in its user's slice.
func CgroupOwner(text string) Owner {
	lines := Lines(text)
	for _, l := range lines {
		if m := cgContainer.FindStringSubmatch(l); m != nil {
			id := m[1]
			for _, alt := range m[2:] {
				if id == "" {
					id = alt
				}
			}
			return Owner{Kind: OwnerContainer, ID: id, Kubernetes: strings.Contains(l, "kubepods")}
		}
	}
	for _, re := range []*regexp.Regexp{cgSlurm, cgSlurmV1} {
		for _, l := range lines {
			if m := re.FindStringSubmatch(l); m != nil {
				return Owner{Kind: OwnerSlurm, ID: m[1], Adopted: strings.Contains(l, "step_extern")}
			}
		}
	}
	for _, l := range lines {
		if m := cgService.FindStringSubmatch(l); m != nil {
			return Owner{Kind: OwnerService, ID: m[1]}
		}
	}
	for _, l := range lines {
		if strings.Contains(l, "/user.slice/") || strings.Contains(l, "session-") {
			return Owner{Kind: OwnerBare}
		}
	}
	return Owner{Kind: OwnerUnknown}
}
