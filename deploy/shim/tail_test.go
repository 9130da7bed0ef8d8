package shim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", tailLine)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{}},
		{"lines", "one\ntwo\n", []string{"one", "two"}},
		{"no end yet", "one\ntw", []string{"one", "tw"}},
		{"CR LF", "one\r\ntwo\r\n", []string{"one", "two"}},
		{"progress bar", "load: 1%\rload: 50%\rload: 100%\ndone\n", []string{"load: 100%", "done"}},
		{"colours", "\x1b[1;31merror:\x1b[0m bad \x1b[38;5;12mthing\x1b[m\n", []string{"error: bad thing"}},
		{"title and link", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\n", []string{"ab"}},
		{"charset", "\x1b(Bplain\x1b7\n", []string{"plain"}},
		{"string without end", "\x1b]0;oops\nnext\n", []string{"", "next"}},
		{"broken CSI", "\x1b[12\x01x\n", []string{"\uFFFDx"}},
		{"not UTF-8", "a\xff\xfeb\n", []string{"a\uFFFDb"}},
		{"control characters", "a\x00\x08b\x7f\u0085c\td\u2028e\n", []string{"a\uFFFD\uFFFDb\uFFFD\uFFFDc\td\uFFFDe"}},
		{"long line", long + "yyy\nz\n", []string{long + "…", "z"}},
		{"long line cut inside a character", long[1:] + "é\n", []string{long[1:] + "\uFFFD…"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var whole, bytewise tail
			whole.write([]byte(tt.in))
			for i := range len(tt.in) {
				bytewise.write([]byte(tt.in[i : i+1]))
			}
			if d := cmp.Diff(tt.want, whole.all()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if d := cmp.Diff(tt.want, bytewise.all()); d != "" {
				t.Errorf("byte by byte (-want +got)\n%s", d)
			}
		})
	}
}

func TestTailKeepsTheLast(t *testing.T) {
	t.Parallel()
	var tl tail
	var want []string
	for i := range 1000 {
		fmt.Fprintf(writer{&tl}, "line %d\n", i)
		want = append(want, fmt.Sprintf("line %d", i))
	}
	if d := cmp.Diff(want[950:], tl.all()); d != "" {
		t.Error(d)
	}
	tl.write([]byte("half"))
	if d := cmp.Diff(append(want[951:], "half"), tl.all()); d != "" {
		t.Error(d)
	}
	if tl.last() != "half" {
		t.Errorf("last = %q", tl.last())
	}
	tl.write([]byte("\n\n\n"))
	if tl.last() != "half" {
		t.Errorf("last after empty lines = %q", tl.last())
	}
}

type writer struct{ t *tail }

func (w writer) Write(p []byte) (int, error) { w.t.write(p); return len(p), nil }

// TestTailMemory: a line without end does not grow anything.
func TestTailMemory(t *testing.T) {
	t.Parallel()
	var tl tail
	chunk := []byte(strings.Repeat("z", 1<<20))
	for range 64 {
		tl.write(chunk)
	}
	if cap(tl.line) > 2*tailLine {
		t.Errorf("%d bytes are kept of one line", cap(tl.line))
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\r\nc\xff"), 2)
	f.Add([]byte("\x1b]0;x\x1b\\\x1bPq\x1b"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		var a, b tail
		a.write(in)
		if cut < 0 || cut > len(in) {
			cut = len(in) / 2
		}
		b.write(in[:cut])
		b.write(in[cut:])
		got := a.all()
		if !slices.Equal(got, b.all()) {
			t.Fatalf("cut at %d: %q and %q", cut, got, b.all())
		}
		for _, l := range got {
			if !utf8.ValidString(l) || len(l) > 3*tailLine+8 {
				t.Fatalf("line %q", l)
			}
			for _, r := range l {
				if unicode.IsControl(r) && r != '\t' {
					t.Fatalf("control character %U in %q", r, l)
				}
			}
		}
	})
}
