package yamlx

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	nullTag  = "!!null"
	mergeTag = "!!merge"
)

// form is what a document as a whole must be.
type form struct {
	list string // not a mapping but a list, to be read under this key
	hint string // what an empty file needs
}

// ourForm is that of this project's files.
func ourForm() form { return form{hint: "write at least apiVersion, kind and name"} }

// parse returns the mapping that the document is, or nil after reporting why
// there is none.
func (d *Document) parse(data []byte, f form) *yaml.Node {
	if !utf8.Valid(data) {
		line, col := d.firstBad(func(r rune, n int) bool { return r == utf8.RuneError && n == 1 })
		d.add(FieldError{Line: line, Col: col, Msg: "the file is not UTF-8 text", Hint: "save it as UTF-8"})
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.add(FieldError{Line: 1, Col: 1, Msg: "the file is empty", Hint: f.hint})
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return nil
	default:
		d.add(FieldError{Line: second.Line, Col: second.Column,
			Msg: "a second document starts here", Hint: "one file holds one document; put the second into a file of its own"})
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.ShortTag() == nullTag:
		d.add(FieldError{Line: root.Line, Col: root.Column, Msg: "the file is empty", Hint: f.hint})
		return nil
	case f.list != "" && root.Kind != yaml.SequenceNode:
		d.add(FieldError{Line: root.Line, Col: root.Column, Msg: "the file is " + kindName(root) + ", a list (- item) was expected"})
		return nil
	case f.list != "":
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f.list, Line: root.Line, Column: root.Column}
		root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{key, root}, Line: root.Line, Column: root.Column}
	case root.Kind != yaml.MappingNode:
		d.add(FieldError{Line: root.Line, Col: root.Column, Msg: "the file is " + kindName(root) + ", a mapping (key: value) was expected"})
		return nil
	}
	d.Positions[""] = Position{File: d.src.file, Line: root.Line, Col: root.Column}
	return root
}

// syntaxHints say what usually is behind a message of the YAML library.
var syntaxHints = []struct{ part, text, hint string }{
	{"tab character that violates indentation", "a tab is used for indentation", "indent with spaces; YAML does not allow tabs there"},
	{"cannot start any token", "a value cannot begin with this character", "put the value in quotes"},
	{"mapping values are not allowed", "a key is not expected here", "put a value that contains \": \" in quotes, or check the indentation of this line and of the one before"},
	{"did not find expected key", "this line does not fit the lines before it", "indent it like its neighbours, or close the quote or bracket that is open before it"},
	{"could not find expected ':'", "a key without \": \" after it", "write \"key: value\"; check the quotes and the indentation of this line"},
	{"did not find expected ',' or", "the bracket is not closed, or a comma is missing", "close the list or mapping, or write it one item a line"},
	{"did not find expected node content", "a value is missing, or a bracket is not closed", "write the value, or close the list or mapping; put a text that begins with one of , [ ] { } in quotes"},
	{"did not find expected '-' indicator", "this line is not an item of the list before it", "begin it with \"- \", or indent it like the key that it belongs beside"},
	{"block sequence entries are not allowed", "a list item is not expected here", "put the list on the lines after its key"},
	{"found unexpected end of stream", "the quote is not closed", "close it, or double a quote that belongs to the text"},
	{"found unknown escape character", "an unknown escape in a double-quoted text", "write \\\\ for a backslash, or use single quotes"},
	{"unknown anchor", "an alias to an anchor that the file does not define", "define it before its use with &name, or write the value out; a text that begins with * needs quotes"},
	{"control characters are not allowed", "a control character", "remove it, or write it as an escape in a double-quoted text"},
}

var lineOfError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?((?s).*)$`)

func splitError(err error) (line int, msg string) {
	m := lineOfError.FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1])
	return line, m[2]
}

// syntax reports an error of the YAML library. The library gives at best the
// line where the construct began; the place is looked for where that is known
// to mislead.
func (d *Document) syntax(err error) {
	line, msg := splitError(err)
	col := 0
	e := FieldError{Msg: "not valid YAML: " + msg}
	for _, h := range syntaxHints {
		if strings.Contains(msg, h.part) {
			e.Msg, e.Hint = "not valid YAML: "+h.text+" ("+msg+")", h.hint
			break
		}
	}
	switch {
	case strings.HasPrefix(msg, "did not find expected"):
		line = d.firstFailing(msg)
	case strings.Contains(msg, "control characters"):
		line, col = d.firstBad(func(r rune, _ int) bool {
			return r < ' ' && r != '\t' || 0x7f <= r && r < 0xa0 || r == 0xfffe || r == 0xffff
		})
	case strings.HasPrefix(msg, "unknown anchor"):
		if _, name, ok := strings.Cut(msg, "'"); ok {
			line, col = d.find("*" + strings.TrimSuffix(name, "' referenced"))
		}
	}
	line, _ = d.src.clamp(line, 1)
	for i := line - 1; strings.Contains(msg, "tab character") && i < len(d.src.lines); i++ {
		if strings.Contains(indentOf(d.src.lines[i]), "\t") {
			line = i + 1
			break
		}
	}
	text := d.src.lines[line-1]
	if indent := indentOf(text); strings.Contains(indent, "\t") {
		e.Msg, e.Hint = "not valid YAML: a tab is used for indentation", "indent with spaces; YAML does not allow tabs there"
		col = strings.Index(indent, "\t") + 1
	} else if col == 0 {
		col = len(indent) + 1
	}
	if m := bareWord.FindString(text); m != "" && strings.HasPrefix(msg, "did not find expected") {
		e.Hint = "put the whole text that " + m + " is part of in quotes; or " + e.Hint
	}
	e.Line, e.Col = line, col
	d.add(e)
}

// bareWord is a word in braces, which YAML reads as a mapping where no quotes
// are around it.
var bareWord = regexp.MustCompile(`\{[A-Za-z_]+\}`)

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// firstFailing returns the line after which the text cannot be read any more:
// a text that ends before it does not have the error.
func (d *Document) firstFailing(msg string) int {
	return 1 + sort.Search(len(d.src.lines)-1, func(i int) bool {
		var n yaml.Node
		err := yaml.Unmarshal([]byte(strings.Join(d.src.lines[:i+1], "\n")+"\n"), &n)
		if err == nil {
			return false
		}
		_, m := splitError(err)
		return m == msg
	})
}

// firstBad returns the place of the first character for which bad is true.
func (d *Document) firstBad(bad func(r rune, width int) bool) (line, col int) {
	for i, l := range d.src.lines {
		for c := 1; l != ""; c++ {
			r, n := utf8.DecodeRuneInString(l)
			if bad(r, n) {
				return i + 1, c
			}
			l = l[n:]
		}
	}
	return 1, 1
}

// find returns the place of the first occurrence of text.
func (d *Document) find(text string) (line, col int) {
	for i, l := range d.src.lines {
		if at := strings.Index(l, text); at >= 0 {
			return i + 1, utf8.RuneCountInString(l[:at]) + 1
		}
	}
	return 1, 1
}
