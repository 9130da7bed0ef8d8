package yamlx

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Texts returns what stands under each top-level key, written so that two texts
// are equal when the values are: without comments, styles and anchors.
func (d *Document) Texts() map[string]string {
	out := map[string]string{}
	if d.root == nil {
		return out
	}
	left := maxValues
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		var b strings.Builder
		canonical(&b, d.root.Content[i+1], &left)
		out[d.root.Content[i].Value] = b.String()
	}
	return out
}

// canonical writes a node; left bounds how many, since aliases can multiply.
func canonical(b *strings.Builder, n *yaml.Node, left *int) {
	if *left--; *left < 0 {
		return
	}
	switch n = follow(n); n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		open := map[yaml.Kind]string{yaml.MappingNode: "{}", yaml.SequenceNode: "[]"}[n.Kind]
		b.WriteByte(open[0])
		for _, c := range n.Content {
			canonical(b, c, left)
			b.WriteByte(',')
		}
		b.WriteByte(open[1])
	default:
		b.WriteString(n.ShortTag())
		b.WriteString(strconv.Quote(n.Value))
	}
}

// Any is a value that is read without being looked at: only its place is kept.
type Any struct{}
