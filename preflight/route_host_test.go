package preflight_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// hostCapture routes captures of the operating system.
func (c *capture) host(text string) {
	mounts := parse.Mounts(text)
	df := disks(text)
	switch {
	case len(df) > 0:
		c.expect.Runtime.Kind = "docker"
		for p, d := range df {
			switch p {
			case "/dev/shm":
				c.facts.Context = facts.ContextImage
				c.facts.Disks[p] = d
				c.ids = []string{"image.shm"}
			default:
				c.facts.Disks["/var/lib/docker"], c.facts.Disks["/tmp"] = d, d
				c.ids = []string{"storage.space"}
			}
		}
	case strings.Contains(text, "Max locked memory"), strings.Contains(text, "Max open files"):
		c.facts.Files["/proc/self/limits"] = facts.File{Data: text}
		c.ids = []string{"host.memlock", "host.nofile"}
	case strings.Contains(text, "LISTEN"), strings.HasPrefix(text, "State "):
		c.say(facts.ListeningSocket, "ss -tlnp", text)
		c.expect.Ports = []checks.Port{{Number: 8888, Of: "router"}}
		c.ids = []string{"host.ports"}
	case len(parse.ProcTCP(text)) > 0 || strings.Contains(text, "local_address"):
		c.facts.Files["/proc/net/tcp"] = facts.File{Data: text}
		c.expect.Ports = []checks.Port{{Number: 8888, Of: "router"}}
		c.ids = []string{"host.ports"}
	case strings.Contains(text, "BOOT_IMAGE") || strings.Contains(text, "root="):
		c.facts.Files["/proc/cmdline"] = facts.File{Data: text}
		c.ids = []string{"host.cmdline"}
	case strings.Contains(text, "timed out") || strings.Contains(text, "timeout"):
		c.facts.Files["/proc/mounts"] = facts.File{Data: "10.0.0.5:/data /it-share nfs4 rw 0 0\n"}
		c.facts.Disks["/it-share/data"] = facts.Disk{Err: facts.ErrHung}
		c.ids = []string{"storage.mounts"}
	case strings.Contains(text, "Stale file handle"):
		c.facts.Files["/proc/mounts"] = facts.File{Data: "10.0.0.5:/data /it-share nfs4 rw 0 0\n"}
		c.facts.Disks["/it-share/data"] = facts.Disk{Err: facts.ErrStale}
		c.ids = []string{"storage.mounts"}
	case strings.Contains(text, "MemTotal"):
		c.facts.Files["/proc/meminfo"] = facts.File{Data: text}
		c.expect.NodeMemoryGB = 3000
		c.ids = []string{"host.memory"}
	case strings.Contains(text, "NTPSynchronized"):
		c.facts.Host.Now = 1
		c.say(facts.TimeSync, "timedatectl show", text)
		c.ids = []string{"host.clock"}
	case len(mounts) > 0:
		c.facts.Files["/proc/mounts"] = facts.File{Data: text}
		c.expect.Site.Storage.Mounts = []string{"/it-share"}
		c.ids = []string{"storage.mounts"}
	default:
		switch s := strings.TrimSpace(text); s {
		case "0", "1", "2":
			c.facts.Files["/proc/sys/kernel/numa_balancing"] = facts.File{Data: text}
			c.ids = []string{"host.numa-balancing"}
		case "performance", "powersave", "schedutil", "ondemand":
			c.facts.Files["/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"] = facts.File{Data: text}
			c.ids = []string{"host.governor"}
		default:
			c.ids = []string{"no route for " + s}
		}
	}
}

// disks reads df -B1: mounted on → file system.
func disks(text string) map[string]facts.Disk {
	out := map[string]facts.Disk{}
	for _, l := range parse.Lines(text) {
		f := strings.Fields(l)
		if len(f) != 6 || !strings.HasSuffix(f[4], "%") {
			continue
		}
		total, err1 := strconv.ParseInt(f[1], 10, 64)
		avail, err2 := strconv.ParseInt(f[3], 10, 64)
		if err1 == nil && err2 == nil {
			out[f[5]] = facts.Disk{Total: total, Available: avail}
		}
	}
	return out
}

func (c *capture) docker(text string) {
	c.expect.Runtime.Kind = "docker"
	ps, inspect, image := parse.DockerPS(text), parse.DockerInspect(text), parse.DockerImage(text)
	switch {
	case strings.Contains(text, "RepoDigests") && image != nil:
		c.expect.Images = []string{"img"}
		c.say(facts.Of(facts.DockerImage, "img"), "docker image inspect img", text)
		c.ids = []string{"image.present"}
	case strings.Contains(strings.ToLower(text), "no such image"):
		c.expect.Images = []string{"img"}
		c.facts.Commands[facts.Of(facts.DockerImage, "img")] = facts.Command{Argv: []string{"docker"}, Exit: 1, Stderr: text}
		c.ids = []string{"image.present"}
	case len(inspect) > 0:
		c.say(facts.DockerPS, "docker ps", "")
		c.say(facts.DockerInspect, "docker inspect", text)
		c.info = func() string {
			if !slices.ContainsFunc(inspect, parse.Container.GPU) {
				return "no container with GPUs was read"
			}
			return ""
		}
	case len(ps) > 0 || strings.TrimSpace(text) == "":
		c.say(facts.DockerPS, "docker ps --no-trunc --format {{json .}}", text)
		c.ids = []string{"container.stale"}
	case parse.DockerInfo(text) != nil:
		c.say(facts.DockerInfo, "docker info --format {{json .}}", text)
		c.ids = []string{"container.runtime"}
	case strings.Contains(text, "enroot") || strings.Contains(text, "pyxis") || strings.Contains(text, "container filesystem") || strings.Contains(text, "user namespace") || parse.IsVersion(strings.TrimSpace(text)):
		c.expect.Site.Container.Enroot = true
		c.say(facts.EnrootVersion, "enroot version", text)
		c.ids = []string{"container.enroot"}
	default:
		c.facts.Commands[facts.DockerInfo] = facts.Command{Argv: []string{"docker", "info"}, Exit: 1, Stderr: text}
		c.ids = []string{"container.runtime"}
	}
}

// sampleIndex is the index that the model captures belong to.
const sampleIndex = `{"metadata": {"total_size": 1340000000}, "weight_map": {
 "a": "model-00001-of-00003.safetensors", "b": "model-00002-of-00003.safetensors", "c": "model-00003-of-00003.safetensors"}}`

func (c *capture) model(text string) {
	const dir = "/models/m"
	if w, err := parse.SafetensorsIndex([]byte(text)); err == nil {
		c.info = func() string {
			if len(w.Shards) == 0 || w.TotalSize == 0 {
				return "no shards or no size were read"
			}
			return ""
		}
		return
	}
	c.expect.Models = []string{dir}
	c.ids = []string{"storage.weights"}
	var t facts.Tree
	there := map[string]bool{}
	lines := parse.Lines(text)
	for _, l := range lines {
		name, rest, link := strings.Cut(l, " -> ")
		if !link {
			name, rest, _ = strings.Cut(l, "\t")
		}
		there[strings.TrimSpace(name)] = true
		e := facts.Entry{Name: strings.TrimSpace(name)}
		if link {
			e.Link = strings.TrimSpace(rest)
			e.Size = 1
		} else {
			e.Size, _ = strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
		if strings.HasSuffix(e.Name, "index.json") {
			e.Head = []byte(sampleIndex)
		}
		t.Entries = append(t.Entries, e)
	}
	for i, e := range t.Entries {
		if e.Link == "" {
			continue
		}
		blob := e.Link[strings.LastIndex(e.Link, "../")+3:]
		t.Entries[i].Dangling = !there[blob]
	}
	if strings.HasPrefix(text, "version https://git-lfs") {
		t = facts.Tree{Entries: []facts.Entry{{Name: "model.safetensors", Size: int64(len(text)), Head: []byte(text)}}}
	}
	c.facts.Trees[dir] = t
}

func (c *capture) transport(text string) {
	if body, rc, complete := parse.Frame(text); complete {
		// What stands between the lines is the answer; the banner is not.
		if rc == 0 && strings.HasPrefix(body, "{") && !strings.Contains(body, "Authorized") {
			c.facts.Duration = 1
		} else {
			c.facts.Unreached = fmt.Sprintf("exit code %d", rc)
		}
	} else {
		c.facts.Unreached = text
	}
	c.ids = []string{checks.Reach}
}
