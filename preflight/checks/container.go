package checks

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const defaultMountTimeout = 2 * time.Second

// contained makes a check about containers: skipped where the run has none.
func contained(id string, hard bool, judge func(*View) []Finding) Check {
	return host(id, hard, func(v *View) []Finding {
		if k := v.Expect.Runtime.Kind; k == "none" || k == "" {
			return []Finding{skip("processes run without containers")}
		}
		return judge(v)
	})
}

// containerRuntime: the user must be able to use the runtime on every node.
func containerRuntime() Check { return contained("container.runtime", true, judgeRuntime) }

func judgeRuntime(v *View) []Finding {
	c, ok := v.command(facts.DockerInfo)
	if !ok {
		return []Finding{unknown("", "docker was not asked", "docker info")}
	}
	if d := parse.DockerInfo(c.Stdout); d != nil && len(d.Errors) == 0 && d.Version != "" {
		return []Finding{pass(typed(facts.Command{Argv: c.Argv[:min(3, len(c.Argv))]})+": server "+d.Version, evidence(typed(c)))}
	} else if d != nil && len(d.Errors) > 0 {
		c.Stderr = strings.Join(d.Errors, "\n")
	}
	ev := evidence(typed(c), append(parse.Lines(c.Stderr), parse.Lines(c.Stdout)...)...)
	if sock, ok := v.Facts.Paths["/var/run/docker.sock"]; ok && sock.Err == "" {
		ev.Lines = append(ev.Lines, fmt.Sprintf("/var/run/docker.sock mode %04o gid %d; the user's groups: %s", sock.Mode, sock.GID, parse.FormatInts(v.Facts.Host.Groups)))
	}
	p, line := parse.RuntimeProblemOf(c.Stderr + "\n" + c.Stdout)
	fix := "run the command by hand on the node"
	switch p {
	case parse.RuntimeDenied:
		fix = "add the user to the group docker on this node, or allow 'sudo -n docker'; then start a new session"
	case parse.RuntimeDown:
		fix = "systemctl start docker, and look at its journal for why it was not running"
	case parse.RuntimeNoSpace:
		fix = "make room on the file system of the images: docker system df"
	}
	if p != "" {
		return []Finding{fail("", string(p)+": "+line, "docker usable by the user", fix, ev)}
	}
	kind, words := trouble(c, false)
	switch {
	case kind == parse.FailMissing:
		return []Finding{fail("", "docker is not installed", "docker usable by the user", "install it, or name its directory in preflight.tool_path of the site", ev)}
	case c.TimedOut:
		return []Finding{fail("", "docker does not answer: "+words, "docker usable by the user", "the daemon hangs: look at its journal, restart it, or reboot the node", ev)}
	case kind == parse.FailSudo:
		return []Finding{fail("", words, "docker usable by the user", fixFor(kind, "docker"), ev)}
	}
	return []Finding{unknown("", words, fix, ev)}
}

// containerEnroot: where a site uses enroot, it must be able to unpack images.
func containerEnroot() Check { return host("container.enroot", true, judgeEnroot) }

func judgeEnroot(v *View) []Finding {
	c, ok := v.command(facts.EnrootVersion)
	if !ok || !bool(v.Expect.Site.Container.Enroot) && c.Missing {
		return []Finding{skip("the site does not use enroot")}
	}
	if p, line := parse.RuntimeProblemOf(c.Stderr + "\n" + c.Stdout); p != "" {
		return []Finding{fail("", string(p)+": "+line, "enroot able to unpack images", "see its helper programs' capabilities (getcap), its temporary directory's extended attributes and free space, and kernel.apparmor_restrict_unprivileged_userns", evidence(typed(c), line))}
	}
	const userns = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	if s, ok := v.file(userns); ok && s == "1" {
		return []Finding{fail("", "unprivileged user namespaces are restricted by AppArmor", "0", "sysctl kernel.apparmor_restrict_unprivileged_userns=0", evidence("cat "+userns, s))}
	}
	if s := strings.TrimSpace(c.Stdout); c.Exit == 0 && parse.IsVersion(s) {
		return []Finding{pass("enroot " + s)}
	}
	kind, words := trouble(c, false)
	return []Finding{unknown("", words, fixFor(kind, "enroot"), evidence(typed(c)))}
}

// containerStale: containers of others that have the GPUs. They are reported with
// their owner, and never stopped.
func containerStale() Check { return contained("container.stale", true, judgeStale) }

func judgeStale(v *View) []Finding {
	c, ok := v.command(facts.DockerPS)
	if !ok {
		return blockedBy("container.runtime", "the containers were not listed")
	}
	if _, words := trouble(c, c.Exit == 0 && !c.Missing && !c.TimedOut && c.Error == ""); words != "" {
		return blockedBy("container.runtime", words)
	}
	jobs, jobsKnown := v.jobs()
	var out []Finding
	n := 0
	for _, x := range v.containers() {
		n++
		own := v.Expect.Run.ID != "" && x.Labels["disagg.run"] == v.Expect.Run.ID
		if own || x.State != "" && x.State != "running" || allowed(v.Expect.Site.Container.Allow, x.Name) {
			continue
		}
		who := x.Name + " (" + x.Image + ")"
		if u := x.Labels["disagg.owner"]; u != "" {
			who += " of " + v.userName(u)
		}
		job := x.Job()
		ev := evidence(typed(c), x.Line)
		switch {
		case !x.GPU() && v.knowsDevices():
			continue // not our business
		case job != "" && jobsKnown && !slices.Contains(jobs, job):
			out = append(out, fail(x.Name, who+" outlived its Slurm job "+job, "no container left behind", "its job is over: 'docker stop "+x.Name+"' as its owner or an administrator", ev))
		case job != "":
			out = append(out, fail(x.Name, who+" of Slurm job "+job+" has the GPUs", "no other container on the GPUs", "the node is in use: see squeue -j "+job, ev))
		case v.knowsDevices():
			out = append(out, fail(x.Name, who+" has the GPUs", "no other container on the GPUs", "ask its owner; where it belongs on the node, name it in preflight.container.allow of the site", ev))
		default:
			out = append(out, warn(x.Name, who+" runs; whether it has the GPUs is not known", "no other container on the GPUs", "docker inspect "+x.Name, ev))
		}
	}
	return orPass(out, fmt.Sprintf("%d containers, none that has the GPUs", n))
}

// knowsDevices says that the containers were inspected.
func (v *View) knowsDevices() bool {
	c, ok := v.command(facts.DockerInspect)
	return ok && len(parse.DockerInspect(c.Stdout)) > 0
}

// jobs are the Slurm jobs on the node.
func (v *View) jobs() (ids []string, known bool) {
	c, ok := v.command(facts.Squeue)
	if !ok || c.Exit != 0 || c.Missing || c.TimedOut {
		return nil, false
	}
	return strings.Fields(c.Stdout), true
}

func allowed(list []string, name string) bool {
	for _, p := range list {
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// imagePresent: the images must be there, or can be fetched, and be the same on
// all nodes.
func imagePresent() Check {
	c := contained("image.present", true, judgeImage)
	c.Fleet = func(vs []*View) []Finding {
		var out []Finding
		if k := vs[0].Expect.Runtime.Kind; k == "none" || k == "" {
			return nil
		}
		for _, img := range vs[0].Expect.Images {
			fs, _ := odd(vs, img, func(v *View) string {
				if i := v.image(img); i != nil {
					return imageIdentity(i)
				}
				return ""
			})
			out = append(out, fs...)
		}
		return remedy(out, "the same name means different content here: pull it again on this node, or name the image by digest")
	}
	return c
}

func (v *View) image(name string) *parse.Image {
	c, ok := v.command(facts.Of(facts.DockerImage, name))
	if !ok {
		return nil
	}
	return parse.DockerImage(c.Stdout)
}

// imageIdentity is the registry's digest, or the local id for an image that never
// came from a registry.
func imageIdentity(i *parse.Image) string {
	if len(i.Digests) > 0 {
		_, digest, _ := strings.Cut(i.Digests[0], "@")
		return digest
	}
	return i.ID
}

// absentImages are the run's images that were not found on the node.
func (v *View) absentImages() []string {
	var out []string
	for _, img := range v.Expect.Images {
		if v.image(img) == nil {
			out = append(out, img)
		}
	}
	return out
}

func judgeImage(v *View) []Finding {
	if len(v.Expect.Images) == 0 {
		return []Finding{skip("the run names no image")}
	}
	var out []Finding
	for _, img := range v.Expect.Images {
		c, ok := v.command(facts.Of(facts.DockerImage, img))
		i := v.image(img)
		switch {
		case i != nil && v.Facts.Host.Arch != "" && i.Arch != "" && i.Arch != v.Facts.Host.Arch:
			out = append(out, fail(img, "built for "+i.Arch, v.Facts.Host.Arch, "use an image for this processor", evidence(typed(c))))
		case i != nil:
		case !ok:
			out = append(out, Finding{Verdict: Blocked, Object: img, Observed: "blocked by container.runtime: the images were not listed"})
		case v.Expect.Runtime.Pull == "never":
			out = append(out, fail(img, "not on the node, and container.pull is never", "present", "docker pull "+img+" on the node", evidence(typed(c), parse.Lines(c.Stderr)...)))
		case strings.Contains(strings.ToLower(c.Stderr), "no such image"):
			out = append(out, warn(img, "not on the node; it is pulled before the launch", "present", "pull it on all nodes beforehand: docker pull "+img, evidence(typed(c), parse.Lines(c.Stderr)...)))
		default:
			_, words := trouble(c, false)
			out = append(out, unknown(img, words, "docker image inspect "+img, evidence(typed(c), parse.Lines(c.Stderr)...)))
		}
	}
	return orPass(out, strings.Join(v.Expect.Images, ", ")+" present")
}

// inImage makes a check of what was found inside the image.
func inImage(id string, hard bool, judge func(*View) []Finding) Check {
	return Check{ID: id, Hard: hard, Context: facts.ContextImage, Node: judge}
}

// ImageStart is the id of the check that an image could be looked into at all. Of
// one that could not, nothing else is judged.
const ImageStart = "image.start"

func imageStart() Check {
	return inImage(ImageStart, true, func(v *View) []Finding {
		if why := v.Facts.Unreached; why != "" {
			lines := parse.Lines(why)
			return []Finding{fail(v.Facts.Image, "no program of the run's kind comes up in it: "+strings.TrimSpace(why), "a container with the run's own flags",
				"the message names the flag, mount or file that the runtime refuses: correct it in container.* of the site, or use another image", evidence("a container with the run's own flags", lines...))}
		}
		if v.Facts.Cut {
			return []Finding{warn(v.Facts.Image, "looking into it was cut off at its time limit", "an answer to everything in time", "see which checks are unknown, or raise preflight.budget of the site")}
		}
		return []Finding{pass(v.Facts.Image + " comes up")}
	})
}

// imageShm: engines pass tensors between processes through shared memory.
func imageShm() Check { return inImage("image.shm", true, judgeShm) }

const shmGiB = 8

func judgeShm(v *View) []Finding {
	if !v.Expect.GPUs {
		return []Finding{skip("no engine runs in this image")}
	}
	d, ok := v.Facts.Disks["/dev/shm"]
	if !ok || d.Err != "" {
		return []Finding{unknown("", "/dev/shm: "+or(d.Err, "not looked at"), "df /dev/shm inside the image")}
	}
	want := int64(or(v.Expect.Site.Host.ShmGiB, shmGiB)) << 30
	if d.Total < want {
		return []Finding{fail("", gib(d.Total), gib(want)+" or more", "container.ipc: host, or container.shm_size in the site", evidence("df -B1 /dev/shm", fmt.Sprintf("total %d, available %d", d.Total, d.Available)))}
	}
	return []Finding{pass(gib(d.Total))}
}

// imageDevices: the devices must be usable by the user inside the image, whatever
// the groups are called there.
func imageDevices() Check { return inImage("image.devices", true, judgeImageDevices) }

func judgeImageDevices(v *View) []Finding {
	var out []Finding
	gpus, verbs := 0, 0
	for _, p := range sortedKeys(v.Facts.Paths) {
		x := v.Facts.Paths[p]
		isGPU := p == "/dev/kfd" || strings.HasPrefix(p, "/dev/dri/renderD")
		isVerbs := strings.HasPrefix(p, devIB+"/uverbs")
		if !isGPU && !isVerbs || isGPU && !v.Expect.GPUs || isVerbs && v.noRDMA() != "" {
			continue
		}
		switch {
		case x.Err != "":
			out = append(out, fail(p, x.Err, "usable inside the image", "add it to container.devices of the site", evidence("ls -l "+p)))
		case !(x.Read && x.Write):
			out = append(out, fail(p, fmt.Sprintf("not readable and writable for uid %d (mode %04o, gid %d)", v.Facts.Host.UID, x.Mode, x.GID), "usable inside the image", "container.group_add in the site: group names are resolved to numbers on each node", evidence("ls -l "+p)))
		}
		if isGPU && p != "/dev/kfd" {
			gpus++
		}
		if isVerbs {
			verbs++
		}
	}
	if v.Expect.GPUs && gpus == 0 && len(out) == 0 {
		out = append(out, fail("/dev/dri", "no render device inside the image", "one for each GPU", "add /dev/dri and /dev/kfd to container.devices of the site"))
	}
	if n, from := v.wantRails(); v.noRDMA() == "" && n > 0 && verbs < n {
		out = append(out, fail(devIB, fmt.Sprintf("%d uverbs devices inside the image", verbs), wantText(n, from), "add /dev/infiniband to container.devices of the site", evidence("ls "+devIB)))
	}
	return orPass(out, fmt.Sprintf("%d render and %d uverbs devices usable", gpus, verbs))
}

// imageTools: the programs that the run starts must be in the image.
func imageTools() Check { return inImage("image.tools", true, judgeImageTools) }

func judgeImageTools(v *View) []Finding {
	var out []Finding
	seen := 0
	for _, t := range v.Expect.Tools {
		c, ok := v.command(facts.Of(facts.Tool, t.Name))
		if !ok || t.Image != v.Facts.Image {
			continue
		}
		seen++
		if c.Missing {
			out = append(out, fail(t.Name, "not in the image "+t.Image, "there, for "+t.Of, toolRemedy(t.Of), evidence("command -v "+t.Name)))
		}
	}
	if seen == 0 {
		return []Finding{skip("the run starts no program by name in this image")}
	}
	return orPass(out, fmt.Sprintf("%d programs found", seen))
}

// toolRemedy says what to change in the recipe where an image has not the program
// that a process starts.
func toolRemedy(scope string) string {
	key := map[string]string{"router": "router", "client": "client", "eval": "evals"}[scope]
	if key == "" {
		return "name an image that has it: the recipe chooses the image of " + scope + ", and the engine the program"
	}
	return "name an image that has it in " + key + ".image of the recipe, or correct " + key + ".command there"
}

// imageEnv: variables that were set for the image must be seen inside it.
func imageEnv() Check { return inImage("image.env", true, judgeEnv) }

func judgeEnv(v *View) []Finding {
	if len(v.Expect.Env) == 0 {
		return []Finding{skip("no variable is set for the probe")}
	}
	var out []Finding
	for _, name := range v.Expect.Env {
		if !slices.Contains(v.Facts.Env, name) {
			out = append(out, fail(name, "not set inside the image", "set", "the runtime or a wrapper around it drops the environment: sudo does, unless told otherwise"))
		}
	}
	return orPass(out, fmt.Sprintf("%d variables arrive", len(v.Expect.Env)))
}
