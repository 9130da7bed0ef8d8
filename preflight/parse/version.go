package parse

import (
	"strings"
)

// CompareVersions orders two firmware or driver versions such as 1.117.5-a-45
// and 1.117.5.a.9: component by component, numbers as numbers, '.', '-', '_'
// and '+' alike. Components that one of them does not have are taken as equal,
// because a tool that prints 1.117.5 says nothing of the build.
func CompareVersions(a, b string) int {
	as, bs := versionParts(a), versionParts(b)
	for i := 0; i < len(as) && i < len(bs); i++ {
		if c := compareParts(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return 0
}

// Release is the release a version belongs to: its first three components.
func Release(v string) string {
	p := versionParts(v)
	if len(p) > 3 {
		p = p[:3]
	}
	return strings.Join(p, ".")
}

// NormalVersion writes a version with dots only, so that two spellings of the
// same version compare equal as text.
func NormalVersion(v string) string { return strings.Join(versionParts(v), ".") }

// IsVersion says that v begins like a version: a number, a separator, a number.
func IsVersion(v string) bool {
	p := versionParts(v)
	return len(p) >= 2 && isDigits(p[0]) && isDigits(p[1])
}

func versionParts(v string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.TrimSpace(v)), func(r rune) bool {
		return r == '.' || r == '-' || r == '_' || r == '+'
	})
}

func compareParts(a, b string) int {
	if isDigits(a) && isDigits(b) {
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		if len(a) != len(b) {
			return len(a) - len(b)
		}
	}
	return strings.Compare(a, b)
}

func isDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
