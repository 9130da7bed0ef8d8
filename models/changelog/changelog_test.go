package changelog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/changelog"
)

const old = `# Append only.
- config-keys:
    - a-sglang
  description:
    - "New image"
  pr-link: https://example.org/o/r/pull/1

- config-keys: [gone-key]
  description: ["Removed since"]
  pr-link: https://example.org/o/r/pull/2
  scenario-type: [fixed-seq-len]
`

const master = `a-sglang: {image: x:1}
a-vllm: {image: x:1}
b-sglang: &b {image: y:1}
`

func file(path, data string) *changelog.File { return &changelog.File{Path: path, Data: []byte(data)} }

// lines writes mistakes as file:line:col: message, one a line.
func lines(list models.FieldErrors) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s:%d:%d: %s\n", e.File, e.Line, e.Col, e.Msg)
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	t.Parallel()
	entry := func(keys, link, more string) string {
		return fmt.Sprintf("- config-keys: [%s]\n  description: [x]\n  pr-link: https://example.org/o/r/pull/%s\n%s", keys, link, more)
	}
	changed := strings.Replace(master, "b-sglang: &b {image: y:1}", "b-sglang: {image: \"y:2\"} # newer", 1)
	for name, tc := range map[string]struct {
		log, base, masters, baseMasters, link string
		want, notes                           string
		unchecked                             int
		news                                  int
	}{
		"a good change":           {log: old + entry("b-*", "3", ""), base: old, masters: changed, baseMasters: master, link: "https://example.org/o/r/pull/3", news: 1},
		"nothing to compare with": {log: entry("'*'", "3", "  append-only: true\n"), news: 1, unchecked: 3},
		"fields": {log: "- config-keys: []\n  description: \"one\"\n  pr-link: see above\n  scenario: x\n- pr-link: https://example.org/o/r/pull/2\n  scenario-type: [agentic]\n  eval-min-prefill-ep: 0\n",
			news: 2, unchecked: 3, want: `log.yaml:1:16: entry[0].config-keys is an empty list
log.yaml:2:16: entry[0].description must be a list, not the text "one"
log.yaml:3:12: entry[0].pr-link must be an http URL, not "see above"
log.yaml:4:3: unknown key "scenario" in entry[0]
log.yaml:5:3: entry[1].config-keys is missing
log.yaml:5:3: entry[1].description is missing
log.yaml:6:19: entry[1].scenario-type[0] is "agentic", it must be one of: fixed-seq-len, agentic-coding
log.yaml:7:24: entry[1].eval-min-prefill-ep must be at least 1, not 0
`},
		"append-only beside a selection of evals": {log: entry("a", "1", "  append-only: true\n  evals-only: true\n  eval-min-prefill-ep: 8\n"), news: 1, unchecked: 3,
			want: `log.yaml:5:3: entry[0].evals-only cannot stand beside append-only, which measures and evaluates nothing
log.yaml:6:3: entry[0].eval-min-prefill-ep cannot stand beside append-only, which measures and evaluates nothing
`},
		"no link": {log: old + "- config-keys: [a-sglang]\n  description: [x]\n", base: old, masters: master, baseMasters: master, news: 1, unchecked: 1,
			want:  "log.yaml:12:3: entry[2].pr-link is missing\n",
			notes: "log.yaml:12:17: entry[2].config-keys[0]: the change touches no key that matches \"a-sglang\"; it would only be measured again\n"},
		"another change's link": {log: old + entry("a-sglang", "1", ""), base: old, masters: changed, baseMasters: master, news: 1, unchecked: 1,
			want: `log.yaml:14:12: entry[2].pr-link is the link of entry[0] at log.yaml:2:3 already, which another change added
master.yaml:3:1: the change touches b-sglang, and no new entry of log.yaml names it
`,
			notes: "log.yaml:12:17: entry[2].config-keys[0]: the change touches no key that matches \"a-sglang\"; it would only be measured again\n"},
		"not this change's link": {log: old + entry("b-*", "4", ""), base: old, masters: changed, baseMasters: master, link: "https://example.org/o/r/pull/3", news: 1,
			want: "log.yaml:14:12: entry[2].pr-link is another change's: this one is https://example.org/o/r/pull/3\n"},
		"two links in one change, and one that is not finished": {log: old + entry("b-*", "3", "") + entry("a-*", "4", "") + entry("a-vllm", "next", ""), base: old, masters: changed, baseMasters: master, news: 3, unchecked: 1,
			want: `log.yaml:17:12: entry[3].pr-link is https://example.org/o/r/pull/4, and the entry before it has https://example.org/o/r/pull/3; one change has one link
log.yaml:20:12: entry[4].pr-link does not end in the number of a change: "https://example.org/o/r/pull/next"
`,
			notes: `log.yaml:15:17: entry[3].config-keys[0]: the change touches no key that matches "a-*"; it would only be measured again
log.yaml:18:17: entry[4].config-keys[0]: the change touches no key that matches "a-vllm"; it would only be measured again
`},
		"keys that do not exist": {log: old + entry("b-sglan, 'c-*', '[x'", "3", ""), base: old, masters: master, baseMasters: master, news: 1, unchecked: 1,
			want: `log.yaml:12:17: entry[2].config-keys[0]: no key of the master files matches "b-sglan"
log.yaml:12:26: entry[2].config-keys[1]: no key of the master files matches "c-*"
log.yaml:12:33: entry[2].config-keys[2]: "[x" is not a pattern: a bracket is not closed
`},
		"an edit above the tail": {log: strings.Replace(old, "New image", "Newer image", 1) + entry("b-*", "3", ""), base: old, masters: changed, baseMasters: master, unchecked: 1,
			want: "log.yaml:5:1: the log was edited above its tail: line 5 was \"    - \\\"New image\\\"\" before the change\n"},
		"an entry taken away": {log: old[:strings.Index(old, "\n- config-keys: [gone")], base: old, masters: master, baseMasters: master, unchecked: 1,
			want: "log.yaml:6:1: the log was edited above its tail: the log ends where the one before went on: \"\" is gone\n"},
		"an entry put in the middle": {log: strings.Replace(old, "\n- config-keys: [gone", "\n"+entry("b-*", "3", "")+"- config-keys: [gone", 1), base: old, masters: changed, baseMasters: master, unchecked: 1,
			want: "log.yaml:8:1: the log was edited above its tail: line 8 was \"- config-keys: [gone-key]\" before the change\n"},
		"a key twice in a master file": {log: old + entry("a-vllm", "3", ""), base: old, masters: master + "a-vllm: {image: x:2}\n", baseMasters: master, news: 1, unchecked: 1,
			want: "master.yaml:4:1: the key \"a-vllm\" is here a second time; the first is at master.yaml:2:1\n"},
		"not a list": {log: "a: 1\n", unchecked: 3, want: "log.yaml:1:1: the file is a mapping, a list (- item) was expected\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := changelog.Input{Log: *file("log.yaml", tc.log), Link: tc.link}
			if tc.base != "" {
				in.Base = file("old.yaml", tc.base)
			}
			if tc.masters != "" {
				in.Masters = []changelog.File{*file("master.yaml", tc.masters)}
			}
			if tc.baseMasters != "" {
				in.BaseMasters = []changelog.File{*file("old-master.yaml", tc.baseMasters)}
			}
			rep, err := changelog.Check(in)
			list, _ := err.(models.FieldErrors)
			if d := cmp.Diff(tc.want, lines(list)); d != "" {
				t.Errorf("mistakes: %s", d)
			}
			if d := cmp.Diff(tc.notes, lines(rep.Notes)); d != "" {
				t.Errorf("notes: %s", d)
			}
			if len(rep.Unchecked) != tc.unchecked || rep.New != tc.news {
				t.Errorf("%d not checked, want %d (%q); %d new, want %d", len(rep.Unchecked), tc.unchecked, rep.Unchecked, rep.New, tc.news)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(old, old, master)
	f.Fuzz(func(t *testing.T, log, base, masters string) {
		rep, err := changelog.Check(changelog.Input{Log: *file("l", log), Base: file("b", base), Masters: []changelog.File{*file("m", masters)}, BaseMasters: []changelog.File{*file("n", base)}})
		if _, ok := err.(models.FieldErrors); err != nil && !ok {
			t.Errorf("%T", err)
		}
		if rep.New > rep.Entries || rep.New < 0 {
			t.Errorf("%d of %d entries are new", rep.New, rep.Entries)
		}
	})
}
