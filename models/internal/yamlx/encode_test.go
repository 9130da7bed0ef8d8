package yamlx

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type written struct {
	Kind    string            `yaml:"kind"`
	Name    string            `yaml:"name,omitempty"`
	Count   int               `yaml:"count,omitempty"`
	Zero    int               `yaml:"zero"`
	On      *bool             `yaml:"on,omitempty"`
	Numbers []int             `yaml:"numbers,omitempty"`
	Words   []string          `yaml:"words,omitempty"`
	Vars    map[string]string `yaml:"vars,omitempty"`
	Inner   inside            `yaml:"inner,omitempty"`
	Items   []inside          `yaml:"items,omitempty"`
	Share   share             `yaml:"share,omitempty"`
}

type inside struct {
	Text string `yaml:"text,omitempty"`
	Deep *int   `yaml:"deep,omitempty"`
}

// share is a value of its own text form that says so.
type share string

func (s *share) UnmarshalText(b []byte) error { *s = share(b); return nil }
func (s share) Plain() (string, bool)         { return string(s), true }

func TestEncode(t *testing.T) {
	t.Parallel()
	off, three := false, 3
	in := written{
		Kind: "true", Name: "a: b # c", On: &off, Numbers: []int{8, 16}, Words: []string{"--a b", "*x", "", "08", "null"},
		Vars: map[string]string{"B": "1", "A": "yes\nno"}, Items: []inside{{Text: "x"}, {Deep: &three}}, Share: "0.85",
	}
	data, err := Encode(&in, map[string]string{"": "# Begins.", "words": "# Why.", "items[1].deep": "# Deep."})
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Begins.

kind: "true"
name: 'a: b # c'
zero: 0
on: false
numbers: [8, 16]
# Why.
words:
  - --a b
  - '*x'
  - ""
  - "08"
  - "null"
vars:
  A: |-
    yes
    no
  B: "1"
items:
  - text: x
  - # Deep.
    deep: 3
share: 0.85
`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
	var out written
	if _, err := Decode("x.yaml", data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeRefusesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for _, v := range []written{{Name: "a\xff"}, {Vars: map[string]string{"B": "\xff"}}, {Vars: map[string]string{"\xff": ""}}, {Words: []string{"\xff"}}, {Share: "\xff"}} {
		if _, err := Encode(v, nil); err == nil || !strings.Contains(err.Error(), "not UTF-8 text") {
			t.Error(err)
		}
	}
	data, err := Encode(written{Kind: "x"}, map[string]string{"": "one\ntwo: {\xff\x00\u2028"})
	if err != nil || !strings.HasPrefix(string(data), "# one\n# two: {\ufffd\ufffd\ufffd\n\nkind: x\n") {
		t.Errorf("%q %v", data, err)
	}
	if _, err := Encode(struct {
		F float64 `yaml:"f"`
	}{1}, nil); err == nil || err.Error() != "encode YAML: f: a float64 cannot be written" {
		t.Error(err)
	}
}

func TestParseList(t *testing.T) {
	t.Parallel()
	var into struct {
		Entry []inside `yaml:"entry"`
	}
	d := ParseList("l.yaml", []byte("- text: a\n- txt: b\n"), "entry")
	d.Decode(&into)
	errs, _ := d.Err().(FieldErrors)
	if len(errs) != 1 || errs[0].Path != "entry[1].txt" || errs[0].Line != 2 || errs[0].Col != 3 {
		t.Fatalf("%v", d.Err())
	}
	if len(into.Entry) != 2 || into.Entry[0].Text != "a" {
		t.Errorf("%+v", into)
	}
	if at := d.Positions.At("entry[1]"); at != "l.yaml:2:3" {
		t.Errorf("second item at %s", at)
	}
	for text, want := range map[string]string{
		"a: 1\n": "l.yaml:1:1: the file is a mapping, a list (- item) was expected\n    a: 1\n    ^",
		"":       "l.yaml:1:1: the file is empty\n    ^",
	} {
		if err := ParseList("l.yaml", []byte(text), "entry").Err(); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseForeignIntoAMap(t *testing.T) {
	t.Parallel()
	into := map[string]struct {
		Text string `yaml:"text"`
	}{}
	d := ParseForeign("m.yaml", []byte("b-1: {text: x}\nc: {}\nb-1: {text: y}\nd.e: {other: 1, text: z}\n"))
	d.Decode(&into)
	d.Check(&into, nil)
	const want = `m.yaml:2:1: c.text is missing
    c: {}
    ^
m.yaml:3:1: the key "b-1" is here a second time; the first is at m.yaml:1:1
    b-1: {text: y}
    ^
  keep one of them
m.yaml:4:7: unknown key "other" in ["d.e"]
    d.e: {other: 1, text: z}
          ^
  keys allowed here: text`
	if err := d.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if into["b-1"].Text != "x" || into["d.e"].Text != "z" {
		t.Errorf("%+v", into)
	}
}
