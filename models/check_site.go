package models

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// siteCheck finds the mistakes of one site that need nothing but the file.
type siteCheck struct {
	doc *yamlx.Document
	s   *Site
}

func (c *siteCheck) run() {
	c.doc.Check(c.s, Formats())
	checkEnv(c.doc, "env", c.s.Env)
	for i, p := range c.s.Profiles {
		checkEnv(c.doc, yamlx.Index("profiles", i)+".env", p.Env)
	}
	c.excludes()
	c.profiles()
	c.mounts()
	c.containers()
	c.extraArgs()
	c.scheduling()
}

// extraArgs refuses an option and its value in one item, which the runtime takes
// for the name of an option.
func (c *siteCheck) extraArgs() {
	for i, a := range c.s.Container.ExtraArgs {
		name, value, blank := strings.Cut(a, " ")
		if blank && strings.HasPrefix(name, "-") && !strings.Contains(name, "=") {
			at := yamlx.Index("container.extra_args", i)
			c.doc.Fail(at, fmt.Sprintf("%s: %q is an option and its value in one item, which the runtime takes for the name of an option", at, a),
				fmt.Sprintf("write %q and %q as two items, or %q", name, value, name+"="+value))
		}
	}
}

// scheduling refuses what is no priority.
func (c *siteCheck) scheduling() {
	const path = "preflight.rdma.scheduling"
	for _, k := range slices.Sorted(maps.Keys(c.s.Preflight.RDMA.Scheduling)) {
		if len(k) != 1 || k < "0" || k > "7" {
			c.doc.FailKey(yamlx.Key(path, k), fmt.Sprintf("the key %q in %s must be a priority from 0 to 7", k, path), "")
		}
	}
}

func (c *siteCheck) excludes() {
	first := map[string]int{}
	for i, e := range c.s.Exclude {
		at := yamlx.Index("exclude", i)
		if e.Since != "" && e.Expires != "" && e.Expires < e.Since && !c.doc.Failed(at+".since") {
			c.doc.Fail(at+".expires", fmt.Sprintf("%s.expires %s lies before since %s", at, e.Expires, e.Since), "")
		}
		key := strings.Join([]string{e.Nodes, strings.Join(e.Engines, ","), strings.Join(e.Models, ",")}, " ")
		if j, twice := first[key]; twice {
			c.doc.Fail(at+".nodes", fmt.Sprintf("%s excludes %s for the same engines and models as exclude[%d] at %s",
				at, e.Nodes, j, c.doc.Positions.At(yamlx.Index("exclude", j))), "keep one of them")
		} else {
			first[key] = i
		}
	}
}

func (c *siteCheck) profiles() {
	first := map[string]int{}
	for i, p := range c.s.Profiles {
		at := yamlx.Index("profiles", i)
		if j, twice := first[p.Nodes]; twice && p.Nodes != "" {
			c.doc.Fail(at+".nodes", fmt.Sprintf("%s can never apply: profiles[%d] has the same nodes and comes first", at, j), "join the two")
		} else {
			first[p.Nodes] = i
		}
	}
}

// mounts refuses two mounts at one place in the container: which one a runtime
// takes is chance.
func (c *siteCheck) mounts() {
	first := map[string]int{}
	for i, m := range c.s.Container.Mounts {
		parts := strings.Split(m, ":")
		if len(parts) < 2 || c.doc.Failed(yamlx.Index("container.mounts", i)) {
			continue
		}
		target := path.Clean(parts[1])
		if j, twice := first[target]; twice {
			c.doc.Fail(yamlx.Index("container.mounts", i), fmt.Sprintf("container.mounts has %s as the place of two mounts, items %d and %d", target, j+1, i+1), "keep one of them")
		} else {
			first[target] = i
		}
	}
}

// containers refuses settings that runtime none would silently not use.
func (c *siteCheck) containers() {
	k := c.s.Container
	if k.Runtime != "none" {
		return
	}
	for key, set := range map[string]bool{
		"devices": len(k.Devices) > 0, "mounts": len(k.Mounts) > 0, "ulimits": len(k.Ulimits) > 0, "shm_size": k.ShmSize != "",
		"ipc": k.IPC != "", "cap_add": len(k.CapAdd) > 0, "security_opt": len(k.SecurityOpt) > 0, "group_add": len(k.GroupAdd) > 0,
		"user": k.User != "", "extra_args": len(k.ExtraArgs) > 0, "pull": k.Pull != "", "privileged": k.Privileged != nil,
	} {
		if set {
			at := "container." + key
			c.doc.FailKey(at, at+" has no meaning with runtime none, which starts plain processes", "remove it, or use docker or podman")
		}
	}
}
