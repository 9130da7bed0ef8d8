package redact

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func redactAll(r *Redactor, pieces ...string) string {
	var out strings.Builder
	for _, p := range pieces {
		out.Write(r.Write([]byte(p)))
	}
	out.Write(r.Flush())
	return out.String()
}

func TestRedact(t *testing.T) {
	t.Parallel()
	secrets := map[string][]byte{
		"HF_TOKEN": []byte("hf_abcdef123"),
		"LONGER":   []byte("hf_abcdef123456"),
		"PIN":      []byte("12345"), // too short to be told from a number
		"QUOTED":   []byte("pass\"wo\nrd"),
		"URLISH":   []byte("p@ss/word"),
		"HTML":     []byte("a<b>&cdef"),
		"PEM":      []byte("-----BEGIN-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort\n-----END-----\n"),
	}
	tests := []struct {
		name   string
		pieces []string
		want   string
	}{
		{"none", []string{"loading weights\n"}, "loading weights\n"},
		{"whole", []string{"token=hf_abcdef123;\n"}, "token=[redacted:HF_TOKEN];\n"},
		{"twice", []string{"hf_abcdef123hf_abcdef123"}, "[redacted:HF_TOKEN][redacted:HF_TOKEN]"},
		{"split over two writes", []string{"token=hf_abc", "def123\n"}, "token=[redacted:HF_TOKEN]\n"},
		{"byte by byte", strings.Split("x hf_abcdef123 y", ""), "x [redacted:HF_TOKEN] y"},
		{"the longer of two", []string{"a hf_abcdef123", "456 b"}, "a [redacted:LONGER] b"},
		{"the shorter of two after all", []string{"a hf_abcdef123", "4 b"}, "a [redacted:HF_TOKEN]4 b"},
		{"short values stay", []string{"port 12345\n"}, "port 12345\n"},
		{"a false start", []string{"hf_hf_abcdef123"}, "hf_[redacted:HF_TOKEN]"},
		{"a start at the end", []string{"see hf_"}, "see hf_"},
		{"most of it at the end", []string{"see hf_abcdef"}, "see [redacted]"},
		{"inside JSON", []string{`{"p":"pass\"wo\nrd"}`}, `{"p":"[redacted:QUOTED]"}`},
		{"inside a URL", []string{"http://u:p%40ss%2Fword@h"}, "http://u:[redacted:URLISH]@h"},
		{"inside JSON that is safe in HTML", []string{`"a\u003cb\u003e\u0026cdef" "a<b>&cdef"`}, `"[redacted:HTML]" "[redacted:HTML]"`},
		{"one line of several", []string{"key: MIIEvQIBADANBgkq", "hkiG9w0B\nshort\n"}, "key: [redacted:PEM]\nshort\n"},
		{"raw with newline", []string{"pass\"wo", "\n", "rd"}, "[redacted:QUOTED]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := redactAll(New(secrets), tt.pieces...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRedactHoldsLittle: what waits for more output is never longer than a
// secret, and a log without beginnings of secrets waits for nothing.
func TestRedactHoldsLittle(t *testing.T) {
	t.Parallel()
	r := New(map[string][]byte{"T": []byte("aaaaaaab")})
	in := strings.Repeat("a", 1<<16)
	if out := r.Write([]byte(in)); len(in)-len(out) >= len("aaaaaaab") {
		t.Errorf("%d bytes are held back", len(in)-len(out))
	}
	if out := r.Write([]byte("line\n")); !bytes.HasSuffix(out, []byte("line\n")) {
		t.Errorf("a whole line is held back: %q", out)
	}
}

// TestRedactAnySplit: however the output is cut up, the result is the same and
// the secret is nowhere.
func TestRedactAnySplit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	secrets := map[string][]byte{"A": []byte("abcabcabd"), "B": []byte("cabdabc"), "C": []byte("\xff\xfe\x00abc")}
	alphabet := []string{"a", "b", "c", "d", "\xff", "\xfe\x00", "abcabcabd", "cabdabc", "\xff\xfe\x00abc"}
	for range 2000 {
		var in strings.Builder
		for range rng.IntN(12) {
			in.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		whole := redactAll(New(secrets), in.String()+"\n")
		var pieces []string
		for rest := in.String() + "\n"; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := redactAll(New(secrets), pieces...)
		if got != whole {
			t.Fatalf("%q cut as %q gives %q, whole %q", in.String(), pieces, got, whole)
		}
		for _, s := range secrets {
			if strings.Contains(got, string(s)) {
				t.Fatalf("%q leaves %q in %q", in.String(), s, got)
			}
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	r := New(map[string][]byte{"HF_TOKEN": []byte("hf_abcdefghijklmnopqrstuvwxyz")})
	line := []byte(strings.Repeat("[2026-01-01 00:00:00] Loading safetensors checkpoint shards: 37% Completed\n", 800))
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.Write(line)
	}
}

// TestWholeText: text that is not a stream keeps what only looks like the
// beginning of a secret, and one redactor serves several goroutines.
func TestWholeText(t *testing.T) {
	t.Parallel()
	r := New(map[string][]byte{"T": []byte("hf_abcdef123")})
	for in, want := range map[string]string{
		"":                       "",
		"x hf_abcdef123":         "x [redacted:T]",
		"x hf_abcdef12":          "x hf_abcdef12",
		"hf_abcdef1hf_abcdef123": "hf_abcdef1[redacted:T]",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if got := r.Holds([]byte(in)); got != strings.Contains(in, "hf_abcdef123") {
			t.Errorf("Holds(%q) = %v", in, got)
		}
	}
	two := New(map[string][]byte{"B": []byte("second-secret"), "A": []byte("first-secret")})
	if got := two.Found([]byte(`second-secret first-secret "second-secret"`)); !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("found %q", got)
	}
	var none *Redactor
	if none.String("x") != "x" || string(none.Write([]byte("y"))) != "y" || none.Flush() != nil || none.Holds([]byte("x")) {
		t.Error("a nil redactor changes something")
	}
}
