package signature

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a raw log line safe to match and to show: terminal sequences go,
// invalid bytes become U+FFFD, other control characters go, tabs become spaces.
func Clean(raw []byte) string {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		if raw[i] == 0x1b {
			i += escapeLen(raw[i:])
			continue
		}
		r, n := utf8.DecodeRune(raw[i:])
		i += n
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r) || isBidi(r):
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// isBidi is true for characters that reorder what a terminal shows.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escapeLen is the length of the terminal sequence at the start of b.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // CSI: parameters, then one final byte 0x40..0x7e
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	case ']', 'P', '_', '^': // strings, up to BEL or ESC \
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return len(b)
	case '(', ')', '*', '+', '#', '%', ' ': // two-byte selections
		return min(3, len(b))
	}
	return 2
}
