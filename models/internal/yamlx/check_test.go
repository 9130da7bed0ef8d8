package yamlx

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type ruled struct {
	Name   string                `yaml:"name" is:"lower"`
	Size   int                   `yaml:"size,omitempty" min:"1" max:"8"`
	Mode   string                `yaml:"mode,omitempty" enum:"one|two"`
	Maybe  *int                  `yaml:"maybe,omitempty" min:"0"`
	List   []string              `yaml:"list,omitempty" is:"lower" items:"some set"`
	Map    map[string]string     `yaml:"map,omitempty" keys:"lower" enum:"one|two"`
	Inner  *innerRuled           `yaml:"inner,omitempty"`
	Inners map[string]innerRuled `yaml:"inners,omitempty"`
}

type innerRuled struct {
	Size int   `yaml:"size" min:"1"`
	Deep *deep `yaml:"deep,omitempty"`
}

type deep struct {
	Text pair `yaml:"text,omitempty"`
}

func lower() map[string]Format {
	return map[string]Format{"lower": {Doc: "small letters", Check: func(s string) error {
		switch {
		case s == "bad":
			return errors.New("bad is bad")
		case s != strings.ToLower(s):
			return ErrForm
		}
		return nil
	}}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"name: a\nsize: 8\nmode: one\nlist: [a, b]\nmap: {a: one}\ninner: {size: 1}\n", nil},
		{"size: 1\n", []string{"1:1 name: name is missing"}},
		{"name: A\nsize: 9\nmode: tow\nmaybe: -1\n", []string{
			`1:7 name: name must be small letters, not "A"`, `2:7 size: size must be at most 8, not 9`,
			`3:7 mode: mode is "tow", it must be one of: one, two; did you mean "two"?`, `4:8 maybe: maybe must be at least 0, not -1`}},
		{"name: bad\nlist: [a, B, a]\n", []string{`1:7 name: name: bad is bad`, `2:11 list[1]: list[1] must be small letters, not "B"`,
			`2:14 list[2]: list has a twice, as item 1 and as item 3`}},
		{"name: a\nlist: []\nmap: {B: three}\n", []string{`2:7 list: list is an empty list`,
			`3:7 map.B: the key "B" in map must be small letters, not "B"`}},
		{"name: a\nmap: {a: three}\n", []string{`2:10 map.a: map.a is "three", it must be one of: one, two`}},
		{"name: a\ninner: {}\ninners: {x: {size: 0}}\n", []string{`2:1 inner.size: inner.size is missing`, `3:20 inners.x.size: inners.x.size must be at least 1, not 0`}},
		{"name: \"a\\0\"\n", []string{`1:7 name: name has a NUL character, which no argument and no variable can carry`}},
		{"name: a\nsize: nine\n", []string{`2:7 size: size: "nine" is not a whole number in decimal digits`}},
		{"naem: a\n", []string{`1:1 naem: unknown key "naem"; did you mean "name"?`}},
	} {
		var v ruled
		d := Parse("f.yaml", []byte(tt.text))
		d.Decode(&v)
		d.Check(&v, lower())
		var es FieldErrors
		if err := d.Err(); err != nil && !errors.As(err, &es) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, brief(es)); diff != "" {
			t.Errorf("%q: %s", tt.text, diff)
		}
	}
}

func TestDocumentWithAnotherValue(t *testing.T) {
	t.Parallel()
	d := Parse("f.yaml", []byte("name: a\nsize: &s 3\ninner: {size: 2}\nlist: [x, 7]\n"))
	var v ruled
	d.Decode(&v)
	if _, ok := d.Value("list", 0, "key", 0); ok {
		t.Error("a text has items")
	}
	next := d.With([]string{"inner", "size"}, Text("5", d.Positions.Near("inner.size"))).
		With([]string{"inner", "deep", "text"}, Text("", Position{Line: 1, Col: 1})).
		With([]string{"mode"}, Text("two", Position{Line: 1, Col: 1})).Without("list")
	var got ruled
	next.Decode(&got)
	if err := next.Err(); err != nil {
		t.Fatal(err)
	}
	if got.Inner.Size != 5 || got.Inner.Deep == nil || got.Mode != "two" || got.List != nil || got.Size != 3 || v.Inner.Size != 2 {
		t.Errorf("%+v, inner %+v, before %+v", got, got.Inner, v.Inner)
	}
	if at := next.Positions.At("inner.size"); at != "f.yaml:3:15" {
		t.Errorf("inner.size at %s", at)
	}
	var again ruled
	same := Parse("f.yaml", []byte("name: a\nsize: 3\n"))
	same.Decode(&again)
	if same.Err() != nil || again.Inner != nil {
		t.Error("the document itself has changed")
	}
}

func TestPathsAndLookup(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[ruled]()
	if got, want := Paths(typ), []string{"name", "size", "mode", "maybe", "inner.size", "inner.deep.text"}; !slices.Equal(got, want) {
		t.Errorf("Paths = %v, want %v", got, want)
	}
	for path, want := range map[string]reflect.Type{
		"inner.size": reflect.TypeFor[int](), "map.any": reflect.TypeFor[string](), "inners.x.size": reflect.TypeFor[int](),
		"list": reflect.TypeFor[[]string](), "inner.sizes": nil, "name.x": nil, "list.x": nil, "": nil,
	} {
		f, ok := Lookup(typ, strings.Split(path, "."))
		if ok != (want != nil) || ok && f.Type != want {
			t.Errorf("Lookup(%s) = %v, %t, want %v", path, f.Type, ok, want)
		}
	}
}

func TestSnippetsHideSecrets(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"env: {HF_TOKEN: hunter2, A: b}":     "env: {HF_TOKEN: …",
		"  MODAL_TOKEN_SECRET: 'hunter2'":    "  MODAL_TOKEN_SECRET: …",
		"\"API_KEY\" : hunter2":              "\"API_KEY\" : …",
		"url: http://me:hunter2@host/":       "url: http://…",
		"- key: prefill.tp":                  "- key: prefill.tp",
		"tokens: 3":                          "tokens: 3",
		"image: registry.example.org:5000/x": "image: registry.example.org:5000/x",
		"url: http://host:8000/x":            "url: http://host:8000/x",
	} {
		s := newSource("f", []byte(line))
		if got, _, _ := strings.Cut(s.snippet(1, 3), "\n"); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
}
