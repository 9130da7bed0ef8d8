package preflight

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Files are read by a helper process and not by the gathering process, because a
// read of a hung driver or file server cannot be given up: only the process that
// waits in it can be left behind. The helper reads each group in a goroutine of
// its own and writes every record as soon as it has it, so that a group that
// hangs loses nothing but itself.

// readList is what a helper is asked to read.
type readList struct {
	Groups []readGroup `json:"groups"`
	// Deadline is how long the helper may read, from its own start; then it says
	// what hangs. A node that is merely slow to start the helper hangs nothing.
	Deadline time.Duration `json:"deadline_ns"`
}

// readGroup is read one after the other; groups are read at once.
type readGroup struct {
	Name string `json:"name"`
	// Files, Dirs and Stats are paths that may hold globs; Links too, of which
	// only the target is read.
	Files []string `json:"files,omitempty"`
	Dirs  []string `json:"dirs,omitempty"`
	Links []string `json:"links,omitempty"`
	Stats []string `json:"stats,omitempty"`
	Disks []string `json:"disks,omitempty"`
	Trees []string `json:"trees,omitempty"`
	// Samples are files with one number that are read several times.
	Samples []string `json:"samples,omitempty"`
	// Distinct keeps of all files of the group only those with a content no
	// other has.
	Distinct bool `json:"distinct,omitempty"`
	// Keep, where set, keeps only files whose content begins with one of these;
	// Drop leaves out files with this content.
	Keep []string `json:"keep,omitempty"`
	Drop string   `json:"drop,omitempty"`
	// Stuck keeps of process states only those in uninterruptible sleep for as
	// long as we look.
	Stuck bool `json:"stuck,omitempty"`
}

// record is one line of the helper's output.
type record struct {
	Path string      `json:"path,omitempty"`
	File *facts.File `json:"file,omitempty"`
	Dir  *facts.Dir  `json:"dir,omitempty"`
	Stat *facts.Path `json:"stat,omitempty"`
	Disk *facts.Disk `json:"disk,omitempty"`
	Tree *facts.Tree `json:"tree,omitempty"`

	Samples []int64 `json:"samples,omitempty"`
}

const (
	maxFile = 1 << 20 // of one file
	// maxHeaderBytes bounds what is read of the headers of one model.
	maxHeaderBytes = 256 << 20
	maxIndexBytes  = 64 << 20
	maxTreeDepth   = 4
	maxTreeEntries = 20000
	headBytes      = 512

	stuckLooks = 3
	stuckPause = 100 * time.Millisecond

	sampleCount = 3
	samplePause = 500 * time.Millisecond
)

// reader reads for one helper.
type reader struct {
	root string

	mu  sync.Mutex
	out *json.Encoder
	w   *bufio.Writer
	// at is what each unfinished group is at, as the record that says it hangs.
	at map[string]record
}

// read does the whole list. At the deadline it says what every unfinished group
// hangs at, and returns.
func (r *reader) read(l readList) {
	finished := make(chan struct{})
	var wg sync.WaitGroup
	for _, g := range l.Groups {
		wg.Go(func() {
			r.group(g)
			r.mu.Lock()
			delete(r.at, g.Name)
			r.mu.Unlock()
		})
	}
	go func() { wg.Wait(); close(finished) }()
	t := time.NewTimer(l.Deadline)
	defer t.Stop()
	select {
	case <-finished:
	case <-t.C:
		r.mu.Lock()
		hung := sortedKeys(r.at)
		records := make([]record, 0, len(hung))
		for _, name := range hung {
			records = append(records, r.at[name])
		}
		r.mu.Unlock()
		for _, rec := range records {
			r.emit(rec)
		}
	}
}

// going notes what a group is about to touch.
func (r *reader) going(group string, rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[group] = rec
}

// emit writes one record at once.
func (r *reader) emit(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.Encode(rec) == nil {
		_ = r.w.Flush()
	}
}

// real is where a path is on this machine.
func (r *reader) real(p string) string {
	if r.root != "" && (strings.HasPrefix(p, "/sys/") || strings.HasPrefix(p, "/proc/") || strings.HasPrefix(p, "/dev/") || p == "/proc") {
		return filepath.Join(r.root, p)
	}
	return p
}

// glob expands a pattern; a path without magic is itself.
func (r *reader) glob(pattern string) []string {
	real := r.real(pattern)
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}
	}
	found, err := filepath.Glob(real)
	if err != nil {
		return nil
	}
	prefix := strings.TrimSuffix(real, pattern)
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], prefix)
	}
	return found
}

func (r *reader) group(g readGroup) {
	seen := map[string]bool{}
	for _, pattern := range g.Files {
		for _, p := range r.glob(pattern) {
			r.going(g.Name, record{Path: p, File: &facts.File{Err: facts.ErrHung}})
			f := r.file(p)
			if f.Err == facts.ErrMissing && p != pattern {
				continue // it went away while we looked
			}
			if f.Err == "" && (g.Distinct && seen[f.Data] || !begins(f.Data, g.Keep) || g.Drop != "" && strings.TrimSpace(f.Data) == g.Drop) {
				continue
			}
			if g.Stuck && (!asleep(f.Data) || !r.staysAsleep(p)) {
				continue
			}
			seen[f.Data] = true
			r.emit(record{Path: p, File: &f})
		}
	}
	for _, pattern := range g.Links {
		for _, p := range r.glob(pattern) {
			if t, err := filepath.EvalSymlinks(r.real(p)); err == nil {
				r.emit(record{Path: p, File: &facts.File{Target: strings.TrimPrefix(t, r.root)}})
			}
		}
	}
	for _, pattern := range g.Dirs {
		for _, p := range r.glob(pattern) {
			r.going(g.Name, record{Path: p, Dir: &facts.Dir{Err: facts.ErrHung}})
			d := r.dir(p)
			r.emit(record{Path: p, Dir: &d})
		}
	}
	for _, pattern := range g.Stats {
		for _, p := range r.glob(pattern) {
			r.going(g.Name, record{Path: p, Stat: &facts.Path{Err: facts.ErrHung}})
			s := r.stat(p)
			r.emit(record{Path: p, Stat: &s})
		}
	}
	for _, p := range g.Disks {
		r.going(g.Name, record{Path: p, Disk: &facts.Disk{Err: facts.ErrHung}})
		d := disk(p)
		r.emit(record{Path: p, Disk: &d})
	}
	for _, p := range g.Trees {
		r.going(g.Name, record{Path: p, Tree: &facts.Tree{Err: facts.ErrHung}})
		t := tree(p)
		r.emit(record{Path: p, Tree: &t})
	}
	for _, p := range g.Samples {
		r.going(g.Name, record{Path: p, File: &facts.File{Err: facts.ErrHung}})
		if s := samples(r.real(p)); len(s) > 0 {
			r.emit(record{Path: p, Samples: s})
		}
	}
}

// asleep says that a process was in uninterruptible sleep when it was looked at.
func asleep(stat string) bool {
	_, state := parse.ProcStat(stat)
	return state == "D"
}

// staysAsleep looks again: a disk read puts any process to sleep for a moment.
func (r *reader) staysAsleep(p string) bool {
	for range stuckLooks {
		<-time.After(stuckPause)
		if !asleep(r.file(p).Data) {
			return false
		}
	}
	return true
}

func begins(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return len(prefixes) == 0
}

// file reads one small file. Configuration space is binary and kept as hex.
func (r *reader) file(p string) facts.File {
	fd, err := os.Open(r.real(p))
	if err != nil {
		return facts.File{Err: reason(err)}
	}
	defer fd.Close()
	data, err := io.ReadAll(io.LimitReader(fd, maxFile))
	if err != nil {
		return facts.File{Err: reason(err)}
	}
	if strings.HasSuffix(p, "/config") {
		return facts.File{Data: hex.EncodeToString(data[:min(len(data), 16)])}
	}
	return facts.File{Data: strings.ToValidUTF8(string(data), "\uFFFD")}
}

func (r *reader) dir(p string) facts.Dir {
	entries, err := os.ReadDir(r.real(p))
	if err != nil {
		return facts.Dir{Err: reason(err)}
	}
	d := facts.Dir{Entries: []string{}}
	for _, e := range entries {
		d.Entries = append(d.Entries, e.Name())
	}
	return d
}

func (r *reader) stat(p string) facts.Path {
	real := r.real(p)
	var st unix.Stat_t
	if err := unix.Stat(real, &st); err != nil {
		return facts.Path{Err: reason(err)}
	}
	out := facts.Path{Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid), Size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		out.Kind = "dir"
	case unix.S_IFCHR:
		out.Kind = "char"
	case unix.S_IFBLK:
		out.Kind = "block"
	case unix.S_IFSOCK:
		out.Kind = "socket"
	case unix.S_IFIFO:
		out.Kind = "fifo"
	default:
		out.Kind = "file"
	}
	out.Read = unix.Faccessat(unix.AT_FDCWD, real, unix.R_OK, unix.AT_EACCESS) == nil
	out.Write = unix.Faccessat(unix.AT_FDCWD, real, unix.W_OK, unix.AT_EACCESS) == nil
	return out
}

func disk(p string) facts.Disk {
	// Opening is what a hung mount does not survive; statfs alone may answer
	// from memory.
	fd, err := os.Open(p)
	if err != nil {
		return facts.Disk{Err: reason(err)}
	}
	defer fd.Close()
	if _, err := fd.Stat(); err != nil {
		return facts.Disk{Err: reason(err)}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(fd.Fd()), &st); err != nil {
		return facts.Disk{Err: reason(err)}
	}
	size := int64(st.Bsize)
	return facts.Disk{Total: int64(st.Blocks) * size, Available: int64(st.Bavail) * size, Inodes: int64(st.Files), InodesOK: int64(st.Ffree),
		ReadOnly: st.Flags&unix.ST_RDONLY != 0}
}

// tree lists a model directory with what tells whole files from stand-ins.
func tree(dir string) facts.Tree {
	if st, err := os.Stat(dir); err != nil {
		return facts.Tree{Err: reason(err)}
	} else if !st.IsDir() {
		return facts.Tree{Err: "not a directory"}
	}
	var t facts.Tree
	budget := int64(maxHeaderBytes)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil {
			if rel == "." {
				return err
			}
			return nil
		}
		if d.IsDir() {
			if strings.Count(rel, string(filepath.Separator)) >= maxTreeDepth {
				return filepath.SkipDir
			}
			return nil
		}
		if len(t.Entries) >= maxTreeEntries {
			return filepath.SkipAll
		}
		t.Entries = append(t.Entries, entry(p, rel, d, &budget))
		return nil
	})
	if err != nil {
		t.Err = reason(err)
	}
	sort.Slice(t.Entries, func(i, j int) bool { return t.Entries[i].Name < t.Entries[j].Name })
	return t
}

func entry(p, rel string, d fs.DirEntry, budget *int64) facts.Entry {
	e := facts.Entry{Name: filepath.ToSlash(rel)}
	if d.Type()&fs.ModeSymlink != 0 {
		e.Link, _ = os.Readlink(p)
	}
	st, err := os.Stat(p)
	if err != nil {
		e.Dangling = errors.Is(err, fs.ErrNotExist)
		return e
	}
	e.Size = st.Size()
	// Only regular files are opened: anything else may wait for a peer.
	if !st.Mode().IsRegular() || !telling(rel, e.Size) {
		return e
	}
	fd, err := os.Open(p)
	if err != nil {
		return e
	}
	defer fd.Close()
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(fd, head)
	e.Head = head[:n]
	switch {
	case strings.HasSuffix(rel, ".safetensors.index.json"):
		rest, _ := io.ReadAll(io.LimitReader(fd, maxIndexBytes))
		e.Head = compactIndex(append(e.Head, rest...))
	case strings.HasSuffix(rel, ".safetensors"):
		if length, ok := parse.SafetensorsHeader(e.Head); ok && 8+length <= e.Size && length <= *budget {
			*budget -= length
			full := make([]byte, 8+length)
			if _, err := fd.ReadAt(full, 0); err == nil {
				e.Need, _ = parse.SafetensorsSize(full)
			}
		}
		if !parse.PointerFile(e.Head) {
			e.Head = e.Head[:min(len(e.Head), 16)]
		}
	}
	return e
}

// telling says whether the beginning of a file tells anything.
func telling(rel string, size int64) bool {
	return strings.HasSuffix(rel, ".safetensors") || strings.HasSuffix(rel, ".index.json") || strings.HasPrefix(rel, "refs/") || size < headBytes
}

// compactIndex reduces an index of tens of thousands of tensors to its shards. An
// unreadable one is kept as it is, to be judged.
func compactIndex(data []byte) []byte {
	w, err := parse.SafetensorsIndex(data)
	if err != nil {
		return data[:min(len(data), headBytes)]
	}
	m := map[string]string{}
	for _, s := range w.Shards {
		m[s] = s
	}
	out, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": w.TotalSize}, "weight_map": m})
	if err != nil {
		return nil
	}
	return out
}

// reason names an error the way facts do.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return facts.ErrMissing
	case errors.Is(err, fs.ErrPermission):
		return facts.ErrDenied
	case errors.Is(err, syscall.ESTALE):
		return facts.ErrStale
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// merge puts a helper's records into the facts. What hangs, the helper says
// itself; what it did not get to is not there, and so not known.
func merge(f *Facts, out []byte) {
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 256<<20)
	for sc.Scan() {
		var r record
		if json.Unmarshal(sc.Bytes(), &r) != nil {
			continue // cut in the middle
		}
		switch {
		case r.File != nil:
			if strings.HasSuffix(r.Path, "/cmdline") && r.Path != "/proc/cmdline" {
				r.File.Data = checks.Redacted(r.File.Data)
			}
			f.Files[r.Path] = *r.File
		case r.Dir != nil:
			f.Dirs[r.Path] = *r.Dir
		case r.Stat != nil:
			f.Paths[r.Path] = *r.Stat
		case r.Disk != nil:
			f.Disks[r.Path] = *r.Disk
		case r.Tree != nil:
			f.Trees[r.Path] = *r.Tree
		case r.Samples != nil:
			f.Samples[r.Path] = r.Samples
		}
	}
}

// samples reads one number several times.
func samples(path string) []int64 {
	var out []int64
	for i := range sampleCount {
		if i > 0 {
			<-time.After(samplePause)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return out
		}
		v, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return out
		}
		out = append(out, v)
	}
	return out
}
