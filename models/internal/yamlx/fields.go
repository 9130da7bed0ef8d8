package yamlx

import (
	"encoding"
	"reflect"
	"strings"
)

// Field is one key of a struct.
type Field struct {
	// Key is the name in YAML.
	Key string
	// Index leads to the field (reflect.Value.FieldByIndex).
	Index []int
	Type  reflect.Type
	// Omitempty says that the key may be left out.
	Omitempty bool
}

// Fields returns the keys of struct type t in the order of its declaration: the
// exported fields with a yaml tag, and those of embedded structs without one.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("yaml")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct:
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				out = append(out, inner)
			}
		case f.IsExported() && name != "" && name != "-":
			out = append(out, Field{Key: name, Index: []int{i}, Type: f.Type, Omitempty: options == "omitempty"})
		}
	}
	return out
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// HasTextForm says whether values of t are read from one scalar by their own
// UnmarshalText.
func HasTextForm(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

// places returns the paths, below struct type t, of keys with the given name.
func places(t reflect.Type, key, path string) []string {
	var out []string
	for _, f := range Fields(t) {
		at := Key(path, f.Key)
		if f.Key == key {
			out = append(out, at)
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				at += "[]"
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			out = append(out, places(inner, key, at)...)
		}
	}
	return out
}
