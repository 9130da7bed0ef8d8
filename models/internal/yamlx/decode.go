package yamlx

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxValues bounds what is read of one file. Aliases can multiply a small file
// beyond all memory; real files stay far below.
const maxValues = 200_000

// value reads node n into v.
func (d *Document) value(path string, n *yaml.Node, v reflect.Value) {
	if d.values++; d.values >= maxValues {
		if d.values == maxValues {
			d.failNode(n, path, fmt.Sprintf("the file has more than %d values, aliases counted", maxValues), "split it, or write fewer aliases")
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.place(path, n)
	if !coreTag(n) {
		d.failNode(n, path, fmt.Sprintf("the tag %s is not supported", n.Tag), "remove the tag")
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == nullTag {
		hint := "write the value, or remove the key"
		if v.Kind() == reflect.String || HasTextForm(v.Type()) {
			hint = `write the value ("" for an empty one), or remove the key`
		}
		d.failNode(n, path, label(path)+" has no value", hint)
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[Any]():
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(path, n, p.Elem())
		v.Set(p)
	case n.Kind == yaml.ScalarNode && HasTextForm(v.Type()):
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value)); err != nil {
			d.failNode(n, path, label(path)+": "+err.Error(), "")
		}
	case v.Kind() == reflect.Struct:
		d.structure(path, n, v)
	case v.Kind() == reflect.Map:
		d.mapping(path, n, v)
	case v.Kind() == reflect.Slice:
		d.list(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

func (d *Document) place(path string, n *yaml.Node) {
	p := d.Positions[path]
	p.File = d.src.file
	p.Line, p.Col = d.src.clamp(n.Line, n.Column)
	d.Positions[path] = p
}

// pairs calls f for each key of a mapping once; keys that are not plain text,
// come twice or merge another mapping are reported.
func (d *Document) pairs(path string, n *yaml.Node, f func(key *yaml.Node, at string, value *yaml.Node)) {
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		at := Key(path, k.Value)
		switch {
		case k.Kind == yaml.ScalarNode && k.ShortTag() == mergeTag:
			d.failNode(k, at, "merge keys are not supported", "write the keys out; what all workers share can stand at the top level")
			continue
		case k.Kind != yaml.ScalarNode || k.ShortTag() == nullTag || !coreTag(k):
			d.add(FieldError{Line: k.Line, Col: k.Column, Path: path, Msg: "a key must be plain text, not " + kindName(k)})
			continue
		case first[k.Value] != nil:
			p := first[k.Value]
			d.failNode(k, at, fmt.Sprintf("the key %q is here a second time; the first is at %s",
				shorten(k.Value), Position{File: d.src.file, Line: p.Line, Col: p.Column}), "keep one of them")
			continue
		}
		first[k.Value] = k
		line, col := d.src.clamp(k.Line, k.Column)
		d.Positions[at] = Position{File: d.src.file, KeyLine: line, KeyCol: col}
		f(k, at, val)
	}
}

func (d *Document) structure(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		want := "a mapping (key: value)"
		if HasTextForm(v.Type()) {
			want = textOrMapping
		}
		d.wrongKind(path, n, want)
		return
	}
	if _, ok := bracedWord(n); ok && HasTextForm(v.Type()) {
		d.wrongKind(path, n, textOrMapping)
		return
	}
	fields := Fields(v.Type())
	byKey, names := map[string]Field{}, make([]string, len(fields))
	for i, f := range fields {
		byKey[f.Key], names[i] = f, f.Key
	}
	d.pairs(path, n, func(k *yaml.Node, at string, val *yaml.Node) {
		f, ok := byKey[k.Value]
		if !ok {
			delete(d.Positions, at)
			d.unknown(path, at, k, names)
			return
		}
		d.value(at, val, v.FieldByIndex(f.Index))
	})
}

// unknown reports a key that the struct does not have.
func (d *Document) unknown(path, at string, k *yaml.Node, names []string) {
	e := FieldError{Line: k.Line, Col: k.Column, Path: at, Msg: fmt.Sprintf("unknown key %q", shorten(k.Value))}
	if path != "" {
		e.Msg += " in " + path
	}
	if near := Nearest(k.Value, names); near != "" {
		e.Msg += fmt.Sprintf("; did you mean %q?", near)
		// The key that was meant is not missing; it is misspelt.
		d.failed[Key(path, near)] = true
	} else if at := d.elsewhere(k.Value); len(at) > 0 {
		e.Msg += "; it belongs at " + strings.Join(at, " or ")
	}
	e.Hint = "keys allowed here: " + strings.Join(names, ", ")
	d.failed[at] = true
	d.add(e)
}

// elsewhere returns the paths at which the document could have a key of the
// given name.
func (d *Document) elsewhere(key string) []string {
	if d.rootType.Kind() != reflect.Struct {
		return nil
	}
	return places(d.rootType, key, "")
}

func (d *Document) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wrongKind(path, n, "a mapping (name: value)")
		return
	}
	m := reflect.MakeMap(v.Type())
	d.pairs(path, n, func(k *yaml.Node, at string, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(at, val, item)
		m.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), item)
	})
	v.Set(m)
}

func (d *Document) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.wrongKind(path, n, "a list")
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d.values >= maxValues {
			break
		}
		d.value(Index(path, i), item, s.Index(i))
	}
	v.Set(s)
}

func (d *Document) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode && HasTextForm(v.Type()) {
		d.wrongKind(path, n, "one value")
		return
	}
	switch v.Kind() {
	case reflect.String:
		if n.Kind != yaml.ScalarNode {
			d.wrongKind(path, n, "a text")
			return
		}
		v.SetString(n.Value)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			d.wrongKind(path, n, wholeNumber)
			return
		}
		i, err := parseInt(n.Value, v.Type().Bits())
		if err != nil {
			d.failNode(n, path, label(path)+": "+err.Error(), "")
			return
		}
		v.SetInt(i)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
		if n.Kind != yaml.ScalarNode || err != nil || f-f != 0 {
			d.wrongKind(path, n, "a number")
			return
		}
		v.SetFloat(f)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			d.wrongKind(path, n, "true or false")
			return
		}
		v.SetBool(n.Value == "true")
	default:
		panic("yamlx: cannot decode into " + v.Type().String())
	}
}

const (
	wholeNumber   = "a whole number"
	textOrMapping = "one value or a mapping (key: value)"
)

// parseInt reads a decimal number and nothing else: a leading zero, another
// base or an underscore reads differently from one YAML version to the next.
func parseInt(s string, bits int) (int64, error) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("%q is not a whole number in decimal digits", shorten(s))
	}
	i, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s is out of range", shorten(s))
	}
	return i, nil
}

func (d *Document) wrongKind(path string, n *yaml.Node, want string) {
	hint := ""
	if want == wholeNumber && n.Kind == yaml.ScalarNode {
		if _, err := parseInt(n.Value, 64); err == nil {
			hint = "write it without quotes"
		}
	}
	if want == "a list" && n.Kind == yaml.ScalarNode {
		hint = "write [" + inList(n.Value) + "], or one item a line after \"- \""
		if strings.HasSuffix(path, "command") {
			hint = "write [" + strings.Join(each(strings.Fields(n.Value), inList), ", ") + "]: each word is an item of its own"
		}
	}
	if word, ok := bracedWord(n); ok && (want == "a text" || want == textOrMapping) {
		hint = fmt.Sprintf("write \"{%s}\" in quotes if the text is meant; without them YAML reads a mapping", word)
	}
	d.failNode(n, path, fmt.Sprintf("%s must be %s, not %s", label(path), want, kindName(n)), hint)
}

// inList writes a text so that it can be an item of a list in brackets.
func inList(text string) string {
	if text == "" || strings.ContainsAny(text, "{}[],\"'#&*!|>%@`\n") || strings.Contains(text, ": ") {
		return strconv.Quote(text)
	}
	return text
}

func each(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

// bracedWord returns the word of {word}: a mapping on one line with one key that
// has no value, which is what YAML makes of such a text without quotes.
func bracedWord(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0 || len(n.Content) != 2 {
		return "", false
	}
	k, v := n.Content[0], n.Content[1]
	plain := k.Kind == yaml.ScalarNode && k.Style == 0 && v.Kind == yaml.ScalarNode && v.ShortTag() == nullTag && v.Value == ""
	return k.Value, plain && k.Value != ""
}

// coreTag says whether n has a type that plain YAML gives.
func coreTag(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.MappingNode:
		return n.ShortTag() == "!!map"
	case yaml.SequenceNode:
		return n.ShortTag() == "!!seq"
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", nullTag, mergeTag:
		return true
	}
	return false
}

func label(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// kindName says what a node is.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case nullTag:
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return n.Value
	}
	return fmt.Sprintf("the text %q", shorten(n.Value))
}
