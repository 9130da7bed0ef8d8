package parse

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MaxLine is the longest line that is looked at; the rest of it is dropped.
const MaxLine = 16 << 10

var ansi = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// Lines splits text into lines without carriage returns and terminal colours.
func Lines(s string) []string {
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = ansi.ReplaceAllString(s, "")
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if len(l) > MaxLine {
			l = l[:MaxLine]
		}
		lines[i] = strings.TrimRight(l, "\r \t")
	}
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// KV splits "label   : value" at the first colon. Both sides are trimmed and the
// label is lower-cased with single blanks, so that tools may change spacing.
func KV(line string) (label, value string, ok bool) {
	l, v, ok := strings.Cut(line, ":")
	if !ok {
		return "", "", false
	}
	return Label(l), strings.TrimSpace(v), true
}

// Label lower-cases and single-spaces a label.
func Label(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// NA says that a printed value means "not known".
func NA(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "n/a", "na", "none", "unknown", "not supported", "unsupported", "-":
		return true
	}
	return false
}

// IntList reads a list such as "3", "0, 3,", "0-23, 25-45" or "24, 26 27".
// Numbers are decimal even with leading zeros, and lie in 0..max.
func IntList(s string, max int) ([]int, error) {
	s = strings.NewReplacer(" - ", "-", "- ", "-", " -", "-").Replace(s)
	var out []int
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == ';' }) {
		lo, hi, isRange := strings.Cut(f, "-")
		a, err := smallInt(lo, max)
		if err != nil {
			return nil, fmt.Errorf("read list %q: %w", s, err)
		}
		b := a
		if isRange {
			if b, err = smallInt(hi, max); err != nil {
				return nil, fmt.Errorf("read list %q: %w", s, err)
			}
			if b < a {
				return nil, fmt.Errorf("read list %q: range %q runs backwards", s, f)
			}
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}

func smallInt(s string, max int) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil || int(n) > max {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", s, max)
	}
	return int(n), nil
}

// number reads the whole number at the beginning of s ("432 MB", "0x8", "85%").
func number(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if h, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		n, err := strconv.ParseUint(h, 16, 63)
		return int64(n), err == nil
	}
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return n, err == nil
}

// float reads the number at the beginning of s.
func float(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' || end == 0 && s[end] == '-') {
		end++
	}
	f, err := strconv.ParseFloat(s[:end], 64)
	return f, err == nil
}

// Bytes reads an amount of memory such as "283 MB" or "10.1 GB". Tools of the
// ROCm family print binary multiples under decimal names.
func Bytes(s string) (int64, bool) {
	f, ok := float(s)
	if !ok || f < 0 {
		return 0, false
	}
	unit := strings.TrimLeft(strings.TrimSpace(s), "0123456789.-")
	mult, ok := byteUnit(unit)
	if !ok || f*float64(mult) > 1<<62 {
		return 0, false
	}
	return int64(f * float64(mult)), true
}

func byteUnit(unit string) (int64, bool) {
	switch strings.ToLower(strings.TrimSpace(unit)) {
	case "", "b", "bytes":
		return 1, true
	case "kb", "kib", "k":
		return 1 << 10, true
	case "mb", "mib", "m":
		return 1 << 20, true
	case "gb", "gib", "g":
		return 1 << 30, true
	case "tb", "tib", "t":
		return 1 << 40, true
	}
	return 0, false
}

// ptr makes optional values.
func ptr[T any](v T) *T { return &v }
