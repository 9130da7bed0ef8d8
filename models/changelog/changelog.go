// Package changelog checks the change log of a sweep repository: the file in
// which each change of the master files says what is to be measured anew.
//
// The log is a list to which entries are only ever added. What it says starts
// jobs on clusters, so an entry that names the wrong thing costs hours, and one
// that is missing is a result that is silently out of date.
package changelog

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// File is one file as its reader found it.
type File struct {
	Path string
	Data []byte
}

// Input is what to check, and what to check it against.
type Input struct {
	Log File
	// Base is the log before the change; nil: it is not known which entries are
	// new, and nothing that is asked of new ones is checked.
	Base *File
	// Masters are the master files that keys must be in; empty: keys are not
	// looked up.
	Masters []File
	// BaseMasters are the master files before the change, to find what it touches.
	BaseMasters []File
	// Link is the change's own link; empty: not known.
	Link string
}

// Report is what a check found.
type Report struct {
	// Entries is how many there are, New how many of them the change added.
	Entries int `json:"entries"`
	New     int `json:"new"`
	// Notes are worth a look and no mistakes.
	Notes models.FieldErrors `json:"notes,omitempty"`
	// Unchecked says what could not be checked, and what it needs.
	Unchecked []string `json:"unchecked,omitempty"`
}

// entry is one entry of the log.
type entry struct {
	Keys       []string    `yaml:"config-keys" items:"some set"`
	Text       []string    `yaml:"description" items:"some" is:"not-empty"`
	Link       string      `yaml:"pr-link" is:"url"`
	Scenarios  []string    `yaml:"scenario-type,omitempty" enum:"fixed-seq-len|agentic-coding" items:"some set"`
	EvalsOnly  models.Bool `yaml:"evals-only,omitempty"`
	AllEvals   models.Bool `yaml:"all-evals,omitempty"`
	AppendOnly models.Bool `yaml:"append-only,omitempty"`
	MinEP      int         `yaml:"eval-min-prefill-ep,omitempty" min:"1"`
}

// log is the whole file. The list stands under a name of ours, which messages
// show: entry[3].
type log struct {
	Entry []entry `yaml:"entry"`
}

// Check checks a log. The error is models.FieldErrors and holds every mistake.
func Check(in Input) (Report, error) {
	c := &checker{in: in, doc: yamlx.ParseList(in.Log.Path, in.Log.Data, "entry")}
	c.doc.Decode(&c.log)
	c.doc.Check(&c.log, models.Formats())
	c.rep.Entries = len(c.log.Entry)
	c.rep.New = c.rep.Entries
	for i, e := range c.log.Entry {
		c.modes(yamlx.Index("entry", i), e)
	}
	if c.base() {
		c.links()
		c.keys()
	} else {
		c.rep.New = 0
		c.rep.Unchecked = append(c.rep.Unchecked, "links and keys, since it cannot be told which entries are new")
	}
	if list, ok := errors.AsType[models.FieldErrors](c.doc.Err()); ok {
		c.errs = append(c.errs, list...)
	}
	c.rep.Notes = c.rep.Notes.Sort()
	return c.rep, c.errs.Sort().Err()
}

type checker struct {
	in   Input
	doc  *yamlx.Document
	log  log
	old  log
	rep  Report
	errs models.FieldErrors
}

// modes finds flags that exclude each other.
func (c *checker) modes(at string, e entry) {
	if !bool(e.AppendOnly) {
		return
	}
	for key, set := range map[string]bool{"evals-only": bool(e.EvalsOnly), "all-evals": bool(e.AllEvals), "eval-min-prefill-ep": e.MinEP > 0} {
		if set {
			c.doc.FailKey(at+"."+key, fmt.Sprintf("%s.%s cannot stand beside append-only, which measures and evaluates nothing", at, key), "keep one of them, or write two entries")
		}
	}
}

// first is the index of the first new entry.
func (c *checker) first() int { return c.rep.Entries - c.rep.New }

// base finds what was edited above the tail. It returns false when it cannot be
// told which entries are new.
func (c *checker) base() bool {
	if c.in.Base == nil {
		c.rep.Unchecked = append(c.rep.Unchecked, "that nothing above the tail was edited (give the log before the change)")
		return true
	}
	old := yamlx.ParseList(c.in.Base.Path, c.in.Base.Data, "entry")
	old.Decode(&c.old)
	if !old.Readable() && len(bytes.TrimSpace(c.in.Base.Data)) > 0 {
		// Mistakes of old entries are not this change's; a file that is no list is.
		if list, ok := errors.AsType[models.FieldErrors](old.Err()); ok {
			c.errs = append(c.errs, list...)
		}
		return false
	}
	c.rep.New = max(0, c.rep.Entries-len(c.old.Entry))
	was, is := lines(c.in.Base.Data), lines(c.in.Log.Data)
	for i, text := range was {
		switch {
		case i >= len(is):
			c.fail(len(is), "the log ends where the one before went on: %q is gone", text)
		case is[i] != text:
			c.fail(i+1, "line %d was %q before the change", i+1, text)
		default:
			continue
		}
		return false
	}
	if c.rep.New == 0 && len(is) > len(was) {
		c.rep.Notes = append(c.rep.Notes, models.FieldError{File: c.in.Log.Path, Line: len(was) + 1, Col: 1, Msg: "text was added, and no entry"})
	}
	return true
}

// fail reports an edit above the tail.
func (c *checker) fail(line int, format string, args ...any) {
	e := models.FieldErrors{{File: c.in.Log.Path, Line: max(1, line), Col: 1, Msg: "the log was edited above its tail: " + fmt.Sprintf(format, args...),
		Hint: "put it back, and say what has changed in an entry at the end"}}
	c.errs = append(c.errs, e.Quote(c.in.Log.Path, c.in.Log.Data)...)
}

// lines cuts a text into lines, without the empty ones at its end.
func lines(data []byte) []string {
	text := strings.TrimRight(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n \t")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// links checks that the links of new entries are the change's own.
func (c *checker) links() {
	if c.in.Base == nil {
		c.rep.Unchecked = append(c.rep.Unchecked, "that links are the change's own (give the log before the change)")
		return
	}
	used := map[string]int{}
	for i, e := range c.log.Entry[:c.first()] {
		used[e.Link] = i
	}
	own := c.in.Link
	for i := c.first(); i < c.rep.Entries; i++ {
		e, at := c.log.Entry[i], yamlx.Index("entry", i)+".pr-link"
		if e.Link == "" || c.doc.Failed(at) {
			continue
		}
		last := path.Base(strings.TrimRight(e.Link, "/"))
		j, taken := used[e.Link]
		switch {
		case strings.Trim(last, "0123456789") != "":
			c.doc.Fail(at, fmt.Sprintf("%s does not end in the number of a change: %q", at, e.Link), "write the link of this change")
		case c.in.Link != "" && e.Link != c.in.Link:
			c.doc.Fail(at, fmt.Sprintf("%s is another change's: this one is %s", at, c.in.Link), "")
		case taken:
			c.doc.Fail(at, fmt.Sprintf("%s is the link of entry[%d] at %s already, which another change added", at, j, c.doc.Positions.At(yamlx.Index("entry", j))), "write the link of this change")
		case own != "" && e.Link != own:
			c.doc.Fail(at, fmt.Sprintf("%s is %s, and the entry before it has %s; one change has one link", at, e.Link, own), "")
		default:
			own = e.Link
		}
	}
	if c.in.Link == "" {
		c.rep.Unchecked = append(c.rep.Unchecked, "that the new entries' link is the change's (give it)")
	}
}

// keys checks that new entries name keys that exist, and that each key which the
// change touches is named.
func (c *checker) keys() {
	if len(c.in.Masters) == 0 || c.in.Base == nil {
		c.rep.Unchecked = append(c.rep.Unchecked, "that keys of new entries exist (give the log before the change, and the master files)")
		return
	}
	now := c.texts(c.in.Masters)
	for i := c.first(); i < c.rep.Entries; i++ {
		for j, glob := range c.log.Entry[i].Keys {
			at := yamlx.Index(yamlx.Index("entry", i)+".config-keys", j)
			if _, err := path.Match(glob, ""); err != nil {
				c.doc.Fail(at, fmt.Sprintf("%s: %q is not a pattern: a bracket is not closed", at, glob), "")
				continue
			}
			if !slices.ContainsFunc(sorted(now), func(key string) bool { return match(glob, key) }) {
				hint := ""
				if near := yamlx.Nearest(glob, sorted(now)); near != "" {
					hint = fmt.Sprintf("did you mean %q?", near)
				}
				c.doc.Fail(at, fmt.Sprintf("%s: no key of the master files matches %q", at, glob), hint)
			}
		}
	}
	c.touched(now)
}

// touched compares the master files before and after the change.
func (c *checker) touched(now map[string]keyText) {
	if len(c.in.BaseMasters) == 0 {
		c.rep.Unchecked = append(c.rep.Unchecked, "that every key that the change touches has an entry (give the master files before the change)")
		return
	}
	was := c.texts(c.in.BaseMasters)
	named := map[string]bool{}
	for i := c.first(); i < c.rep.Entries; i++ {
		for j, glob := range c.log.Entry[i].Keys {
			at, touches := yamlx.Index(yamlx.Index("entry", i)+".config-keys", j), false
			for key, text := range now {
				if match(glob, key) {
					named[key] = true
					touches = touches || was[key].text != text.text
				}
			}
			if !touches && !c.doc.Failed(at) {
				p := c.doc.Positions.Near(at)
				c.rep.Notes = append(c.rep.Notes, models.FieldError{File: p.File, Line: p.Line, Col: p.Col, Path: at,
					Msg: fmt.Sprintf("%s: the change touches no key that matches %q; it would only be measured again", at, glob)})
			}
		}
	}
	for _, key := range sorted(now) {
		if now[key].text != was[key].text && !named[key] {
			p := now[key].place
			c.errs = append(c.errs, models.FieldError{File: p.File, Line: p.KeyLine, Col: p.KeyCol, Path: key,
				Msg:  fmt.Sprintf("the change touches %s, and no new entry of %s names it", key, c.in.Log.Path),
				Hint: "add an entry at the end of the log"})
		}
	}
}

// keyText is what a master file has under a key.
type keyText struct {
	text  string
	place yamlx.Position
}

// texts reads what stands under each key of some master files. Keys that are
// there twice are reported: the later one wins without a word.
func (c *checker) texts(files []File) map[string]keyText {
	out := map[string]keyText{}
	for _, f := range files {
		doc := yamlx.ParseForeign(f.Path, f.Data)
		keys := map[string]yamlx.Any{}
		doc.Decode(&keys)
		if list, ok := errors.AsType[models.FieldErrors](doc.Err()); ok {
			c.errs = append(c.errs, list...)
		}
		for key, text := range doc.Texts() {
			place := doc.Positions[yamlx.Key("", key)]
			if other, twice := out[key]; twice {
				c.errs = append(c.errs, models.FieldError{File: f.Path, Line: place.KeyLine, Col: place.KeyCol, Path: key,
					Msg: fmt.Sprintf("the key %q is in %s as well", key, other.place.File), Hint: "keep one of them"})
			}
			out[key] = keyText{text, place}
		}
	}
	return out
}

// match says whether a glob means a key.
func match(glob, key string) bool {
	ok, err := path.Match(glob, key)
	return ok && err == nil
}

func sorted(m map[string]keyText) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
