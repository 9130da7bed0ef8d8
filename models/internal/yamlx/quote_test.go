package yamlx

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuote: mistakes found after reading get their line, others stay as they
// are, and a secret is not shown.
func TestQuote(t *testing.T) {
	t.Parallel()
	text := "a: 1\nb: {c: 2}\nHF_TOKEN: hf_sentinel\n"
	got := FieldErrors{
		{File: "f", Line: 2, Col: 5, Msg: "m"},
		{File: "f", Line: 3, Col: 11, Msg: "m"},
		{File: "f", Line: 9, Col: 1, Msg: "below the end"},
		{File: "f", Line: 1, Col: 1, Msg: "has one", Snippet: "x\n^"},
		{File: "g", Line: 1, Col: 1, Msg: "another file"},
		{Msg: "no place"},
	}.Quote("f", []byte(text))
	want := FieldErrors{
		{File: "f", Line: 2, Col: 5, Msg: "m", Snippet: "b: {c: 2}\n    ^"},
		{File: "f", Line: 3, Col: 11, Msg: "m", Snippet: "HF_TOKEN: …\n          ^"},
		{File: "f", Line: 3, Col: 1, Msg: "below the end", Snippet: "HF_TOKEN: …\n^"},
		{File: "f", Line: 1, Col: 1, Msg: "has one", Snippet: "x\n^"},
		{File: "g", Line: 1, Col: 1, Msg: "another file"},
		{Msg: "no place"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestWordsInBracesWantQuotes: YAML reads {word} as a mapping, which nobody who
// writes it where a text belongs has in mind.
func TestWordsInBracesWantQuotes(t *testing.T) {
	t.Parallel()
	const quotes = `write "{url}" in quotes if the text is meant; without them YAML reads a mapping`
	for _, tt := range []struct{ text, msg, hint string }{
		{"name: {url}\n", "name must be a text, not a mapping", quotes},
		{"labels: {a: {url}}\n", "labels.a must be a text, not a mapping", quotes},
		{"labels:\n  a: {url}\n", "labels.a must be a text, not a mapping", quotes},
		{"env: {A: {url}}\n", "env.A must be one value or a mapping (key: value), not a mapping", quotes},
		{"env: {A: {valu: x}}\n", `unknown key "valu" in env.A; did you mean "value"?`, "keys allowed here: value, own"},
		{"name: {url: x}\n", "name must be a text, not a mapping", ""},
		{"name:\n  url:\n", "name must be a text, not a mapping", ""},
		{"name: {a, b}\n", "name must be a text, not a mapping", ""},
		{"part: {tp: {url}}\n", "part.tp must be a whole number, not a mapping", ""},
		{"labels: {a: --x={url}}\n", "not valid YAML: the bracket is not closed, or a comma is missing (did not find expected ',' or '}')",
			"put the whole text that {url} is part of in quotes; or close the list or mapping, or write it one item a line"},
		{"labels:\n  a: {url}/v1\n", "not valid YAML: this line does not fit the lines before it (did not find expected key)",
			"put the whole text that {url} is part of in quotes; or indent it like its neighbours, or close the quote or bracket that is open before it"},
	} {
		_, _, es := decode(t, tt.text)
		if len(es) != 1 || es[0].Msg != tt.msg || es[0].Hint != tt.hint {
			t.Errorf("%q: %v", tt.text, es)
		}
	}
}

// TestListsForTexts: what is proposed in place of a text is a list that YAML reads.
func TestListsForTexts(t *testing.T) {
	t.Parallel()
	var v struct {
		Command []string `yaml:"command,omitempty"`
		Flags   []string `yaml:"flags,omitempty"`
	}
	for _, tt := range []struct{ text, hint string }{
		{"command: a --url {url} -n 1\n", `write [a, --url, "{url}", -n, 1]: each word is an item of its own`},
		{"flags: --x 1\n", `write [--x 1], or one item a line after "- "`},
		{"flags: --x {a,b}\n", `write ["--x {a,b}"], or one item a line after "- "`},
	} {
		_, err := Decode("f", []byte(tt.text), &v)
		var es FieldErrors
		if !errors.As(err, &es) || len(es) != 1 || es[0].Hint != tt.hint {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}
