package formula

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

var vars = map[string]int64{"tp": 8, "tokens": 16384, "zero": 0, "big": math.MaxInt64, "low": math.MinInt64, "größe": 3}

func TestEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"42":                       42,
		"tokens * tp":              131072,
		"tokens / tp":              2048,
		"2 + 3 * 4":                14,
		"(2 + 3) * 4":              20,
		"100 / 5 / 2":              10,
		"10 - 4 - 3":               3,
		"-tp + 10":                 2,
		"-9223372036854775808":     math.MinInt64,
		"9223372036854775807":      math.MaxInt64,
		"big - 1":                  math.MaxInt64 - 1,
		"-7 * 2 / 7":               -2,
		"größe*größe":              9,
		"  tp  ":                   8,
		"((((((((tp))))))))":       8,
		"zero * tokens / tp":       0,
		"tp*tp*tp*tp*tp*tp*tp / 1": 2097152,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got, err := f.Eval(vars); got != want || err != nil {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		col  int
		msg  string
	}{
		{"", 1, "the formula is empty"},
		{"   ", 1, "the formula is empty"},
		{"2 +", 4, "not a formula: expected operand"},
		{"2 3", 3, "not a formula: "},
		{"(2", 3, "not a formula: expected ')'"},
		{"7 / 2", 3, "7 cannot be divided by 2 without a rest"},
		{"8 / zero", 3, "8 is divided by zero"},
		{"8 // 2", 3, `"//" is not an operator`},
		{"8 /* 2 */", 3, `"/*" is not an operator`},
		{"2 ** 3", 4, "not a number, a name or an operation"},
		{"7 % 2", 3, `"%" is not allowed`},
		{"1 << 3", 3, `"<<" is not allowed`},
		{"+tp", 1, `"+" is not allowed`},
		{"1.5 * 2", 1, "1.5 is not a whole number"},
		{"0x10", 1, "0x10 is not a whole number"},
		{"010", 1, "010 is not a whole number"},
		{"1_000", 1, "1_000 is not a whole number"},
		{"'a'", 1, "'a' is not a whole number"},
		{"min(1, 2)", 1, "not a number, a name or an operation"},
		{"a.b", 1, "not a number, a name or an operation"},
		{"func() {}", 1, "not a number, a name or an operation"},
		{"1\n+2", 2, "a formula is one line"},
		{"1; 2", 2, "a formula is one line"},
		{"tokns / tp", 1, `"tokns" is not a known name; did you mean "tokens"?`},
		{"tp * ep", 6, `"ep" is not a known name; did you mean "tp"?`},
		{"tp * something", 6, `"something" is not a known name; known are big, größe, low, tokens, tp, zero`},
		{"größe * x", 9, `"x" is not a known name`},
		{"big + 1", 5, "9223372036854775808 does not fit 64 bits"},
		{"big * big / big", 5, "does not fit 64 bits"},
		{"-low", 1, "9223372036854775808 does not fit 64 bits"},
		{"low / (0-1)", 5, "9223372036854775808 does not fit 64 bits"},
		{"9223372036854775808", 1, "9223372036854775808 does not fit 64 bits"},
		{strings.Repeat("1+", 600) + "1", 1, "longer than 1000 bytes"},
	} {
		f, err := Parse(tt.text)
		if err == nil {
			_, err = f.Eval(vars)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: error is %v, want an *Error", tt.text, err)
			continue
		}
		if e.Col != tt.col || !strings.HasPrefix(e.Msg, tt.msg) && !strings.HasSuffix(e.Msg, tt.msg) {
			t.Errorf("%q: %d: %s, want %d: %s", tt.text, e.Col, e.Msg, tt.col, tt.msg)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	var f Formula
	if !f.IsZero() {
		t.Error("the zero formula is not zero")
	}
	if _, err := f.Eval(nil); err == nil {
		t.Error("the zero formula was evaluated")
	}
	if err := f.UnmarshalText([]byte("tokens * ( tp+b )")); err != nil {
		t.Fatal(err)
	}
	if text, err := f.MarshalText(); string(text) != "tokens * ( tp+b )" || err != nil {
		t.Errorf("MarshalText = %q, %v", text, err)
	}
	if got := f.Names(); !slices.Equal(got, []string{"b", "tokens", "tp"}) {
		t.Errorf("Names = %v", got)
	}
	if err := f.UnmarshalText([]byte("1 +")); err == nil {
		t.Error("no error")
	}
}

func FuzzFormula(f *testing.F) {
	for _, s := range []string{"tp*2", "(tokens-1)/3", "-big", "8//2", "1+", "größe", "low/(0-1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		var got int64
		if err == nil {
			got, err = p.Eval(vars)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Msg == "" || e.Col < 1 || e.Col > len([]rune(e.Text))+1 {
				t.Fatalf("bad error %#v of %q", err, text)
			}
			return
		}
		// The same formula in parentheses, plus itself, must double.
		twice, err := Parse("(" + text + ")+(" + text + ")")
		if err != nil {
			if len(text) > maxLength/2-5 {
				return
			}
			t.Fatalf("%q can be read, its sum cannot: %v", text, err)
		}
		want := new(big.Int).Mul(big.NewInt(got), big.NewInt(2))
		sum, err := twice.Eval(vars)
		if want.IsInt64() != (err == nil) || err == nil && sum != want.Int64() {
			t.Fatalf("%q: %d, doubled %d (%v)", text, got, sum, err)
		}
	})
}
