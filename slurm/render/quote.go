package render

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// quoteWord writes a value as one word of a bash command.
func quoteWord(s string) (string, error) {
	if err := checkText(s); err != nil {
		return "", err
	}
	return syntax.Quote(s, syntax.LangBash)
}

// quoteDirective writes a value for a directive line. sbatch reads these lines
// itself: blanks end a value, quotes keep them, a backslash takes the next
// character as it is, and '#' begins a comment even inside a value.
func quoteDirective(s string) (string, error) {
	if err := checkText(s); err != nil {
		return "", err
	}
	if i := strings.IndexAny(s, `#"\`); i >= 0 {
		return "", fmt.Errorf("%q holds %q, which a directive cannot carry", s, s[i])
	}
	if strings.ContainsAny(s, " '") {
		return `"` + s + `"`, nil
	}
	return s, nil
}

// checkText refuses what would end a line or be invisible in it.
func checkText(s string) error {
	for i, r := range s {
		switch {
		case r == '\n' || r == '\r':
			return fmt.Errorf("%q holds a line break", s)
		case r == 0:
			return fmt.Errorf("%q holds a NUL byte", s)
		case r < ' ' || r == 0x7f:
			return fmt.Errorf("%q holds the control character %q", s, r)
		case r == 0xfffd && !strings.HasPrefix(s[i:], "\ufffd"):
			return fmt.Errorf("%q is not valid UTF-8", s)
		}
	}
	return nil
}
