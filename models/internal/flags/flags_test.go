package flags

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string
		err  string
	}{
		{text: "", want: nil},
		{text: "--a  b\tc", want: []string{"--a", "b", "c"}},
		{text: `--json '{"a": true}'`, want: []string{"--json", `{"a": true}`}},
		{text: `--json "{\"a\": \\ \$}"`, want: []string{"--json", `{"a": \ \$}`}},
		{text: `a\ b ''`, want: []string{"a b", ""}},
		{text: "--steps ${mtp + 1} x", want: []string{"--steps", "${mtp + 1}", "x"}},
		{text: "--a 'b", err: "a ' in \"--a 'b\" is not closed"},
		{text: `--a \`, err: `"--a \\" ends in a backslash`},
		{text: "a\x00b", err: "\"a\\x00b\" holds a NUL character"},
	} {
		got, err := Split(tc.text)
		if msg := text(err); msg != tc.err {
			t.Errorf("Split(%q): error %q, want %q", tc.text, msg, tc.err)
		}
		if d := cmp.Diff(tc.want, got); tc.err == "" && d != "" {
			t.Errorf("Split(%q): %s", tc.text, d)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, name string
		args       []string
		err        string
	}{
		{text: "--a", name: "--a", args: []string{}},
		{text: "--a=b=c", name: "--a", args: []string{"b=c"}},
		{text: "--bs 1 2 3", name: "--bs", args: []string{"1", "2", "3"}},
		{text: "-tp 8", name: "-tp", args: []string{"8"}},
		{text: "--n -1", name: "--n", args: []string{"-1"}},
		{text: "a", err: `"a" is not a flag; write --name or --name value`},
		{text: "-1", err: `"-1" is not a flag; write --name or --name value`},
		{text: "--a 1 --b 2", err: `"--a 1 --b 2" holds two flags (--a and --b); write one an entry`},
	} {
		f, err := Parse(tc.text)
		if msg := text(err); msg != tc.err {
			t.Errorf("Parse(%q): error %q, want %q", tc.text, msg, tc.err)
		}
		if tc.err != "" {
			continue
		}
		if d := cmp.Diff(Flag{Name: tc.name, Args: tc.args}, f); d != "" {
			t.Errorf("Parse(%q): %s", tc.text, d)
		}
	}
}

func TestListSetKeepsThePlaceAndRemembersWhatItReplaced(t *testing.T) {
	t.Parallel()
	var l List
	l.Add(Flag{Name: "--a", Args: []string{"1"}, From: "one"})
	l.Add(Flag{Name: "--b_c", Args: []string{"2"}, From: "one"})
	l.Add(Flag{Name: "--d", From: "one"})
	l.Add(Flag{Name: "--b-c", Args: []string{"3"}, From: "two"})
	l.Set(Flag{Name: "--b-c", Args: []string{"4"}, From: "three"})
	want := List{
		{Name: "--a", Args: []string{"1"}, From: "one"},
		{Name: "--b-c", Args: []string{"4"}, From: "three", Over: []string{"one=2", "two=3"}},
		{Name: "--d", From: "one"},
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"--a", "1", "--b-c", "4", "--d"}, l.Words()); d != "" {
		t.Error(d)
	}
	if !l.Drop("--d") || l.Drop("--d") {
		t.Error("Drop: want true, then false")
	}
	if f, ok := l.Get("--a"); !ok || f.Value() != "1" {
		t.Errorf("Get: %v %v", f, ok)
	}
}
