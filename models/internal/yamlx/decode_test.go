package yamlx

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type level int

func (l *level) UnmarshalText(b []byte) error {
	for i, name := range []string{"low", "high"} {
		if string(b) == name {
			*l = level(i + 1)
			return nil
		}
	}
	return fmt.Errorf("%q is not a level; write low or high", b)
}

type words []string

func (w *words) UnmarshalText(b []byte) error {
	*w = strings.Split(string(b), "+")
	return nil
}

type pair struct {
	Value string `yaml:"value"`
	Own   bool   `yaml:"own,omitempty"`
}

func (p *pair) UnmarshalText(b []byte) error { p.Value = string(b); return nil }

type part struct {
	TP    int     `yaml:"tp"`
	Ratio float64 `yaml:"ratio,omitempty"`
	Small int8    `yaml:"small,omitempty"`
}

type shared struct {
	Common string `yaml:"common,omitempty"`
}

type file struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Name       string            `yaml:"name"`
	On         bool              `yaml:"on,omitempty"`
	Level      level             `yaml:"level,omitempty"`
	Words      words             `yaml:"words,omitempty"`
	Part       *part             `yaml:"part,omitempty"`
	Parts      []part            `yaml:"parts,omitempty"`
	Env        map[string]pair   `yaml:"env,omitempty"`
	Labels     map[string]string `yaml:"labels,omitempty"`
	Maybe      *int              `yaml:"maybe,omitempty"`
	shared
}

func decode(t *testing.T, text string) (file, Positions, FieldErrors) {
	t.Helper()
	var f file
	pos, err := Decode("f.yaml", []byte(text), &f)
	var es FieldErrors
	if err != nil && !errors.As(err, &es) {
		t.Fatalf("error is %T, want FieldErrors", err)
	}
	return f, pos, es
}

func TestDecodeValues(t *testing.T) {
	t.Parallel()
	got, pos, es := decode(t, `# comment
apiVersion: x/v1
kind: File
name: 0.85
on: true
level: high
words: a+b
part: {tp: 8, ratio: 2.5}
parts:
- tp: &n 1
- tp: *n
env:
  EMPTY: ""
  NUM: 010
  YES: yes
  OWN: {value: z, own: true}
labels:
  rdma.pfc: why
maybe: -3
common: c
`)
	if es != nil {
		t.Fatal(es)
	}
	three := -3
	want := file{APIVersion: "x/v1", Kind: "File", Name: "0.85", On: true, Level: 2, Words: words{"a", "b"},
		Part: &part{TP: 8, Ratio: 2.5}, Parts: []part{{TP: 1}, {TP: 1}},
		Env:    map[string]pair{"EMPTY": {}, "NUM": {Value: "010"}, "YES": {Value: "yes"}, "OWN": {Value: "z", Own: true}},
		Labels: map[string]string{"rdma.pfc": "why"}, Maybe: &three, shared: shared{Common: "c"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(file{}, shared{})); d != "" {
		t.Error(d)
	}
	for path, at := range map[string]string{
		"":                   "f.yaml:2:1",
		"name":               "f.yaml:4:7",
		"part.tp":            "f.yaml:8:12",
		"parts[0].tp":        "f.yaml:10:7",
		"parts[1].tp":        "f.yaml:10:7",
		"env.OWN.value":      "f.yaml:16:16",
		`labels["rdma.pfc"]`: "f.yaml:18:13",
		"common":             "f.yaml:20:9",
		"words[0]":           "",
		"nothing":            "",
	} {
		if got := pos.At(path); got != at {
			t.Errorf("At(%q) = %q, want %q", path, got, at)
		}
	}
	if p := pos["env.NUM"]; p.KeyLine != 14 || p.KeyCol != 3 {
		t.Errorf("key of env.NUM at %d:%d, want 14:3", p.KeyLine, p.KeyCol)
	}
}

// brief is an error without its snippet.
func brief(es FieldErrors) []string {
	var out []string
	for _, e := range es {
		out = append(out, fmt.Sprintf("%d:%d %s: %s", e.Line, e.Col, e.Path, e.Msg))
	}
	return out
}

func TestDecodeMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
		hint       string // of the first
	}{
		{"unknown key near", "nmae: x\n", []string{`1:1 nmae: unknown key "nmae"; did you mean "name"?`},
			"keys allowed here: apiVersion, kind, name, on, level, words, part, parts, env, labels, maybe, common"},
		{"unknown key far", "zzzzzz: x\n", []string{`1:1 zzzzzz: unknown key "zzzzzz"`}, ""},
		{"unknown key misplaced", "tp: 1\n", []string{`1:1 tp: unknown key "tp"; it belongs at part.tp or parts[].tp`}, ""},
		{"unknown nested", "part:\n  TPs: 1\n", []string{`2:3 part.TPs: unknown key "TPs" in part; did you mean "tp"?`}, "keys allowed here: tp, ratio, small"},
		{"duplicate", "name: a\nkind: b\nname: c\n", []string{`3:1 name: the key "name" is here a second time; the first is at f.yaml:1:1`}, "keep one of them"},
		{"duplicate in map", "env:\n  A: 1\n  A: 2\n", []string{`3:3 env.A: the key "A" is here a second time; the first is at f.yaml:2:3`}, ""},
		{"text for number", "part: {tp: many}\n", []string{`1:12 part.tp: part.tp: "many" is not a whole number in decimal digits`}, ""},
		{"quoted number", "part: {tp: \"8\"}\n", []string{`1:12 part.tp: part.tp must be a whole number, not the text "8"`}, "write it without quotes"},
		{"octal", "part: {tp: 010}\n", []string{`1:12 part.tp: part.tp: "010" is not a whole number in decimal digits`}, ""},
		{"hex", "part: {tp: 0x8}\n", []string{`1:12 part.tp: part.tp: "0x8" is not a whole number in decimal digits`}, ""},
		{"fraction", "part: {tp: 1.5}\n", []string{`1:12 part.tp: part.tp: "1.5" is not a whole number in decimal digits`}, ""},
		{"overflow", "part: {tp: 9223372036854775808, small: 128}\n", []string{
			`1:12 part.tp: part.tp: 9223372036854775808 is out of range`, `1:40 part.small: part.small: 128 is out of range`}, ""},
		{"not a number", "part: {ratio: .nan}\n", []string{`1:15 part.ratio: part.ratio must be a number, not the number .nan`}, ""},
		{"list for mapping", "part: [1]\n", []string{`1:7 part: part must be a mapping (key: value), not a list`}, ""},
		{"mapping for text", "name: {a: b}\n", []string{`1:7 name: name must be a text, not a mapping`}, ""},
		{"scalar for list", "parts: 4\n", []string{`1:8 parts: parts must be a list, not the number 4`}, `write [4], or one item a line after "- "`},
		{"list for text form", "level: [low]\n", []string{`1:8 level: level must be one value, not a list`}, ""},
		{"text form refuses", "level: middle\n", []string{`1:8 level: level: "middle" is not a level; write low or high`}, ""},
		{"yes for native bool", "on: yes\n", []string{`1:5 on: on must be true or false, not the text "yes"`}, ""},
		{"null", "name:\nenv:\n  A:\npart: ~\n", []string{`1:6 name: name has no value`, `3:5 env.A: env.A has no value`, `4:7 part: part has no value`},
			`write the value ("" for an empty one), or remove the key`},
		{"second document", "name: a\n---\nname: b\n", []string{`2:1 : a second document starts here`}, ""},
		{"second empty document", "name: a\n---\n", []string{`2:1 : a second document starts here`}, ""},
		{"empty", "", []string{`1:1 : the file is empty`}, ""},
		{"comments only", "# nothing\n\n", []string{`1:1 : the file is empty`}, ""},
		{"null document", "---\n", []string{`1:1 : the file is empty`}, ""},
		{"list document", "- a\n", []string{`1:1 : the file is a list, a mapping (key: value) was expected`}, ""},
		{"merge", "part: &p {tp: 1}\nparts:\n- <<: *p\n", []string{`3:3 parts[0]["<<"]: merge keys are not supported`}, ""},
		{"tag", "name: !secret x\n", []string{`1:7 name: the tag !secret is not supported`}, "remove the tag"},
		{"binary", "name: !!binary eA==\n", []string{`1:7 name: the tag !!binary is not supported`}, ""},
		{"complex key", "? [a]\n: b\n", []string{`1:3 : a key must be plain text, not a list`}, ""},
		{"null key", "env: {~: b}\n", []string{`1:7 env: a key must be plain text, not nothing`}, ""},
		{"alias of itself", "part: {tp: 1}\nparts: &p [*p]\n", []string{`2:8 parts[0]: parts[0] must be a mapping (key: value), not a list`}, ""},
		{"not UTF-8", "name: a\nkind: \xff\n", []string{`2:7 : the file is not UTF-8 text`}, ""},
		{"all at once", "name: [1]\npart: {tp: x, tq: 2}\nenv: {A: ~}\n", []string{
			`1:7 name: name must be a text, not a list`,
			`2:12 part.tp: part.tp: "x" is not a whole number in decimal digits`,
			`2:15 part.tq: unknown key "tq" in part; did you mean "tp"?`,
			`3:10 env.A: env.A has no value`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, es := decode(t, tt.text)
			if d := cmp.Diff(tt.want, brief(es)); d != "" {
				t.Error(d)
			}
			if tt.hint != "" && len(es) > 0 && es[0].Hint != tt.hint {
				t.Errorf("hint %q, want %q", es[0].Hint, tt.hint)
			}
		})
	}
}

func TestSyntaxErrorsSayWhere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"tab", "name: a\npart:\n\ttp: 1\n", `3:1 not valid YAML: a tab is used for indentation`},
		{"tab after spaces", "name: a\npart:\n  ratio: 1\n  \ttp: 1\n", `4:3 not valid YAML: a tab is used for indentation`},
		{"at sign", "name: @x\n", `1:1 not valid YAML: a value cannot begin with this character (found character that cannot start any token)`},
		{"colon in value", "kind: b\nname: a: b\n", `2:1 not valid YAML: a key is not expected here (mapping values are not allowed in this context)`},
		{"bad indentation", "name: a\npart:\n    tp: 1\n  ratio: 2\n", `4:3 not valid YAML: this line does not fit the lines before it (did not find expected key)`},
		{"open list", "name: a\nparts: [1, 2\nkind: b\n", `2:1 not valid YAML: the bracket is not closed, or a comma is missing (did not find expected ',' or ']')`},
		{"open quote", "name: a\nkind: \"b\nlevel: low\n", `2:1 not valid YAML: the quote is not closed (found unexpected end of stream)`},
		{"no colon", "name: a\nkind\nlevel: low\n", `2:1 not valid YAML: a key without ": " after it (could not find expected ':')`},
		{"unknown anchor", "name: a\nkind: *b\n", `2:7 not valid YAML: an alias to an anchor that the file does not define (unknown anchor 'b' referenced)`},
		{"control character", "name: a\nkind: b\x01\n", `2:8 not valid YAML: a control character (control characters are not allowed)`},
		{"in the second document", "name: a\n---\nb: 'x\n", `3:1 not valid YAML: the quote is not closed (found unexpected end of stream)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, es := decode(t, tt.text)
			if len(es) != 1 {
				t.Fatalf("%d errors, want 1: %v", len(es), es)
			}
			if got := fmt.Sprintf("%d:%d %s", es[0].Line, es[0].Col, es[0].Msg); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestErrorBlock(t *testing.T) {
	t.Parallel()
	_, _, es := decode(t, "part:\n  HF_TOKEN: abc\n  tp: 1\n\"\u00e9\u200b\": é\n")
	want := `f.yaml:2:3: unknown key "HF_TOKEN" in part
      HF_TOKEN: …
      ^
  keys allowed here: tp, ratio, small
f.yaml:4:1: unknown key "é\u200b"
    "é·": é
    ^
  keys allowed here: apiVersion, kind, name, on, level, words, part, parts, env, labels, maybe, common`
	if d := cmp.Diff(want, es.Error()); d != "" {
		t.Error(d)
	}
}

func TestLongLinesAreCutAroundTheCaret(t *testing.T) {
	t.Parallel()
	s := newSource("f", []byte("a: "+strings.Repeat("x", 300)+"Y"+strings.Repeat("z", 300)+"\n"))
	lines := strings.Split(s.snippet(1, 304), "\n")
	if got := []rune(lines[0])[len(lines[1])-1]; got != 'Y' {
		t.Errorf("caret is under %q, want Y:\n%s", got, strings.Join(lines, "\n"))
	}
	if n := len([]rune(lines[0])); n > snippetWidth+2 {
		t.Errorf("line of %d characters", n)
	}
}

func TestFurtherMistakes(t *testing.T) {
	t.Parallel()
	var f file
	d := Parse("f.yaml", []byte("name: x\npart: {tp: no, ratioo: 1}\nenv: {A B: c}\n"))
	d.Decode(&f)
	d.Fail("name", "too short", "make it longer")
	d.Fail("name", "a second one about the same value", "")
	d.Fail("part.tp", "about a value that could not be read", "")
	d.Fail("part.ratio", "missing, but only misspelt", "")
	d.Fail("part.small", "missing", "")
	d.FailKey(Key("env", "A B"), "bad name", "")
	var es FieldErrors
	if !errors.As(d.Err(), &es) {
		t.Fatal(d.Err())
	}
	want := []string{
		`1:7 name: too short`,
		`2:7 part.small: missing`,
		`2:12 part.tp: part.tp: "no" is not a whole number in decimal digits`,
		`2:16 part.ratioo: unknown key "ratioo" in part; did you mean "ratio"?`,
		`3:7 env["A B"]: bad name`,
	}
	if diff := cmp.Diff(want, brief(es)); diff != "" {
		t.Error(diff)
	}
}

func TestAliasesCannotMultiplyAFile(t *testing.T) {
	t.Parallel()
	text := "parts: &p\n" + strings.Repeat("- {tp: 1}\n", 1000) + "env: {}\n"
	if _, _, es := decode(t, text); es != nil {
		t.Fatal(es)
	}
	text = "words: &w [" + strings.Repeat("a,", 1000) + "]\nlists:\n" + strings.Repeat("- *w\n", 1000)
	var v struct {
		Words []string   `yaml:"words"`
		Lists [][]string `yaml:"lists"`
	}
	_, err := Decode("f.yaml", []byte(text), &v)
	var es FieldErrors
	if !errors.As(err, &es) || len(es) != 1 || es[0].Msg != "the file has more than 200000 values, aliases counted" {
		t.Errorf("%v", err)
	}
}

func TestEndlessMistakes(t *testing.T) {
	t.Parallel()
	_, _, es := decode(t, strings.Repeat("name: a\n", 2000))
	if len(es) != maxMistakes+1 || es[maxMistakes].Msg != "there are more than 500 mistakes; the others are not shown" {
		t.Errorf("%d mistakes, the last is %v", len(es), es[len(es)-1])
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		ok   bool
		want []string
	}{
		{"apiVersion: v\nkind: File\n", true, nil},
		{"name: x\n", true, []string{"1:1 apiVersion: apiVersion is missing", "1:1 kind: kind is missing"}},
		{"apiVersion: v\nkind: Other\n", false, []string{"2:7 kind: this file is a Other, a File was expected"}},
		{"apiVersion: w\nkind: File\n", false, []string{`1:13 apiVersion: apiVersion "w" is not known to this build, which reads "v"`}},
	} {
		d := Parse("f.yaml", []byte(tt.text))
		if ok := d.Header("v", "File"); ok != tt.ok {
			t.Errorf("%q: %t", tt.text, ok)
		}
		if diff := cmp.Diff(tt.want, brief(d.errs.Sort())); diff != "" {
			t.Errorf("%q: %s", tt.text, diff)
		}
	}
}

func TestParentOfPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a": "", "a.b": "a", "a[3]": "a", "a[3].b": "a[3]", `a["x.y"]`: "a", `a.b["[\"x"]`: "a.b", `["x"]`: "", `a["b"]["c"]`: `a["b"]`,
	} {
		if got := parent(path); got != want {
			t.Errorf("parent(%s) = %q, want %q", path, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"prefill", "decode", "dp_attention", "tp", "ep", "env"}
	for word, want := range map[string]string{
		"perfill": "prefill", "Decode": "decode", "dpAttention": "dp_attention", "dp-attention": "dp_attention",
		"decoder": "decode", "tpp": "tp", "environment": "", "": "", "xyz": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"name: a\n", "part: {tp: 1}\nparts: [{tp: 2}]\n", "env:\n  A: b\n", "a: &a [*a]\n", "\ttab: x\n", "--- \n---\n", "name: \"x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v file
		pos, err := Decode("f", data, &v)
		src := newSource("f", data)
		inside := func(what string, line, col int) {
			if l, c := src.clamp(line, col); l != line || c != col {
				t.Fatalf("%s at %d:%d is outside the file", what, line, col)
			}
		}
		for path, p := range pos {
			inside(path, p.Line, p.Col)
			if p.KeyLine != 0 {
				inside("key of "+path, p.KeyLine, p.KeyCol)
			}
		}
		if err == nil {
			return
		}
		var es FieldErrors
		if !errors.As(err, &es) || len(es) == 0 {
			t.Fatalf("error %T without a mistake", err)
		}
		for _, e := range es {
			inside(e.Msg, e.Line, e.Col)
			if e.Msg == "" || e.Snippet == "" {
				t.Fatalf("incomplete mistake %+v", e)
			}
		}
	})
}
