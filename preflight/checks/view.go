package checks

import (
	"sort"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// View is one node's facts as the checks look at them. What several checks need
// is worked out once.
type View struct {
	Facts  *facts.Facts
	Expect *Expect

	nics  []NIC
	qos   []nicQoS
	cc    []nicCC
	gpus  *gpuSet
	procs []holder
	cards map[string]string // ionic card by any of its names → RDMA device
	smis  []smi
	kids  map[string]map[string]bool // directory → names in it
	done  map[string]bool
}

// NewView prepares facts for judging.
func NewView(f *facts.Facts, e *Expect) *View {
	return &View{Facts: f, Expect: e, done: map[string]bool{}}
}

// once says true the first time it is asked for key.
func (v *View) once(key string) bool {
	first := !v.done[key]
	v.done[key] = true
	return first
}

// file returns the trimmed content of a file; ok is false where it could not be
// read or nobody tried.
func (v *View) file(path string) (data string, ok bool) {
	f, found := v.Facts.Files[path]
	if !found || f.Err != "" {
		return "", false
	}
	return strings.TrimSpace(f.Data), true
}

// stuck says that reading below a directory was given up on the way: what has no
// fact there may exist.
func (v *View) stuck(dir string) bool {
	for p, f := range v.Facts.Files {
		if f.Err == facts.ErrHung && strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	for p, d := range v.Facts.Dirs {
		if d.Err == facts.ErrHung && strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return v.Facts.Cut
}

// text is file without the ok.
func (v *View) text(path string) string {
	s, _ := v.file(path)
	return s
}

// int reads a file that holds one number.
func (v *View) int(path string) *int64 {
	s, ok := v.file(path)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// children lists the names directly below a directory, in natural order: from
// its listing, or from the files that were read below it.
func (v *View) children(dir string) []string {
	if v.once("children") {
		v.indexChildren()
	}
	out := sortedKeys(v.kids[strings.TrimSuffix(dir, "/")])
	sort.SliceStable(out, func(i, j int) bool { return NaturalLess(out[i], out[j]) })
	return out
}

func (v *View) indexChildren() {
	v.kids = map[string]map[string]bool{}
	add := func(dir, name string) {
		if v.kids[dir] == nil {
			v.kids[dir] = map[string]bool{}
		}
		v.kids[dir][name] = true
	}
	for dir, d := range v.Facts.Dirs {
		for _, n := range d.Entries {
			add(dir, n)
		}
	}
	for p, f := range v.Facts.Files {
		if f.Err == facts.ErrMissing {
			continue
		}
		for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
			name, _, _ := strings.Cut(p[i+1:], "/")
			add(p[:i], name)
		}
	}
}

// gathered says that somebody looked at a directory or below it.
func (v *View) gathered(dir string) bool {
	if _, ok := v.Facts.Dirs[dir]; ok {
		return true
	}
	return len(v.children(dir)) > 0
}

// command returns what a command said; ok is false where nobody ran it.
func (v *View) command(id string) (facts.Command, bool) {
	c, ok := v.Facts.Commands[id]
	return c, ok
}

// commandsOf returns the devices a per-device command was run for, in natural
// order.
func (v *View) commandsOf(id string) []string {
	var out []string
	for k := range v.Facts.Commands {
		if dev, ok := strings.CutPrefix(k, id+"/"); ok {
			out = append(out, dev)
		}
	}
	sort.Slice(out, func(i, j int) bool { return NaturalLess(out[i], out[j]) })
	return out
}

// trouble says in words why a command gave nothing; "" where it ran and its
// output must be read. It looks for the tools' own words only when the output
// held nothing useful.
func trouble(c facts.Command, useful bool) (kind parse.FailureKind, words string) {
	switch {
	case c.Missing:
		return parse.FailMissing, "not installed, or not on PATH"
	case c.TimedOut:
		return parse.FailTimeout, "no answer within " + c.Duration.Round(1e8).String() + "; it was killed"
	case c.Error != "":
		return parse.FailError, c.Error
	case useful:
		return "", ""
	}
	if f := parse.ToolFailure(c.Stdout, c.Stderr); f != nil {
		return f.Kind, f.Line
	}
	switch {
	case c.Signal != "":
		return parse.FailError, "killed by " + c.Signal
	case c.Exit != 0:
		return parse.FailError, "exit code " + strconv.Itoa(c.Exit) + lastLine(c.Stderr)
	case strings.TrimSpace(c.Stdout) == "":
		return parse.FailError, "it printed nothing" + lastLine(c.Stderr)
	}
	return parse.FailError, "its output is not what it prints usually" + lastLine(c.Stdout)
}

func lastLine(s string) string {
	lines := parse.Lines(s)
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(lines[len(lines)-1])
}

// fixFor says what to do about a tool that cannot be used.
func fixFor(kind parse.FailureKind, tool string) string {
	switch kind {
	case parse.FailSudo:
		return "let the user run it without a password: a sudoers rule NOPASSWD for the absolute path of " + tool
	case parse.FailMissing:
		return "install " + tool + " on the node, or name its directory in preflight.tool_path of the site"
	case parse.FailTimeout:
		return "the driver or the device hangs; look at the kernel log, then drain and reboot the node"
	case parse.FailDenied:
		return "give the user the right to run " + tool + ", or a sudoers rule NOPASSWD for it"
	case parse.FailNoDevice:
		return "check that the device's driver is loaded and its manager service runs, then reboot the node"
	}
	return "run the command by hand on the node and look at its output"
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// NaturalLess orders names with numbers as people do: rdma2 before rdma10.
func NaturalLess(a, b string) bool {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da != "" && db != "" {
			na, nb := strings.TrimLeft(da, "0"), strings.TrimLeft(db, "0")
			if len(na) != len(nb) {
				return len(na) < len(nb)
			}
			if na != nb {
				return na < nb
			}
			a, b = a[len(da):], b[len(db):]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) string {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i]
}
