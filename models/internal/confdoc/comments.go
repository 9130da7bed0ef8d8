// Package confdoc makes the JSON Schemas and the reference documentation of the
// files a user writes, from the Go types that they are read into: keys and
// rules from the types, meanings from the comments in their source.
package confdoc

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// Comments are the comments of struct types and of their fields.
type Comments map[string]map[string]string // package path.type → field ("" for the type) → text

// Add reads the comments of one Go file of a package.
func (c Comments) Add(pkg, file string, source []byte) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			st, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			doc := t.Doc
			if doc == nil {
				doc = g.Doc
			}
			c[pkg+"."+t.Name.Name] = fieldComments(st, doc.Text())
		}
	}
	return nil
}

// fieldComments collects the comments of a struct's fields. A field without one
// shares that of the field before it when it is named there.
func fieldComments(st *ast.StructType, doc string) map[string]string {
	out := map[string]string{"": oneLine(doc)}
	last := ""
	for _, f := range st.Fields.List {
		text := oneLine(f.Doc.Text())
		if text == "" {
			text = oneLine(f.Comment.Text())
		}
		for _, name := range f.Names {
			if text == "" && regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(last) {
				text = last
			}
			out[name.Name] = text
		}
		if text != "" {
			last = text
		}
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// field is one key with its meaning.
type field struct {
	yamlx.Field
	meaning string
}

// fields lists the keys of a struct type with their meanings. Go names in the
// comments are replaced by the keys that they stand for.
func (c Comments) fields(t reflect.Type, quote func(string) string) []field {
	var out []field
	for _, f := range yamlx.Fields(t) {
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		name := owner.Field(f.Index[len(f.Index)-1]).Name
		meaning := c.text(owner, name, quote)
		if inner := structOf(f.Type); meaning == "" && inner != nil {
			meaning = c.about(inner, f.Key, quote)
		}
		out = append(out, field{Field: f, meaning: meaning})
	}
	return out
}

// structOf returns the struct that values of t hold, or nil.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || yamlx.HasTextForm(t) {
		return nil
	}
	return t
}

// about returns the comment of a struct type, with the name that the type has
// in a file.
func (c Comments) about(t reflect.Type, key string, quote func(string) string) string {
	text := c.text(t, "", quote)
	if rest, ok := strings.CutPrefix(text, t.Name()+" "); ok && key != "" {
		return quote(key) + " " + rest
	}
	return text
}

// text returns a comment with the struct's Go names turned into keys.
func (c Comments) text(t reflect.Type, name string, quote func(string) string) string {
	text := c[t.PkgPath()+"."+t.Name()][name]
	keys := map[string]string{}
	for _, f := range yamlx.Fields(t) {
		keys[t.FieldByIndex(f.Index).Name] = f.Key
	}
	text = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`).ReplaceAllStringFunc(text, func(word string) string {
		if key, ok := keys[word]; ok {
			return quote(key)
		}
		return word
	})
	return text
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	if s = string(r); !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// Unexplained lists the keys below struct type t that no comment explains, as
// Type.Field.
func Unexplained(t reflect.Type, c Comments) []string {
	var out []string
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if t = structOf(t); t == nil || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range c.fields(t, code) {
			if f.meaning == "" {
				out = append(out, t.Name()+"."+f.Key)
			}
			walk(f.Type)
		}
	}
	walk(t)
	return out
}
