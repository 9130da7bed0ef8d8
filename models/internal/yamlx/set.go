package yamlx

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// Value is one value of a document, with its place.
type Value struct{ node *yaml.Node }

// Text is a value that no document holds, with the place to report for it. It
// is read as if it had been written without quotes, so that its type is that of
// the field it is put in.
func Text(s string, at Position) Value {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s, Line: at.Line, Column: at.Col}
	if s == "" {
		n.Style = yaml.DoubleQuotedStyle // an empty text, not nothing
	}
	return Value{n}
}

// Value returns the item with the given index of the list under key of the item
// with the given index of the list under the top-level key list: the shape of
// a list of axes with their values.
func (d *Document) Value(list string, i int, key string, j int) (Value, bool) {
	n := child(d.root, list)
	if n = item(n, i); n != nil {
		n = item(child(n, key), j)
	}
	return Value{n}, n != nil
}

// With returns the document with the value at path replaced or put in; mappings
// on the way to it are made as needed. The mistakes found so far stay behind.
// The path leads through mappings only.
func (d *Document) With(path []string, v Value) *Document {
	next := d.fresh()
	next.root = put(d.root, path, v.node)
	return next
}

// Without returns the document without a top-level key.
func (d *Document) Without(key string) *Document {
	next := d.fresh()
	root := *d.root
	root.Content = nil
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		if d.root.Content[i].Value != key {
			root.Content = append(root.Content, d.root.Content[i], d.root.Content[i+1])
		}
	}
	next.root = &root
	return next
}

func (d *Document) fresh() *Document {
	return &Document{src: d.src, Positions: Positions{"": d.Positions[""]}, failed: map[string]bool{}}
}

// put returns a copy of mapping m in which path leads to v. Only what is on the
// path is copied.
func put(m *yaml.Node, path []string, v *yaml.Node) *yaml.Node {
	if len(path) == 0 {
		return v
	}
	next := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: v.Line, Column: v.Column}
	if m = follow(m); m != nil && m.Kind == yaml.MappingNode {
		*next = *m
		next.Content = slices.Clone(m.Content)
	}
	for i := 0; i+1 < len(next.Content); i += 2 {
		if next.Content[i].Value == path[0] {
			next.Content[i+1] = put(next.Content[i+1], path[1:], v)
			return next
		}
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[0], Line: v.Line, Column: v.Column}
	next.Content = append(next.Content, key, put(nil, path[1:], v))
	return next
}

func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n = follow(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func item(n *yaml.Node, i int) *yaml.Node {
	if n = follow(n); n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return nil
	}
	return follow(n.Content[i])
}
