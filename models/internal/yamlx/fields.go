package yamlx

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
)

// Field is one key of a struct.
type Field struct {
	// Key is the name in YAML.
	Key string
	// Index leads to the field (reflect.Value.FieldByIndex).
	Index []int
	Type  reflect.Type
	Rules Rules
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
			rules := rulesOf(f.Tag)
			rules.Required = options != "omitempty"
			out = append(out, Field{Key: name, Index: []int{i}, Type: f.Type, Rules: rules})
		}
	}
	return out
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// HasTextForm says whether values of t are read from one scalar by their own
// UnmarshalText.
func HasTextForm(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

// Lookup finds the field that a path of keys leads to, starting at struct type
// t. A key inside a map counts as the map's field, with the map's item type.
func Lookup(t reflect.Type, path []string) (Field, bool) {
	for i, key := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		var f Field
		switch t.Kind() {
		case reflect.Struct:
			fields := Fields(t)
			at := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key })
			if at < 0 {
				return Field{}, false
			}
			f = fields[at]
		case reflect.Map:
			f = Field{Key: key, Type: t.Elem()}
		default:
			return Field{}, false
		}
		if i == len(path)-1 {
			return f, true
		}
		t = f.Type
	}
	return Field{}, false
}

// IsScalar says whether values of t are written as one scalar.
func IsScalar(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return HasTextForm(t)
	}
	return true
}

// Paths lists the paths of all scalar keys below struct type t, without those
// inside lists and maps.
func Paths(t reflect.Type) []string {
	var out []string
	for _, f := range Fields(t) {
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case IsScalar(inner):
			out = append(out, f.Key)
		case inner.Kind() == reflect.Struct:
			for _, p := range Paths(inner) {
				out = append(out, f.Key+"."+p)
			}
		}
	}
	return out
}

// places returns the paths, below struct type t, of keys with the given name.
func places(t reflect.Type, key, path string) []string {
	var out []string
	for _, f := range Fields(t) {
		at := Key(path, f.Key)
		if f.Key == key {
			out = append(out, at)
		}
		inner := f.Type
		for {
			switch inner.Kind() {
			case reflect.Slice:
				at += "[]"
			case reflect.Map:
				at += ".*"
			}
			if k := inner.Kind(); k != reflect.Pointer && k != reflect.Slice && k != reflect.Map {
				break
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			out = append(out, places(inner, key, at)...)
		}
	}
	return out
}
