package checks

import (
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// storageMounts: network file systems must be mounted and answer.
func storageMounts() Check {
	c := host("storage.mounts", true, judgeMounts)
	c.Fleet = func(vs []*View) []Finding {
		var out []Finding
		for _, m := range vs[0].Expect.Site.Storage.Mounts {
			fs, _ := odd(vs, m, func(v *View) string {
				if x, ok := parse.MountOf(parse.Mounts(v.text("/proc/mounts")), m); ok && x.Network() {
					return x.Source
				}
				return ""
			})
			out = append(out, fs...)
		}
		return remedy(out, "mount the same export as the other nodes")
	}
	return c
}

func judgeMounts(v *View) []Finding {
	s, ok := v.file("/proc/mounts")
	if !ok {
		return []Finding{unknown("", "/proc/mounts was not read", "cat /proc/mounts")}
	}
	mounts := parse.Mounts(s)
	if len(mounts) == 0 {
		return []Finding{unknown("", "/proc/mounts lists nothing", "cat /proc/mounts")}
	}
	var out []Finding
	for _, want := range v.Expect.Site.Storage.Mounts {
		m, ok := parse.MountOf(mounts, want)
		if !ok || !m.Network() {
			out = append(out, fail(want, "not on a network file system", "mounted (preflight.storage.mounts)", "mount it: see /etc/fstab, 'mount "+want+"'", evidence("cat /proc/mounts", m.Line)))
		}
	}
	for _, p := range sortedKeys(v.Facts.Disks) {
		d := v.Facts.Disks[p]
		m, _ := parse.MountOf(mounts, p)
		ev := evidence("stat -f "+p, m.Line)
		switch d.Err {
		case facts.ErrHung:
			out = append(out, fail(p, "no answer: the file server or the mount hangs", "an answer within "+v.mountTimeout(), "do not start anything that touches it; remount it with 'umount -f -l', or reboot the node", ev))
		case facts.ErrStale:
			out = append(out, fail(p, "stale file handle", "an answer", "remount it: umount -f -l, then mount", ev))
		}
		if m.Network() && m.ReadOnly() && strings.HasPrefix(v.Expect.RunsDir, m.Target) && d.Err == "" {
			out = append(out, fail(p, "mounted read-only", "writable, for the runs directory", "remount it writable", ev))
		}
	}
	return orPass(out, fmt.Sprintf("%d paths answer", len(v.Facts.Disks)))
}

func (v *View) mountTimeout() string {
	return or(v.Expect.Site.Storage.MountTimeout.D(), defaultMountTimeout).String()
}

// storageSpace: room for images, logs and temporary files.
func storageSpace() Check { return host("storage.space", true, judgeSpace) }

const (
	imageGiB      = 150
	tmpGiB        = 5
	runsGiB       = 5
	inodesPercent = 5
)

func judgeSpace(v *View) []Finding {
	st := v.Expect.Site.Storage
	var out []Finding
	seen := 0
	short := func(object, p, free string, want int64, ev Evidence) Finding {
		return fail(object, free, fmt.Sprintf("%d GiB or more", want), "make room: 'docker system df', 'du -xsh "+p+"/*'", ev)
	}
	judge := func(p, what string, want int64, short func(object, p, free string, want int64, ev Evidence) Finding) {
		d, ok := v.Facts.Disks[p]
		if !ok {
			return
		}
		ev := evidence("df -B1 "+p, fmt.Sprintf("total %d, available %d", d.Total, d.Available))
		object := p + " (" + what + ")"
		switch {
		case d.Err == facts.ErrHung || d.Err == facts.ErrStale:
			return // said by storage.mounts
		case d.Err == facts.ErrMissing && what == "runs directory":
			out = append(out, fail(object, "does not exist", "a directory", "make it, or correct runs_dir of the site", ev))
		case d.Err == facts.ErrMissing:
			return
		case d.Err != "":
			out = append(out, unknown(object, d.Err, "df "+p, ev))
		case d.ReadOnly:
			out = append(out, fail(object, "the file system is read-only", "writable", "look at the kernel log for a disk error; the node needs a repair", ev))
		case d.Available < want<<30:
			out = append(out, short(object, p, gib(d.Available)+" free", want, ev))
		case d.Inodes > 0 && d.InodesOK*100 < int64(or(st.InodesPercent, inodesPercent))*d.Inodes:
			out = append(out, fail(object, fmt.Sprintf("%d of %d inodes free", d.InodesOK, d.Inodes), fmt.Sprintf("%d %% or more", or(st.InodesPercent, inodesPercent)), "remove the many small files", ev))
		}
		seen++
	}
	if root := v.dockerRoot(); root != "" {
		layers, image := int64(or(st.TmpGiB, tmpGiB)), int64(or(st.ImageGiB, imageGiB))
		absent := strings.Join(v.absentImages(), ", ")
		if len(v.Expect.Images) == 0 {
			layers = min(layers, image)
		}
		switch d := v.Facts.Disks[root]; {
		case absent != "":
			judge(root, "images", image, func(object, p, free string, want int64, ev Evidence) Finding {
				f := short(object, p, free, want, ev)
				f.Observed += ", and " + absent + " was not found on the node and is to be pulled"
				f.Remedy = "if it should be there, correct its name in the recipe: see 'docker images'; else " + f.Remedy
				return f
			})
		case len(v.Expect.Images) == 0 && d.Available >= layers<<30:
			// Which image comes is not known, nor whether it is there already.
			judge(root, "images", image, func(object, p, free string, want int64, ev Evidence) Finding {
				f := short(object, p, free, want, ev)
				f.Verdict, f.Expected = Warn, f.Expected+" to pull an image"
				f.Remedy = "none where the images are on the node already, which a check with a recipe knows; else " + f.Remedy
				return f
			})
		default:
			judge(root, "images", layers, short) // only containers' own layers
		}
	}
	judge("/tmp", "temporary files", int64(or(st.TmpGiB, tmpGiB)), short)
	if v.Expect.RunsDir != "" {
		judge(v.Expect.RunsDir, "runs directory", int64(or(st.RunsGiB, runsGiB)), short)
	}
	if seen == 0 {
		return []Finding{unknown("", "no file system was looked at", "df")}
	}
	return orPass(out, fmt.Sprintf("room on %d file systems", seen))
}

// dockerRoot is where images lie: what docker says, or its default.
func (v *View) dockerRoot() string {
	if v.Expect.Runtime.Kind == "none" {
		return ""
	}
	c, _ := v.command(facts.DockerInfo)
	if d := parse.DockerInfo(c.Stdout); d != nil && d.Root != "" {
		return d.Root
	}
	return "/var/lib/docker"
}

// weights is a check that the model is whole where the facts come from.
func weights(id, context string) Check {
	c := Check{ID: id, Hard: true, Context: context, Node: judgeWeights}
	c.Fleet = func(vs []*View) []Finding {
		fs, _ := odd(vs, "weights", func(v *View) string {
			dir, t, ok := v.modelDir()
			if !ok || len(judgeTree(dir, t)) > 0 {
				return ""
			}
			return fingerprint(t)
		})
		return remedy(fs, "the files differ in name or size from those of the other nodes: copy them again")
	}
	return c
}

// modelDir is the first candidate directory that is there.
func (v *View) modelDir() (dir string, t facts.Tree, ok bool) {
	for _, d := range v.Expect.Models {
		if t, looked := v.Facts.Trees[d]; looked && t.Err != facts.ErrMissing {
			return d, t, true
		}
	}
	return "", facts.Tree{}, false
}

func judgeWeights(v *View) []Finding {
	if len(v.Expect.Models) == 0 {
		return []Finding{skip("the run names no weights")}
	}
	dir, t, ok := v.modelDir()
	if !ok {
		var lines []string
		looked := false
		for _, d := range v.Expect.Models {
			_, l := v.Facts.Trees[d]
			looked = looked || l
			lines = append(lines, d)
		}
		if !looked {
			return []Finding{unknown("", "the weights were not looked at", "ls "+v.Expect.Models[0])}
		}
		return []Finding{fail(or(v.Expect.Model, "model"), "in none of the places where it may be", "one directory with the weights", "copy the weights to the node, or correct models.search_paths of the site or model_path of the recipe", evidence("ls", lines...))}
	}
	switch t.Err {
	case facts.ErrHung:
		return []Finding{fail(dir, "listing it hangs", "an answer", "see storage.mounts", evidence("ls "+dir))}
	case "":
	default:
		return []Finding{fail(dir, "cannot be read: "+t.Err, "readable for the user", "mend its permissions or its mount", evidence("ls "+dir))}
	}
	return orPass(judgeTree(dir, t), fmt.Sprintf("whole: %d files in %s", len(t.Entries), dir))
}

// judgeTree looks for what is missing, short or a stand-in in a model directory.
func judgeTree(dir string, t facts.Tree) []Finding {
	const fix = "copy or download the file again; an interrupted download leaves it like this"
	var out []Finding
	dir, entries, ambiguous := snapshot(dir, t)
	if ambiguous != nil {
		return []Finding{*ambiguous}
	}
	by := map[string]facts.Entry{}
	for _, e := range entries {
		by[e.Name] = e
		switch {
		case e.Dangling:
			out = append(out, fail(path.Join(dir, e.Name), "a link to "+e.Link+", which does not exist", "a file", fix, evidence("ls -lL "+path.Join(dir, e.Name))))
		case strings.HasSuffix(e.Name, ".incomplete"), strings.HasSuffix(e.Link, ".incomplete"):
			out = append(out, fail(path.Join(dir, e.Name), "an unfinished download", "a whole file", fix, evidence("ls -l "+path.Join(dir, e.Name))))
		case parse.PointerFile(e.Head):
			out = append(out, fail(path.Join(dir, e.Name), "a Git LFS pointer instead of the file", "the file itself", "git lfs pull in the directory", evidence("head -1 "+path.Join(dir, e.Name), strings.SplitN(string(e.Head), "\n", 2)[0])))
		}
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".safetensors") || e.Dangling || parse.PointerFile(e.Head) {
			continue
		}
		n, ok := parse.SafetensorsHeader(e.Head)
		switch {
		case e.Need > e.Size:
			out = append(out, fail(path.Join(dir, e.Name), fmt.Sprintf("%d bytes of %d", e.Size, e.Need), "the whole file", fix))
		case len(e.Head) == 0:
		case !ok:
			out = append(out, fail(path.Join(dir, e.Name), "does not begin like a safetensors file", "a safetensors file", fix))
		case 8+n > e.Size:
			out = append(out, fail(path.Join(dir, e.Name), fmt.Sprintf("%d bytes, shorter than its own header", e.Size), "the whole file", fix))
		}
	}
	out = append(out, judgeIndexed(dir, entries, by, fix)...)
	return dedup(out)
}

// judgeIndexed compares a directory with its index of shards.
func judgeIndexed(dir string, entries []facts.Entry, by map[string]facts.Entry, fix string) []Finding {
	const name = "model.safetensors.index.json"
	idx, ok := by[name]
	if !ok || len(idx.Head) == 0 {
		for _, e := range entries {
			if strings.HasSuffix(e.Name, ".safetensors") || strings.HasSuffix(e.Name, ".bin") || strings.HasSuffix(e.Name, ".gguf") || strings.HasSuffix(e.Name, ".pt") {
				return nil // a model of one file, or of another format
			}
		}
		return []Finding{fail(dir, "no weight files in it", "weights", "copy the weights to the node", evidence("ls "+dir))}
	}
	w, err := parse.SafetensorsIndex(idx.Head)
	if err != nil {
		return []Finding{fail(path.Join(dir, name), err.Error(), "a readable index", fix)}
	}
	var out []Finding
	var have, measured, sum int64
	for _, s := range w.Shards {
		e, ok := by[s]
		switch {
		case !ok:
			out = append(out, fail(path.Join(dir, s), "missing", "every shard that the index names", fix, evidence("ls "+dir)))
			continue
		case e.Size == 0 && !e.Dangling:
			out = append(out, fail(path.Join(dir, s), "empty", "a whole file", fix, evidence("ls -l "+path.Join(dir, s))))
		}
		have++
		sum += e.Size
		if e.Need > 0 {
			measured++
		}
	}
	// Where every shard was measured by its own header, the total in the index
	// adds nothing, and some indexes state a wrong one.
	if w.TotalSize > 0 && have == int64(len(w.Shards)) && measured < have && sum < w.TotalSize {
		out = append(out, fail(dir, fmt.Sprintf("its shards have %d bytes", sum), fmt.Sprintf("%d bytes of tensors and more", w.TotalSize), "a shard is cut short: compare the sizes with another node, and "+fix, evidence("ls -l "+dir)))
	}
	return out
}

// snapshot finds the revision in a hub cache. Other directories are as they are.
func snapshot(dir string, t facts.Tree) (string, []facts.Entry, *Finding) {
	revisions := map[string]bool{}
	main := ""
	for _, e := range t.Entries {
		if rest, ok := strings.CutPrefix(e.Name, "snapshots/"); ok {
			rev, _, _ := strings.Cut(rest, "/")
			revisions[rev] = true
		}
		if e.Name == "refs/main" {
			main = strings.TrimSpace(string(e.Head))
		}
	}
	if len(revisions) == 0 {
		return dir, t.Entries, nil
	}
	rev := sortedKeys(revisions)[0]
	switch {
	case main != "" && revisions[main]:
		rev = main
	case len(revisions) > 1:
		f := fail(dir, "several revisions and no refs/main: "+strings.Join(sortedKeys(revisions), ", "), "one revision", "name the revision's directory in model_path of the recipe")
		return dir, nil, &f
	}
	var out []facts.Entry
	for _, e := range t.Entries {
		if rest, ok := strings.CutPrefix(e.Name, "snapshots/"+rev+"/"); ok {
			e.Name = rest
			out = append(out, e)
		}
	}
	return path.Join(dir, "snapshots", rev), out, nil
}

// fingerprint is what must be equal on all nodes: names and sizes.
func fingerprint(t facts.Tree) string {
	var parts []string
	var sum int64
	for _, e := range t.Entries {
		if strings.HasPrefix(path.Base(e.Name), ".") || strings.Contains(e.Name, ".cache/") {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %d", e.Name, e.Size))
		sum += e.Size
	}
	sort.Strings(parts)
	return fmt.Sprintf("%d files, %d bytes", len(parts), sum)
}
