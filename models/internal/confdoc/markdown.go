package confdoc

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// Reference returns tables of all keys of documents that are read into the
// struct that defaults points to, one for each section, as Markdown. Values of
// defaults that are not zero are shown as defaults.
func Reference(defaults any, comments Comments, formats map[string]yamlx.Format) string {
	m := &markdown{comments: comments, formats: formats, seen: map[reflect.Type]string{}}
	m.section("", reflect.ValueOf(defaults).Elem())
	return m.b.String()
}

type markdown struct {
	comments Comments
	formats  map[string]yamlx.Format
	b        strings.Builder
	// seen are types that have a table already, with the path they stand at.
	seen map[reflect.Type]string
}

func code(s string) string { return "`" + s + "`" }

// section writes the table of one struct and then those of the structs in it.
func (m *markdown) section(path string, v reflect.Value) {
	t := v.Type()
	m.seen[t] = path
	if path != "" {
		fmt.Fprintf(&m.b, "### %s\n\n%s\n\n", code(path), escape(sentence(m.comments.about(t, path, code))))
	}
	m.b.WriteString("| Key | Value | Default | Meaning |\n|---|---|---|---|\n")
	type inner struct {
		path  string
		value reflect.Value
	}
	var later []inner
	last := ""
	for _, f := range m.comments.fields(t, code) {
		value := v.FieldByIndex(f.Index)
		at := yamlx.Key(path, f.Key)
		kind, innerType, innerAt := m.kind(f.Type, f.Rules, at)
		fmt.Fprintf(&m.b, "| %s | %s | %s | %s |\n", code(f.Key), escape(kind), escape(m.standard(f, value)), escape(meaning(f, last)))
		last = f.meaning
		if innerType == nil || m.seen[innerType] != "" {
			continue
		}
		m.seen[innerType] = innerAt
		for value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		if value.Type() != innerType {
			value = reflect.New(innerType).Elem()
		}
		later = append(later, inner{innerAt, value})
	}
	m.b.WriteString("\n")
	for _, l := range later {
		m.section(l.path, l.value)
	}
}

// meaning is what a table says of a key; last is the meaning of the key above.
func meaning(f field, last string) string {
	if f.meaning == last {
		return "See above."
	}
	return sentence(f.meaning)
}

// kind says in words what a value of type t is. When it has keys of its own,
// their struct and its path come with it.
func (m *markdown) kind(t reflect.Type, r yamlx.Rules, at string) (text string, inner reflect.Type, innerAt string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[models.Bool]():
		return "true or false", nil, ""
	case reflect.TypeFor[models.Duration]():
		return "time: `90s`, `45m`, `8h`, `08:00:00`", nil, ""
	case reflect.TypeFor[models.IntList]():
		return "whole numbers: `[8, 16]`, `8x16` or `8`", nil, ""
	case reflect.TypeFor[models.EnvMap]():
		return "mapping of variables: `NAME: value`, or `NAME: {value: …, custom: true}`", nil, ""
	case reflect.TypeFor[models.Scalar]():
		return "value of the key", nil, ""
	}
	switch t.Kind() {
	case reflect.Struct:
		if yamlx.HasTextForm(t) {
			return "text", nil, ""
		}
		if other := m.seen[t]; other != "" && other != at {
			return "keys as of " + code(other), nil, ""
		}
		return "keys, see " + code(at), t, at
	case reflect.Map:
		text, inner, innerAt = m.kind(t.Elem(), r, at+".*")
		return "mapping: " + text, inner, innerAt
	case reflect.Slice:
		text, inner, innerAt = m.kind(t.Elem(), r, at+"[]")
		if yamlx.HasTextForm(t) {
			return "one or a list of: " + text, inner, innerAt
		}
		return "list: " + text, inner, innerAt
	case reflect.String:
		return m.text(r), nil, ""
	case reflect.Bool:
		return "true or false", nil, ""
	case reflect.Float32, reflect.Float64:
		return "number", nil, ""
	}
	switch {
	case r.Min != nil && r.Max != nil:
		return fmt.Sprintf("whole number, %d to %d", *r.Min, *r.Max), nil, ""
	case r.Min != nil:
		return fmt.Sprintf("whole number, at least %d", *r.Min), nil, ""
	}
	return "whole number", nil, ""
}

func (m *markdown) text(r yamlx.Rules) string {
	switch {
	case len(r.Enum) > 0:
		quoted := make([]string, len(r.Enum))
		for i, e := range r.Enum {
			quoted[i] = code(e)
		}
		return strings.Join(quoted, ", ")
	case r.Is != "":
		return m.formats[r.Is].Doc
	}
	return "text"
}

// standard is the default of a key.
func (m *markdown) standard(f field, v reflect.Value) string {
	if f.Rules.Required {
		return "must be set"
	}
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return ""
	}
	if v.IsZero() && f.Type.Kind() != reflect.Pointer {
		return ""
	}
	text := fmt.Sprint(v.Interface())
	if _, ok := v.Interface().(models.Duration); ok {
		text = regexp.MustCompile(`([hm])(0m)?0s$`).ReplaceAllString(text, "$1") // 8h0m0s
	}
	return code(text)
}

// escape makes a text safe inside a table, but keeps code as it is.
func escape(s string) string {
	parts := strings.Split(s, "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", "\\*", "_", "\\_").Replace(parts[i])
		}
		parts[i] = strings.ReplaceAll(parts[i], "|", "\\|")
	}
	return strings.Join(parts, "`")
}
