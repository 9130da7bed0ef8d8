package yamlx

import (
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
