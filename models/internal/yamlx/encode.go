package yamlx

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Plainer is a value that may be written as one scalar without saying of which
// type: it takes the type of the place where it is read. ok is false when the
// value needs its keys.
type Plainer interface {
	Plain() (text string, ok bool)
}

// Encode writes the struct v as Decode reads it: its keys in the order of their
// declaration, without those that have nothing. Notes are
// comments by the key path that they stand above; the one of the empty path
// begins the file. Lists of numbers, and those that have a form of one scalar,
// stand on one line.
func Encode(v any, notes map[string]string) ([]byte, error) {
	e := encoder{notes: notes}
	root, err := e.node("", reflect.ValueOf(v))
	if err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}, HeadComment: comment(notes[""])}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	return b.Bytes(), enc.Close()
}

type encoder struct{ notes map[string]string }

// comment makes each line of a text one of a comment. What cannot stand in one,
// or would end its line, is shown as such.
func comment(text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return unicode.ReplacementChar
			}
			return r
		}, l)
		lines[i] = l
		if !strings.HasPrefix(l, "#") {
			lines[i] = strings.TrimRight("# "+l, " ")
		}
	}
	return strings.Join(lines, "\n")
}

// node makes the node of a value, whose path is needed for notes.
func (e encoder) node(path string, v reflect.Value) (*yaml.Node, error) {
	n, err := e.bare(path, v)
	if err == nil && !utf8.ValidString(n.Value) {
		err = fmt.Errorf("%s is not UTF-8 text", path)
	}
	return n, err
}

func (e encoder) bare(path string, v reflect.Value) (*yaml.Node, error) {
	if p, ok := v.Interface().(Plainer); ok {
		if text, ok := p.Plain(); ok {
			return plain(text), nil
		}
	}
	if t, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() != reflect.Pointer {
		text, err := t.MarshalText()
		return plain(string(text)), err
	}
	switch v.Kind() {
	case reflect.Pointer:
		return e.node(path, v.Elem())
	case reflect.Struct:
		return e.structure(path, v)
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range sortedKeys(v) {
			if err := e.pair(n, path, k.String(), v.MapIndex(k)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.String || HasTextForm(v.Type()) || HasTextForm(v.Type().Elem()) {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			item, err := e.node(Index(path, i), v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	case reflect.String:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.String()}, nil
	case reflect.Bool:
		return plain(strconv.FormatBool(v.Bool())), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return plain(strconv.FormatInt(v.Int(), 10)), nil
	}
	return nil, fmt.Errorf("%s: a %s cannot be written", path, v.Type())
}

func (e encoder) structure(path string, v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if HasTextForm(v.Type()) {
		n.Style = yaml.FlowStyle // it is small enough for a scalar otherwise
	}
	for _, f := range Fields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		if nothing(value) && (!f.Rules.Required || missing(value)) {
			continue
		}
		if err := e.pair(n, path, f.Key, value); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (e encoder) pair(n *yaml.Node, path, key string, value reflect.Value) error {
	at := Key(path, key)
	item, err := e.node(at, value)
	if err == nil && !utf8.ValidString(key) {
		err = fmt.Errorf("%s is a key that is not UTF-8 text", at)
	}
	if err != nil {
		return err
	}
	k := plain(key)
	k.Tag, k.HeadComment = "!!str", comment(e.notes[at])
	n.Content = append(n.Content, k, item)
	return nil
}

// nothing says whether a key that may be left out says nothing: it is zero, or
// has only keys that are.
func nothing(v reflect.Value) bool {
	if v.Kind() == reflect.Struct {
		for _, f := range Fields(v.Type()) {
			if !nothing(v.FieldByIndex(f.Index)) {
				return false
			}
		}
		return true
	}
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// missing says whether a value is no value at all, so that writing it would make
// the file wrong in another way.
func missing(v reflect.Value) bool {
	k := v.Kind()
	return (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) && v.IsNil()
}

// plain is a scalar without quotes when its text is a number or a boolean, and
// a text, quoted where it must be, when it is not.
func plain(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool":
		n.Tag = n.ShortTag()
	default:
		n.Tag = "!!str"
	}
	return n
}
