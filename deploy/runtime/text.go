package runtime

import (
	"strings"
	"unicode"
)

// lastLine is the last line that says something, safe to print. The advice that
// the container programs put under their errors is left out.
func lastLine(s string) string {
	lines := strings.Split(s, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		l := clean(lines[i])
		if l == "" || strings.HasPrefix(l, "Run '") || strings.HasPrefix(l, "See '") || strings.HasPrefix(l, "Usage:") {
			continue
		}
		return l
	}
	return ""
}

// clean makes one line of text safe to print.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(strings.TrimSpace(s)); len(r) > 600 {
		return string(r[:600]) + "…"
	}
	return strings.TrimSpace(s)
}
