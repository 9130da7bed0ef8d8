package yamlx

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"
)

// Document is one file on its way into a Go value. It collects the mistakes of
// reading and those that the caller finds in the values, so that a user sees
// all of them at once.
type Document struct {
	Positions Positions

	src  source
	root *yaml.Node
	errs FieldErrors
	// failed are paths that have a mistake already. A second one about the
	// same value, or about a value that a misspelt key was meant to set, would
	// be noise.
	failed map[string]bool
	// rootType is the struct decoded into, to tell where a misplaced key belongs.
	rootType reflect.Type
	// values counts what has been read, aliases followed.
	values int
}

// Decode reads the one document in data into the struct that into points to.
// The error is FieldErrors and holds all mistakes; the positions of what could
// be read are returned in any case.
func Decode(file string, data []byte, into any) (Positions, error) {
	d := Parse(file, data)
	d.Decode(into)
	return d.Positions, d.Err()
}

// Parse reads the text. What is wrong with it is kept for Err.
func Parse(file string, data []byte) *Document { return parseForm(file, data, ourForm()) }

// ParseForeign is Parse for a file of another program, which has none of the
// keys that ours begin with. Its values may also be decoded into a map.
func ParseForeign(file string, data []byte) *Document { return parseForm(file, data, form{}) }

// ParseList is ParseForeign for a file whose document is a list. It is read as
// if it stood under the key name: its items are at name[0], name[1], …
func ParseList(file string, data []byte, name string) *Document {
	return parseForm(file, data, form{list: name})
}

func parseForm(file string, data []byte, f form) *Document {
	d := &Document{
		Positions: Positions{"": {File: file, Line: 1, Col: 1}},
		src:       newSource(file, data),
		failed:    map[string]bool{},
	}
	d.root = d.parse(data, f)
	return d
}

// Readable says whether the text is one YAML mapping. When it is not, there are
// no values to look at.
func (d *Document) Readable() bool { return d.root != nil }

// Header checks apiVersion and kind. It returns false when the document is
// something else altogether, so that decoding it would only make noise.
func (d *Document) Header(apiVersion, kind string) bool {
	if d.root == nil {
		return false
	}
	got := func(key string) (string, *yaml.Node) {
		for i := 0; i+1 < len(d.root.Content); i += 2 {
			if v := d.root.Content[i+1]; d.root.Content[i].Value == key && v.Kind == yaml.ScalarNode && v.ShortTag() != nullTag {
				return v.Value, v
			}
		}
		return "", nil
	}
	ok := true
	if v, n := got("kind"); n != nil && v != kind {
		d.failNode(n, "kind", fmt.Sprintf("this file is a %s, a %s was expected", v, kind),
			fmt.Sprintf("give a file with \"kind: %s\"", kind))
		ok = false
	}
	if v, n := got("apiVersion"); n != nil && v != apiVersion {
		d.failNode(n, "apiVersion", fmt.Sprintf("apiVersion %q is not known to this build, which reads %q", v, apiVersion),
			"write \"apiVersion: "+apiVersion+"\", or use a build that knows the other version")
		ok = false
	}
	if ok {
		for _, want := range []struct{ key, value string }{{"apiVersion", apiVersion}, {"kind", kind}} {
			if _, n := got(want.key); n == nil {
				d.failed[want.key] = true
				d.add(FieldError{Line: d.root.Line, Col: d.root.Column, Path: want.key,
					Msg:  want.key + " is missing",
					Hint: fmt.Sprintf("add \"%s: %s\" at the top", want.key, want.value)})
			}
		}
	}
	return ok
}

// Decode fills the struct or the map that into points to with what can be read.
// Keys that the file does not set leave a struct's fields as they are.
func (d *Document) Decode(into any) {
	if d.root == nil {
		return
	}
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct && v.Elem().Kind() != reflect.Map {
		panic(fmt.Sprintf("yamlx: decode into %T, want a pointer to a struct or a map", into))
	}
	d.rootType = v.Elem().Type()
	d.value("", d.root, v.Elem())
}

// Fail reports a mistake in the value at path. When the file does not set it,
// the place is the innermost thing around it. A second mistake of one value is
// dropped.
func (d *Document) Fail(path, msg, hint string) {
	p := d.Positions.Near(path)
	d.failAt(path, p.Line, p.Col, msg, hint)
}

// FailKey is Fail with the place of the key instead of the value.
func (d *Document) FailKey(path, msg, hint string) {
	p := d.Positions.Near(path)
	if p.KeyLine == 0 {
		p.KeyLine, p.KeyCol = p.Line, p.Col
	}
	d.failAt(path, p.KeyLine, p.KeyCol, msg, hint)
}

func (d *Document) failAt(path string, line, col int, msg, hint string) {
	if d.Failed(path) {
		return
	}
	d.failed[path] = true
	d.add(FieldError{Line: line, Col: col, Path: path, Msg: msg, Hint: hint})
}

// Failed says whether the value at path, or one around it, already has a mistake
// of its own.
func (d *Document) Failed(path string) bool {
	for {
		if d.failed[path] {
			return true
		}
		if path == "" {
			return false
		}
		path = parent(path)
	}
}

// FailedIn is Failed, and true also when something inside the value has a mistake.
func (d *Document) FailedIn(path string) bool {
	if d.Failed(path) {
		return true
	}
	for p := range d.failed {
		if Inside(p, path) {
			return true
		}
	}
	return false
}

// FailedPaths lists the paths that have a mistake of their own, sorted.
func (d *Document) FailedPaths() []string { return slices.Sorted(maps.Keys(d.failed)) }

// Excuse keeps silent about the value at path: it is set elsewhere.
func (d *Document) Excuse(path string) { d.failed[path] = true }

// Err returns all mistakes in the order of the file as FieldErrors, or nil.
func (d *Document) Err() error { return d.errs.Sort().Err() }

func (d *Document) failNode(n *yaml.Node, path, msg, hint string) {
	d.failed[path] = true
	d.add(FieldError{Line: n.Line, Col: n.Column, Path: path, Msg: msg, Hint: hint})
}

// maxMistakes bounds what is shown of one file. A file with more of them has one
// that is behind most of the others.
const maxMistakes = 500

func (d *Document) add(e FieldError) {
	if len(d.errs) >= maxMistakes {
		if len(d.errs) > maxMistakes {
			return
		}
		e = FieldError{Line: e.Line, Col: e.Col, Msg: fmt.Sprintf("there are more than %d mistakes; the others are not shown", maxMistakes)}
	}
	e.File = d.src.file
	e.Line, e.Col = d.src.clamp(e.Line, e.Col)
	e.Snippet = d.src.snippet(e.Line, e.Col)
	d.errs = append(d.errs, e)
}
