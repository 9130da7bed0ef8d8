package parse

import (
	"encoding/json"
	"strings"
)

// DockerState is what "docker info" or any docker command says of the daemon.
type DockerState struct {
	// Root is where images and containers lie.
	Root    string
	Version string
	// Security lists what confines containers: rootless, apparmor, …
	Security []string
	// Errors are the server's own complaints.
	Errors []string
}

// DockerInfo reads "docker info --format {{json .}}". nil means that the text is
// not such a report.
func DockerInfo(text string) *DockerState {
	var d struct {
		DockerRootDir   string
		ServerVersion   string
		SecurityOptions []string
		ServerErrors    []string
	}
	i := strings.IndexByte(text, '{')
	if i < 0 || json.NewDecoder(strings.NewReader(text[i:])).Decode(&d) != nil {
		return nil
	}
	if d.ServerVersion == "" && d.DockerRootDir == "" && len(d.ServerErrors) == 0 {
		return nil
	}
	return &DockerState{Root: d.DockerRootDir, Version: d.ServerVersion, Security: d.SecurityOptions, Errors: d.ServerErrors}
}

// Container is one container of the node.
type Container struct {
	ID, Name, Image, State, Status string
	Labels                         map[string]string
	PID                            int
	Privileged                     bool
	// Devices are the host paths it was given.
	Devices []string
	// Env holds the variables that tell whose it is: SLURM_JOB_ID and its kin.
	Env  map[string]string
	Line string
}

// GPU says that the container can reach GPUs: it was given them by name, or it
// may open every device.
func (c Container) GPU() bool {
	if c.Privileged {
		return true
	}
	for _, d := range c.Devices {
		if d == "/dev/kfd" || strings.HasPrefix(d, "/dev/dri") {
			return true
		}
	}
	return false
}

// Job is the Slurm job the container says it belongs to; empty where it does not.
func (c Container) Job() string {
	for _, k := range []string{"disagg.job", "slurm.job", "slurm_job_id"} {
		if v := c.Labels[k]; v != "" {
			return v
		}
	}
	for _, k := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		if v := c.Env[k]; v != "" {
			return v
		}
	}
	return ""
}

// DockerPS reads "docker ps --no-trunc --format {{json .}}": one object a line.
func DockerPS(text string) []Container {
	var out []Container
	for _, l := range Lines(text) {
		var d struct{ ID, Names, Image, State, Status, Labels string }
		if !strings.HasPrefix(l, "{") || json.Unmarshal([]byte(l), &d) != nil || d.ID == "" {
			continue
		}
		c := Container{ID: d.ID, Name: d.Names, Image: d.Image, State: d.State, Status: d.Status, Labels: map[string]string{}, Line: l}
		for _, kv := range strings.Split(d.Labels, ",") {
			if k, v, ok := strings.Cut(kv, "="); ok {
				c.Labels[k] = v
			}
		}
		out = append(out, c)
	}
	return out
}

// DockerInspect reads "docker inspect" of containers. Of the environment only
// the variables that name a job or a user are kept.
func DockerInspect(text string) []Container {
	var rows []struct {
		ID    string `json:"Id"`
		Name  string
		State struct {
			Pid    int
			Status string
		}
		Config struct {
			Image  string
			Labels map[string]string
			Env    []string
		}
		HostConfig struct {
			Privileged bool
			Devices    []struct{ PathOnHost string }
		}
	}
	i := strings.IndexByte(text, '[')
	if i < 0 || json.NewDecoder(strings.NewReader(text[i:])).Decode(&rows) != nil {
		return nil
	}
	var out []Container
	for _, r := range rows {
		c := Container{ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Image: r.Config.Image, State: r.State.Status,
			Labels: r.Config.Labels, PID: r.State.Pid, Privileged: r.HostConfig.Privileged, Env: map[string]string{}}
		for _, d := range r.HostConfig.Devices {
			c.Devices = append(c.Devices, d.PathOnHost)
		}
		for _, kv := range r.Config.Env {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_USER", "USER":
				c.Env[k] = v
			}
		}
		out = append(out, c)
	}
	return out
}

// Image is one local image.
type Image struct {
	ID         string
	Digests    []string // repository@sha256:…
	Size       int64
	Entrypoint []string
	Arch       string
}

// DockerImage reads "docker image inspect". nil means that the text is not such a
// report.
func DockerImage(text string) *Image {
	var rows []struct {
		ID           string `json:"Id"`
		RepoDigests  []string
		Size         int64
		Architecture string
		Config       struct{ Entrypoint []string }
	}
	i := strings.IndexByte(text, '[')
	if i < 0 || json.NewDecoder(strings.NewReader(text[i:])).Decode(&rows) != nil || len(rows) == 0 {
		return nil
	}
	r := rows[0]
	return &Image{ID: r.ID, Digests: r.RepoDigests, Size: r.Size, Entrypoint: r.Config.Entrypoint, Arch: r.Architecture}
}

// RuntimeProblem is why a container runtime cannot be used.
type RuntimeProblem string

// Problems of container runtimes.
const (
	RuntimeDenied       RuntimeProblem = "no permission for the daemon's socket"
	RuntimeDown         RuntimeProblem = "the daemon is not running"
	RuntimeNoSpace      RuntimeProblem = "no space left for images"
	RuntimeCapabilities RuntimeProblem = "the image tool may not set capabilities"
	RuntimeNamespaces   RuntimeProblem = "user namespaces are blocked"
	RuntimeFilesystem   RuntimeProblem = "the container's file system cannot be made"
)

// RuntimeProblemOf recognises the words with which docker, podman, enroot and
// pyxis refuse; empty where none is found.
func RuntimeProblemOf(text string) (p RuntimeProblem, line string) {
	for _, l := range Lines(text) {
		low := strings.ToLower(l)
		switch {
		case strings.Contains(low, "permission denied") && strings.Contains(low, "docker"):
			p = RuntimeDenied
		case strings.Contains(low, "cannot connect to the docker daemon"), strings.Contains(low, "is the docker daemon running"), strings.Contains(low, "cannot connect to podman"):
			p = RuntimeDown
		case strings.Contains(low, "no space left on device"):
			p = RuntimeNoSpace
		case strings.Contains(low, "failed to set capabilities"):
			p = RuntimeCapabilities
		case strings.Contains(low, "failed to create user namespace"), strings.Contains(low, "cannot clone: operation not permitted"):
			p = RuntimeNamespaces
		case strings.Contains(low, "failed to create container filesystem"), strings.Contains(low, "extended attributes"):
			p = RuntimeFilesystem
		}
		if p != "" {
			return p, strings.TrimSpace(l)
		}
	}
	return "", ""
}
