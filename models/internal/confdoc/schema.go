package confdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// object is a JSON object whose keys keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(m.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schema builds one JSON Schema.
type schema struct {
	comments Comments
	formats  map[string]yamlx.Format
	defs     object
	done     map[reflect.Type]string // type → name of its definition
	names    map[string]bool
}

// Schema returns the JSON Schema (draft 2020-12) of documents that are read into
// struct type t.
func Schema(t reflect.Type, title string, comments Comments, formats map[string]yamlx.Format) ([]byte, error) {
	s := &schema{comments: comments, formats: formats, done: map[reflect.Type]string{}, names: map[string]bool{}}
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", title},
	}
	root = append(root, s.structure(t, "")...)
	root = append(root, member{"$defs", s.defs})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return b.Bytes(), nil
}

// structure is the schema of a struct, without a reference to it.
func (s *schema) structure(t reflect.Type, key string) object {
	properties := object{}
	required := []string{}
	for _, f := range s.comments.fields(t, code) {
		o := object{{"description", sentence(f.meaning)}}
		properties = append(properties, member{f.Key, append(o, s.value(f.Type, f.Rules)...)})
		if f.Rules.Required {
			required = append(required, f.Key)
		}
	}
	return object{
		{"description", sentence(s.comments.about(t, key, code))},
		{"type", "object"},
		{"additionalProperties", false},
		{"required", required},
		{"properties", properties},
	}
}

// scalar is what the reader takes as a text: numbers and booleans as written.
func scalar() any { return []string{"string", "number", "boolean"} }

// value is the schema of a value of type t under the rules of its field.
func (s *schema) value(t reflect.Type, r yamlx.Rules) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[models.Bool]():
		return object{{"enum", []any{true, false, 1, 0, "true", "false", "yes", "no", "on", "off"}}}
	case reflect.TypeFor[models.Duration]():
		return object{{"type", []string{"string", "integer"}}, {"minimum", 0}, {"pattern", `^([0-9]+|([0-9]+-)?[0-9]+:[0-9]{2}:[0-9]{2}|([0-9.]+(ns|us|µs|ms|s|m|h))+)$`}}
	case reflect.TypeFor[models.IntList]():
		return object{{"anyOf", []any{
			s.list(t, r),
			object{{"type", "integer"}, {"minimum", 1}},
			object{{"type", "string"}, {"pattern", `^[0-9]+([xX, \t]+[0-9]+)*$`}},
		}}}
	}
	switch t.Kind() {
	case reflect.Struct:
		ref := object{{"$ref", "#/$defs/" + s.define(t)}}
		if yamlx.HasTextForm(t) {
			return object{{"anyOf", []any{object{{"type", scalar()}}, ref}}}
		}
		return ref
	case reflect.Map:
		o := object{{"type", "object"}}
		if f := s.formats[r.Keys]; f.Pattern != "" {
			o = append(o, member{"propertyNames", object{{"pattern", f.Pattern}}})
		}
		return append(o, member{"additionalProperties", s.value(t.Elem(), r)})
	case reflect.Slice:
		if yamlx.HasTextForm(t) {
			return object{{"anyOf", []any{s.list(t, r), object{{"type", scalar()}}}}}
		}
		return s.list(t, r)
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Float32, reflect.Float64:
		return object{{"type", "number"}}
	case reflect.String:
		if len(r.Enum) > 0 {
			return object{{"enum", r.Enum}}
		}
		o := object{{"type", scalar()}}
		if f := s.formats[r.Is]; f.Pattern != "" {
			o = append(o, member{"pattern", f.Pattern})
		}
		return o
	}
	if yamlx.HasTextForm(t) {
		return object{{"type", scalar()}}
	}
	o := object{{"type", "integer"}}
	if r.Min != nil {
		o = append(o, member{"minimum", *r.Min})
	}
	if r.Max != nil {
		o = append(o, member{"maximum", *r.Max})
	}
	return o
}

func (s *schema) list(t reflect.Type, r yamlx.Rules) object {
	o := object{{"type", "array"}}
	if r.NotEmpty {
		o = append(o, member{"minItems", 1})
	}
	if r.Unique {
		o = append(o, member{"uniqueItems", true})
	}
	return append(o, member{"items", s.value(t.Elem(), r)})
}

// define makes the definition of a struct type and returns its name.
func (s *schema) define(t reflect.Type) string {
	if name, ok := s.done[t]; ok {
		return name
	}
	name := t.Name()
	if s.names[name] {
		// Two packages have a type of this name.
		pkg := t.PkgPath()
		name = pkg[strings.LastIndex(pkg, "/")+1:] + name
	}
	s.names[name], s.done[t] = true, name
	s.defs = append(s.defs, member{name, nil})
	at := len(s.defs) - 1
	s.defs[at].value = s.structure(t, name)
	return name
}
